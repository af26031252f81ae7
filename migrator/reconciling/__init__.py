"""The migrator as a part of an operator: what is due, when, and who is told."""

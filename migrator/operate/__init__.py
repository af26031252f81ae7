"""The migrator as a part of an operator: the reconciler, its hooks, its log, Events and metrics."""

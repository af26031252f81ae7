"""What the commands without a cluster share: which files, which conversions, and how a difference is told."""

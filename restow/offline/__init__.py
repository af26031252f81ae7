"""The common part of commands without a cluster: files, conversions, and the output of differences."""

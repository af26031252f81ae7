"""What the commands without a cluster share: the files, the conversions, and the output of differences."""

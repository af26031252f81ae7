"""The stash: one annotation that keeps what a version cannot represent."""

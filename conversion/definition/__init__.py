"""What is checked when a registry is frozen: the rules among themselves, then every field of every version."""

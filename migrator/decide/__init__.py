"""Decide what to do with an object or an error, what is proved, and whether to prune. Pure."""

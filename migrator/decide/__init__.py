"""Decide the steps for an object, the outcome of an error, the valid proofs, and whether to prune. Pure."""

"""What to do with an object, what an error means, what is proved, and what may be pruned. Pure."""

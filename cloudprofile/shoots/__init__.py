"""Shoots: the profile that applies to one, its defaults, and the versions that it may use. Pure."""

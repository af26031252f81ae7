"""Shoots: the profile that holds for one, its defaults, and the versions that it may use. Pure."""

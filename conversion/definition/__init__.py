"""Declares kinds, and checks them when a registry is frozen: first the rules, then every field of every version."""

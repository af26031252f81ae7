"""Compiles rules into one generated function per pair of versions. ``route`` generates it with the other modules."""

"""Compiles rules into one generated function for each (from, to). ``route`` generates the whole, the others parts."""

"""From rules to one generated function per (from, to): ``route`` is the whole, ``scope`` the shape of the code."""

"""How much time a conversion by restow's webhook takes beside a webhook that does nothing.

Start it with ``make bench-conversion`` or ``python -m benchmarks.conversion``; docs/benchmarks.md says what it does.
"""

"""Compare the time of a conversion by restow's webhook with the time of a webhook that does nothing.

Start it with ``make bench-conversion`` or ``python -m benchmarks.conversion``; docs/benchmarks.md describes it.
"""

"""Compare the speed of a migration with that of other migrators on the same API server: ``make bench``.

See docs/benchmarks.md for the method. Every contender gets the same objects in the same state, the contenders take
turns, and what each of them stored is read from etcd afterwards: a run that did not do its work ends the program.
"""

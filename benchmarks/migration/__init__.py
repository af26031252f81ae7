"""Compare the speed of a migration with the speed of other migrators on the same API server: ``make bench``.

See docs/benchmarks.md for the method. Every contender gets the same objects in the same state, and the contenders take
turns. After each run the benchmark reads the stored objects from etcd: a run that did not do its work ends the program.
"""

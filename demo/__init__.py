"""The demo: the whole life of an API version on a real API server, from its first object to its removal.

``scenario`` is the demo from start to end, with a check after each step. ``fixtures`` has the CRD, the databases and
their managers; ``client`` sends requests, ``workload`` writes what the managers write, and ``faults`` shows the same
change without restow. ``state`` reads what etcd stores; ``checks`` and ``outcomes`` judge it. These three share no code
with the migrator, so that they cannot agree with it by accident.
"""

"""The fault suite: seeded faults before a real API server, and a judge that reads the truth from etcd.

``python -m tests.faults 1..100`` runs seeds; docs/faults.md tells what is injected and what is judged.
"""

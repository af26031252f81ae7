"""The thin Kubernetes API client; nothing else in restow talks HTTP to an API server.

``connect`` opens a ``Cluster`` (a few dumb verbs over bytes), ``restow.kube.errors`` is what it raises. The names
in ``__all__`` are public, and so are the error classes; everything else is implementation.
"""

from restow.kube.client import connect
from restow.kube.cluster import Cluster, PatchType, Reply
from restow.kube.errors import ApiError, ConfigError, KubeError, Unreachable
from restow.kube.resources import Resource

__all__ = [
    "ApiError",
    "Cluster",
    "ConfigError",
    "KubeError",
    "PatchType",
    "Reply",
    "Resource",
    "Unreachable",
    "connect",
]

"""A real Kubernetes control plane on this machine: etcd and kube-apiserver, without Docker or a cluster.

Tests need a real API server, because its handling of stored objects and managedFields cannot be mocked, and
Python has no envtest. This package can be used alone; it imports no other part of restow.

    async with ControlPlane() as plane:
        plane.kubeconfig                                   # a file for any client
        plane.user("alice", groups=["dev"]).kubeconfig     # for RBAC tests
        await plane.etcd.stored_object("example.com", "widgets", "default", "w1")

The command is ``python -m restow.controlplane up``. The pytest plugin ``restow.controlplane.pytest_plugin`` has the
fixtures ``control_plane``, ``kubeconfig`` and ``etcd``.

Invariant: importing this package imports no heavy module, because every pytest run loads the pytest plugin. The names
below are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from restow.controlplane.errors import (
        BinariesUnavailableError,
        ControlPlaneError,
        NotStoredError,
        ProcessError,
        UnavailableError,
    )
    from restow.controlplane.etcd import Etcd
    from restow.controlplane.existing import ExistingCluster, use_existing_cluster
    from restow.controlplane.plane import ApiServer, ControlPlane
    from restow.controlplane.users import ClusterUser, ControlPlaneAuthority, SignedKeyPair

__all__ = [
    "ApiServer",
    "BinariesUnavailableError",
    "ClusterUser",
    "ControlPlane",
    "ControlPlaneAuthority",
    "ControlPlaneError",
    "Etcd",
    "ExistingCluster",
    "NotStoredError",
    "ProcessError",
    "SignedKeyPair",
    "UnavailableError",
    "use_existing_cluster",
]

_MODULE_OF = {
    "ApiServer": "plane",
    "BinariesUnavailableError": "errors",
    "ClusterUser": "users",
    "ControlPlane": "plane",
    "ControlPlaneAuthority": "users",
    "ControlPlaneError": "errors",
    "Etcd": "etcd",
    "ExistingCluster": "existing",
    "NotStoredError": "errors",
    "ProcessError": "errors",
    "SignedKeyPair": "users",
    "UnavailableError": "errors",
    "use_existing_cluster": "existing",
}


def __getattr__(name: str) -> object:
    """Import a public name's module on first use (PEP 562)."""
    if name not in _MODULE_OF:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)

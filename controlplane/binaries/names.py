"""The binaries there are, and what differs between them."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BINARIES", "Binary"]


@dataclass(frozen=True, slots=True)
class Binary:
    """One binary."""

    name: str
    environment: str
    """The environment variable that names the file (envtest's; kube-controller-manager's is ours)."""
    package: str
    """The Go package that it is built from."""
    in_archive: bool
    """Whether the published envtest archive has it."""


BINARIES: Mapping[str, Binary] = MappingProxyType(
    {
        binary.name: binary
        for binary in (
            Binary("etcd", "TEST_ASSET_ETCD", "go.etcd.io/etcd/server/v3", in_archive=True),
            Binary(
                "kube-apiserver",
                "TEST_ASSET_KUBE_APISERVER",
                "k8s.io/kubernetes/cmd/kube-apiserver",
                in_archive=True,
            ),
            Binary("kubectl", "TEST_ASSET_KUBECTL", "k8s.io/kubernetes/cmd/kubectl", in_archive=True),
            Binary(
                "kube-controller-manager",
                "TEST_ASSET_KUBE_CONTROLLER_MANAGER",
                "k8s.io/kubernetes/cmd/kube-controller-manager",
                in_archive=False,
            ),
        )
    }
)

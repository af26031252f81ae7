"""cert-manager for the values files that want it: its CRDs, and its controllers as one process outside of the pods."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.node.cluster import Cluster
from tests.node.nodes import wait_for
from tests.peers.building import Project

__all__ = ["CERT_MANAGER", "start_cert_manager"]

_KINDS: Final = ("certificaterequests", "certificates", "clusterissuers", "issuers")
CERT_MANAGER: Final = Project(
    "certmanager",
    files=(
        ("github.com/cert-manager/cert-manager", tuple(f"deploy/crds/cert-manager.io_{each}.yaml" for each in _KINDS)),
    ),
    folder=Path(__file__).parent / "certmanager",
)


def start_cert_manager(cluster: Cluster, built: Path) -> None:
    """Apply the CRDs and start the controllers; they run as long as the cluster."""
    cluster.kubectl("apply", "--server-side", "-f", built / "crds")
    cluster.kubectl("wait", "--for=condition=Established", "crd", *(f"{each}.cert-manager.io" for each in _KINDS))
    served = ("api-resources", "--api-group=cert-manager.io", "--output=name")
    wait_for(lambda: len(cluster.kubectl(*served).split()) == len(_KINDS), "cert-manager's kinds are not served")
    cluster.group.start("cert-manager", [str(built / "oracle"), "--config", str(cluster.plane.kubeconfig)])

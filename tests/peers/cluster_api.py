"""Cluster API: Machine, Cluster, MachineDeployment and MachineHealthCheck."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tests.peers.building import Project
from tests.peers.objects import DURATIONS
from tests.peers.peer import Peer

__all__ = ["PEERS"]

_MODULE: Final = "sigs.k8s.io/cluster-api"
_KINDS: Final = ("clusters", "machinedeployments", "machinehealthchecks", "machines")
_API: Final = "api/core/v1beta1"
_PROJECT: Final = Project(
    "cluster-api",
    (
        (
            _MODULE,
            (
                *(f"config/crd/bases/cluster.x-k8s.io_{kind}.yaml" for kind in _KINDS),
                f"{_API}/conversion.go",
                f"{_API}/zz_generated.conversion.go",
            ),
        ),
    ),
)
_TIMEOUTS: Final = ("nodeDrainTimeout", "nodeVolumeDetachTimeout", "nodeDeletionTimeout")


_API_VERSIONS: Final = ("infrastructure.cluster.x-k8s.io/v1beta2", "bootstrap.cluster.x-k8s.io/v1beta2", "a.example/v1")


def _choices(durations: Sequence[str], references: Sequence[str]) -> dict[str, Sequence[Any]]:
    times = {f".{path}": DURATIONS for path in durations}
    return {**times, **{f".{path}.apiVersion": _API_VERSIONS for path in references}}


def _machine_choices(scope: str) -> dict[str, Sequence[Any]]:
    references = (f"{scope}.bootstrap.configRef", f"{scope}.infrastructureRef")
    return _choices([f"{scope}.{name}" for name in _TIMEOUTS], references)


def _check_choices(scope: str) -> dict[str, Sequence[Any]]:
    return _choices([f"{scope}.nodeStartupTimeout", f"{scope}.unhealthyConditions[].timeout"], ())


_POOL: Final = "spec.topology.workers.machinePools[]"
_DEPLOYMENT: Final = "spec.topology.workers.machineDeployments[]"
_CONTROL_PLANE: Final = "spec.topology.controlPlane"
_CLUSTER_CHOICES: Final = {
    **_choices(
        [f"{scope}.{name}" for scope in (_POOL, _DEPLOYMENT, _CONTROL_PLANE) for name in _TIMEOUTS],
        ["spec.controlPlaneRef", "spec.infrastructureRef"],
    ),
    **_check_choices(f"{_DEPLOYMENT}.machineHealthCheck"),
    **_check_choices(f"{_CONTROL_PLANE}.machineHealthCheck"),
}


def _peer(kind: str, choices: dict[str, Any]) -> Peer:
    return Peer(
        _PROJECT,
        kind,
        f"cluster.x-k8s.io_{kind.lower()}s.yaml",
        hub="v1beta2",
        spoke="v1beta1",
        choices={"v1beta1": choices},
        stashes=("cluster.x-k8s.io/conversion-data",),
    )


PEERS: Final = (
    _peer("Machine", _machine_choices("spec")),
    _peer("MachineDeployment", _machine_choices("spec.template.spec")),
    _peer("MachineHealthCheck", _check_choices("spec")),
    _peer("Cluster", _CLUSTER_CHOICES),
)

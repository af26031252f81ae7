"""MetalLB: BGPPeer."""

from __future__ import annotations

from typing import Final

from tests.peers.building import Project
from tests.peers.objects import DURATIONS
from tests.peers.peer import Peer

__all__ = ["PEERS"]

_PROJECT: Final = Project(
    "metallb",
    (
        (
            "go.universe.tf/metallb",
            ("config/crd/bases/metallb.io_bgppeers.yaml", "api/v1beta1/bgppeer_conversion.go"),
        ),
    ),
)

_TIMES: Final = {f".spec.{name}": DURATIONS for name in ("holdTime", "keepaliveTime", "connectTime")}

PEERS: Final = (
    Peer(
        _PROJECT,
        "BGPPeer",
        "metallb.io_bgppeers.yaml",
        hub="v1beta2",
        spoke="v1beta1",
        choices={"v1beta2": _TIMES, "v1beta1": _TIMES},
    ),
)

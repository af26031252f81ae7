"""Kueue: ClusterQueue and Workload."""

from __future__ import annotations

from typing import Final

from tests.peers.building import Project
from tests.peers.peer import Peer
from tests.peers.topology import topology

__all__ = ["PEERS"]

_CRDS: Final = "config/components/crd/bases/kueue.x-k8s.io_"
_API: Final = "apis/kueue/v1beta1"
_PROJECT: Final = Project(
    "kueue",
    (
        (
            "sigs.k8s.io/kueue",
            (
                *(f"{_CRDS}{kind}.yaml" for kind in ("clusterqueues", "workloads")),
                *(f"{_API}/{name}_conversion.go" for name in ("clusterqueue", "workload", "fairsharing")),
                "pkg/util/tas/tas_assignment.go",
                f"{_API}/zz_generated.conversion.go",
            ),
        ),
    ),
)

_POD: Final = (
    {},
    {"spec": {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}},
    {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [], "nodeSelector": {"a": "b"}}},
)

_DOMAINS: Final = (
    {"levels": ["zone"], "domains": []},
    {"levels": ["zone"], "domains": [{"values": ["a"], "count": 1}]},
    {"levels": ["zone"], "domains": [{"values": ["ababa"], "count": 2}, {"values": ["aba"], "count": 2}]},
    {
        "levels": ["zone", "host"],
        "domains": [
            {"values": ["z1", "host-1.example"], "count": 1},
            {"values": ["z1", "host-2.example"], "count": 3},
            {"values": ["z2", "host-3.example"], "count": 3},
        ],
    },
    {"levels": ["zone", "host"], "domains": [{"values": ["z1"], "count": 1}]},
)
_SLICES: Final = (
    {"levels": ["zone"], "slices": []},
    {
        "levels": ["zone"],
        "slices": [{"domainCount": 2, "podCounts": {"universal": 1}, "valuesPerLevel": [{"universal": "a"}]}],
    },
    {
        "levels": ["zone", "host"],
        "slices": [
            {
                "domainCount": 2,
                "podCounts": {"individual": [1, 2]},
                "valuesPerLevel": [
                    {"universal": "z1"},
                    {"individual": {"prefix": "host-", "roots": ["1", "2"], "suffix": ".example"}},
                ],
            },
            {
                "domainCount": 1,
                "podCounts": {"universal": 4},
                "valuesPerLevel": [{"universal": "z2"}, {"individual": {"roots": ["b"]}}],
            },
        ],
    },
)

_ASSIGNMENT: Final = ".status.admission.podSetAssignments[].topologyAssignment"

PEERS: Final = (
    Peer(
        _PROJECT,
        "ClusterQueue",
        "kueue.x-k8s.io_clusterqueues.yaml",
        hub="v1beta2",
        spoke="v1beta1",
    ),
    Peer(
        _PROJECT,
        "Workload",
        "kueue.x-k8s.io_workloads.yaml",
        hub="v1beta2",
        spoke="v1beta1",
        functions=topology,
        choices={
            "v1beta1": {".spec.podSets[].template": _POD, _ASSIGNMENT: _DOMAINS},
            "v1beta2": {".spec.podSets[].template": _POD, _ASSIGNMENT: _SLICES},
        },
    ),
)

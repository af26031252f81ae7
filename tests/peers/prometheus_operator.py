"""The Prometheus operator: AlertmanagerConfig. The older version is the project's hub."""

from __future__ import annotations

from typing import Final

from tests.peers.building import Project
from tests.peers.peer import Peer

__all__ = ["PEERS"]

_FILE: Final = "monitoring.coreos.com_alertmanagerconfigs.yaml"
_MODULE: Final = "github.com/prometheus-operator/prometheus-operator"
_PROJECT: Final = Project(
    "prometheus-operator",
    (
        (_MODULE, (f"example/prometheus-operator-crd-full/{_FILE}",)),
        (f"{_MODULE}/pkg/apis/monitoring", ("v1beta1/conversion_from.go", "v1beta1/conversion_to.go")),
    ),
)

_NESTED: Final = (
    {"receiver": "a"},
    {"receiver": "b", "matchers": [{"name": "x", "value": "y", "matchType": "!="}], "groupBy": ["a"]},
    {"receiver": "b", "routes": [{"receiver": "c", "matchers": [{"name": "x", "value": "z", "matchType": "=~"}]}]},
)
_OLD_NESTED: Final = (
    *_NESTED,
    {"receiver": "b", "matchers": [{"name": "x", "value": "y", "regex": True}]},
    {"receiver": "b", "routes": [{"receiver": "c", "matchers": [{"name": "x", "value": "z", "regex": True}]}]},
)

PEERS: Final = (
    Peer(
        _PROJECT,
        "AlertmanagerConfig",
        _FILE,
        hub="v1alpha1",
        spoke="v1beta1",
        choices={"v1alpha1": {".spec.route.routes[]": _OLD_NESTED}, "v1beta1": {".spec.route.routes[]": _NESTED}},
    ),
)

"""The Prometheus operator: AlertmanagerConfig. The older version is the project's hub."""

from __future__ import annotations

from typing import Any, Final

from restow.conversion import rules
from tests.peers.oracle import Project
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


def nested_routes() -> list[rules.Rule]:
    """Routes within routes, of which the schema says nothing."""
    path = "spec.route.routes"
    return [rules.pair(path, path, up=lambda routes: routes, down=_routes, loses="down")]


def _match_type(matcher: dict[str, Any]) -> Any:
    return matcher.get("matchType") or ("=~" if matcher.get("regex") else "=")


def _routes(routes: Any) -> Any:
    return [_route(route) for route in routes] if isinstance(routes, list) else routes


def _route(route: Any) -> Any:
    if not isinstance(route, dict):
        return route
    matchers = [
        {**{name: value for name, value in each.items() if name != "regex"}, "matchType": _match_type(each)}
        for each in route.get("matchers", ())
    ]
    with_matchers = {**route, "matchers": matchers} if "matchers" in route else route
    return {**with_matchers, "routes": _routes(route["routes"])} if "routes" in route else with_matchers


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
        functions=nested_routes,
        choices={"v1alpha1": {".spec.route.routes[]": _OLD_NESTED}, "v1beta1": {".spec.route.routes[]": _NESTED}},
    ),
)

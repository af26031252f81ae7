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

_SECRETS: Final = {
    "discordConfigs": (),
    "emailConfigs": ("authPassword", "authSecret"),
    "msteamsConfigs": (),
    "msteamsv2Configs": (),
    "opsgenieConfigs": ("apiKey",),
    "pagerdutyConfigs": ("routingKey", "serviceKey"),
    "pushoverConfigs": ("token", "userKey"),
    "rocketchatConfigs": (),
    "slackConfigs": ("apiURL",),
    "snsConfigs": (),
    "telegramConfigs": ("botToken",),
    "victoropsConfigs": ("apiKey",),
    "webexConfigs": (),
    "webhookConfigs": ("urlSecret",),
    "wechatConfigs": ("apiSecret",),
}
"""The fields of each kind of receiver that select a secret. Those of v1beta1 cannot be optional."""


def alertmanager_config() -> list[rules.Rule]:
    """AlertmanagerConfig."""
    return [
        rules.rename("spec.timeIntervals", "spec.muteTimeIntervals"),
        rules.each("spec.inhibitRules", [_matchers("sourceMatch"), _matchers("targetMatch")]),
        _matchers("spec.route.matchers"),
        rules.pair("spec.route.routes", "spec.route.routes", up=lambda routes: routes, down=_routes, loses="down"),
        rules.each(
            "spec.receivers",
            [rules.each(name, _receiver(name, secrets)) for name, secrets in _SECRETS.items()],
            key="name",
        ),
    ]


def _receiver(name: str, secrets: tuple[str, ...]) -> list[rules.Rule]:
    http = () if name == "emailConfigs" else ("httpConfig.bearerTokenSecret",)
    optional = [rules.stash(hub=f"{secret}.optional") for secret in (*secrets, *http)]
    if name != "opsgenieConfigs":
        return optional
    types = {kind: kind for kind in ("team", "teams", "user", "escalation", "schedule")}
    return [*optional, rules.stash(hub="updateAlerts"), rules.each("responders", [rules.enum("type", types)])]


def _matchers(path: str) -> rules.Rule:
    match = rules.pair(
        ("matchType",),
        ("matchType", "regex"),
        up=lambda leaves: leaves,
        down=lambda leaves: {"matchType": _match_type(leaves)},
        loses="down",
    )
    return rules.each(path, [match])


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
        rules=alertmanager_config,
        choices={"v1alpha1": {".spec.route.routes[]": _OLD_NESTED}, "v1beta1": {".spec.route.routes[]": _NESTED}},
    ),
)

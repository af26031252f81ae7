"""Alertmanager's routes within routes, of which the schema says nothing."""

from __future__ import annotations

from typing import Any

from restow.conversion import rules

__all__ = ["nested_routes"]


def nested_routes() -> list[rules.Rule]:
    """Return the rule for the routes below the root."""
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

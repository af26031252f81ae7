"""The failure domains of Cluster API's Cluster: a map by name in v1beta1, a list with names in v1beta2."""

from __future__ import annotations

from typing import Any

from restow.conversion import rules

__all__ = ["failure_domains"]


def failure_domains() -> list[rules.Rule]:
    """Return the rule for the status of a Cluster."""
    path = "status.failureDomains"
    return [rules.pair(path, path, up=_domains, down=_by_name, loses="both")]


def _domains(by_name: Any) -> Any:
    if not isinstance(by_name, dict):
        return by_name
    return [
        {"name": name, **each} if isinstance(each, dict) else {"name": name} for name, each in sorted(by_name.items())
    ]


def _by_name(domains: Any) -> Any:
    if not isinstance(domains, list):
        return domains
    named = [each for each in domains if isinstance(each, dict) and isinstance(each.get("name"), str)]
    return {each["name"]: {name: value for name, value in each.items() if name != "name"} for each in named}

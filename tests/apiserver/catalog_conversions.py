"""The conversions of catalogs as their provider would declare them with restow, for use without a webhook."""

from __future__ import annotations

from typing import Any

from restow.conversion import Registry, rules


def registry_for(group: str) -> Registry:
    """The registry of a test's group."""
    registry = Registry()
    catalog = registry.kind(group, "Widget", hub="v2")

    @catalog.spoke("v1")
    def v1() -> list[rules.Rule]:
        stages = rules.pair(
            ("classification", "expirationDate"), "lifecycle", up=to_stages, down=from_stages, loses="down"
        )
        return [
            rules.rename("spec.host", "spec.address"),
            rules.rename("spec.suspended", "spec.paused"),
            rules.stash(spoke="spec.debug"),
            rules.each("spec.versions", [stages], key="version"),
            rules.rename("status.phase", "status.state"),
            rules.each("status.conditions", [], key="type"),
        ]

    return registry


def to_stages(fields: dict[str, Any]) -> Any:
    """The stages that a classification and an expiration date stand for."""
    stages = [{"classification": fields["classification"]}] if "classification" in fields else []
    if "expirationDate" in fields:
        stages.append({"classification": "expired", "startTime": fields["expirationDate"]})
    return stages


def from_stages(lifecycle: Any) -> dict[str, Any]:
    """The first stage, and when the last one begins."""
    shown: dict[str, Any] = {}
    for stage in lifecycle:
        if stage["classification"] != "expired":
            shown.setdefault("classification", stage["classification"])
        elif "startTime" in stage:
            shown["expirationDate"] = stage["startTime"]
    return shown

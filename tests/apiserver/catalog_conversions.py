"""The conversions of catalogs as their provider would declare them with restow, for use without a webhook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from restow.cli.registries import graph_converters
from restow.conversion import Registry, rules
from restow.migrator.requests.environment import Converters


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


def converters_for(group: str) -> Converters:
    """The converters of a test's group, as each process makes them that is given their name."""
    return lambda crd: graph_converters(registry_for(group).freeze([crd]))(crd)


def raising_converters() -> Converters:
    """Converters that fail with each page."""
    return lambda _crd: _Raising()


class _Raising:
    """Fails with each page."""

    async def convert(self, _objects: Sequence[Any], _api_version: str) -> Any:
        """Raise an error."""
        raise KeyError("s3cr3t")


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

"""The conversions: what the webhook, the command line and the tests of this provider share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from restow import crds
from restow.conversion import Registry, rules

MANIFESTS = Path(__file__).parent / "manifests"
CRDS = crds.load(MANIFESTS)

registry = Registry()

gateway = registry.kind("edge.example.dev", "Gateway", hub="v1")


@gateway.spoke("v1alpha1")
def gateway_v1alpha1() -> list[rules.Rule]:
    """The first version: flat, one certificate, timeouts in seconds."""
    return [
        rules.move("spec.certificate", "spec.tls.certificate"),
        rules.stash(hub="spec.tls.minVersion"),
        rules.wrap("spec.host", "spec.hosts[]"),
        rules.enum("spec.mode", {"public": "Public", "private": "Private"}, down={"Mesh": "private"}),
        rules.drop("spec.debug", acknowledge="only read by the first prototype of the controller"),
        rules.each(
            "spec.listeners",
            [
                rules.rename("title", "name"),
                rules.pair("timeoutSeconds", "timeout", up=to_duration, down=to_seconds, loses="down"),
                rules.default("protocol", "HTTP"),
                rules.stash(hub="weight"),
            ],
        ),
    ]


@gateway.spoke("v1beta1")
def gateway_v1beta1() -> list[rules.Rule]:
    """The second version: the hub's shape, with readiness and reason instead of a phase."""
    return [
        rules.rename("spec.tls.cert", "spec.tls.certificate"),
        rules.pair(("status.ready", "status.reason"), "status.phase", up=to_phase, down=from_phase, loses="both"),
    ]


cache = registry.kind("edge.example.dev", "Cache", hub="internal")


@cache.spoke("v1")
def cache_v1() -> list[rules.Rule]:
    """Size as a plain number of mebibytes."""
    return [
        rules.pair("spec.sizeMiB", "spec.size", up=to_quantity, down=from_quantity, loses="down"),
        rules.stash(hub="spec.eviction"),
        rules.stash(hub="spec.zones"),
    ]


@cache.spoke("v2")
def cache_v2() -> list[rules.Rule]:
    """Size as a quantity, eviction by name."""
    return [
        rules.rename("spec.capacity", "spec.size"),
        rules.move("spec.evictionPolicy", "spec.eviction.policy"),
        rules.stash(hub="spec.eviction.afterSeconds"),
        rules.unwrap("spec.zoneList[]", "spec.zones"),
    ]


@cache.spoke("v3")
def cache_v3() -> list[rules.Rule]:
    """The newest: nothing to convert but what the zone is called."""
    return [rules.rename("spec.zone", "spec.zones")]


#: The largest integer of an API. Longer texts are not even read: Python refuses those of thousands of digits.
LARGEST = 2**63 - 1


def to_duration(seconds: Any) -> Any:
    """Spell seconds as a duration."""
    return f"{seconds}s" if isinstance(seconds, int) else seconds


def to_seconds(duration: Any) -> Any:
    """Show a duration in whole seconds; what is no plain number of seconds is shown as 0."""
    return _number(duration.removesuffix("s")) if isinstance(duration, str) else 0


def to_phase(fields: dict[str, Any]) -> Any:
    """Name the phase by readiness and reason."""
    return "Ready" if fields.get("status.ready") else str(fields.get("status.reason") or "Pending")


def from_phase(phase: Any) -> dict[str, Any]:
    """Split a phase into readiness and reason."""
    return {"status.ready": True} if phase == "Ready" else {"status.ready": False, "status.reason": phase}


def to_quantity(size: Any) -> Any:
    """Spell mebibytes as a quantity."""
    return f"{size}Mi" if isinstance(size, int) else size


def from_quantity(quantity: Any) -> Any:
    """Show a quantity in mebibytes; other units are shown as 0."""
    return _number(quantity.removesuffix("Mi")) if isinstance(quantity, str) else 0


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST))):
        return 0
    return int(text) if int(text) <= LARGEST else 0


graph = registry.freeze(CRDS)

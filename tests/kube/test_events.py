"""Events: within what an API server takes, whoever is spoken of."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from restow.kube.events import event_body


def body(**more: Any) -> dict[str, Any]:
    """An Event about a Shoot, said at noon two hours east of Greenwich."""
    told: dict[str, Any] = {
        "regarding": {"apiVersion": "core.gardener.cloud/v1beta2", "kind": "Shoot", "name": "s", "namespace": "team"},
        "type": "Normal",
        "reason": "Maintained",
        "action": "Reconcile",
        "note": "done",
        "at": datetime(2026, 1, 2, 12, tzinfo=timezone(timedelta(hours=2))),
        "controller": "example.com/operator",
        "instance": "pod-1",
    }
    return event_body(**told | more)


def test_an_event_has_the_namespace_of_its_object_and_the_server_s_time() -> None:
    """An Event in another namespace than its object is refused; one of a cluster-scoped object is in default."""
    made = body()
    assert (made["metadata"]["namespace"], made["eventTime"]) == ("team", "2026-01-02T10:00:00.000000Z")
    assert body(regarding={"kind": "CloudProfile", "name": "p"})["metadata"]["namespace"] == "default"


def test_the_bounds_are_bytes() -> None:
    """A note of a thousand umlauts is two thousand bytes, refused as a whole, and nobody hears anything."""
    made = body(note="ö" * 1000, instance="i" * 200, regarding={"kind": "Shoot", "name": "n" * 253})
    assert len(made["note"].encode()) <= 1024 and made["note"].endswith("…")
    assert len(made["reportingInstance"]) == 128
    assert len(made["metadata"]["generateName"]) <= 253 - len("abcde")
    assert body(note="ö" * 512)["note"] == "ö" * 512

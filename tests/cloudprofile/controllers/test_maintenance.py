"""The maintenance of a Shoot, write by write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from restow.cloudprofile.controllers.index import ProfileIndex
from restow.cloudprofile.controllers.maintenance import ShootMaintenance
from restow.cloudprofile.controllers.writes import EventRecorder
from restow.kube.clock import Clock
from restow.kube.watch import Key
from restow.kube.watchevents import Listed
from tests.cloudprofile.memory import Memory
from tests.kube.test_store import item

NOW = datetime(2025, 3, 1, 22, 30, tzinfo=UTC)
PROFILE = {
    "metadata": {"name": "a", "uid": "p", "resourceVersion": "1"},
    "spec": {
        "kubernetes": {
            "versions": [
                {"version": "1.29.0", "lifecycle": [{"classification": "expired"}]},
                {"version": "1.30.1"},
            ]
        }
    },
}


def shoot(version: str, **metadata: Any) -> dict[str, Any]:
    """Return a Shoot that opted out of updates."""
    return {
        "metadata": {"name": "s", "namespace": "ns", "uid": "", "resourceVersion": "7", **metadata},
        "spec": {
            "cloudProfile": {"kind": "CloudProfile", "name": "a"},
            "kubernetes": {"version": version},
            "maintenance": {"autoUpdate": {"kubernetesVersion": False}},
        },
    }


def maintenance(memory: Memory) -> ShootMaintenance:
    """Return the reconciler over what the server holds."""
    index = ProfileIndex()
    index.profiles.apply(Listed((item(PROFILE),), "1"))
    index.shoots.apply(Listed((item(memory.held["shoots", "ns", "s"]),), "1"))
    recorder = EventRecorder(memory, "restow-shoot-maintenance", "test", Clock(now=lambda: NOW))
    return ShootMaintenance(informer=memory, index=index, recorder=recorder, now=lambda: NOW)


def states(memory: Memory) -> list[str]:
    """Return what was written, in order: the kind of patch, and the state that a status tells."""
    return [
        f"{what} {body['status']['lastMaintenance']['state']}" if what == "status" else what
        for what, body in memory.patches
    ]


async def test_a_forced_update_is_tried_told_written_and_told() -> None:
    """The order is what a reader of the status relies on; each write is bound to the version that was read."""
    memory = Memory(shoots=[shoot("1.29.0")])
    reconcile = maintenance(memory).reconcile
    again = await reconcile(Key("ns", "s"))
    assert states(memory) == ["dry", "status Processing", "object", "status Succeeded"]
    assert [body["metadata"]["resourceVersion"] for _, body in memory.patches] == ["7", "7", "8", "9"]
    held = memory.held["shoots", "ns", "s"]
    assert held["spec"]["kubernetes"]["version"] == "1.30.1"
    assert [event["reason"] for event in memory.events] == ["KubernetesVersionMaintenance"]
    assert again.requeue_after == pytest.approx(90 * 60)  # without a window of its own: the next midnight
    await reconcile(Key("ns", "s"))
    assert len(memory.patches) == 4


@pytest.mark.parametrize("status", [400, 403, 422])
async def test_a_refused_update_is_told_and_not_tried_again(status: int) -> None:
    """The Shoot would be half maintained, or the refused request be sent again and again."""
    asked = {"annotations": {"gardener.cloud/operation": "maintain"}}
    memory = Memory(shoots=[shoot("1.29.0", **asked)])
    memory.refusals["patch dry of shoots"] = (status, "a policy says no")
    await maintenance(memory).reconcile(Key("ns", "s"))
    assert states(memory) == ["status Failed", "object"]
    held = memory.held["shoots", "ns", "s"]
    assert held["spec"]["kubernetes"]["version"] == "1.29.0"
    assert "failed to be applied" in held["status"]["lastMaintenance"]["failureReason"]
    assert held["metadata"]["annotations"] == {}


async def test_what_another_process_did_is_not_done_again() -> None:
    """After a change of leader the memory may be older than the last leader's maintenance."""
    memory = Memory(shoots=[shoot("1.29.0")])
    reconcile = maintenance(memory).reconcile
    memory.held["shoots", "ns", "s"]["status"] = {"lastMaintenance": {"triggeredTime": "2025-03-01T22:00:00Z"}}
    await reconcile(Key("ns", "s"))
    assert memory.patches == []


async def test_nothing_due_writes_nothing() -> None:
    """Each Shoot would be written once a day for nothing."""
    memory = Memory(shoots=[shoot("1.30.1")])
    await maintenance(memory).reconcile(Key("ns", "s"))
    assert memory.patches == []
    assert memory.events == []

"""The maintenance of a Shoot, write by write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from restow.cloudprofile.controllers.index import ProfileIndex
from restow.cloudprofile.controllers.reconcilers import EventRecorder, ShootMaintenance
from restow.kube.clock import Clock
from restow.kube.errors import Conflict, Unreachable
from restow.kube.listwatch import Key
from restow.kube.watchevents import Listed
from tests.cloudprofile.memory import Memory
from tests.kube.test_store import item
from tests.memory.cluster import Request

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
    """Return the reconciler over the objects of the server."""
    index = ProfileIndex()
    index.profiles.apply(Listed((item(PROFILE),), "1"))
    index.shoots.apply(Listed((item(memory.held["shoots", "ns", "s"]),), "1"))
    recorder = EventRecorder(memory, "restow-shoot-maintenance", "test", Clock(now=lambda: NOW))
    return ShootMaintenance(informer=memory, index=index, recorder=recorder, now=lambda: NOW)


def states(memory: Memory) -> list[str]:
    """Return the writes in order: the kind of each patch, and the state that a status reports."""
    return [
        f"{what} {body['status']['lastMaintenance']['state']}" if what == "status" else what
        for what, body in memory.patches
    ]


async def test_a_forced_update_is_tried_told_written_and_told() -> None:
    """Readers of the status would see its states in another order, or a write would ignore a newer object."""
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
    """A Shoot would be half maintained, or the controller would send the refused request again and again."""
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
    """After a change of leader the controller would repeat a maintenance that its index does not show yet."""
    memory = Memory(shoots=[shoot("1.29.0")])
    reconcile = maintenance(memory).reconcile
    memory.held["shoots", "ns", "s"]["status"] = {"lastMaintenance": {"triggeredTime": "2025-03-01T22:00:00Z"}}
    await reconcile(Key("ns", "s"))
    assert memory.patches == []


async def test_nothing_due_writes_nothing() -> None:
    """Each Shoot would get a needless write every day."""
    memory = Memory(shoots=[shoot("1.30.1")])
    await maintenance(memory).reconcile(Key("ns", "s"))
    assert memory.patches == []
    assert memory.events == []


UNREADABLE = {"begin": "000000+2400", "end": "235959+2400"}


def of_another_offset(made: dict[str, Any], **auto_update: bool) -> dict[str, Any]:
    """Return a Shoot whose window no scheduler can read, like one stored before the rule existed."""
    made["spec"]["maintenance"] = {"timeWindow": UNREADABLE, "autoUpdate": auto_update}
    return made


async def test_no_window_is_a_way_out_of_forced_updates() -> None:
    """A Shoot would stay on an expired version for ever, reported only by a line in a log."""
    memory = Memory(shoots=[of_another_offset(shoot("1.29.0"), kubernetesVersion=False)])
    await maintenance(memory).reconcile(Key("ns", "s"))
    held = memory.held["shoots", "ns", "s"]
    assert held["spec"]["kubernetes"]["version"] == "1.30.1"
    (condition,) = held["status"]["conditions"]
    assert condition == {
        "type": "MaintenanceWindowValid",
        "status": "False",
        "reason": "WindowUnreadable",
        "message": "The maintenance window cannot be read, so forced updates happen at any time, and no others; change "
        "spec.maintenance.timeWindow: '000000+2400' is no time of a maintenance window like 220000+0100 (HHMMSS+ZZZZ)",
        "lastTransitionTime": "2025-03-01T22:30:00Z",
    }
    assert [event["reason"] for event in memory.events] == ["WindowUnreadable", "KubernetesVersionMaintenance"]


async def test_without_a_readable_window_nothing_is_updated_automatically() -> None:
    """A cluster would be rolled in its working hours for an update that could wait."""
    memory = Memory(shoots=[of_another_offset(shoot("1.30.0"), kubernetesVersion=True)])
    index_profile = {"version": "1.30.0"}
    PROFILE["spec"]["kubernetes"]["versions"].append(index_profile)
    try:
        await maintenance(memory).reconcile(Key("ns", "s"))
    finally:
        PROFILE["spec"]["kubernetes"]["versions"].remove(index_profile)
    assert memory.held["shoots", "ns", "s"]["spec"]["kubernetes"]["version"] == "1.30.0"


async def test_the_condition_is_written_once_and_taken_back() -> None:
    """Every check of the window would cost a write, or the condition would stay after its owner corrects the window."""
    other = {"type": "APIServerAvailable", "status": "True"}
    memory = Memory(shoots=[of_another_offset(shoot("1.30.1")) | {"status": {"conditions": [other]}}])
    await maintenance(memory).reconcile(Key("ns", "s"))
    written = len(memory.patches)
    await maintenance(memory).reconcile(Key("ns", "s"))
    assert len(memory.patches) == written
    memory.held["shoots", "ns", "s"]["spec"]["maintenance"].pop("timeWindow")
    await maintenance(memory).reconcile(Key("ns", "s"))
    conditions = memory.held["shoots", "ns", "s"]["status"]["conditions"]
    assert [(each["type"], each["status"]) for each in conditions] == [
        ("APIServerAvailable", "True"),
        ("MaintenanceWindowValid", "True"),
    ]


def interfering(memory: Memory, asked: str, *, lost: bool = False) -> None:
    """Let another client write the Shoot just before a request (once), or lose the answer to the request."""
    refuse, pending = memory.before, [asked]

    async def before(request: Request) -> None:
        await refuse(request)
        if not lost and memory.asked[-1] in pending:
            pending.clear()
            held = memory.held["shoots", "ns", "s"]
            memory.seed("shoots", held | {"metadata": held["metadata"] | {"labels": {"other": "writer"}}})

    async def after(request: Request) -> None:
        if lost and memory.asked[-1] in pending:
            pending.clear()
            raise Unreachable("patch", "shoots", "connection reset")

    memory.before, memory.after = before, after


@pytest.mark.parametrize("asked", ["patch dry of shoots", "patch status of shoots", "patch object of shoots"])
async def test_another_writer_takes_no_maintenance_away(asked: str) -> None:
    """A heartbeat between the announcement and the change would leave the Shoot as it is until the next window."""
    memory = Memory(shoots=[shoot("1.29.0")])
    reconcile = maintenance(memory).reconcile
    interfering(memory, asked)
    with pytest.raises(Conflict):
        await reconcile(Key("ns", "s"))
    await reconcile(Key("ns", "s"))
    held = memory.held["shoots", "ns", "s"]
    assert held["spec"]["kubernetes"]["version"] == "1.30.1"
    assert held["status"]["lastMaintenance"]["state"] == "Succeeded"
    written = len(memory.patches)
    await reconcile(Key("ns", "s"))
    assert len(memory.patches) == written


async def test_a_lost_answer_is_no_second_step() -> None:
    """A Shoot would take two minor versions in one window, or its status report an update for ever as not done."""
    memory = Memory(shoots=[shoot("1.28.0")])
    PROFILE["spec"]["kubernetes"]["versions"].append(
        {"version": "1.28.0", "lifecycle": [{"classification": "expired"}]}
    )
    try:
        reconcile = maintenance(memory).reconcile
        interfering(memory, "patch object of shoots", lost=True)
        with pytest.raises(Unreachable):
            await reconcile(Key("ns", "s"))
        await reconcile(Key("ns", "s"))
    finally:
        PROFILE["spec"]["kubernetes"]["versions"].pop()
    held = memory.held["shoots", "ns", "s"]
    assert held["spec"]["kubernetes"]["version"] == "1.29.0"
    assert held["status"]["lastMaintenance"]["state"] == "Succeeded"
    assert [event["reason"] for event in memory.events] == ["KubernetesVersionMaintenance"]

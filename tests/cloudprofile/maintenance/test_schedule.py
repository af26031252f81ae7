"""The schedule of a Shoot's maintenance: once a window, each Shoot at its own moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.cloudprofile.maintenance.plan import (
    Maintenance,
    MaintenanceUpdate,
    maintenance_patches,
    refused_status,
)
from restow.cloudprofile.maintenance.schedule import schedule, withdrawal
from restow.cloudprofile.shoots.window import window_of

NOW = datetime(2025, 3, 1, 22, 30, tzinfo=UTC)
EARLIEST = ""  # crc32 of an empty uid is 0: the beginning of the window


def shoot(begin: str = "220000+0000", end: str = "230000+0000", uid: str = EARLIEST, **more: Any) -> dict[str, Any]:
    """Return a Shoot with a maintenance window."""
    window = {"maintenance": {"timeWindow": {"begin": begin, "end": end}}}
    return {"metadata": {"name": "s", "uid": uid} | more.pop("metadata", {}), "spec": window} | more


def triggered(at: str) -> dict[str, Any]:
    """Return a status with a last maintenance."""
    return {"lastMaintenance": {"triggeredTime": at, "state": "Succeeded"}}


@pytest.mark.parametrize(
    ("made", "looked", "due"),
    [
        (shoot(), None, True),
        (shoot(), NOW - timedelta(minutes=10), False),
        (shoot(), NOW - timedelta(days=1), True),
        (shoot(status=triggered("2025-03-01T22:01:00Z")), None, False),
        (shoot(status=triggered("2025-02-28T22:59:00Z")), None, True),
        (shoot(status=triggered("2036-01-01T00:00:00Z")), None, True),
        (shoot(), NOW + timedelta(days=3650), True),
        (shoot("010000+0000", "020000+0000"), None, False),
        (shoot(metadata={"deletionTimestamp": "2025-03-01T00:00:00Z"}), None, False),
        (
            shoot(
                "010000+0000",
                "020000+0000",
                metadata={"annotations": {"gardener.cloud/operation": "reconcile;maintain"}},
            ),
            NOW,
            True,
        ),
    ],
)
def test_when_it_is_due(made: dict[str, Any], looked: datetime | None, due: bool) -> None:
    """A Shoot would be rolled twice in a window, outside of it, or never; also after a clock that ran ahead."""
    assert schedule(made, looked, NOW).is_due is due


@given(uid=st.uuids().map(str), begin=st.integers(0, 23), hours=st.integers(1, 23), at=st.integers(0, 3 * 86400))
def test_following_the_schedule_maintains_once_a_window(uid: str, begin: int, hours: int, at: int) -> None:
    """The requeue would miss the window, or a restart would change the Shoot's moment."""
    made = shoot(f"{begin:02}0000+0000", f"{(begin + hours) % 24:02}0000+0000", uid)
    now = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(seconds=at)
    planned = schedule(made, None, now)
    assert planned.following is not None
    assert now < planned.following <= now + timedelta(days=2)
    then = schedule(made, now if planned.is_due else None, planned.following)
    assert then.is_due
    assert window_of(made).contains(planned.following)
    assert not schedule(made, planned.following, planned.following).is_due


def test_a_window_that_cannot_be_read_is_always_open_for_forced_updates() -> None:
    """A Shoot would never be updated by force, or be rolled at any time for an update that can wait."""
    planned = schedule(shoot("at night", "late"), None, NOW)
    assert (planned.is_due, planned.is_forced_only) == (True, True)
    assert "'at night' is no time" in planned.unreadable
    assert planned.following == datetime(2025, 3, 2, tzinfo=UTC)
    used = schedule(shoot("at night", "late", status=triggered("2025-03-01T00:01:00Z")), None, NOW)
    assert (used.is_due, used.is_forced_only) == (False, True)


def test_who_asks_for_maintenance_gets_all_of_it() -> None:
    """An owner's annotation would be ignored because the window cannot be read."""
    asked = {"annotations": {"gardener.cloud/operation": "maintain"}}
    planned = schedule(shoot("at night", "late", metadata=asked), NOW, NOW)
    assert (planned.is_due, planned.is_forced_only) == (True, False)


def test_a_last_maintenance_that_cannot_be_read_counts_as_none() -> None:
    """One unreadable time in a status would end the maintenance of its Shoot."""
    assert schedule(shoot(status=triggered("yesterday")), None, NOW).is_due


@pytest.mark.parametrize(
    ("text", "left"), [("maintain", None), ("maintain;reconcile", "reconcile"), ("a;maintain;b", "a;b")]
)
def test_the_request_is_taken_back_alone(text: str, left: str | None) -> None:
    """Other operations in the same annotation would be lost."""
    made = shoot(metadata={"annotations": {"gardener.cloud/operation": text}})
    assert withdrawal(made) == {"metadata": {"annotations": {"gardener.cloud/operation": left}}}
    assert withdrawal(shoot()) == {}


def test_the_writes_of_a_maintenance() -> None:
    """The status would announce other changes than the written ones, or keep reporting an old failure."""
    made = shoot(status={"lastMaintenance": {"state": "Failed", "failureReason": "old", "description": "x"}})
    after = {**made["spec"], "kubernetes": {"version": "1.31.0"}}
    writes = maintenance_patches(made, Maintenance(after, (MaintenanceUpdate(True, "Updated", "expired"),)), NOW)
    announced = writes.before["status"]["lastMaintenance"]
    assert announced["state"] == "Processing"
    assert announced["failureReason"] is None
    assert writes.change == {"spec": {"kubernetes": {"version": "1.31.0"}}}
    assert writes.after == {"status": {"lastMaintenance": {"state": "Succeeded"}}}


def test_nothing_to_do_writes_nothing() -> None:
    """Every Shoot would get a needless write every day, or an old failure would stay in its status."""
    made = shoot(status=triggered("2025-02-01T00:00:00Z"))
    writes = maintenance_patches(made, Maintenance(made["spec"], ()), NOW)
    assert (writes.before, writes.change, writes.after) == ({}, {}, {})
    failed = shoot(status={"lastMaintenance": {"state": "Failed", "failureReason": "f", "description": "d"}})
    assert maintenance_patches(failed, Maintenance(failed["spec"], ()), NOW).after == {
        "status": {
            "lastMaintenance": {"state": "Succeeded", "description": "Maintenance succeeded", "failureReason": None}
        }
    }


def test_a_refusal_is_told() -> None:
    """An owner would not learn why a Shoot stays on an expired version."""
    told = refused_status(shoot(), "no", NOW)["status"]["lastMaintenance"]
    assert told == {
        "description": "Maintenance failed",
        "failureReason": "Updates to the Shoot failed to be applied: no",
        "state": "Failed",
        "triggeredTime": "2025-03-01T22:30:00Z",
    }

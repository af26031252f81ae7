"""The schedule of a Shoot's maintenance: once in its daily time window, at its own moment. Pure.

A Shoot without a window may be maintained at any time, and one that is annotated with the operation ``maintain`` at
once. Gardener leaves out the window's last 15 minutes, so that a rollout has begun by its end; restow uses the whole
window. A window that cannot be read counts as always open, but only for forced updates: its owner has not said when
other updates may happen, and a typo must not prevent forced ones.

Each Shoot has its own moment in the window, derived from its uid, so that not all Shoots are updated in the same second
and a restart neither repeats nor skips a maintenance. Once a window has begun, it can be used until it ends.
A window counts as used if ``status.lastMaintenance`` was triggered in it, or if nothing was due in it. A time after the
window's next start is from a clock that ran ahead and counts for no window.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from restow.cloudprofile.objects import Object, is_deleting
from restow.cloudprofile.shoots.window import ALWAYS, InvalidWindow, window_of
from restow.cloudprofile.versions.lifecycle import InvalidTime, parse_time

OPERATION_ANNOTATION = "gardener.cloud/operation"
"""The annotation that asks for operations on a Shoot, separated by ``;``."""


def _is_requested(shoot: Object) -> bool:
    """Return whether a Shoot has the annotation that asks for a maintenance at once."""
    annotations = (shoot.get("metadata") or {}).get("annotations") or {}
    return "maintain" in (annotations.get(OPERATION_ANNOTATION) or "").split(";")


@dataclass(frozen=True, slots=True)
class MaintenanceSchedule:
    """The schedule of a Shoot's maintenance.

    Attributes:
        is_due: whether it is due now.
        following: the next time, after now; None for a Shoot in deletion.
        unreadable: why its window cannot be read; empty if it can be.
        is_requested: whether its owner asks for a maintenance.
    """

    is_due: bool
    following: datetime | None
    unreadable: str = ""
    is_requested: bool = False

    @property
    def is_forced_only(self) -> bool:
        """Whether only forced updates are due."""
        return bool(self.unreadable) and not self.is_requested


def schedule(shoot: Object, looked: datetime | None, now: datetime, unfinished: str = "") -> MaintenanceSchedule:
    """Decide when to maintain a Shoot.

    Args:
        shoot: the Shoot: its metadata, maintenance window and last maintenance.
        looked: when it was last checked and nothing was due; None if that is not known.
        now: the time.
        unfinished: the ``triggeredTime`` of a maintenance that was announced and not written; it uses no window.
    """
    if is_deleting(shoot):
        return MaintenanceSchedule(False, None)
    unreadable = ""
    try:
        window = window_of(shoot)
    except InvalidWindow as error:
        window, unreadable = ALWAYS, str(error)
    moment = window.duration * _place(shoot)
    began, again = window.last_start(now), window.next_start(now)
    following = again + moment
    if _is_requested(shoot):
        return MaintenanceSchedule(True, following, unreadable, is_requested=True)
    used = [at for at in (looked, _triggered(shoot, unfinished)) if at is not None]
    if not window.contains(now) or any(began <= at < again for at in used):
        return MaintenanceSchedule(False, following, unreadable)
    if now < began + moment:
        return MaintenanceSchedule(False, began + moment, unreadable)
    return MaintenanceSchedule(True, following, unreadable)


def _triggered(shoot: Object, unfinished: str) -> datetime | None:
    """Return when a Shoot was last maintained; None if that is not known, or if that maintenance is unfinished."""
    triggered = ((shoot.get("status") or {}).get("lastMaintenance") or {}).get("triggeredTime")
    try:
        return parse_time(triggered) if triggered and triggered != unfinished else None
    except InvalidTime:
        return None


def _place(shoot: Object) -> float:
    """Return the position of a Shoot's moment in its window, from [0, 1)."""
    uid = (shoot.get("metadata") or {}).get("uid") or ""
    return zlib.crc32(uid.encode()) / 2**32


def withdrawal(shoot: Object) -> dict[str, Any]:
    """Return the merge patch that removes the request for a maintenance; empty if there is none.

    Other operations in the same annotation stay.
    """
    if not _is_requested(shoot):
        return {}
    operations = shoot["metadata"]["annotations"][OPERATION_ANNOTATION].split(";")
    others = ";".join(operation for operation in operations if operation != "maintain")
    return {"metadata": {"annotations": {OPERATION_ANNOTATION: others or None}}}

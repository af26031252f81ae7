"""When the maintenance controller looks at a Shoot: once a window, at a moment of the Shoot's own. Pure.

So that not all Shoots of a landscape are rolled at the same second, each has its moment in the window, which follows
from its uid: a restart in between neither repeats nor forgets it. A window that has begun is used as long as it lasts.
A window counts as used if ``status.lastMaintenance`` was triggered in it, or if nothing was found to be due in it.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import datetime

from restow.cloudprofile.lifecycle import parse_time
from restow.cloudprofile.maintenancewindow import OPERATION_ANNOTATION, is_maintenance_requested, window_of
from restow.cloudprofile.parts import Object, is_deleting

__all__ = ["Schedule", "annotations_without_request", "schedule"]

_MAINTAIN = "maintain"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a Shoot is maintained.

    Attributes:
        is_due: whether now.
        following: otherwise, or after that, when; None for a Shoot in deletion.
    """

    is_due: bool
    following: datetime | None


def schedule(shoot: Object, looked: datetime | None, now: datetime) -> Schedule:
    """Decide when to maintain a Shoot.

    Args:
        shoot: the Shoot: its metadata, maintenance window and last maintenance.
        looked: when it was last looked at and nothing was due; None if that is not known.
        now: the time.

    Raises:
        InvalidWindow: a time window cannot be read.
        InvalidTime: it is given a status that cannot be read.
    """
    if is_deleting(shoot):
        return Schedule(False, None)
    window = window_of(shoot)
    moment = window.duration * _place(shoot)
    began, following = window.last_start(now), window.next_start(now) + moment
    if is_maintenance_requested(shoot):
        return Schedule(True, following)
    triggered = ((shoot.get("status") or {}).get("lastMaintenance") or {}).get("triggeredTime")
    used = [at for at in (looked, parse_time(triggered) if triggered else None) if at is not None]
    if not window.contains(now) or any(at >= began for at in used):
        return Schedule(False, following)
    if now < began + moment:
        return Schedule(False, began + moment)
    return Schedule(True, following)


def _place(shoot: Object) -> float:
    """Return where in its window a Shoot stands, from [0, 1)."""
    uid = (shoot.get("metadata") or {}).get("uid") or ""
    return zlib.crc32(uid.encode()) / 2**32


def annotations_without_request(shoot: Object) -> dict[str, str | None]:
    """Return the merge patch of the annotations that takes the request to be maintained back; empty if there is none.

    Other operations that are asked for with it stay.
    """
    if not is_maintenance_requested(shoot):
        return {}
    operations = shoot["metadata"]["annotations"][OPERATION_ANNOTATION].split(";")
    others = ";".join(operation for operation in operations if operation != _MAINTAIN)
    return {OPERATION_ANNOTATION: others or None}

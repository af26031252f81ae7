"""When a Shoot may be maintained, its daily time window, and when in it the controller does so. Pure.

``spec.maintenance.timeWindow`` has a ``begin`` and an ``end`` as HHMMSS+ZZZZ, ``220000+0100`` for instance. Both belong
to the window, to the second. An end before the begin is on the next day; so it is where the window crosses midnight in
UTC. Offsets are fixed: there is no daylight saving time. A Shoot without a window may be maintained at any time, and
one that is annotated with the operation ``maintain`` at once. Gardener leaves out the window's last 15 minutes, so that
a rollout has begun by its end; here the window is what it says.

Each Shoot has its own moment in the window, derived from its uid, so that not all Shoots are updated in the same second
and a restart neither repeats nor skips it. A window that has begun is used as long as it lasts.
A window counts as used if ``status.lastMaintenance`` was triggered in it, or if nothing was found to be due in it.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from restow.cloudprofile.objects import Object, is_deleting, spec_of
from restow.cloudprofile.versions.lifecycle import parse_time

__all__ = [
    "ALWAYS",
    "OPERATION_ANNOTATION",
    "InvalidWindow",
    "MaintenanceSchedule",
    "MaintenanceWindow",
    "annotations_without_request",
    "is_maintenance_due",
    "is_maintenance_requested",
    "is_maintenance_time",
    "schedule",
    "window_of",
]


OPERATION_ANNOTATION = "gardener.cloud/operation"
"""The annotation that asks for operations on a Shoot, separated by ``;``."""

_DAY = 24 * 60 * 60
_TIME = re.compile(r"([01]\d|2[0-3])([0-5]\d)([0-5]\d)([+-])([01]\d|2[0-3])([0-5]\d)", flags=re.ASCII)


class InvalidWindow(ValueError):
    """A time window cannot be read."""


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """A daily time window.

    Attributes:
        begin, end: seconds since midnight in UTC; both belong to the window.
    """

    begin: int
    end: int

    @classmethod
    def parse(cls, begin: str, end: str) -> MaintenanceWindow:
        """Read a window from two times as HHMMSS+ZZZZ.

        Raises:
            InvalidWindow: the begin or end of the window is not a time as HHMMSS+ZZZZ.
        """
        return cls(_seconds(begin), _seconds(end))

    @property
    def duration(self) -> timedelta:
        """How long the window is."""
        return timedelta(seconds=(self.end - self.begin) % _DAY)

    def contains(self, now: datetime) -> bool:
        """Whether a time is inside the window."""
        second = _second_of_day(now)
        if self.end < self.begin:
            return second >= self.begin or second <= self.end
        return self.begin <= second <= self.end

    def next_start(self, now: datetime) -> datetime:
        """Return when the window next begins, in UTC, always later than ``now``."""
        return self.last_start(now) + timedelta(days=1)

    def last_start(self, now: datetime) -> datetime:
        """Return when the window last began, in UTC, ``now`` included."""
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        start = midnight + timedelta(seconds=self.begin)
        return start if start <= now else start - timedelta(days=1)


ALWAYS = MaintenanceWindow(0, _DAY - 1)
"""The window of a Shoot that has none."""


def _seconds(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise InvalidWindow(f"{text!r} is no time of a maintenance window like 220000+0100 (HHMMSS+ZZZZ)")
    hours, minutes, seconds, zone_hours, zone_minutes = (int(match[group]) for group in (1, 2, 3, 5, 6))
    offset = (zone_hours * 60 + zone_minutes) * 60
    return (hours * 3600 + minutes * 60 + seconds - (offset if match[4] == "+" else -offset)) % _DAY


def _second_of_day(now: datetime) -> int:
    at = now.astimezone(UTC)
    return at.hour * 3600 + at.minute * 60 + at.second


def window_of(shoot: Object) -> MaintenanceWindow:
    """Return the maintenance time window of a Shoot.

    Raises:
        InvalidWindow: the begin or end of the window is not a time as HHMMSS+ZZZZ.
    """
    window = (spec_of(shoot).get("maintenance") or {}).get("timeWindow")
    if not window:
        return ALWAYS
    return MaintenanceWindow.parse(window.get("begin") or "", window.get("end") or "")


def is_maintenance_requested(shoot: Object) -> bool:
    """Whether a Shoot is annotated to be maintained at once."""
    annotations = (shoot.get("metadata") or {}).get("annotations") or {}
    return "maintain" in (annotations.get(OPERATION_ANNOTATION) or "").split(";")


def is_maintenance_time(shoot: Object, now: datetime) -> bool:
    """Whether a Shoot may be maintained now; one in deletion never.

    Raises:
        InvalidWindow: the begin or end of the window is not a time as HHMMSS+ZZZZ.
    """
    return not is_deleting(shoot) and (is_maintenance_requested(shoot) or window_of(shoot).contains(now))


def is_maintenance_due(shoot: Object, now: datetime) -> bool:
    """Whether a Shoot is to be maintained now: it may be, and was not yet in this window, unless it asks for it.

    One maintenance a window is one step of a forced update, and no second try of changes that were refused. That there
    was one, ``status.lastMaintenance`` says.

    Raises:
        InvalidWindow: the begin or end of the window is not a time as HHMMSS+ZZZZ.
        InvalidTime: ``status.lastMaintenance`` has a time that cannot be read.
    """
    if not is_maintenance_time(shoot, now):
        return False
    triggered = ((shoot.get("status") or {}).get("lastMaintenance") or {}).get("triggeredTime")
    if is_maintenance_requested(shoot) or not triggered:
        return True
    return parse_time(triggered) < window_of(shoot).last_start(now)


_MAINTAIN = "maintain"


@dataclass(frozen=True, slots=True)
class MaintenanceSchedule:
    """When a Shoot is maintained.

    Attributes:
        is_due: whether it is due now.
        following: the next time, after now; None for a Shoot in deletion.
    """

    is_due: bool
    following: datetime | None


def schedule(shoot: Object, looked: datetime | None, now: datetime) -> MaintenanceSchedule:
    """Decide when to maintain a Shoot.

    Args:
        shoot: the Shoot: its metadata, maintenance window and last maintenance.
        looked: when it was last looked at and nothing was due; None if that is not known.
        now: the time.

    Raises:
        InvalidWindow: the begin or end of the window is not a time as HHMMSS+ZZZZ.
        InvalidTime: ``status.lastMaintenance`` has a time that cannot be read.
    """
    if is_deleting(shoot):
        return MaintenanceSchedule(False, None)
    window = window_of(shoot)
    moment = window.duration * _place(shoot)
    began, following = window.last_start(now), window.next_start(now) + moment
    if is_maintenance_requested(shoot):
        return MaintenanceSchedule(True, following)
    triggered = ((shoot.get("status") or {}).get("lastMaintenance") or {}).get("triggeredTime")
    used = [at for at in (looked, parse_time(triggered) if triggered else None) if at is not None]
    if not window.contains(now) or any(at >= began for at in used):
        return MaintenanceSchedule(False, following)
    if now < began + moment:
        return MaintenanceSchedule(False, began + moment)
    return MaintenanceSchedule(True, following)


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

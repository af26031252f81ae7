"""The daily time window in which a Shoot may be maintained: its format and its rules. Pure.

``spec.maintenance.timeWindow`` has a ``begin`` and an ``end`` as HHMMSS+ZZZZ, ``220000+0100`` for instance. Both belong
to the window, to the second. An end before the begin is on the next day; this also covers a window that crosses
midnight in UTC. Offsets are fixed: there is no daylight saving time. Only offsets in use are valid, -1200 to +1400.

As in Gardener a window is at least 30 minutes long, or a controller could miss it every day, and at most 6 hours.
A shorter one that was stored before this rule lasts 30 minutes. A window that cannot be read does not prevent forced
updates (GEP-5: "even if the owner has opted out"); see ``restow.cloudprofile.maintenance.schedule``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from restow.cloudprofile.findings import ValidationFinding, invalid
from restow.cloudprofile.objects import Object, spec_of

SHORTEST: Final = timedelta(minutes=30)
LONGEST: Final = timedelta(hours=6)

_DAY: Final = 24 * 60 * 60
_TIME: Final = re.compile(r"([01]\d|2[0-3])([0-5]\d)([0-5]\d)([+-])(0\d|1[0-4])([0-5]\d)", flags=re.ASCII)
_WESTERNMOST, _EASTERNMOST = -12 * 60 * 60, 14 * 60 * 60


class InvalidWindow(ValueError):
    """An error: a time window cannot be read."""


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
        """Read a window from two times as HHMMSS+ZZZZ."""
        return cls(_seconds(begin), _seconds(end))

    @property
    def duration(self) -> timedelta:
        """The length of the window."""
        return timedelta(seconds=(self.end - self.begin) % _DAY)

    def contains(self, now: datetime) -> bool:
        """Return whether a time is inside the window."""
        seconds = int((now - self.last_start(now)).total_seconds())
        return seconds <= self.duration.total_seconds()

    def next_start(self, now: datetime) -> datetime:
        """Return when the window next begins, in UTC, always later than ``now``."""
        return self.last_start(now) + timedelta(days=1)

    def last_start(self, now: datetime) -> datetime:
        """Return when the window last began, in UTC, ``now`` included."""
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        start = midnight + timedelta(seconds=self.begin)
        return start if start <= now else start - timedelta(days=1)


ALWAYS = MaintenanceWindow(0, _DAY - 1)
"""The window of a Shoot that names none."""


def _seconds(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise InvalidWindow(f"{text!r} is no time of a maintenance window like 220000+0100 (HHMMSS+ZZZZ)")
    hours, minutes, seconds, zone_hours, zone_minutes = (int(match[group]) for group in (1, 2, 3, 5, 6))
    offset = (zone_hours * 60 + zone_minutes) * 60 * (1 if match[4] == "+" else -1)
    if not _WESTERNMOST <= offset <= _EASTERNMOST:
        raise InvalidWindow(f"{text!r} has an offset from UTC that does not exist: it must be -1200 to +1400")
    return (hours * 3600 + minutes * 60 + seconds - offset) % _DAY


def window_of(shoot: Object) -> MaintenanceWindow:
    """Return the maintenance time window of a Shoot; it lasts at least 30 minutes."""
    window = (spec_of(shoot).get("maintenance") or {}).get("timeWindow")
    if not window:
        return ALWAYS
    read = MaintenanceWindow.parse(window.get("begin") or "", window.get("end") or "")
    if read.duration >= SHORTEST:
        return read
    return MaintenanceWindow(read.begin, (read.begin + int(SHORTEST.total_seconds())) % _DAY)


def window_findings(shoot: Object, old: Object | None) -> tuple[ValidationFinding, ...]:
    """Return why the maintenance time window of a Shoot is refused; an unchanged window is not checked."""
    window = (spec_of(shoot).get("maintenance") or {}).get("timeWindow")
    if not window or (old is not None and window == (spec_of(old).get("maintenance") or {}).get("timeWindow")):
        return ()
    path = "spec.maintenance.timeWindow"
    wrong = []
    for name in ("begin", "end"):
        try:
            _seconds(window.get(name) or "")
        except InvalidWindow as error:
            wrong.append(invalid(f"{path}.{name}", str(error)))
    if wrong:
        return tuple(wrong)
    duration = MaintenanceWindow.parse(window["begin"], window["end"]).duration
    if duration < SHORTEST:
        return (invalid(path, f"time window must not be smaller than 30 minutes, and is {duration} long"),)
    if duration > LONGEST:
        return (invalid(path, f"time window must not be greater than 6 hours, and is {duration} long"),)
    return ()

"""Logs failed requests at a limited rate: one JSON object a line.

An API server retries an object that cannot be converted for ever; a line for each try would hide all others. The next
line counts those that were left out. Clients that are refused or ended get one line a minute for each reason, with
their number since the last line. The record's attribute ``details`` has the same, for a formatter. Bodies, and values
of objects, are never logged.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from restow.kube.clock import Clock

__all__ = ["RateLimitedLog"]


_log = logging.getLogger(__name__)

_AT_ONCE: Final = 10
_SECONDS_EACH: Final = 1.0
_SECONDS_OF_A_REASON: Final = 60.0


@dataclass(slots=True)
class _Reason:
    """What is to be told of a reason: since when it may be, how often it was met, and by whom at last."""

    due: float
    count: int = 0
    peer: str = ""
    message: str = ""


class RateLimitedLog:
    """Writes up to ten lines at once, then one a second; of each reason to refuse one a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._credit = float(_AT_ONCE)
        self._since = clock.monotonic()
        self._left_out = 0
        self._reasons: dict[str, _Reason] = {}

    def add(self, event: str, **details: Any) -> None:
        """Log one thing that went wrong, or count it if there were too many."""
        now = self._clock.monotonic()
        self._credit = min(_AT_ONCE, self._credit + (now - self._since) / _SECONDS_EACH)
        self._since = now
        if self._credit < 1:
            self._left_out += 1
            return
        self._credit -= 1
        if self._left_out:
            details["left_out_before"], self._left_out = self._left_out, 0
        _write(event, details)

    def tell(self, why: str, peer: str, message: str = "") -> None:
        """Log that a client was refused or ended, at once or with the next line of this reason.

        ``why`` is one of few words; ``peer`` and ``message`` are those of the last client that the line counts.
        """
        reason = self._reasons.setdefault(why, _Reason(self._clock.monotonic()))
        reason.count += 1
        reason.peer, reason.message = peer, message
        self._tell(why, reason)

    def look(self) -> None:
        """Log what is due by now."""
        for why, reason in self._reasons.items():
            self._tell(why, reason)

    def _tell(self, why: str, reason: _Reason) -> None:
        now = self._clock.monotonic()
        if not reason.count or now < reason.due:
            return
        details = {"why": why, "peer": reason.peer, "count": reason.count, "message": reason.message}
        _write("refused", {name: value for name, value in details.items() if value})
        reason.count, reason.due = 0, now + _SECONDS_OF_A_REASON


def _write(event: str, details: dict[str, Any]) -> None:
    details = {"event": event, **details}
    _log.warning("%s", msgspec.json.encode(details).decode(), extra={"details": details})

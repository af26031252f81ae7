"""Log lines about requests that went wrong: one JSON object each, and never a flood of them.

An API server asks again and again about an object that it cannot have; a line for each would bury all else. What was
left out is counted in the next line that is written. Bodies, and values of objects, are never logged.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from restow.kube.clock import Clock

__all__ = ["Complaints"]

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 10
_SECONDS_EACH: Final = 1.0


class Complaints:
    """Writes up to ten lines at once, then one a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._credit = float(_AT_ONCE)
        self._since = clock.monotonic()
        self._left_out = 0

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
        _log.warning("%s", msgspec.json.encode({"event": event, **details}).decode())

"""Reports failures at a limited rate: ``RateLimitedLog`` as lines of the log, ``KeptEvents`` as Events on objects.

An API server retries an object that cannot be converted for ever. A line for each attempt would hide all others, so
lines are left out, and the next line counts them. Clients that are refused or ended get one line a minute per reason,
with their number since the last line. A line is one JSON object. The record's attribute ``details`` holds the same
fields for a formatter.

Events are written for values that a rule could not convert, and kept (``on_error="keep"``). A LIST converts every
object again and again, so an object gets one Event per rule and hour, and the queue of Events has a limit. The log and
the metric count all such values.

Neither shows bodies, or values of objects.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from restow.conversion.reviews.conversion import KeptValue
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.cluster import Cluster
from restow.kube.events import event_body, write_event

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 10
_SECONDS_EACH: Final = 1.0
_SECONDS_OF_A_REASON: Final = 60.0


@dataclass(slots=True)
class _Reason:
    """A reason to refuse: when its next line is due, how often it occurred since the last line, and the last client."""

    due: float
    count: int = 0
    peer: str = ""
    message: str = ""


class RateLimitedLog:
    """Writes up to ten lines at once, then one per second; for each reason to refuse, one per minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._credit = float(_AT_ONCE)
        self._since = clock.monotonic()
        self._left_out = 0
        self._reasons: dict[str, _Reason] = {}

    def add(self, event: str, **details: Any) -> None:
        """Log a failure, or only count it if there were too many."""
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

        ``why`` is one of few words. ``peer`` and ``message`` describe the last client that the line counts.
        """
        reason = self._reasons.setdefault(why, _Reason(self._clock.monotonic()))
        reason.count += 1
        reason.peer, reason.message = peer, message
        self._tell(why, reason)

    def look(self) -> None:
        """Log the lines that are due."""
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


_CONTROLLER: Final = "restow.dev/conversion"
_AGAIN_SECONDS: Final = 3600.0
_MOST_WAITING: Final = 100
_MOST_REMEMBERED: Final = 10_000


class KeptEvents:
    """Writes the Events. Call ``note`` for each kept value; ``run`` writes Events until it is cancelled."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK, instance: str = "") -> None:
        self._clock = clock
        self._instance = instance or socket.gethostname()
        self._waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue(_MOST_WAITING)
        self._told: dict[tuple[str, str], float] = {}

    def note(self, kept: KeptValue) -> None:
        """Queue an Event, unless the object got one for this rule within the hour, or the queue is full."""
        about, now = _regarding(kept.obj), self._clock.monotonic()
        if about is None:
            return
        key = about["uid"], kept.failed.rule
        if now - self._told.get(key, now - _AGAIN_SECONDS) < _AGAIN_SECONDS:
            return
        note = f"{kept.failed}; the field is kept as it is, and other versions do not show it"
        body = event_body(
            regarding=about,
            type="Warning",
            reason="ConversionKept",
            action="Convert",
            note=note,
            at=self._clock.now(),
            controller=_CONTROLLER,
            instance=self._instance,
        )
        try:
            self._waiting.put_nowait(body)
        except asyncio.QueueFull:
            return
        if len(self._told) >= _MOST_REMEMBERED:
            self._told.clear()
        self._told[key] = now

    async def run(self, cluster: Cluster) -> None:
        """Write the queued Events one by one until cancelled."""
        while True:
            await write_event(cluster, await self._waiting.get())


def _regarding(obj: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the ``regarding`` reference of an Event; None for an object that is not stored yet."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return None
    found = {name: metadata.get(name) for name in ("name", "namespace", "uid")}
    found |= {name: obj.get(name) for name in ("apiVersion", "kind")}
    texts = {name: text for name, text in found.items() if isinstance(text, str) and text}
    return texts if {"name", "uid", "apiVersion", "kind"} <= texts.keys() else None

"""The clock as a parameter, so that tests control the time.

Decisions about time (due, overdue, expired) use ``monotonic``. Timers that only wake a task run on the event loop; the
task then reads ``monotonic`` again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """A source of time.

    Attributes:
        monotonic: seconds since some fixed moment; never goes back.
        now: the wall clock, with a time zone; for output, for times that an API writes, and to notice that it was set.
        sleep: waits for some seconds.
    """

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _utc_now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


SYSTEM_CLOCK = Clock()


def micro_time(moment: datetime) -> str:
    """Return a time as ``metav1.MicroTime`` writes it: in UTC, with six decimal places."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

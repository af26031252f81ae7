"""The time that this room's shell modules live by, passed in so that a test can hold it still.

What is decided from time (due, overdue, expired) is decided from ``monotonic``; timers that only wake a task up run
on the event loop, and whoever is woken asks ``monotonic`` again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

__all__ = ["SYSTEM_CLOCK", "Clock", "micro_time"]


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """A source of time.

    Attributes:
        monotonic: seconds since some fixed moment; never goes back.
        now: the wall clock, with a time zone; only for what people and other programs read.
        sleep: waits for some seconds.
    """

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _utc_now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


SYSTEM_CLOCK = Clock()


def micro_time(moment: datetime) -> str:
    """Return a moment as ``metav1.MicroTime`` is written: in UTC, with six digits behind the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

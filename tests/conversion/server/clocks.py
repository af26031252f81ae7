"""Time that stands still until a test moves it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from restow.kube.clock import Clock


@dataclass
class HeldClock:
    """A clock that a test holds. Sleeping moves it, and lets others run once."""

    seconds: float = 1000.0
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    slept: list[float] = field(default_factory=list)

    def clock(self) -> Clock:
        """Return the clock as others see it."""
        return Clock(monotonic=lambda: self.seconds, now=self.now, sleep=self.sleep)

    def now(self) -> datetime:
        """The wall clock."""
        return self.began + timedelta(seconds=self.seconds - 1000.0)

    async def sleep(self, seconds: float) -> None:
        """Be there at once."""
        self.slept.append(seconds)
        self.seconds += seconds
        await asyncio.sleep(0)

"""How long a leader may go on: two timers around its work, which only a renewal of the lease pushes out.

So no hung request, no starved event loop and no forgotten check can prolong a leadership. At ``renew_deadline`` after
the last renewal the work is cancelled; if it still runs when others may take the lease, it is cancelled once more,
which restow's controllers take for "at once".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from restow.kube.clock import Clock
from restow.kube.election import LeaseTiming

__all__ = ["Tenure"]


class Tenure:
    """The time for which this process may lead: two timers around the body, pushed out by each renewal."""

    def __init__(self, timing: LeaseTiming, clock: Clock) -> None:
        self._timing = timing
        self._clock = clock
        self._leading = asyncio.timeout(None)
        self._protected = asyncio.timeout(None)

    @property
    def lost(self) -> bool:
        """Whether the body was cancelled because the lease was not renewed in time, or is someone else's."""
        return self._leading.expired()

    @property
    def overrun(self) -> bool:
        """Whether the body still ran when others could take the lease, and was cancelled once more."""
        return self._protected.expired()

    async def run(self, body: Callable[[], Awaitable[None]], since: float) -> None:
        """Run the body.

        Raises:
            TimeoutError: it was cancelled for the loss.
        """
        async with self._protected, self._leading:
            self.prolong(since)
            await body()

    def prolong(self, renewed_at: float) -> None:
        """Push the timers out after a renewal that was sent at ``renewed_at``."""
        if not self.lost:
            offset = asyncio.get_running_loop().time() - self._clock.monotonic()
            self._leading.reschedule(offset + renewed_at + self._timing.renew_deadline)
            self._protected.reschedule(offset + renewed_at + self._timing.lease_duration)

    def end(self) -> None:
        """Cancel the body now."""
        if not self.lost:
            self._leading.reschedule(asyncio.get_running_loop().time())

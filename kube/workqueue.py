"""The queue between a controller's sources and its workers: waiting for what ``Schedule`` says.

Any number of workers of one event loop may wait in ``get``. Closing wakes them all; what still waits is dropped,
since a level-triggered controller lists everything again when it starts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from restow.kube.backoff import Backoff
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.schedule import Schedule

__all__ = ["RETRY_BACKOFF", "QueueClosed", "WorkQueue"]

_K = TypeVar("_K", bound=Hashable)

RETRY_BACKOFF = Backoff(first=0.1, most=300.0)


class QueueClosed(Exception):
    """Raised by ``get`` when the queue was closed."""


class WorkQueue(Generic[_K]):
    """A keyed queue with due times; see ``restow.kube.schedule`` for its laws.

    Args:
        backoff: delays after failures of one key.
        clock: its ``monotonic``.
        chance: random numbers from [0, 1), for the jitter of the delays.
    """

    def __init__(
        self,
        backoff: Backoff = RETRY_BACKOFF,
        *,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._schedule: Schedule[_K] = Schedule(backoff)
        self._clock = clock
        self._chance = chance
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def __len__(self) -> int:
        """How many keys wait, due or not."""
        return len(self._schedule)

    @property
    def busy(self) -> int:
        """How many keys are being worked on."""
        return self._schedule.busy

    def add(self, key: _K) -> None:
        """Ask for ``key`` now."""
        self.add_after(key, 0.0)

    def add_after(self, key: _K, seconds: float) -> None:
        """Ask for ``key`` in some seconds; an earlier time that it already waits for stands."""
        self._schedule.add(key, self._clock.monotonic() + max(0.0, seconds))
        self._changed.set()

    def retry(self, key: _K, *, at_least: float = 0.0) -> float:
        """Count a failure of ``key``, ask for it after its back-off (or ``at_least`` seconds), return the delay."""
        delay = self._schedule.retry(key, self._clock.monotonic(), self._chance(), at_least=at_least)
        self._changed.set()
        return delay

    def forget(self, key: _K) -> None:
        """Forget the failures of ``key``."""
        self._schedule.forget(key)

    def failures(self, key: _K) -> int:
        """How many times in a row ``key`` failed."""
        return self._schedule.failures(key)

    async def get(self) -> _K:
        """Wait for the next due key; ``done`` has to follow.

        Raises:
            QueueClosed: the queue was closed.
        """
        while not self._closed:
            now = self._clock.monotonic()
            key = self._schedule.take(now)
            if key is not None:
                self._idle.clear()
                return key
            due = self._schedule.next_due()
            await self._change(None if due is None else due - now)
        msg = "the queue is closed"
        raise QueueClosed(msg)

    def done(self, key: _K) -> None:
        """Give back a key that ``get`` returned; if it was asked for meanwhile, it waits again."""
        self._schedule.done(key)
        if self._schedule.busy == 0:
            self._idle.set()
        self._changed.set()

    def close(self) -> None:
        """Hand out no more keys: every ``get``, also one that waits, raises QueueClosed."""
        self._closed = True
        self._changed.set()

    async def idle(self) -> None:
        """Wait until no key is being worked on; after ``close`` this is the end of all work."""
        await self._idle.wait()

    async def _change(self, seconds: float | None) -> None:
        """Wait until something was added, done or closed, or for some seconds."""
        # Nothing can come in between the look at the schedule and this: there is no await in between.
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

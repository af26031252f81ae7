"""The work queue between a controller's sources and its workers, as client-go's rate-limiting queue.

- A key waits once, at its earliest due time, however often it is added.
- One worker at a time has a key; a key that is added meanwhile waits again after ``done``.
- A failed key waits with exponential back-off until ``forget``.

Any number of workers of one event loop may wait in ``get``. Closing wakes them all and drops the waiting keys: a
level-triggered controller lists everything again when it starts.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable, Hashable
from itertools import count
from typing import Generic, TypeVar

from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.retry import Backoff

_K = TypeVar("_K", bound=Hashable)

RETRY_BACKOFF = Backoff(first=0.1, most=300.0)

_SLACK = 64  # outdated heap entries that are tolerated before a clean-up


class QueueClosed(Exception):
    """The queue is closed."""


class WorkQueue(Generic[_K]):
    """A queue of keys with due times; see the module.

    Args:
        backoff: the delays after failures of one key.
        clock: gives ``monotonic``.
        chance: random numbers from [0, 1), for the jitter of the delays.
    """

    def __init__(
        self,
        backoff: Backoff = RETRY_BACKOFF,
        *,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._backoff = backoff
        self._clock = clock
        self._chance = chance
        self._waiting: dict[_K, tuple[float, int]] = {}
        self._busy: set[_K] = set()
        self._again: dict[_K, float] = {}
        self._failures: dict[_K, int] = {}
        # An entry is valid only if _waiting has the same time: moving a key forward leaves its old entry in the heap.
        self._heap: list[tuple[float, int, _K]] = []
        self._order = count()
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def __len__(self) -> int:
        """The number of waiting keys, due or not."""
        return len(self._waiting)

    @property
    def busy(self) -> int:
        """The number of keys that workers have."""
        return len(self._busy)

    def add(self, key: _K) -> None:
        """Add a key that is due now."""
        self.add_after(key, 0.0)

    def add_after(self, key: _K, seconds: float) -> None:
        """Add a key that is due in some seconds; an earlier due time is kept."""
        self._add_at(key, self._clock.monotonic() + max(0.0, seconds))
        self._changed.set()

    def retry(self, key: _K, *, at_least: float = 0.0) -> float:
        """Count a failure of a key, add it after its back-off (or ``at_least`` seconds), and return the delay."""
        self._failures[key] = self.failures(key) + 1
        delay = self._backoff.delay(self._failures[key], self._chance(), at_least)
        self.add_after(key, delay)
        return delay

    def forget(self, key: _K) -> None:
        """Reset the back-off of a key that succeeded or is gone."""
        self._failures.pop(key, None)

    def failures(self, key: _K) -> int:
        """Return how many times in a row a key has failed."""
        return self._failures.get(key, 0)

    def next_due(self) -> float | None:
        """Return when the next key is due, or None if none waits."""
        while self._heap and not self._counts(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self) -> _K | None:
        """Return the key that has been due longest, or None if none is due; call ``done`` with it afterwards."""
        due = self.next_due()
        if due is None or due > self._clock.monotonic():
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._waiting[key]
        self._busy.add(key)
        self._idle.clear()
        return key

    async def get(self) -> _K:
        """Wait for the next due key; call ``done`` with it afterwards.

        Raises:
            QueueClosed: the queue is closed.
        """
        while not self._closed:
            if (key := self.take()) is not None:
                return key
            due = self.next_due()
            await self._change(None if due is None else due - self._clock.monotonic())
        msg = "the queue is closed"
        raise QueueClosed(msg)

    def done(self, key: _K) -> None:
        """Return a key that was taken to the queue; if it was added meanwhile, it waits again.

        Raises:
            KeyError: the key was not taken.
        """
        self._busy.remove(key)
        if key in self._again:
            self._add_at(key, self._again.pop(key))
        if not self._busy:
            self._idle.set()
        self._changed.set()

    def close(self) -> None:
        """Close the queue: every ``get``, including waiting ones, raises QueueClosed."""
        self._closed = True
        self._changed.set()

    async def idle(self) -> None:
        """Wait until no worker has a key; after ``close`` this is the end of all work."""
        await self._idle.wait()

    async def _change(self, seconds: float | None) -> None:
        """Wait for ``add``, ``done`` or ``close``, or for some seconds."""
        # There is no await between reading the waiting keys and this line, so no change is missed.
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _add_at(self, key: _K, due: float) -> None:
        if key in self._busy:
            self._again[key] = min(due, self._again.get(key, due))
        elif key not in self._waiting or due < self._waiting[key][0]:
            order = next(self._order)
            self._waiting[key] = (due, order)
            heapq.heappush(self._heap, (due, order, key))
            self._drop_outdated()

    def _counts(self, entry: tuple[float, int, _K]) -> bool:
        return self._waiting.get(entry[2]) == entry[:2]

    def _drop_outdated(self) -> None:
        if len(self._heap) > 2 * len(self._waiting) + _SLACK:
            self._heap = [entry for entry in self._heap if self._counts(entry)]
            heapq.heapify(self._heap)

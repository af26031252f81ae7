"""Which key is to be worked on next, and when: the bookkeeping of a controller's queue. Pure, the time passed in.

Laws (those of client-go's workqueue, with due times):

- a key waits once, at the earliest of the times it was asked for;
- a key that is being worked on is never handed out; asked for meanwhile, it waits again as soon as it is done;
- keys come in the order of their due times, equal ones first in, first out;
- failures count per key until ``forget``.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from itertools import count
from typing import Generic, TypeVar

from restow.kube.backoff import Backoff

__all__ = ["Schedule"]

_K = TypeVar("_K", bound=Hashable)

_SLACK = 64  # outdated heap entries that are never worth a clean-up


class Schedule(Generic[_K]):
    """Keys that wait and keys that are worked on. Times are seconds of one monotonic clock."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._waiting: dict[_K, tuple[float, int]] = {}
        self._busy: set[_K] = set()
        self._again: dict[_K, float] = {}
        self._failures: dict[_K, int] = {}
        # An entry counts only while _waiting agrees: moving a key forward leaves its old entry behind.
        self._heap: list[tuple[float, int, _K]] = []
        self._order = count()

    def __len__(self) -> int:
        """How many keys wait, due or not."""
        return len(self._waiting)

    @property
    def busy(self) -> int:
        """How many keys are being worked on."""
        return len(self._busy)

    def add(self, key: _K, due: float) -> None:
        """Ask for ``key`` at ``due``."""
        if key in self._busy:
            self._again[key] = min(due, self._again.get(key, due))
        elif key not in self._waiting or due < self._waiting[key][0]:
            order = next(self._order)
            self._waiting[key] = (due, order)
            heapq.heappush(self._heap, (due, order, key))
            self._drop_outdated()

    def take(self, now: float) -> _K | None:
        """Hand out the key that has been due the longest, or None if none is due; ``done`` has to follow."""
        due = self.next_due()
        if due is None or due > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._waiting[key]
        self._busy.add(key)
        return key

    def done(self, key: _K) -> None:
        """Give back a key that was taken.

        Raises:
            KeyError: it was not.
        """
        self._busy.remove(key)
        if key in self._again:
            self.add(key, self._again.pop(key))

    def next_due(self) -> float | None:
        """When the next key is due; None if none waits."""
        while self._heap and not self._counts(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def retry(self, key: _K, now: float, chance: float, *, at_least: float = 0.0) -> float:
        """Count a failure of ``key`` and ask for it after the back-off, or ``at_least`` seconds; return which."""
        self._failures[key] = self.failures(key) + 1
        delay = max(at_least, self._backoff.delay(self._failures[key], chance))
        self.add(key, now + delay)
        return delay

    def forget(self, key: _K) -> None:
        """Forget the failures of ``key``: it succeeded, or is gone."""
        self._failures.pop(key, None)

    def failures(self, key: _K) -> int:
        """How many times in a row ``key`` failed."""
        return self._failures.get(key, 0)

    def _counts(self, entry: tuple[float, int, _K]) -> bool:
        return self._waiting.get(entry[2]) == entry[:2]

    def _drop_outdated(self) -> None:
        if len(self._heap) > 2 * len(self._waiting) + _SLACK:
            self._heap = [entry for entry in self._heap if self._counts(entry)]
            heapq.heapify(self._heap)

"""Deal the objects of a list to worker processes: who gets the next batch, and what a lost worker leaves.

Each worker has a bounded backlog of objects that it was dealt and has not answered for, so that memory does not grow
with the number of objects, and a slow worker does not keep many of them waiting. The next batch goes to the worker with
the smallest backlog. The result depends only on the calls, so a test can repeat it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["MOST_BYTES", "MOST_OBJECTS", "Dealing", "shares"]


MOST_OBJECTS = 200
"""Objects in the backlog of one worker: two batches, so that it begins the second while the answers to the first one
travel."""

MOST_BYTES = 8 * 2**20
"""Bytes in the backlog of one worker, beyond which it gets no further batch."""


@dataclass(slots=True)
class _Backlog:
    """What one worker was dealt and has not answered for: the size of each object in bytes, by its number."""

    sizes: dict[int, int] = field(default_factory=dict)
    bytes: int = 0


class Dealing:
    """The backlogs of the workers, by the index of each.

    Args:
        most_objects: no further batch goes to a worker whose backlog would then have more objects; one without a
            backlog takes a batch of any size.
        most_bytes: the same, in bytes.
    """

    def __init__(self, *, most_objects: int = MOST_OBJECTS, most_bytes: int = MOST_BYTES) -> None:
        self._most_objects = most_objects
        self._most_bytes = most_bytes
        self._backlogs: dict[int, _Backlog] = {}

    def __len__(self) -> int:
        """Return how many objects were dealt and not answered for."""
        return sum(len(backlog.sizes) for backlog in self._backlogs.values())

    def join(self, worker: int) -> None:
        """Let a worker take part; its backlog is empty."""
        self._backlogs[worker] = _Backlog()

    def leave(self, worker: int) -> tuple[int, ...]:
        """Take a worker out; return the numbers of the objects that it did not answer for, in order."""
        return tuple(sorted(self._backlogs.pop(worker, _Backlog()).sizes))

    def choose(self, objects: int, size: int) -> int | None:
        """Return the worker for the next batch; None while no worker has room.

        Args:
            objects: how many the batch has.
            size: of the batch, in bytes.
        """
        free = [
            (len(backlog.sizes), backlog.bytes, worker)
            for worker, backlog in self._backlogs.items()
            if not backlog.sizes
            or (len(backlog.sizes) + objects <= self._most_objects and backlog.bytes + size <= self._most_bytes)
        ]
        return min(free)[2] if free else None

    def deal(self, worker: int, sizes: Mapping[int, int]) -> None:
        """Put objects (bytes by number) into a worker's backlog."""
        backlog = self._backlogs[worker]
        backlog.sizes.update(sizes)
        backlog.bytes += sum(sizes.values())

    def answered(self, worker: int, numbers: Iterable[int]) -> None:
        """Take objects out of a worker's backlog."""
        backlog = self._backlogs[worker]
        for number in numbers:
            backlog.bytes -= backlog.sizes.pop(number)


def shares(whole: int, count: int) -> tuple[int, ...]:
    """Split a number into ``count`` parts that differ by one at most, the larger ones first."""
    part, more = divmod(whole, count)
    return tuple(part + (index < more) for index in range(count))

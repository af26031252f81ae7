"""Whose request a worker takes next, so that no kind takes the workers from the others.

Kinds take turns, and no two requests of one kind are at work at once. A request first gets ``FIRST_S`` seconds of CPU
time. One that needs more makes its kind slow for a while, and gets ``MOST_S`` seconds for each object in the slow lane,
which all slow kinds share: the other lane is only for kinds that are not slow. A kind of which an object needs still
more, or ends its worker again and again, is refused for a while, longer each time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from restow.kube.clock import Clock

FIRST_S: Final = 0.25
MOST_S: Final = 10.0

_SLOW_S: Final = 60.0  # for how long a kind is slow after its last long request
_REFUSED_S: Final = (10.0, 300.0)  # for how long a kind is refused, at first and at most
_FORGIVEN_S: Final = 1800.0  # after which the next refusal is as short as the first one

#: How many requests of a kind may wait, and how many bytes they may have unless there is only one.
_MOST_WAITING: Final = 64
_MOST_BYTES: Final = 48 * 1024 * 1024


class QueueOfKindFull(Exception):
    """Too many requests of this kind wait."""


@dataclass(slots=True, eq=False)
class Job:
    """A request of a kind: ``task`` and ``body`` are for the worker, ``result`` is for who asked.

    ``ends`` has the index of the object at work for each worker that ended in the slow lane.
    """

    kind: str
    task: Any
    body: bytes
    result: asyncio.Future[Any]
    ends: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Kind:
    waiting: deque[Job] = field(default_factory=deque)
    is_at_work: bool = False
    slow_until: float = 0.0
    refused_until: float = 0.0
    refusals: int = 0


class Turns:
    """The requests that wait, by kind."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}  # in the order of their turns

    def is_refused(self, kind: str) -> bool:
        """Return whether a kind is refused now."""
        known = self._kinds.get(kind)
        return known is not None and known.refused_until > self._clock.monotonic()

    def is_slow(self, kind: str) -> bool:
        """Return whether a kind belongs into the slow lane."""
        known = self._kinds.get(kind)
        return known is not None and known.slow_until > self._clock.monotonic()

    def add(self, job: Job, *, again: bool = False) -> None:
        """Add a request; ``again`` if it was taken before.

        Raises:
            QueueOfKindFull: too many requests of its kind wait.
        """
        known = self._kinds.setdefault(job.kind, _Kind())
        if again:
            known.waiting.appendleft(job)
            return
        size = len(job.body) + sum(len(each.body) for each in known.waiting)
        if known.waiting and (len(known.waiting) >= _MOST_WAITING or size > _MOST_BYTES):
            raise QueueOfKindFull(job.kind)
        known.waiting.append(job)

    def take(self, *, slow: bool) -> Job | None:
        """Return the next request for a lane; the slow lane serves other kinds too while no slow one waits."""
        for lane in (True, False) if slow else (False,):
            for name, known in self._kinds.items():
                while known.waiting and known.waiting[0].result.done():  # cancelled by who asked
                    known.waiting.popleft()
                if known.waiting and not known.is_at_work and self.is_slow(name) is lane:
                    known.is_at_work = True
                    self._kinds[name] = self._kinds.pop(name)
                    return known.waiting.popleft()
        return None

    def ended(self, job: Job, seconds: float) -> None:
        """Note that a request is at work no more, and how many seconds of CPU time it took."""
        known = self._kinds[job.kind]
        known.is_at_work = False
        if seconds >= FIRST_S / 2:
            known.slow_until = self._clock.monotonic() + _SLOW_S

    def gave_up(self, kind: str) -> list[Job]:
        """Refuse a kind for a while; return its requests that wait, which are dropped."""
        known, now = self._kinds[kind], self._clock.monotonic()
        known.refusals = known.refusals + 1 if now - known.refused_until < _FORGIVEN_S else 1
        first, most = _REFUSED_S
        known.refused_until = now + min(first * 2 ** (known.refusals - 1), most)
        dropped = [*known.waiting]
        known.waiting.clear()
        return dropped

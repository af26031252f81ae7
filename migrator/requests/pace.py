"""Limit the load on the API server by a window of writes in flight and by a rate.

The window follows the rules of TCP: slow start, then additive increase and multiplicative decrease (AIMD). One write at
a time reaches about half of an API server's rate, enough writes in flight reach all of it (`docs/benchmarks.md`), and
the server's own 429s show when there are too many. ``WriteWindow`` and ``Bucket`` compute, with the clock as an
argument; ``Limiter`` waits until a write may be sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

_T = TypeVar("_T")

_START = 8.0
_DECREASE_PERIOD = 1.0  # seconds: all answers to one burst lower the window once, not once each


@dataclass(frozen=True, slots=True)
class WriteWindow:
    """The number of writes that may be in flight.

    Attributes:
        most: the configured limit.
        size: the current limit; its integer part counts, at least 1.
        lowered_at: the time of the last decrease.
    """

    most: int
    size: float
    lowered_at: float = float("-inf")

    @classmethod
    def starting(cls, most: int) -> WriteWindow:
        """Return a window before the first write."""
        return cls(most=most, size=min(_START, most))

    @property
    def limit(self) -> int:
        """The number of writes allowed in flight."""
        return max(1, int(self.size))

    @property
    def full_size(self) -> bool:
        """Whether the window cannot grow with further successes."""
        return self.size >= self.most

    def after_success(self) -> WriteWindow:
        """Return a larger window: by 1 per success until the first 429, then by 1 per window of successes."""
        objected = self.lowered_at > float("-inf")
        return replace(self, size=min(float(self.most), self.size + (1.0 / self.size if objected else 1.0)))

    def after_slow_down(self, now: float) -> WriteWindow:
        """Return a window of half the size, at most once a second."""
        if now - self.lowered_at < _DECREASE_PERIOD:
            return self
        return replace(self, size=max(1.0, self.size / 2), lowered_at=now)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A rate of writes per second, as the time at which the next one may start."""

    rate: float
    next_at: float = float("-inf")

    def take(self, now: float) -> tuple[Bucket, float]:
        """Book one write; return the bucket after it and the seconds to wait before sending it."""
        start = max(now, self.next_at)
        return replace(self, next_at=start + 1.0 / self.rate), start - now


class Limiter:
    """``async with limiter:`` around each write.

    Args:
        concurrency: the most writes in flight.
        rate: the most writes per second, or None.
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, *, concurrency: int, rate: float | None, clock: Callable[[], float]) -> None:
        self._window = WriteWindow.starting(concurrency)
        self._bucket = Bucket(rate) if rate is not None else None
        self._clock = clock
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        while self._in_flight >= self._window.limit:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._wake()  # the cancelled task may have received the turn
                raise
        self._in_flight += 1
        if self._bucket is not None:
            try:
                await self._keep_rate()
            except asyncio.CancelledError:
                self._leave()
                raise

    async def __aexit__(self, *_error: object) -> None:
        self._leave()

    @property
    def limit(self) -> int:
        """The number of writes currently allowed in flight."""
        return self._window.limit

    def succeeded(self) -> None:
        """Report a successful write."""
        if not self._window.full_size:
            self._window = self._window.after_success()
            self._wake()

    def slow_down(self) -> None:
        """Report that the server asked for less load."""
        self._window = self._window.after_slow_down(self._clock())

    async def _keep_rate(self) -> None:
        assert self._bucket is not None
        self._bucket, wait = self._bucket.take(self._clock())
        if wait > 0:
            await asyncio.sleep(wait)

    def _leave(self) -> None:
        self._in_flight -= 1
        self._wake()

    def _wake(self) -> None:
        room = self._window.limit - self._in_flight
        while self._waiting and room > 0:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                room -= 1


async def each_of(items: Iterable[_T], do: Callable[[_T], Awaitable[None]], at_once: int) -> None:
    """Call a function for each item, with a few calls at a time."""
    rest = iter(items)

    async def work() -> None:
        for item in rest:
            await do(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())

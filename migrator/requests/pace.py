"""How much load the API server is given: a window of writes in flight, and a rate.

The window follows the rules of TCP: slow start, then additive increase and multiplicative decrease (AIMD). One write
at a time reaches about half of an API server's rate, enough in flight reach all of it (`docs/benchmarks.md`), and the
server's own 429s say when it is too many. ``Window`` and ``Bucket`` compute, with the clock as an argument; ``Limiter``
waits until a write may be sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

__all__ = ["Bucket", "Limiter", "WriteWindow"]


_START = 8.0
_DECREASE_PERIOD = 1.0  # seconds: the answers to one burst say "slow down" once, not once each


@dataclass(frozen=True, slots=True)
class WriteWindow:
    """How many writes may be in flight.

    Attributes:
        most: the limit that was asked for.
        size: the limit now; its whole part counts, at least 1.
        lowered_at: clock of the last decrease.
    """

    most: int
    size: float
    lowered_at: float = float("-inf")

    @classmethod
    def starting(cls, most: int) -> WriteWindow:
        """A window that has seen nothing yet."""
        return cls(most=most, size=min(_START, most))

    @property
    def limit(self) -> int:
        """Writes allowed in flight."""
        return max(1, int(self.size))

    @property
    def full_size(self) -> bool:
        """Whether there is nothing to win by further successes."""
        return self.size >= self.most

    def after_success(self) -> WriteWindow:
        """One more write in flight for every success until the server first objects, then for every window's worth."""
        objected = self.lowered_at > float("-inf")
        return replace(self, size=min(float(self.most), self.size + (1.0 / self.size if objected else 1.0)))

    def after_slow_down(self, now: float) -> WriteWindow:
        """Half as many, at most once a second."""
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
                self._wake()  # the turn may have been given to the task that is being cancelled
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
        """Writes allowed in flight now."""
        return self._window.limit

    def succeeded(self) -> None:
        """Tell that a write was answered well."""
        if not self._window.full_size:
            self._window = self._window.after_success()
            self._wake()

    def slow_down(self) -> None:
        """Tell that the server asked for less load."""
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

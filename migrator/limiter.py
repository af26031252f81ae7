"""The shell of ``pace``: waits until a write may be sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from restow.migrator.pace import Bucket, Window

__all__ = ["Limiter"]


class Limiter:
    """``async with limiter:`` around each write.

    Args:
        concurrency: the most writes in flight.
        rate: the most writes per second, or None.
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, *, concurrency: int, rate: float | None, clock: Callable[[], float]) -> None:
        self._window = Window.starting(concurrency)
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

"""Places for work that takes memory: as many bytes as may be at work at once, those who wait in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Full", "Lane"]


class Full(Exception):
    """There is no place, and too many wait for one."""


class Lane:
    """Bytes that may be at work at once; first come, first served.

    Args:
        most: bytes; a piece of work that has more goes alone.
        waiting: bytes of those who wait; beyond, one is sent away at once.
    """

    def __init__(self, most: int, waiting: int) -> None:
        self._most = self._free = most
        self._may_wait = waiting
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def place(self, size: int) -> AsyncIterator[None]:
        """Wait for a place, and keep it until the end of the block. Raises Full."""
        size = min(size, self._most)
        if self._waiting or size > self._free:
            await self._wait(size)
        else:
            self._free -= size
        try:
            yield
        finally:
            self._give(size)

    async def _wait(self, size: int) -> None:
        if size > self._may_wait:
            raise Full
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        self._may_wait -= size
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._admit()
            else:
                self._give(size)
            raise
        finally:
            self._may_wait += size

    def _give(self, size: int) -> None:
        self._free += size
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.cancelled():
                if size > self._free:
                    return
                self._free -= size
                turn.set_result(None)
            self._waiting.popleft()

"""Places for work that takes memory: as much as may be taken at once, those who wait in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Full", "Lane"]


class Full(Exception):
    """There is no place, and too many wait for one."""


class Lane:
    """Memory that may be taken at once; first come, first served.

    Args:
        most: bytes of memory; work that takes more goes alone.
        waiting: bytes of those who wait, as they came; beyond, one is sent away at once.
    """

    def __init__(self, most: int, waiting: int) -> None:
        self._most = self._free = most
        self._may_wait = waiting
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def place(self, cost: int, size: int) -> AsyncIterator[None]:
        """Wait for a place, and keep it until the end of the block.

        ``cost`` is the memory that is taken, ``size`` what is held while waiting, both in bytes.

        Raises:
            Full: there is no room for it.
        """
        cost = min(cost, self._most)
        if self._waiting or cost > self._free:
            await self._wait(cost, size)
        else:
            self._free -= cost
        try:
            yield
        finally:
            self._give(cost)

    async def _wait(self, cost: int, size: int) -> None:
        if size > self._may_wait:
            raise Full
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((cost, turn))
        self._may_wait -= size
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._admit()
            else:
                self._give(cost)
            raise
        finally:
            self._may_wait += size

    def _give(self, cost: int) -> None:
        self._free += cost
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            cost, turn = self._waiting[0]
            if not turn.cancelled():
                if cost > self._free:
                    return
                self._free -= cost
                turn.set_result(None)
            self._waiting.popleft()

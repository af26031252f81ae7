"""Long work in short turns, so that probes, leases and small reviews never wait long for a large one.

One event loop does everything. Work that takes longer than a turn goes on in further turns, one turn of one piece of
work in each round of the loop: ten large reviews at once hold the others up no longer than one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import perf_counter

__all__ = ["Turns"]


class Turns:
    """Drives iterators; `seconds` is the length of a turn, exceeded by no more than one step."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._turn = asyncio.Lock()

    async def drive(self, steps: Iterator[object]) -> None:
        """Exhaust an iterator, in turns. Others who do the same come in between, in the order they asked."""
        done = False
        while not done:
            async with self._turn:
                await asyncio.sleep(0)
                done = self._take(steps)

    def _take(self, steps: Iterator[object]) -> bool:
        until = perf_counter() + self._seconds
        for _ in steps:  # noqa: SIM110 - what a step yields does not matter
            if perf_counter() >= until:
                return False
        return True

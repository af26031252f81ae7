"""Long work in short turns, so that probes, leases and small reviews never wait long for a large one.

One event loop does everything. Work that takes longer than a turn goes on in further turns, one turn of one piece of
work in each round of the loop: ten large reviews at once hold the others up no longer than one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Final, ParamSpec, TypeVar

__all__ = ["TimeSlices", "offload"]


P = ParamSpec("P")
T = TypeVar("T")

#: What is about no more bytes than these is done in one go: that takes less than a turn.
_SMALL: Final = 128 * 1024

#: After how many seconds a busy thread leaves the interpreter to another one. By default it is 5 ms, for which the
#: event loop would wait whenever it has read from a socket: seconds for a probe, while large bodies arrive.
_SWITCH_SECONDS: Final = 0.0005

_thread: Final = ThreadPoolExecutor(1, "aside", initializer=lambda: sys.setswitchinterval(_SWITCH_SECONDS))


async def offload(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a pure function makes of ``size`` bytes; of many it makes it in the thread for that.

    For work that does not come in steps. The interpreter switches between threads, so that the event loop goes on
    meanwhile. There is one thread: each that is busy has the loop wait longer, and none is faster for a second.
    What is cancelled is done all the same.
    """
    if size <= _SMALL:
        return function(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_thread, partial(function, *args, **kwargs))


class TimeSlices:
    """Drives iterators; ``seconds`` is the length of a turn, exceeded by no more than one step."""

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

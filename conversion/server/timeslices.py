"""Runs long work in short time slices, so that probes, leases and small reviews never wait long for a large one.

One event loop does everything. Work that takes longer than a time slice continues in further slices. Each round of the
loop runs one slice, so ten large reviews at once delay the others no longer than one does. Kinds take turns, and so do
the reviews of one kind: ten reviews of one kind delay another kind no longer than one does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: Work on at most this many bytes runs at once, because it takes less than a time slice.
_SMALL: Final = 128 * 1024

#: After how many seconds a busy thread releases the interpreter to another one. With the default of 5 ms the event loop
#: would wait that long after every read from a socket: a probe would take seconds while large bodies arrive.
_SWITCH_SECONDS: Final = 0.0005

_thread: Final = ThreadPoolExecutor(1, "aside", initializer=lambda: sys.setswitchinterval(_SWITCH_SECONDS))


async def offload(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of a pure function over ``size`` bytes; above a limit it runs in a separate thread.

    Use it for work that cannot be divided into steps. The interpreter switches between threads, so the event loop
    continues meanwhile. There is one such thread: a second one would be no faster, and each busy thread makes the loop
    wait longer. Cancelling the caller does not stop the function.
    """
    if size <= _SMALL:
        return function(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_thread, partial(function, *args, **kwargs))


class TimeSlices:
    """Drives iterators; ``seconds`` is the length of a time slice, exceeded by no more than one step."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._slice = asyncio.Lock()
        self._kinds: dict[str, asyncio.Lock] = {}

    async def drive(self, kind: str, steps: Iterator[object]) -> None:
        """Exhaust an iterator in time slices. Other callers run in between, in the order of their calls."""
        own = self._kinds.setdefault(kind, asyncio.Lock())
        done = False
        while not done:
            async with own, self._slice:
                await asyncio.sleep(0)
                done = self._take(steps)

    def _take(self, steps: Iterator[object]) -> bool:
        until = perf_counter() + self._seconds
        for _ in steps:  # noqa: SIM110 - what a step yields does not matter
            if perf_counter() >= until:
                return False
        return True

"""Virtual time: an event loop whose clock moves only when everything waits, and then at once to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import pytest

RunInVirtualTime: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]


class _Selector(selectors.DefaultSelector):
    """Instead of waiting, lets the clock jump; sockets of this process get a moment to be ready before that."""

    virtual_now = 1000.0
    moment = 0.02

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # One file descriptor is the loop's own.
        sockets = len(self.get_map()) > 1
        ready = super().select(self.moment if sockets and timeout != 0 else 0)
        if not ready and timeout is None:
            msg = "everything waits, and nothing will ever happen"
            raise RuntimeError(msg)
        if not ready and timeout is not None:
            self.virtual_now += max(0.0, timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The loop; its ``time`` is the monotonic clock to pass to what is tested."""

    def __init__(self) -> None:
        self._clock_selector = _Selector()
        super().__init__(self._clock_selector)

    def time(self) -> float:
        return self._clock_selector.virtual_now


@pytest.fixture
def run_in_virtual_time() -> RunInVirtualTime:
    """Return what runs a coroutine in virtual time: hours cost nothing and each run is the same."""

    def run(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(main)

    return run

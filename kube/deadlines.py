"""One time limit for many blocks of code, and one timer of the event loop for all of them.

``asyncio.timeout`` and aiohttp's total timeout set a timer for each request and cancel it again, which costs 8 µs more
of CPU for each object that a migration writes. All requests of a client have the same limit, so the request that began
first reaches it first: it is enough to keep the requests in order, and a timer for the oldest one.
"""

from __future__ import annotations

import asyncio
import math
from types import TracebackType


class Deadlines:
    """A limit for each block that is begun with ``within``; the tasks of one event loop can share it.

    Args:
        seconds: how long a block may take; infinity for no limit.

    Raises:
        ValueError: the limit is not positive.
    """

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
            msg = f"a time limit of {seconds} s ends every request at once: give a positive number, or infinity"
            raise ValueError(msg)
        self._seconds = seconds
        self._open: dict[Deadline, None] = {}  # the oldest first
        self._timer: asyncio.TimerHandle | None = None

    def within(self) -> Deadline:
        """Return a context manager around one block, for ``with``, in a task.

        Raises:
            TimeoutError: at its end, if the limit was reached; the block was cancelled then.
        """
        return Deadline(self)

    def close(self) -> None:
        """Cancel the timer; blocks that are still open have no limit any more."""
        self._open.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self, deadline: Deadline) -> None:
        if self._seconds == math.inf:
            return
        loop = deadline.task.get_loop()
        deadline.when = loop.time() + self._seconds
        self._open[deadline] = None
        if self._timer is None:
            self._timer = loop.call_at(deadline.when, self._expire, loop)

    def _end(self, deadline: Deadline) -> None:
        self._open.pop(deadline, None)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the blocks whose limit is reached, and wait for the oldest of the others.

        The timer is often set for a block that ended long ago; then it only moves on.
        """
        self._timer, now = None, loop.time()
        while self._open:
            oldest = next(iter(self._open))
            if oldest.when > now:
                self._timer = loop.call_at(oldest.when, self._expire, loop)
                return
            del self._open[oldest]
            oldest.reach()


class Deadline:
    """The limit of one block; the same rules as those of ``asyncio.timeout``, which it stands in for."""

    __slots__ = ("_cancelling", "_deadlines", "_reached", "task", "when")

    task: asyncio.Task[object]
    when: float

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._reached = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            msg = "a deadline needs a task that can be cancelled: call this from a coroutine that a task runs"
            raise RuntimeError(msg)
        self.task = task
        self._cancelling = task.cancelling()
        self._deadlines._begin(self)  # noqa: SLF001 - of this module

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._deadlines._end(self)  # noqa: SLF001 - of this module
        # A task that others asked to cancel too, before or meanwhile, stays cancelled.
        if self._reached and self.task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def reach(self) -> None:
        """Cancel the block; its end raises TimeoutError."""
        self._reached = True
        self.task.cancel()

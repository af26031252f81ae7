"""The end of a run before its end: asked for from outside (SIGTERM), or because going on makes no sense."""

from __future__ import annotations

import asyncio

__all__ = ["Halt"]


class Halt:
    """A flag with a reason, and sleeps that end when it is raised.

    Args:
        requested: set from outside to end the run: no new object is begun, writes in flight are finished.
    """

    def __init__(self, requested: asyncio.Event | None = None) -> None:
        self._requested = requested or asyncio.Event()
        self._raised = asyncio.Event()
        self._why = ""

    def __bool__(self) -> bool:
        return self._raised.is_set() or self._requested.is_set()

    @property
    def why(self) -> str:
        """A sentence, or empty while nothing has been raised."""
        if self._why or not self._requested.is_set():
            return self._why
        return "the run was asked to stop"

    def because(self, why: str) -> None:
        """Raise the flag; the first reason stays."""
        self._why = self._why or why
        self._raised.set()

    async def wait(self) -> None:
        """Return once the flag is raised."""
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(event.wait()) for event in (self._raised, self._requested)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()

    async def sleep(self, seconds: float) -> None:
        """Sleep, or return at once when the flag is raised."""
        if seconds <= 0 or self:
            return
        try:
            async with asyncio.timeout(seconds):
                await self.wait()
        except TimeoutError:
            return

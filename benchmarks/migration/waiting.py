"""Waiting for a condition by polling."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

__all__ = ["until"]

_EVERY = 0.05  # seconds
_PATIENCE = 120.0  # seconds


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Poll a condition until it holds.

    Raises:
        TimeoutError: the condition does not hold in time.
    """
    async with asyncio.timeout(_PATIENCE):
        while True:
            if await condition():
                return
            await asyncio.sleep(_EVERY)

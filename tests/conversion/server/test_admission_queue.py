"""Places for work that takes memory."""

from __future__ import annotations

import asyncio

import pytest

from restow.conversion.server.admission import QueueFull, WeightedSemaphore


async def test_work_waits_for_its_place_in_its_order() -> None:
    """Two of the largest at once are twice the memory; and a small one that overtakes would starve a large one."""
    queue, order, free = WeightedSemaphore(10, 100), [], asyncio.Event()

    async def work(name: str, cost: int) -> None:
        async with queue.place(cost, 1):
            order.append(name)
            await free.wait()

    async with asyncio.TaskGroup() as group:
        for name, cost in (("a", 6), ("b", 6), ("c", 1), ("huge", 99)):
            group.create_task(work(name, cost))
            await asyncio.sleep(0)
        assert order == ["a"]
        free.set()
    assert order == ["a", "b", "c", "huge"]


async def test_who_gives_up_leaves_the_place_to_others() -> None:
    """A place that is not given back is lost for ever; the waiter is cancelled before, and just after, it got one."""
    queue = WeightedSemaphore(1, 10)

    async def take() -> None:
        async with queue.place(1, 1):
            pass

    for turns in (1, 0):
        async with queue.place(1, 1):
            waiting = asyncio.create_task(take())
            await asyncio.sleep(0)
            if turns:
                waiting.cancel()
        if not turns:
            waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(5):
            await take()


async def test_too_many_are_sent_away() -> None:
    """Waiting requests are in memory too, so their number needs a limit."""
    queue = WeightedSemaphore(1, 10)
    async with queue.place(1, 8):
        waiting = asyncio.create_task(_through(queue, 8))
        await asyncio.sleep(0)
        with pytest.raises(QueueFull):
            await _through(queue, 8)
    await waiting
    await _through(queue, 8)


async def _through(queue: WeightedSemaphore, size: int) -> None:
    async with queue.place(1, size):
        pass

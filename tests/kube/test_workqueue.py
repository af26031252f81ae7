"""Waiting for what the schedule says. Time is virtual: the loop's clock jumps to the next timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from restow.kube.clock import Clock
from restow.kube.retry import Backoff
from restow.kube.workqueue import QueueClosed, WorkQueue

Run = Callable[[Coroutine[Any, Any, None]], None]


def new_queue() -> WorkQueue[str]:
    clock = Clock(monotonic=asyncio.get_running_loop().time)
    return WorkQueue(Backoff(first=1.0, most=8.0), clock=clock, chance=lambda: 0.0)


def test_get_waits_for_the_due_time(run_in_virtual_time: Run) -> None:
    """A key asked for later comes then, not earlier, and not only when something else wakes the queue."""

    async def main() -> None:
        queue, loop = new_queue(), asyncio.get_running_loop()
        start = loop.time()
        queue.add_after("late", 3600)
        queue.add_after("soon", 5)
        assert len(queue) == 2
        assert [(await queue.get(), loop.time() - start) for _ in range(2)] == [("soon", 5), ("late", 3600)]

    run_in_virtual_time(main())


def test_an_earlier_key_wakes_those_who_wait(run_in_virtual_time: Run) -> None:
    """A worker that sleeps until a far due time must take up what comes in between."""

    async def main() -> None:
        queue, loop = new_queue(), asyncio.get_running_loop()
        start = loop.time()
        queue.add_after("late", 3600)
        async with asyncio.TaskGroup() as group:
            getting = group.create_task(queue.get())
            await asyncio.sleep(10)
            queue.add("now")
        assert (getting.result(), loop.time() - start) == ("now", 10)

    run_in_virtual_time(main())


def test_many_workers_never_share_a_key(run_in_virtual_time: Run) -> None:
    """While a key is in work other workers take other keys, and an event meanwhile brings it once more."""

    async def main() -> None:
        queue = new_queue()
        in_work: set[str] = set()
        worked: list[str] = []

        async def worker() -> None:
            while True:
                try:
                    key = await queue.get()
                except QueueClosed:
                    return
                assert key not in in_work
                in_work.add(key)
                await asyncio.sleep(1)
                worked.append(key)
                in_work.remove(key)
                queue.done(key)

        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(worker())
            for _ in range(4):
                for key in "abcde":
                    queue.add(key)
                await asyncio.sleep(0.4)
            await asyncio.sleep(60)
            queue.close()
        assert all(2 <= worked.count(key) <= 4 for key in "abcde")

    run_in_virtual_time(main())


def test_a_key_that_was_asked_for_in_work_wakes_another_worker(run_in_virtual_time: Run) -> None:
    """When a key is given back, a worker that already waits gets it, and not only the one who asks next."""

    async def main() -> None:
        queue = new_queue()
        queue.add("a")
        assert await queue.get() == "a"
        async with asyncio.TaskGroup() as group:
            getting = group.create_task(queue.get())
            await asyncio.sleep(1)
            queue.add("a")
            await asyncio.sleep(1)
            assert not getting.done()
            queue.done("a")
            await asyncio.sleep(1)
            assert getting.done()

    run_in_virtual_time(main())


def test_retry_waits_and_respects_the_server(run_in_virtual_time: Run) -> None:
    """A failed key comes back after its back-off, or when the server said, whichever is later."""

    async def main() -> None:
        queue, loop = new_queue(), asyncio.get_running_loop()
        queue.add("a")
        assert await queue.get() == "a"
        waits = []
        for at_least in (0.0, 0.0, 30.0, 0.0):
            failed = loop.time()
            said = queue.retry("a", at_least=at_least)
            queue.done("a")
            assert await queue.get() == "a"
            waits.append((said, loop.time() - failed))
        assert waits == [(0.5, 0.5), (1.0, 1.0), (30.0, 30.0), (4.0, 4.0)]
        assert queue.failures("a") == 4
        queue.forget("a")
        assert queue.retry("a") == 0.5

    run_in_virtual_time(main())


def test_close_wakes_everyone_and_drops_the_rest(run_in_virtual_time: Run) -> None:
    """After closing no worker gets a key or hangs, and idle tells when the last one has given its key back."""

    async def main() -> None:
        queue = new_queue()
        await asyncio.wait_for(queue.idle(), 1)
        queue.add("a")
        queue.add("b")
        assert {await queue.get(), await queue.get()} == {"a", "b"}
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(closed(queue)) for _ in range(3)]
            await asyncio.sleep(1)
            queue.add_after("c", 5)
            queue.close()
        assert all(task.result() for task in waiting)
        queue.done("b")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.idle(), 1000)
        queue.done("a")
        await asyncio.wait_for(queue.idle(), 1)
        assert await closed(queue)

    async def closed(queue: WorkQueue[str]) -> bool:
        try:
            await queue.get()
        except QueueClosed:
            return True
        return False

    run_in_virtual_time(main())


def test_a_cancelled_get_takes_nothing(run_in_virtual_time: Run) -> None:
    """A worker that is cancelled while it waits must not take a key with it."""

    async def main() -> None:
        queue = new_queue()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.get(), 1)
        queue.add("a")
        assert (await queue.get(), queue.busy) == ("a", 1)

    run_in_virtual_time(main())

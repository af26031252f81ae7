"""How long a leader's work may go on. Time is virtual."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from restow.kube.clock import Clock
from restow.kube.errors import Unreachable
from restow.kube.leaderelection import LeaderElector, LeadershipDeadline, LeaseTiming
from tests.memory.cluster import MemoryCluster, Request

Run = Callable[[Coroutine[Any, Any, None]], None]
TIMING = LeaseTiming(lease_duration=15, renew_deadline=10.0, retry_period=2.0)


class Work:
    """A body that needs some time to wind up when it is cancelled, and notes when what happened to it."""

    def __init__(self, *, lasts: float = 1e6, winds_up_in: float = 0.0) -> None:
        self.loop = asyncio.get_running_loop()
        self.start = self.loop.time()
        self.clock = Clock(monotonic=lambda: self.loop.time() + 5000)  # need not be the loop's
        self.deadline = LeadershipDeadline(TIMING, self.clock)
        self.lasts = lasts
        self.winds_up_in = winds_up_in
        self.cancelled_at: list[float] = []

    async def __call__(self) -> None:
        try:
            await asyncio.sleep(self.lasts)
        except asyncio.CancelledError:
            self.cancelled_at.append(self.passed())
            try:
                await asyncio.sleep(self.winds_up_in)
            except asyncio.CancelledError:
                self.cancelled_at.append(self.passed())
            raise

    def passed(self) -> float:
        return self.loop.time() - self.start

    async def run(self) -> None:
        await self.deadline.run(self, self.clock.monotonic())


def test_work_that_ends_by_itself(run_in_virtual_time: Run) -> None:
    """A body that is done in time is not touched, and nothing counts as lost."""

    async def main() -> None:
        work = Work(lasts=9)
        await work.run()
        assert (work.cancelled_at, work.deadline.lost, work.deadline.overrun) == ([], False, False)

    run_in_virtual_time(main())


def test_without_renewal_the_work_is_cancelled_at_the_deadline(run_in_virtual_time: Run) -> None:
    """Nobody has to notice the loss for the work to end: the deadline alone does it."""

    async def main() -> None:
        work = Work(winds_up_in=3)
        with pytest.raises(TimeoutError):
            await work.run()
        assert work.cancelled_at == [10]
        assert (work.passed(), work.deadline.lost, work.deadline.overrun) == (13, True, False)

    run_in_virtual_time(main())


def test_work_that_will_not_end_is_cancelled_again_before_others_lead(run_in_virtual_time: Run) -> None:
    """A body that winds up longer than the lease lasts is hurried when others may take over."""

    async def main() -> None:
        work = Work(winds_up_in=60)
        with pytest.raises(TimeoutError):
            await work.run()
        assert work.cancelled_at == [10, 15]
        assert (work.deadline.lost, work.deadline.overrun) == (True, True)

    run_in_virtual_time(main())


def test_renewals_push_the_deadline_out(run_in_virtual_time: Run) -> None:
    """The deadline counts from the last renewal, and a renewal that comes after it changes nothing."""

    async def main() -> None:
        work = Work(winds_up_in=4)

        async def renew() -> None:
            await asyncio.sleep(8)
            work.deadline.extend(work.clock.monotonic() - 1)
            await asyncio.sleep(11)
            work.deadline.extend(work.clock.monotonic())

        async with asyncio.TaskGroup() as group:
            group.create_task(renew())
            with pytest.raises(TimeoutError):
                await work.run()
        assert work.cancelled_at == [17]

    run_in_virtual_time(main())


def test_a_lease_taken_away_ends_the_work_at_once(run_in_virtual_time: Run) -> None:
    """Seeing another holder must not wait for the deadline."""

    async def main() -> None:
        work = Work()

        async def see() -> None:
            await asyncio.sleep(3)
            work.deadline.end()
            await asyncio.sleep(0)
            work.deadline.end()

        async with asyncio.TaskGroup() as group:
            group.create_task(see())
            with pytest.raises(TimeoutError):
                await work.run()
        assert (work.cancelled_at, work.deadline.lost) == ([3], True)

    run_in_virtual_time(main())


def test_a_cancellation_from_outside_is_no_loss(run_in_virtual_time: Run) -> None:
    """Stopping the process cancels the work as such, and the lease is still ours to release."""

    async def main() -> None:
        work = Work(winds_up_in=2)
        task = asyncio.create_task(work.run())
        await asyncio.sleep(4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (work.cancelled_at, work.deadline.lost) == ([4], False)

    run_in_virtual_time(main())


@pytest.mark.parametrize("verb", ["update", "get"])
def test_one_request_that_hangs_costs_no_leadership(verb: str, run_in_virtual_time: Run) -> None:
    """An API server that vanishes with a connection open would end the work of every leader that used it."""
    hanging = [1]

    async def main() -> None:
        loop = asyncio.get_running_loop()
        memory, led = MemoryCluster(), list[float]()

        async def before(request: Request) -> None:
            if led and hanging and request.verb == "update":
                if verb == "get":  # of the read that follows a write without an answer
                    memory.before = hang_at_get
                    raise Unreachable("the connection was reset")
                hanging.pop()
                await asyncio.sleep(3600)

        async def hang_at_get(request: Request) -> None:
            if hanging and request.verb == "get":
                hanging.pop()
                await asyncio.sleep(3600)

        async def body() -> None:
            led.append(loop.time())
            await asyncio.sleep(60)
            led.append(loop.time())

        memory.before = before
        clock = Clock(monotonic=loop.time)
        elector = LeaderElector(memory, "lease", "default", identity="me", timing=TIMING, clock=clock)
        await elector.run(body)
        assert not hanging and len(led) == 2 and led[1] - led[0] == 60

    run_in_virtual_time(main())


def test_a_lease_that_cannot_be_released_delays_the_end_little(run_in_virtual_time: Run) -> None:
    """A node that is drained during an outage waits for its pods, and kills those that take too long."""

    async def main() -> None:
        loop, memory = asyncio.get_running_loop(), MemoryCluster()
        leading = asyncio.Event()

        async def body() -> None:
            leading.set()
            await asyncio.sleep(3600)

        async def hang(_request: Request) -> None:
            await asyncio.sleep(3600)

        clock = Clock(monotonic=loop.time)
        elector = LeaderElector(memory, "lease", "default", identity="me", timing=TIMING, clock=clock)
        running = asyncio.create_task(elector.run(body))
        await leading.wait()
        memory.before, asked = hang, loop.time()
        running.cancel()
        await asyncio.wait([running])
        assert loop.time() - asked == TIMING.renew_deadline / 2

    run_in_virtual_time(main())

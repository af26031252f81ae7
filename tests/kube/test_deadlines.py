"""Deadlines: each block ends at its limit, at no other moment, and nothing but the limit turns into TimeoutError."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.kube.deadlines import Deadlines
from tests.kube.conftest import RunInVirtualTime, VirtualTimeLoop


def test_a_block_ends_at_its_limit(run_in_virtual_time: RunInVirtualTime) -> None:
    """A limit that is reached late, or never, hangs a run on one lost packet."""

    async def main() -> None:
        clock = asyncio.get_running_loop().time
        begun = clock()
        with pytest.raises(TimeoutError), Deadlines(75.0).within():
            await asyncio.Event().wait()
        assert clock() - begun == 75.0

    run_in_virtual_time(main())


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), min_size=1, max_size=12))
def test_blocks_that_overlap_end_each_at_its_own_limit(blocks: list[tuple[int, int]]) -> None:
    """The one timer must not forget a block because an older one ended early."""

    async def main() -> None:
        deadlines, clock = Deadlines(10.5), asyncio.get_running_loop().time

        async def block(begins: int, takes: int) -> None:
            await asyncio.sleep(begins)
            begun, ended = clock(), False
            try:
                with deadlines.within():
                    await asyncio.sleep(takes)
                ended = True
            except TimeoutError:
                assert clock() - begun == 10.5
            assert ended == (takes <= 10)

        async with asyncio.TaskGroup() as group:
            for begins, takes in blocks:
                group.create_task(block(begins, takes))

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())


def test_no_limit_at_all(run_in_virtual_time: RunInVirtualTime) -> None:
    """``--request-timeout 0`` asks for no limit; infinity is no moment that a timer can be set to."""

    async def main() -> None:
        with Deadlines(math.inf).within():
            await asyncio.sleep(1e6)

    run_in_virtual_time(main())


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan])
def test_a_limit_is_positive(seconds: float) -> None:
    """With a limit of 0, which some libraries take for none, every request would fail."""
    with pytest.raises(ValueError, match="give a positive number, or infinity"):
        Deadlines(seconds)


def test_cancelling_a_task_stays_a_cancellation(run_in_virtual_time: RunInVirtualTime) -> None:
    """A run that is stopped must end, and not try its request again as if the server had been slow."""

    async def main() -> None:
        deadlines = Deadlines(10)

        async def block() -> None:
            with deadlines.within():
                await asyncio.Event().wait()

        for wait in (5, 10):  # at the second, both happen in the same moment
            task = asyncio.create_task(block())
            await asyncio.sleep(wait)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run_in_virtual_time(main())


def test_the_errors_of_a_block_stay_what_they_are(run_in_virtual_time: RunInVirtualTime) -> None:
    """A refusal that is told as a time limit hides what the server said."""

    async def main() -> None:
        deadlines = Deadlines(10)

        async def fail_when_cancelled() -> None:
            try:
                await asyncio.sleep(11)
            except asyncio.CancelledError:
                raise KeyError from None

        with pytest.raises(KeyError), deadlines.within():
            raise KeyError
        with pytest.raises(KeyError), deadlines.within():
            await fail_when_cancelled()
        await asyncio.sleep(1)  # the task is not left to be cancelled

    run_in_virtual_time(main())


def test_many_blocks_share_one_timer(run_in_virtual_time: RunInVirtualTime) -> None:
    """A timer for each request is what this is to save."""

    async def main() -> None:
        loop, deadlines, timers = asyncio.get_running_loop(), Deadlines(10), 0
        call_at = loop.call_at

        def counted(*args: object, **more: object) -> asyncio.TimerHandle:
            nonlocal timers
            timers += 1
            return call_at(*args, **more)  # type: ignore[arg-type] # as it was given

        loop.call_at = counted  # type: ignore[method-assign] # for the time of this test
        for _ in range(1000):
            with deadlines.within():
                await asyncio.sleep(0)
        assert timers == 1
        deadlines.close()

    run_in_virtual_time(main())


def test_closing_leaves_no_timer(run_in_virtual_time: RunInVirtualTime) -> None:
    """A timer of a client that is closed would keep it in memory, and end a block of nobody."""

    async def main() -> None:
        deadlines = Deadlines(10)
        with deadlines.within():
            deadlines.close()
            await asyncio.sleep(20)

    run_in_virtual_time(main())

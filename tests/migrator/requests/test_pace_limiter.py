"""Waiting for a turn: never too many in flight, and no turn is ever lost. Time is virtual."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.migrator.requests.pace import Limiter
from tests.kube.conftest import RunInVirtualTime, VirtualTimeLoop


@dataclass
class Load:
    """What is in flight, and when each write began."""

    limiter: Limiter
    in_flight: int = 0
    most: int = 0
    began: list[float] = field(default_factory=list)

    async def write(self, seconds: float = 1.0) -> None:
        """One write that takes so long."""
        async with self.limiter:
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            assert self.in_flight <= self.limiter.limit
            self.began.append(asyncio.get_running_loop().time())
            try:
                await asyncio.sleep(seconds)
            finally:
                self.in_flight -= 1


def a_load(concurrency: int, rate: float | None = None) -> Load:
    """A limiter on the loop's own clock."""
    return Load(Limiter(concurrency=concurrency, rate=rate, clock=asyncio.get_running_loop().time))


async def turn_over() -> None:
    """Let every task that can run do so."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("concurrency", "seconds"), [(1, 6), (2, 3), (3, 2), (6, 1), (100, 1)])
def test_as_many_as_allowed_are_in_flight(
    concurrency: int, seconds: int, run_in_virtual_time: RunInVirtualTime
) -> None:
    """More would be too much for the server, fewer would waste its time."""

    async def main() -> None:
        load = a_load(concurrency)
        start = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            for _ in range(6):
                group.create_task(load.write())
        assert load.most == min(concurrency, 6)
        assert asyncio.get_running_loop().time() - start == seconds

    run_in_virtual_time(main())


def test_a_slow_down_holds_back_those_who_wait(run_in_virtual_time: RunInVirtualTime) -> None:
    """After a 429 no new write may start before enough of those in flight have ended."""

    async def main() -> None:
        load = a_load(4)
        start = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            writes = [group.create_task(load.write(seconds)) for seconds in (1, 2, 3, 4, 5)]
            await turn_over()
            assert load.in_flight == 4
            load.limiter.slow_down()
            assert load.limiter.limit == 2
            # The limit is 2: the fifth begins once two of four are left, and one of those has ended.
            await asyncio.wait(writes[:3])
        assert [began - start for began in load.began] == [0, 0, 0, 0, 3]

    run_in_virtual_time(main())


def test_successes_let_more_in_at_once(run_in_virtual_time: RunInVirtualTime) -> None:
    """A window that grew must wake those who wait, not only let in those who come later."""

    async def main() -> None:
        load = a_load(2)
        load.limiter.slow_down()
        async with asyncio.TaskGroup() as group:
            writes = [group.create_task(load.write(10)) for _ in range(2)]
            await turn_over()
            assert load.in_flight == 1
            load.limiter.succeeded()
            await turn_over()
            assert load.in_flight == 2
            for each in writes:
                each.cancel()

    run_in_virtual_time(main())


def test_a_cancelled_waiter_passes_its_turn_on(run_in_virtual_time: RunInVirtualTime) -> None:
    """A turn given to a task that is cancelled in that very moment must go to the next one, or all wait for ever."""

    async def main() -> None:
        load = a_load(1)
        async with asyncio.TaskGroup() as group:
            first = group.create_task(load.write(5))
            await turn_over()
            second = group.create_task(load.write())
            third = group.create_task(load.write())
            await turn_over()
            first.cancel()
            await asyncio.sleep(0)  # the first one leaves and gives its turn to the second, which has not run yet
            second.cancel()
            await third
        assert len(load.began) == 2

    run_in_virtual_time(main())


def test_a_waiter_cancelled_before_its_turn_is_skipped(run_in_virtual_time: RunInVirtualTime) -> None:
    """One that gave up waiting must not swallow the turn of those behind it."""

    async def main() -> None:
        load = a_load(1)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.write(5))
            await turn_over()
            waiting = [group.create_task(load.write()) for _ in range(3)]
            await turn_over()
            waiting[0].cancel()
        assert len(load.began) == 3

    run_in_virtual_time(main())


def test_a_write_cancelled_while_it_keeps_the_rate_leaves(run_in_virtual_time: RunInVirtualTime) -> None:
    """It holds a place in flight already and must give it back, or the window shrinks for good."""

    async def main() -> None:
        load = a_load(1, rate=0.1)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.write(1))
            await turn_over()
            second = group.create_task(load.write(1))
            await asyncio.sleep(2)
            second.cancel()
            await turn_over()
            await load.write(1)
        assert len(load.began) == 2

    run_in_virtual_time(main())


def test_a_write_that_fails_gives_its_place_back(run_in_virtual_time: RunInVirtualTime) -> None:
    """An error inside must leave the limiter as a success does."""

    async def main() -> None:
        load = a_load(1)
        for _ in range(3):
            with pytest.raises(ValueError, match="refused"):
                async with load.limiter:
                    raise ValueError("refused")
        await load.write()

    run_in_virtual_time(main())


def test_the_rate_is_kept_across_all_writers(run_in_virtual_time: RunInVirtualTime) -> None:
    """``--rate`` is for the whole run: many writers together must not exceed it."""

    async def main() -> None:
        load = a_load(8, rate=2.0)
        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(load.write(0.1))
        assert [later - earlier for earlier, later in itertools.pairwise(load.began)] == [0.5] * 7

    run_in_virtual_time(main())


moves = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 4)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("slow down"), st.just(0)),
        st.tuples(st.just("succeeded"), st.just(0)),
        st.tuples(st.just("wait"), st.integers(0, 3)),
        st.tuples(st.just("turn"), st.just(0)),
    ),
    max_size=40,
)


@given(st.integers(1, 4), st.sampled_from([None, 0.7]), moves)
def test_whatever_happens_the_limit_holds_and_all_have_their_turn(
    concurrency: int, rate: float | None, happened: list[tuple[str, int]]
) -> None:
    """In any order of writes, cancellations and windows: never too many at once, and never a writer left waiting."""

    async def main() -> None:
        load = a_load(concurrency, rate)
        writes: list[asyncio.Task[None]] = []
        in_flight_before = 0
        async with asyncio.TaskGroup() as group:
            for what, number in happened:
                match what:
                    case "write":
                        writes.append(group.create_task(_unchecked(load, number)))
                    case "cancel" if writes:
                        writes[number % len(writes)].cancel()
                    case "slow down":
                        load.limiter.slow_down()
                    case "succeeded":
                        load.limiter.succeeded()
                    case "wait":
                        await asyncio.sleep(number)
                    case _:
                        await asyncio.sleep(0)
                assert load.in_flight <= max(load.limiter.limit, in_flight_before)
                assert load.in_flight <= concurrency
                in_flight_before = load.in_flight
        # The virtual loop raises where everything waits and nothing will ever happen.
        assert all(each.cancelled() or each.exception() is None for each in writes)
        assert load.in_flight == 0
        async with asyncio.timeout(60):
            await load.write()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())


async def _unchecked(load: Load, seconds: float) -> None:
    async with load.limiter:
        load.in_flight += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            load.in_flight -= 1

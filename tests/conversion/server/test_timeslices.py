"""Long work in short slices."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import groupby
from time import perf_counter

import pytest

from restow.conversion.server.timeslices import TimeSlices


async def test_all_of_the_work_is_done() -> None:
    """A turn that ended early would leave objects unconverted."""
    done = []
    await TimeSlices(0.0).drive("a", (done.append(number) for number in range(50)))
    assert done == list(range(50))


async def test_others_have_their_turn_in_between() -> None:
    """With no turn at all between two steps a probe would wait for the whole review."""
    rounds = 0

    async def others() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    probing = asyncio.create_task(others())
    await TimeSlices(0.0).drive("a", iter(range(100)))
    probing.cancel()
    assert rounds >= 100


async def test_several_take_turns_and_no_two_in_one_round() -> None:
    """Ten large reviews may hold the others up no longer than one does."""
    steps: list[tuple[int, str]] = []
    current = 0

    async def counting() -> None:
        nonlocal current
        while True:
            current += 1
            await asyncio.sleep(0)

    def work(name: str) -> Iterator[None]:
        for _ in range(20):
            steps.append((current, name))
            yield

    slices = TimeSlices(0.0)
    counter = asyncio.create_task(counting())
    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(slices.drive(name, work(name)))
    counter.cancel()
    assert len({round_ for round_, _ in steps}) == len(steps), "two steps in one round of the loop"
    order = "".join(name for _, name in steps)
    assert max(len(list(run)) for _, run in groupby(order[:30])) == 1, "somebody was served twice in a row"


async def test_a_turn_ends_with_the_step_that_exceeds_it() -> None:
    """A turn as long as the work would be none."""
    rounds = 0

    def work() -> Iterator[None]:
        for _ in range(5):
            until = perf_counter() + 0.003
            while perf_counter() < until:
                pass
            yield

    async def others() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    probing = asyncio.create_task(others())
    await TimeSlices(0.001).drive("a", work())
    probing.cancel()
    assert rounds >= 5


async def test_what_a_step_raises_ends_it_and_frees_the_slice() -> None:
    """A malformed review must not keep the turn for ever."""
    slices = TimeSlices(0.0)

    def broken() -> Iterator[None]:
        yield
        raise ValueError

    with pytest.raises(ValueError):
        await slices.drive("a", broken())
    await slices.drive("a", iter(range(3)))


async def test_kinds_take_turns_whatever_the_number_of_their_reviews() -> None:
    """Ten large reviews of one kind would leave another kind one turn of eleven."""
    order: list[str] = []

    def work(name: str) -> Iterator[None]:
        for _ in range(20):
            order.append(name)
            yield

    slices = TimeSlices(0.0)
    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(slices.drive("many", work("many")))
        group.create_task(slices.drive("one", work("one")))
    last = max(index for index, name in enumerate(order) if name == "one")
    assert last < 60, order

"""Whose request is next: kinds take turns, and a kind that takes long or too much delays the others no more."""

from __future__ import annotations

import asyncio

import pytest

from restow.conversion.operate import turns
from restow.conversion.operate.turns import FIRST_S, MOST_S, Job, QueueOfKindFull, Turns
from restow.kube.clock import Clock


class World:
    """Turns in a time that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.turns = Turns(Clock(monotonic=lambda: self.now))

    def add(self, kind: str, body: bytes = b"") -> Job:
        """Add a request."""
        job = Job(kind, None, body, asyncio.get_running_loop().create_future())
        self.turns.add(job)
        return job

    def take(self, *, slow: bool = False) -> str:
        """The kind whose turn it is in a lane; empty for none."""
        job = self.turns.take(slow=slow)
        return "" if job is None else job.kind

    def do(self, kind: str, seconds: float) -> None:
        """Have a request of a kind take some seconds."""
        job = self.add(kind)
        assert self.turns.take(slow=True) is job
        self.turns.ended(job, seconds)


async def test_kinds_take_turns_and_one_kind_is_at_work_once() -> None:
    """A hundred requests of one kind would come before the one of another kind, or take both processes."""
    world = World()
    jobs = [world.add("a") for _ in range(3)]
    world.add("b")
    assert [world.take(), world.take(slow=True), world.take(), world.take(slow=True)] == ["a", "b", "", ""]
    world.turns.ended(jobs[0], 0.0)
    world.add("c")
    assert [world.take(), world.take()] == ["a", "c"]


async def test_a_slow_kind_leaves_a_lane_to_the_others() -> None:
    """Two kinds with long requests would occupy both processes, and all others would wait for seconds."""
    world = World()
    world.do("a", FIRST_S)
    world.add("a")
    assert world.take(slow=False) == ""
    assert world.take(slow=True) == "a"
    world.add("b")
    assert world.take(slow=True) == "b", "the slow lane idles while others wait"
    world.now += 3600
    assert not world.turns.is_slow("a")


async def test_a_kind_that_takes_too_much_is_refused_for_longer_each_time() -> None:
    """A kind whose every request is ended after seconds would have the slow lane for itself."""
    world = World()
    delays = []
    for _ in range(7):
        world.do("a", MOST_S)
        waiting = world.add("a")
        assert world.turns.gave_up("a") == [waiting]
        began = world.now
        while world.turns.is_refused("a"):
            world.now += 1
        delays.append(world.now - began)
    assert delays == [10, 20, 40, 80, 160, 300, 300]
    assert not world.turns.is_refused("b")


async def test_the_queue_of_a_kind_is_bounded_and_forgets_who_gave_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of one kind would fill the memory, or processes would work for clients that are gone."""
    monkeypatch.setattr(turns, "_MOST_WAITING", 2)
    world = World()
    first = world.add("a", b"x" * 2**27)
    with pytest.raises(QueueOfKindFull):
        world.add("a", b"x")
    first.result.cancel()
    second = world.add("b")
    assert world.take() == "b"
    world.turns.ended(second, 0.0)
    assert world.take() == ""
    world.add("a")
    world.add("a")
    with pytest.raises(QueueOfKindFull):
        world.add("a")

"""The bookkeeping of the work queue."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from restow.kube.clock import Clock
from restow.kube.retry import Backoff
from restow.kube.workqueue import WorkQueue


class Schedule(WorkQueue[str]):
    """A queue whose keys are added and taken at times that a test names."""

    def __init__(self, chance: float = 0.0) -> None:
        self.now = 0.0
        clock = Clock(monotonic=lambda: self.now)
        super().__init__(Backoff(first=1.0, most=8.0), clock=clock, chance=lambda: chance)

    def add_at(self, key: str, due: float) -> None:
        """Add a key that is due at a time, now or later."""
        assert due >= self.now
        self.add_after(key, due - self.now)

    def take_at(self, now: float) -> str | None:
        """Take what is due at a time."""
        self.now = now
        return self.take()


def drain(schedule: Schedule, now: float) -> list[str]:
    """Take and give back everything that is due."""
    keys = []
    while (key := schedule.take_at(now)) is not None:
        keys.append(key)
        schedule.done(key)
    return keys


@pytest.mark.parametrize(
    ("asked", "now", "keys"),
    [
        ([], 10, []),
        ([("a", 1), ("b", 1), ("c", 1)], 1, ["a", "b", "c"]),
        ([("a", 3), ("b", 1), ("c", 2)], 3, ["b", "c", "a"]),
        ([("a", 1), ("b", 1), ("a", 1)], 1, ["a", "b"]),
        ([("a", 1), ("a", 1), ("a", 2)], 5, ["a"]),
        ([("a", 9), ("b", 2), ("a", 1)], 5, ["a", "b"]),
        ([("a", 1), ("a", 9)], 5, ["a"]),
        ([("a", 5.1)], 5, []),
    ],
)
def test_order(asked: list[tuple[str, float]], now: float, keys: list[str]) -> None:
    """Keys come by due time, then in order of asking; each once, at the earliest time it was asked for."""
    schedule = Schedule()
    for key, due in asked:
        schedule.add_at(key, due)
    assert drain(schedule, now) == keys


def test_a_busy_key_waits_until_done() -> None:
    """Two workers must never hold one key, and an event during the work must not be lost."""
    schedule = Schedule()
    schedule.add_at("a", 0)
    assert schedule.take_at(0) == "a"
    schedule.add_at("a", 5)
    schedule.add_at("a", 2)
    schedule.add_at("a", 3)
    assert (schedule.take_at(9), schedule.next_due(), len(schedule)) == (None, None, 0)
    schedule.done("a")
    assert (schedule.take_at(1), schedule.next_due(), len(schedule)) == (None, 2, 1)
    assert schedule.take_at(2) == "a"


def test_only_a_taken_key_is_done() -> None:
    """Giving back what was not taken is a mistake of the caller and not ignored."""
    with pytest.raises(KeyError):
        Schedule().done("a")


def test_retries() -> None:
    """Failures count per key, grow the delay, respect a server's wish, and are forgotten on success."""
    schedule = Schedule()
    delays = []
    for _ in range(5):
        schedule.now = 100.0
        schedule.add("a")
        assert schedule.take() == "a"
        delays.append(schedule.retry("a"))
        schedule.done("a")
        assert schedule.next_due() == 100 + delays[-1]
        assert schedule.take_at(999) == "a"
        schedule.done("a")
    assert delays == [0.5, 1.0, 2.0, 4.0, 4.0]
    assert schedule.retry("a", at_least=60.0) == 60.0
    assert (schedule.failures("a"), schedule.failures("b")) == (6, 0)
    schedule.forget("a")
    assert schedule.failures("a") == 0
    assert schedule.retry("a") == 0.5


def test_moved_keys_leave_no_garbage() -> None:
    """A key that is asked for again and again ahead of its time must not make the queue grow."""
    schedule = Schedule()
    for _ in range(10_000):
        schedule.add_at("a", 3600)
        schedule.add_at("a", 0)
        assert schedule.take() == "a"
        schedule.done("a")
    assert len(schedule._heap) < 200


class ScheduleMachine(RuleBasedStateMachine):
    """Compares a schedule with a plain model: the list of (due, order) of every key that waits."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule = Schedule(chance=0.5)
        self.now = 0.0
        self.order = 0
        self.waiting: dict[str, tuple[float, int]] = {}
        self.again: dict[str, float] = {}
        self.busy: set[str] = set()

    def ask(self, key: str, due: float) -> None:
        self.order += 1
        if key in self.busy:
            self.again[key] = min(due, self.again.get(key, due))
        elif key not in self.waiting or due < self.waiting[key][0]:
            self.waiting[key] = (due, self.order)

    @rule(key=st.sampled_from("abc"), after=st.integers(0, 2))
    def add(self, key: str, after: int) -> None:
        self.schedule.add_after(key, after)
        self.ask(key, self.now + after)

    @rule(seconds=st.integers(1, 2))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        self.schedule.now = self.now

    @rule()
    def take(self) -> None:
        due = {key: place for key, place in self.waiting.items() if place[0] <= self.now}
        expected = min(due, key=lambda key: due[key]) if due else None
        assert self.schedule.take() == expected
        if expected is not None:
            del self.waiting[expected]
            self.busy.add(expected)

    @precondition(lambda self: self.busy)
    @rule(data=st.data(), fails=st.booleans())
    def finish(self, data: st.DataObject, fails: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.busy)))
        if fails:
            self.ask(key, self.now + self.schedule.retry(key))
        self.schedule.done(key)
        self.busy.remove(key)
        if key in self.again:
            self.ask(key, self.again.pop(key))

    @invariant()
    def agrees(self) -> None:
        earliest = min((due for due, _ in self.waiting.values()), default=None)
        assert self.schedule.next_due() == earliest
        assert (len(self.schedule), self.schedule.busy) == (len(self.waiting), len(self.busy))


class TestScheduleMachine(ScheduleMachine.TestCase):  # type: ignore[misc,name-defined]
    """In every sequence the schedule hands out exactly what the model says: nothing lost, doubled or out of order."""

    settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=30))
def test_everything_asked_for_comes(asked: list[tuple[str, int]]) -> None:
    """Each key that was asked for is handed out exactly once when all times have come."""
    schedule = Schedule()
    for key, due in asked:
        schedule.add_at(key, due)
    assert sorted(drain(schedule, 10)) == sorted({key for key, _ in asked})

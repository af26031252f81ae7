"""The rules of leader election."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.kube.leaderelection import (
    LeaseAction,
    LeaseRecord,
    LeaseTiming,
    ObservedLease,
    held_record,
    next_lease_action,
    observe_lease,
    released_record,
)

TIMING = LeaseTiming(lease_duration=15, renew_deadline=10.0, retry_period=2.0)
WALL = datetime(2030, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
STAMP = "2030-01-02T03:04:05.000678Z"


def held(by: str, duration: int | None = 15) -> LeaseRecord:
    return LeaseRecord(holder_identity=by, lease_duration_seconds=duration, renew_time="1999-01-01T00:00:00.000000Z")


@pytest.mark.parametrize(
    ("record", "since", "renewed_at", "now", "decision"),
    [
        pytest.param(None, 0, None, 100, LeaseAction.CREATE, id="none: create"),
        pytest.param(None, 0, 99, 100, LeaseAction.CREATE, id="leader, deleted: create again"),
        pytest.param(held("me"), 0, 98, 100, LeaseAction.RENEW, id="leader: renew"),
        pytest.param(held("me"), 0, 90.1, 100, LeaseAction.RENEW, id="leader, nearly too late: renew"),
        pytest.param(held("me"), 0, 90, 100, LeaseAction.LOST, id="leader, deadline reached: lost"),
        pytest.param(None, 0, 90, 100, LeaseAction.LOST, id="leader, deadline reached, deleted: lost"),
        pytest.param(held("you"), 99, 99, 100, LeaseAction.LOST, id="leader, taken away: lost"),
        pytest.param(held(""), 99, 99, 100, LeaseAction.LOST, id="leader, released by force: lost"),
        pytest.param(held("me"), 99, None, 100, LeaseAction.ACQUIRE, id="ours of a former life: at once"),
        pytest.param(held(""), 100, None, 100, LeaseAction.ACQUIRE, id="released: at once"),
        pytest.param(LeaseRecord(), 100, None, 100, LeaseAction.ACQUIRE, id="empty: at once"),
        pytest.param(held("you"), 100, None, 100, LeaseAction.WAIT, id="just seen: wait, whatever its renewTime says"),
        pytest.param(held("you"), 85.1, None, 100, LeaseAction.WAIT, id="unchanged, not long enough: wait"),
        pytest.param(held("you"), 85, None, 100, LeaseAction.ACQUIRE, id="unchanged for its duration: take over"),
        pytest.param(held("you", 60), 85, None, 100, LeaseAction.WAIT, id="the holder's own duration counts"),
        pytest.param(held("you", None), 100, None, 100, LeaseAction.ACQUIRE, id="no duration: at once"),
    ],
)
def test_decisions(
    record: LeaseRecord | None, since: float, renewed_at: float | None, now: float, decision: LeaseAction
) -> None:
    """The table of the rules; a wrong row is two leaders at once, or none for ever."""
    observed = None if record is None else ObservedLease(record, since)
    assert next_lease_action(observed, identity="me", renewed_at=renewed_at, now=now, timing=TIMING) is decision


def test_only_a_change_makes_a_lease_younger() -> None:
    """The age of a lease counts from its last visible change on our clock; reading it again does not renew it."""
    first = observe_lease(None, held("you"), 10)
    assert first == ObservedLease(held("you"), 10)
    assert observe_lease(first, held("you"), 20) == first
    renewed = msgspec.structs.replace(held("you"), renew_time="1999-01-01T00:00:02.000000Z")
    assert observe_lease(first, renewed, 20) == ObservedLease(renewed, 20)
    assert observe_lease(first, None, 20) is None


@pytest.mark.parametrize(
    ("before", "acquired", "transitions"),
    [
        pytest.param(None, STAMP, 0, id="created"),
        pytest.param(LeaseRecord("me", 15, "then", "then", 4), "then", 4, id="renewed"),
        pytest.param(LeaseRecord("you", 15, "then", "then", 4), STAMP, 5, id="taken over"),
        pytest.param(LeaseRecord("", 1, "then", "then", 4), STAMP, 5, id="released before"),
        pytest.param(LeaseRecord(), STAMP, 1, id="empty before"),
    ],
)
def test_the_record_that_is_written(before: LeaseRecord | None, acquired: str, transitions: int) -> None:
    """AcquireTime and leaseTransitions change with the holder, and only then; kubectl and dashboards read them."""
    observed = None if before is None else ObservedLease(before, 0)
    assert held_record(observed, identity="me", now=WALL, timing=TIMING) == LeaseRecord(
        "me", 15, acquired, STAMP, transitions
    )


def test_a_release_lets_others_in_at_once() -> None:
    """A released lease has no holder and the shortest duration the API allows, and keeps its count of transitions."""
    record = released_record(LeaseRecord("me", 15, "then", "then", 4), WALL)
    assert record == LeaseRecord("", 1, STAMP, STAMP, 4)
    decision = next_lease_action(ObservedLease(record, 100), identity="you", renewed_at=None, now=100, timing=TIMING)
    assert decision is LeaseAction.ACQUIRE


def test_times_are_written_in_utc() -> None:
    """A MicroTime without its zone would be off by the machine's."""
    east = WALL.astimezone(timezone(timedelta(hours=9)))
    assert released_record(LeaseRecord("me"), east).renew_time == STAMP


@pytest.mark.parametrize(
    ("duration", "deadline", "period"), [(10, 10, 2), (15, 2.4, 2), (15, 10, 0), (15, 10, -1), (5, 10, 2)]
)
def test_senseless_timings_are_refused(duration: int, deadline: float, period: float) -> None:
    """A deadline beyond the duration means two leaders; one below the period means a leader that never can renew."""
    with pytest.raises(ValueError, match="lease_duration > renew_deadline"):
        LeaseTiming(duration, deadline, period)


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 2.0), (0.5, 3.2), (1.0, 4.4)])
def test_those_who_wait_are_spread(chance: float, seconds: float) -> None:
    """Candidates ask every one to 2.2 periods, so that they do not all write at once when a leader goes."""
    assert TIMING.wait(chance) == pytest.approx(seconds)


@dataclass
class Candidate:
    """A process of the simulation. Its clock is off by ``skew`` and nobody tells it."""

    identity: str
    skew: float
    observed: ObservedLease | None = None
    renewed_at: float | None = None

    def leads_until(self) -> float | None:
        """The true time at which it stops by itself at the latest."""
        return None if self.renewed_at is None else self.renewed_at - self.skew + TIMING.lease_duration


class World:
    """One lease with compare-and-swap, several candidates, and messages that are late or get lost."""

    def __init__(self, skews: list[float]) -> None:
        self.now = 0.0
        self.lease: LeaseRecord | None = None
        self.version = 0
        self.candidates = [Candidate(str(number), skew) for number, skew in enumerate(skews)]

    def step(self, who: int, read_takes: float, write_takes: float, fate: str) -> None:
        """One round of one candidate: read, decide, write, each taking time, with some loss on the way."""
        me = self.candidates[who % len(self.candidates)]
        if fate == "no read":
            return
        lease, version = self.lease, self.version
        self.now += read_takes
        me.observed = observe_lease(me.observed, lease, self.now + me.skew)
        asked = self.now + me.skew
        decision = next_lease_action(
            me.observed, identity=me.identity, renewed_at=me.renewed_at, now=asked, timing=TIMING
        )
        if decision is LeaseAction.LOST:
            me.renewed_at = None
        if decision in (LeaseAction.LOST, LeaseAction.WAIT) or fate == "no write":
            return
        record = held_record(me.observed, identity=me.identity, now=WALL + timedelta(seconds=self.now), timing=TIMING)
        self.now += write_takes
        if self.version != version:
            return
        self.lease, self.version = record, version + 1
        self.check_alone(me)
        if fate != "no answer":
            me.observed, me.renewed_at = ObservedLease(record, asked), asked

    def check_alone(self, taker: Candidate) -> None:
        for other in self.candidates:
            until = other.leads_until()
            assert other is taker or until is None or until <= self.now + 1e-6


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=4),
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.floats(0, 20),
            st.floats(0, 3),
            st.floats(0, 3),
            st.sampled_from(["fine", "fine", "fine", "no read", "no write", "no answer"]),
        ),
        max_size=60,
    ),
)
def test_two_never_lead_at_once(skews: list[float], steps: list[tuple[int, float, float, float, str]]) -> None:
    """Whatever the clocks say and however late or lost messages are: who takes the lease meets no other leader."""
    world = World(skews)
    for who, pause, read_takes, write_takes, fate in steps:
        world.now += pause
        world.step(who, read_takes, write_takes, fate)


def test_the_simulation_can_fail() -> None:
    """The property above would notice candidates that compare the lease's age with a foreign clock."""
    world = World([0.0, 0.0])
    world.step(0, 0, 0, "fine")
    world.now += 5
    second = world.candidates[1]
    second.observed = observe_lease(None, world.lease, 0.0)
    second.observed = replace(second.observed or ObservedLease(LeaseRecord(), 0), since=-100.0)
    with pytest.raises(AssertionError):
        world.step(1, 0, 0, "fine")

"""How many writes are in flight, and how many a second."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.migrator.requests.pace import Bucket, WriteWindow

events = st.lists(st.one_of(st.just("success"), st.floats(0, 3)), max_size=60)
"""Successes, and slow-downs that come so many seconds after the one before."""


def played(window: WriteWindow, happened: list[str | float]) -> list[tuple[float, WriteWindow]]:
    """The windows after each event, with their time."""
    now, states = 0.0, [(0.0, window)]
    for event in happened:
        if isinstance(event, str):
            window = window.after_success()
        else:
            now += event
            window = window.after_slow_down(now)
        states.append((now, window))
    return states


@given(st.integers(1, 64), events)
def test_a_window_stays_between_one_and_the_most(most: int, happened: list[str | float]) -> None:
    """Below one nothing would ever be sent again; above the limit the user's own setting is broken."""
    for _, window in played(WriteWindow.starting(most), happened):
        assert 1 <= window.limit <= most
        assert window.full_size == (window.size == most)


@given(st.integers(1, 64), events)
def test_a_window_shrinks_at_most_once_a_second(most: int, happened: list[str | float]) -> None:
    """One burst of refusals is one message: taking each of them would bring everything to a standstill."""
    shrunk = [
        now
        for (_, before), (now, after) in itertools.pairwise(played(WriteWindow.starting(most), happened))
        if after.lowered_at != before.lowered_at
    ]
    assert all(later - earlier >= 1.0 for earlier, later in itertools.pairwise(shrunk))


@given(st.integers(2, 64), st.floats(1, 64))
def test_a_slow_down_halves(most: int, size: float) -> None:
    """The server asked for less load, and must get clearly less at once."""
    window = WriteWindow(most=most, size=min(size, most))
    assert window.after_slow_down(10.0).size == max(1.0, window.size / 2)
    assert window.after_slow_down(10.0).after_slow_down(10.9).size == max(1.0, window.size / 2)
    assert window.after_slow_down(10.0).after_slow_down(11.0).size == max(1.0, window.size / 4)


@given(st.integers(1, 64), st.floats(1, 64))
def test_a_windows_worth_of_successes_adds_one(most: int, size: float) -> None:
    """The way back up is slow and steady, and it ends at the limit."""
    window = WriteWindow(most=most, size=min(size, most), lowered_at=0.0)
    later = window
    for _ in range(window.limit + 1):
        later = later.after_success()
    assert later.size == most or window.size + 0.5 < later.size < window.size + 2.0


def test_until_the_server_objects_every_success_adds_one() -> None:
    """A short run would otherwise be over before it is at the server's rate."""
    window = WriteWindow.starting(32)
    for _ in range(24):
        window = window.after_success()
    assert window.limit == 32
    assert window.after_success().limit == 32


@pytest.mark.parametrize(("most", "limit"), [(1, 1), (4, 4), (8, 8), (100, 8)])
def test_a_run_starts_with_a_handful(most: int, limit: int) -> None:
    """A cold API server is not met with a hundred writes at once, and a small limit holds from the first write."""
    assert WriteWindow.starting(most).limit == limit


@given(st.floats(0.1, 1000), st.lists(st.floats(0, 5), min_size=1, max_size=60))
def test_a_bucket_keeps_the_rate_over_any_sequence(rate: float, pauses: list[float]) -> None:
    """In no stretch of time may more writes start than the rate allows, whenever they were asked for."""
    bucket, now, starts = Bucket(rate), 100.0, []
    for pause in pauses:
        now += pause
        bucket, wait = bucket.take(now)
        assert wait >= 0.0
        starts.append(now + wait)
    gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert all(gap >= 1 / rate - 1e-9 for gap in gaps)


@given(st.floats(0.1, 1000), st.lists(st.floats(0, 5), min_size=1, max_size=60))
def test_a_bucket_lets_nobody_wait_longer_than_it_must(rate: float, pauses: list[float]) -> None:
    """A write that comes late enough starts at once, any other exactly one period after the one before."""
    bucket, now, last = Bucket(rate), 100.0, float("-inf")
    for pause in pauses:
        now += pause
        bucket, wait = bucket.take(now)
        assert now + wait == pytest.approx(max(now, last + 1 / rate))
        last = now + wait

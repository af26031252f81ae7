"""Delays after failures."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.kube.errors import ServerError, TooManyRequests, Unreachable
from restow.kube.retry import LONGEST_RETRY_AFTER_S, Backoff, jittered, requested_wait

chances = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(
    ("failures", "chance", "delay"),
    [(0, 0.9, 0.0), (1, 0.0, 0.5), (1, 0.5, 0.75), (2, 0.0, 1.0), (3, 0.0, 2.0), (5, 0.0, 5.0), (10**6, 0.0, 5.0)],
)
def test_delay(failures: int, chance: float, delay: float) -> None:
    """The delay doubles up to its cap and stays finite, and nothing waits after no failure."""
    assert Backoff(first=1.0, most=10.0).delay(failures, chance) == delay


@given(st.integers(1, 10_000), chances)
def test_jitter_takes_off_at_most_half(failures: int, chance: float) -> None:
    """A jittered delay never falls below half of the cap once it has grown, so retries cannot become hot."""
    backoff = Backoff(first=0.8, most=30.0)
    whole = min(30.0, 0.8 * 2.0 ** min(failures - 1, 20))
    assert whole / 2 <= backoff.delay(failures, chance) <= whole


@pytest.mark.parametrize(
    ("error", "wait"),
    [
        (None, 0.0),
        (KeyError("name"), 0.0),
        (Unreachable("refused"), 0.0),
        (TooManyRequests(status=429, verb="get", target="it"), 0.0),
        (TooManyRequests(status=429, verb="get", target="it", retry_after=0.0), 0.0),
        (ServerError(status=503, verb="get", target="it", retry_after=7.0), 7.0),
        (ServerError(status=503, verb="get", target="it", retry_after=60.0), LONGEST_RETRY_AFTER_S),
        (TooManyRequests(status=429, verb="get", target="it", retry_after=86400.0), LONGEST_RETRY_AFTER_S),
        (TooManyRequests(status=429, verb="get", target="it", retry_after=float("inf")), LONGEST_RETRY_AFTER_S),
    ],
    ids=repr,
)
def test_a_servers_wish_is_bounded(error: BaseException | None, wait: float) -> None:
    """A Retry-After of a day holds a run for a day; one that is overlooked hammers a busy server."""
    assert requested_wait(error) == wait


@given(st.integers(0, 100), chances, st.floats(0, 60))
def test_a_delay_is_the_longer_of_both_waits(failures: int, chance: float, wish: float) -> None:
    """A server that asks for nothing is still not hammered, and one that asks for more gets it."""
    backoff = Backoff(first=0.8, most=30.0)
    assert backoff.delay(failures, chance, wish) == max(wish, backoff.delay(failures, chance))


@given(st.floats(0, 60), st.integers(0, 100))
def test_jitter_never_comes_before_the_wait(wait: float, seed: int) -> None:
    """A wait that jitter shortens undercuts the Retry-After that it holds."""
    assert wait <= jittered(wait, random.Random(seed)) <= 1.5 * wait


@pytest.mark.parametrize(("first", "most", "factor"), [(0, 1, 2), (2, 1, 2), (1, 2, 0.5), (-1, 1, 2)])
def test_senseless_backoffs_are_refused(first: float, most: float, factor: float) -> None:
    """A back-off that would be zero or shrink would be a hot loop, and is refused when it is made."""
    with pytest.raises(ValueError, match="0 < first <= most"):
        Backoff(first, most, factor)

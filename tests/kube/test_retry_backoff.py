"""Delays after failures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.kube.retry import Backoff

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


@pytest.mark.parametrize(("first", "most", "factor"), [(0, 1, 2), (2, 1, 2), (1, 2, 0.5), (-1, 1, 2)])
def test_senseless_backoffs_are_refused(first: float, most: float, factor: float) -> None:
    """A back-off that would be zero or shrink would be a hot loop, and is refused when it is made."""
    with pytest.raises(ValueError, match="0 < first <= most"):
        Backoff(first, most, factor)

"""The comparison of standard rules with pairs runs, and both contenders give the same objects."""

from __future__ import annotations

import pytest

from benchmarks.conversion.standardrules import CONTESTS, Contest, measured


@pytest.mark.parametrize("contest", CONTESTS, ids=lambda contest: contest.name)
@pytest.mark.parametrize("up", [True, False])
def test_every_contest_converts_the_same(contest: Contest, up: bool) -> None:
    """A figure would compare two different conversions."""
    standard, pair, ratio = measured(contest, up=up, rounds=1, times=1)
    assert standard > 0 < pair and ratio > 0

"""The comparison of standard rules with pairs runs, and both contenders give the same objects."""

from __future__ import annotations

import pytest

from benchmarks.conversion.standardrules import CONTESTS, Contest, compare, measured
from benchmarks.records import Figure, load, recorded_tables
from benchmarks.tables import Result


@pytest.mark.parametrize("contest", CONTESTS, ids=lambda contest: contest.name)
@pytest.mark.parametrize("up", [True, False])
def test_every_contest_converts_the_same(contest: Contest, up: bool) -> None:
    """A figure would compare two different conversions."""
    figures = measured(contest, up=up, rounds=1, times=1)
    assert min(figures.standard, figures.pair, figures.ratio, figures.forgetful_ratio) > 0


def test_the_record_has_every_contest_in_both_directions():
    """A rule would be missing from the documentation, or one direction be taken for the other."""
    (table,) = recorded_tables(Result("", [compare(rounds=1, times=1)]))
    names = {cell.name for row in table.rows for cell in row if isinstance(cell, Figure)}
    assert len(names) == 4 * 2 * len(CONTESTS)
    assert names == {figure.name for figure in load()["standardrules"].figures()}

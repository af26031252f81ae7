"""What a run of the demo comes to, as the documentation quotes it."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.demo import tables
from benchmarks.records import load, recorded_tables
from benchmarks.tables import Result
from demo.__main__ import DemoResult
from demo.checks import Check


def document(*, wrong: tuple[str, ...] = ()) -> dict[str, Any]:
    """The JSON of a run of one step, with two checks."""
    checks = (Check("first", "nothing is lost", 2), Check("then", "owners are kept", 2, wrong))
    return DemoResult("Kubernetes v1.37.0", 2000, checks, {"Migrate": 12.34}, 45.6).to_json()


def test_the_figures_of_a_run() -> None:
    """The documentation would quote something else than the demo said, or under other names than before."""
    found = Result("Demo", tables(document()))
    figures = {cell.name: cell.shown for table in recorded_tables(found) for row in table.rows for cell in row[1:]}
    assert figures == {
        "Demo > databases > each": "2,000",
        "Demo > checks that passed > each": "2",
        "Demo > whole run > each": "46 s",
        "Steps > Migrate > s": "12.3",
    }
    assert {name for name in figures if name.startswith("Demo")} <= {each.name for each in load()["demo"].figures()}


def test_a_failed_demo_is_not_recorded() -> None:
    """A page would count a check that failed among those that passed."""
    with pytest.raises(ValueError, match="owners are kept"):
        tables(document(wrong=("a",)))

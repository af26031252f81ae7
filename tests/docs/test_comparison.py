"""The comparison with other migrators claims nothing of restow that is not shown, or said not to be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from restow.conversion import rules

ROOT = Path(__file__).parent.parent.parent
HEADINGS = ["", "Cluster API", "KSVM", "in-tree 1.37", "restow", "shown by"]


def cells(line: str) -> list[str]:
    """The cells of a row."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables() -> list[list[list[str]]]:
    """The tables of the migrators, row by row, each with its headings first; tests/peers has those of conversions."""
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    blocks = page.partition("\n## Conversions\n")[0].split("\n\n")
    return [[cells(line) for line in block.splitlines()] for block in blocks if block.startswith("| |")]


def strategies() -> list[list[str]]:
    """The rows of the table of another project's strategies."""
    blocks = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8").split("\n\n")
    (table,) = (block for block in blocks if block.startswith("| strategy |"))
    return [cells(line) for line in table.splitlines()[2:]]


ROWS = [row for table in tables() for row in table[2:]]


def test_every_table_has_the_same_columns() -> None:
    """A row with a cell too few shifts one project's merits to another."""
    assert len(tables()) == 5 and len(ROWS) > 30
    for heading, _line, *rows in tables():
        assert heading == HEADINGS
        assert [len(row) for row in rows] == [len(HEADINGS)] * len(rows)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_row_says_how_it_is_shown(row: list[str]) -> None:
    """A claim that nobody can check is advertising; what restow does not do must be said as plainly."""
    *_others, restow, shown_by = row
    evidence = re.findall(r"`((?:tests/[\w/]+/)?test_\w+\.py|benchmarks/\w+)[^`]*`", shown_by)
    not_offered = shown_by == "no test: not offered"
    assert bool(evidence) or not_offered or "**not shown yet**" in shown_by
    assert not_offered is restow.startswith("no")
    for each in evidence:
        assert (ROOT / (each if "/" in each else f"tests/apiserver/{each}")).exists(), each


def test_every_strategy_has_a_row_with_rules_that_exist() -> None:
    """A strategy would be left out, or be answered by a rule that is not there."""
    rows = strategies()
    assert len(rows) == len({row[0] for row in rows}) == 29
    for strategy, rule, *losses in rows:
        assert len(losses) == 2, strategy
        named = re.findall(r"`(\w+)`", rule)
        assert named and set(named) <= set(rules.__all__), strategy

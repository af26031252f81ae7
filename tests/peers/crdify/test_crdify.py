"""crdify as the oracle of ``restow diff``: the same verdicts, or a row of docs/peers.md that says why not."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.peers.crdify.compared import ROWS, differences
from tests.peers.crdify.pairs import pairs

PAGE = Path(__file__).parents[3] / "docs" / "peers.md"

pytestmark = pytest.mark.timeout(3600)  # make peers compiles crdify


def test_every_difference_has_a_row_and_every_row_a_difference() -> None:
    """Whoever comes from crdify would find breaks missing here, or false alarms, that no page explains."""
    found = [
        (row, f"{name}: {difference}")
        for name, (old, new) in pairs().items()
        for row, difference in differences(old, new)
    ]
    assert [difference for row, difference in found if not row] == []
    assert {row for row, _ in found} == set(ROWS), Counter(row for row, _ in found)


def test_the_page_has_all_rows() -> None:
    """A reader would not find a difference that the tests know, or find one that nobody tries."""
    table = PAGE.read_text(encoding="utf-8").partition("## Compared with crdify")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == sorted(ROWS)

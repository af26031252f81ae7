"""The figures of the pages are those of benchmarks/results, of the code, or of a named source."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.figures import ROOT, pages, renew
from benchmarks.records import ResultRecord, load

RECORDS = load()


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_figures_are_those_of_the_records(page: Path) -> None:
    """A page would state what was never measured, or not what was measured last; ``make figures`` renews it."""
    text = page.read_text(encoding="utf-8")
    renewed = renew(page.relative_to(ROOT).as_posix(), text, RECORDS)
    assert renewed.problems == []
    assert renewed.text == text


@pytest.mark.parametrize("record", RECORDS.values(), ids=lambda record: record.name)
def test_a_record_names_a_command_of_this_checkout(record: ResultRecord) -> None:
    """A reader could not repeat a measurement whose program was renamed or removed."""
    module = re.match(r"python -m ([\w.]+)", record.command)
    assert module is not None and find_spec(module[1]) is not None, record.command


def test_every_record_is_shown_with_its_command() -> None:
    """A figure would be quoted whose command no page names, or a record be kept that no one looks at."""
    text = "".join(page.read_text(encoding="utf-8") for page in pages())
    assert set(re.findall(r"<!-- record: ([\w.-]+)", text)) == set(RECORDS)
    assert [record.name for record in RECORDS.values() if f"`{record.command}`" not in text] == []

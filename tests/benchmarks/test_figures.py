"""Pages quote records, the code and others' statements; what differs, and what has no source, is found."""

from __future__ import annotations

import pytest

from benchmarks.figures import renew
from benchmarks.records import Machine, ResultRecord, Transcribed, recorded_tables
from benchmarks.tables import Result, Table

COMMAND = "python -m benchmarks.migration"
BACKTICKS = "```"


def record(**changes: object) -> ResultRecord:
    """A record with two tables."""
    tables = [
        Table("Rates", ("contender", "objects/s"), (("restow", "413"), ("other", "1,229"))),
        Table("Memory", ("objects", "MiB"), (("few", "94.8"), ("many", "102.6"))),
    ]
    machine = Machine(cores=2, python="3.11", kubernetes="1.37.0", other_cores=0.1)
    fields = {
        "command": COMMAND,
        "date": "2026-01-01",
        "machine": machine,
        "tables": recorded_tables(Result("", tables)),
    }
    return ResultRecord(name="a.b", **(fields | changes))  # type: ignore[arg-type]


RECORDS = {"a.b": record()}
TABLE = f"""\
<!-- record: a.b > Memory -->
| objects | MiB |
|---|---:|
| few | 94.8 |
| many | 102.6 |

`{COMMAND}`, 2026-01-01: 2 cores, Python 3.11, Kubernetes 1.37.0; other programs kept 0.10 cores busy.
<!-- end of record -->
"""


def quoting(text: str, few: str, many: str) -> str:
    """A sentence with two figures of the record."""
    comments = (
        f"<!-- figure: {few} = a.b > Memory > few > MiB -->",
        f"<!-- figure: {many} = a.b > Memory > many > MiB -->",
    )
    return "\n".join([text.format(few, many), *comments])


@pytest.mark.parametrize(
    ("text", "renewed"),
    [
        (TABLE, TABLE),
        (TABLE.replace("94.8", "90"), TABLE),
        ("a\n<!-- record: a.b > Memory -->\n<!-- end of record -->\n", f"a\n{TABLE}"),
        (
            quoting("It takes {}\nMiB, then {} MiB.", "90.0", "99"),
            quoting("It takes {}\nMiB, then {} MiB.", "94.8", "102.6"),
        ),
        (
            "1, then 1 MiB\n<!-- source: 1 = https://a.b -->\n<!-- figure: 1 = a.b > Memory > few > MiB -->",
            "1, then 94.8 MiB\n<!-- source: 1 = https://a.b -->\n<!-- figure: 94.8 = a.b > Memory > few > MiB -->",
        ),
        (
            "At 12 of 2 objects/s\n<!-- figure: 2 = a.b > Rates > other > objects/s -->\n",
            "At 12 of 1,229 objects/s\n<!-- figure: 1,229 = a.b > Rates > other > objects/s -->\n",
        ),
    ],
)
def test_what_differs_is_renewed(text: str, renewed: str) -> None:
    """A page with the figures of an earlier run, or a figure written over another one, would be published."""
    found = renew("a.md", text, RECORDS)
    assert (found.text, found.problems) == (renewed, [])
    again = renew("a.md", found.text, RECORDS)
    assert (again.text, again.problems) == (renewed, [])


def test_all_tables_of_a_record_have_their_names() -> None:
    """Tables of one record next to each other could not be told apart."""
    found = renew("a.md", "<!-- record: a.b -->\n<!-- end of record -->\n", RECORDS)
    assert found.problems == []
    assert [line for line in found.text.splitlines() if line.startswith("**")] == ["**Rates**", "**Memory**"]


def test_a_transcribed_record_says_so() -> None:
    """A reader would take figures from a page for recorded ones."""
    records = {"a.b": record(transcribed=Transcribed(commit="0a1b2c3", load="nothing else was at work"))}
    found = renew("a.md", "<!-- record: a.b > Memory -->\n<!-- end of record -->\n", records)
    assert (
        "; nothing else was at work. These figures were copied from the documentation as of commit 0a1b2c3."
        in found.text
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a\n\nIt is 2 times as fast.\n", "a.md:3: 2 times as is a figure"),
        ("It is 2.5x.\n", "2.5x is a figure"),
        ("A margin of 78 \u00d7.\n", "is a figure"),
        ("# A\nIt takes 12 ms.\n\n# B\n", "a.md:2: 12 ms is a figure"),
        ("It does\n1,203 objects/s.\n", "1,203 objects/s is a figure"),
        ("It takes 64\nMiB.\n", "64 MiB is a figure"),
        ("Seeds 1 to 1000 are ok.\n", "Seeds 1 to 1000 is a figure"),
        ("All 480 seeds are ok.\n", "480 seeds is a figure"),
        ("- a 3 s of CPU\n", "3 s of CPU is a figure"),
        ("| a | p99, ms |\n|---|---|\n| few | 0.2 |\n", "a.md:3: 0.2 is a figure"),
        ("12 ms\n<!-- source: 12 ms = https://a.example -->\nand 13 ms\n", "a.md:3: 13 ms is a figure"),
        ("12 s\n<!-- source: 13 s = https://a.example -->\n", "does not say 13 s"),
        ("12.5 s\n<!-- figure: 2.5 = a.b > Memory > few > MiB -->\n", "does not say 2.5"),
        ("`12` ms\n<!-- figure: 12 = a.b > Memory > few > MiB -->\n", "does not say 12"),
        ("2 and 1\n<!-- source: 1 = https://a.b -->\n<!-- source: 2 = https://a.b -->\n", "does not say 2"),
        ("1\n<!-- figure: 1 = a.c > Memory > few > MiB -->\n", "there is no record a.c"),
        ("1\n<!-- figure: 1 = a.b > Memory > none > MiB -->\n", "a.b has no figure Memory > none > MiB"),
        ("<!-- record: a.b > Rate -->\n<!-- end of record -->\n", "a.b has no table 'Rate'"),
        ("<!-- record: a.c -->\n<!-- end of record -->\n", "there is no record a.c"),
        (f"<!-- record: a.b > Rates -->\n\n{TABLE}", "a.md:1: no <!-- end of record --> follows"),
        ("a\n\n<!-- record: a.b > Rates -->\n# b\n", "a.md:3: no <!-- end of record --> follows"),
        ("It is 1.35 times that.\n", "1.35 times is a figure"),
        ("a ` b\n\nIt takes 12 ms and a ` c\n", "a.md:3: 12 ms is a figure"),
        ("1 ms\n<!-- source: 1 ms = tests/benchmarks/test_figures.py::test_none -->\n", "is neither a link nor a test"),
        ("<!-- record: a.b > Rates -->\n", "no <!-- end of record --> follows"),
        ("1 ms\n<!-- source: 1 ms = tests/none.py -->\n", "tests/none.py is neither a link nor a test"),
        (
            "9 MiB\n<!-- constant: 9 MiB = restow.conversion.server:Limits.object -->\n",
            "8,388,608, and the page says 9 MiB",
        ),
        ("9 MiB\n<!-- constant: 9 MiB = restow.conversion.server:Limits.none -->\n", "Limits.none: "),
        ("9 MiB\n<!-- constant: 9 MiB = restow.none:A -->\n", "restow.none:A: "),
        ("9 MiB\n<!-- constant: 9 MiB = restow.conversion.server:Limits -->\n", "is no number"),
        ("9 ells\n<!-- constant: 9 ells = restow.conversion.server:Limits.object -->\n", "no number with a known unit"),
    ],
)
def test_what_is_wrong_is_found_with_its_line(text: str, problem: str) -> None:
    """A figure that no command, code or source has would stand on a page, and nothing would fail."""
    found = renew("a.md", text, RECORDS)
    assert len(found.problems) == 1 and problem in found.problems[0]
    assert found.text == text


@pytest.mark.parametrize(
    "text",
    [
        f"{BACKTICKS}\nIt takes 12 ms.\n{BACKTICKS}\n",
        "`12 ms`, and [a](12ms.md)\n",
        "Version 0.x of 2026, 30 s, three times as fast\n",
        "| a | objects |\n|---|---|\n| b | 12 |\n",
        "8 MiB\n<!-- constant: 8 MiB = restow.conversion.server:Limits.object -->\n",
        "65 s\n<!-- constant: 65 s = restow.migrator:Options.settle_s -->\n",
        "1 ms\n<!-- source: 1 ms = tests/benchmarks/test_figures.py::test_what_needs_no_source -->\n",
    ],
)
def test_what_needs_no_source(text: str) -> None:
    """Examples, versions and limits that the code has would need records."""
    found = renew("a.md", text, RECORDS)
    assert (found.text, found.problems) == (text, [])

"""Tables on terminals: everything that is copied from them stays in one piece."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from restow.cli.tables import TableLayout, fold, lay_out

ROOT = Path(__file__).parents[2]
COLUMNS = ("name", "storage", "served", "stored", "strategy", "state")
CRDS = [
    ("volumesnapshotcontents.snapshot.storage.k8s.io", "v1", "v1beta1,v1", "v1beta1,v1", "Webhook", "migration due"),
    ("widgets.example.com", "v1", "v1", "v1", "None", "native migration running"),
]
SPARE = ("strategy", "served")

words = st.lists(st.text("abcdefgh-./,", min_size=1, max_size=30), min_size=1, max_size=8).map(" ".join)


def shown(width: int | None, spare: tuple[str, ...] = SPARE) -> TableLayout:
    """The two CRDs at a width."""
    return lay_out(COLUMNS, CRDS, width, spare)


def test_without_a_width_a_row_is_a_line() -> None:
    """``grep``, ``awk`` and a pager that scrolls to the side get whole rows, however long they are."""
    table = shown(None)
    assert len(table.heading) == 1
    assert [line.split() for line in table.lines] == [" ".join(row).split() for row in CRDS]


def test_a_table_that_fits_is_the_same_with_a_width() -> None:
    """A wide terminal must not rearrange what fits."""
    assert shown(200) == shown(None)


def test_at_80_columns_lists_and_sentences_fold_between_words() -> None:
    """A name that is broken by characters can be neither read nor copied."""
    columns, rows = ("name", "served", "state"), [(row[0], row[2], row[5]) for row in CRDS]
    assert lay_out(columns, rows, 76).lines == (
        "volumesnapshotcontents.snapshot.storage.k8s.io  v1beta1,v1  migration due",
        "widgets.example.com                             v1          native migration",
        "                                                            running",
    )


def test_a_terminal_shows_no_column_that_says_nothing() -> None:
    """A column of zeros took the room of the one that has the news."""
    columns, rows = ("name", "translated", "remaining"), [("a", "7", "0"), ("b", "0", "0")]
    trivial = {"translated": "0", "remaining": "0"}
    table = lay_out(columns, rows, 80, ("remaining",), trivial)
    assert (table.heading[0].split(), table.left_out) == (["NAME", "TRANSLATED"], ())
    assert lay_out(columns, rows, 15, (), trivial).lines == ("a", "  TRANSLATED: 7", "b", "  TRANSLATED: 0")
    assert "REMAINING" in lay_out(columns, rows, None, (), trivial).heading[0]
    assert "REMAINING" in lay_out(columns, [], 80, (), trivial).heading[0]


def test_a_narrow_terminal_leaves_out_the_columns_that_can_be_spared_and_says_which() -> None:
    """A column that goes without a word is taken for one that does not exist."""
    table = shown(80)
    assert table.left_out == ("STRATEGY", "SERVED")
    assert table.heading[0].split() == ["NAME", "STORAGE", "STORED", "STATE"]
    assert max(map(cell_len, table.lines)) <= 80


def test_at_50_columns_a_row_becomes_a_block_with_every_column() -> None:
    """A name of 46 characters leaves no room for a table, and what is said of it must still be readable."""
    table = shown(50)
    assert (table.heading, table.left_out) == ((), ())
    assert table.lines[:6] == (
        "volumesnapshotcontents.snapshot.storage.k8s.io",
        "  STORAGE: v1",
        "  SERVED: v1beta1,v1",
        "  STORED: v1beta1,v1",
        "  STRATEGY: Webhook",
        "  STATE: migration due",
    )


def test_a_block_leaves_out_what_has_no_value_and_fills_its_lines() -> None:
    """Lines that say nothing hide those that do, and a line that ends early looks like the end of the sentence."""
    row = ("a" * 30, "-", "LIST at this version since 2026-11-26T11:10:50Z; controllers of Kubernetes are counted too")
    assert lay_out(("name", "where", "detail"), [row], 50).lines == (
        "a" * 30,
        "  DETAIL: LIST at this version since",
        "    2026-11-26T11:10:50Z; controllers of",
        "    Kubernetes are counted too",
    )


def test_a_sentence_folds_between_words_and_keeps_lists_whole() -> None:
    """A command in it is copied: a line that ends inside of a word makes two of one."""
    said = "1. run restow migrate widgets.example.com,gadgets.example.com first"
    assert fold(said, 30, then="   ") == [
        "1. run restow migrate",
        "   widgets.example.com,gadgets.example.com",
        "   first",
    ]
    assert fold(said, None) == [said]


@given(st.lists(st.tuples(words, words, words), max_size=4), st.integers(10, 120), st.booleans())
def test_every_word_is_whole_and_only_a_longer_word_is_wider_than_the_terminal(
    rows: list[tuple[str, str, str]], width: int, spares: bool
) -> None:
    """A layout that loses or breaks a word in a rare combination of widths would be noticed by whoever needs it."""
    columns = ("name", "some words", "last")
    table = lay_out(columns, rows, width, ("some words",) if spares else ())
    kept = [index for index, name in enumerate(columns) if name.upper() not in table.left_out]
    wanted = sorted(part for row in rows for index in kept for part in parts(row[index]))
    found = [part for line in table.lines for part in parts(line)]
    if not table.heading:
        found = [part for part in found if part not in ("SOME", "WORDS:", "LAST:")]
    assert sorted(found) == wanted
    for line in table.lines:
        assert cell_len(line) <= width or len(parts(line)) == 1 or not table.heading


PROGRAM = """
import click
from restow.cli.options import output
from restow.cli.printing import print_table, say

@click.command
@output
def main(output):
    row = ("volumesnapshotcontents.snapshot.storage.k8s.io", "v1beta1,v1", "native migration running")
    print_table(("name", "served", "state"), [row], spare=("served",))
    say("x" * 90 + " is a name", style="red")

main()
"""


def printed(columns: int, *arguments: str, **environment: str) -> str:
    """What a command prints on a terminal of so many columns."""
    reader, terminal = pty.openpty()
    quiet = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "CI")}
    variables = quiet | {"COLUMNS": str(columns), "TERM": "xterm"} | environment
    command = [sys.executable, "-c", PROGRAM, *arguments]
    with subprocess.Popen(command, stdout=terminal, stderr=terminal, env=variables) as process:
        os.close(terminal)
        found = b""
        with contextlib.suppress(OSError):  # Linux's end of a terminal
            while read := os.read(reader, 4096):
                found += read
        assert process.wait() == 0
    os.close(reader)
    return found.decode().replace("\r\n", "\n")


def test_a_terminal_gets_what_fits_and_all_with_wide() -> None:
    """The width is the terminal's, and -o wide is the way to the columns that were left out."""
    assert "too narrow for SERVED: -o wide shows all columns" in printed(66)
    wide = printed(66, "-o", "wide")
    assert "v1beta1,v1  native migration running\n" in wide
    assert "too narrow" not in wide


@pytest.mark.parametrize("columns", [80, 50])
def test_a_message_breaks_no_name(columns: int) -> None:
    """The name of an object in a message is copied into the next command."""
    assert "x" * 90 in printed(columns)


def test_no_color_leaves_no_colour_on_a_terminal() -> None:
    """People who cannot read colours set it everywhere."""
    assert "\x1b[31m" in printed(80)
    assert "\x1b[31m" not in printed(80, NO_COLOR="1")


COLOURS = re.compile(r"\b(?:bright_)?(?:black|blue|cyan|green|magenta|red|white|yellow)\b(?! on)")
STYLE = re.compile(r'style[=:]|_STYLES|"(?:bold )?(?:yellow|green|cyan|blue|white|bright_\w+)"')


def test_every_colour_is_readable_on_a_light_terminal() -> None:
    """Yellow, green and cyan letters on white have a contrast below 2.5; red and magenta are readable on both."""
    wrong = {
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for folder in ("restow", "demo")
        for file in (ROOT / folder).rglob("*.py")
        if file.relative_to(ROOT).parts[:2] != ("restow", "report")
        for line in file.read_text(encoding="utf-8").splitlines()
        if STYLE.search(line) and " on " not in line and set(COLOURS.findall(line)) - {"red", "magenta"}
    }
    assert wrong == set()


def parts(text: str) -> list[str]:
    """What a line may not break."""
    return [part for word in text.split() for part in word.replace(",", ", ").split()]

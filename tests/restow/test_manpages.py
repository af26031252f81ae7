"""The manual pages: every command has one with what people look for, and roff reads it without a complaint."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from restow.cli.shared import SharedOption
from restow.main import COMMANDS, main
from restow.manpages import examples, pages
from restow.manpages import main as write

ROOT = Path(__file__).parents[2]
SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"]


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    """All pages."""
    return pages(main, "restow", "1.2.3")


def _commands(command: click.Command, title: str) -> Iterator[tuple[str, click.Command]]:
    yield title, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _commands(below, f"{title}-{name}")


ALL = list(_commands(main, "restow"))
each_command = pytest.mark.parametrize(("title", "command"), ALL, ids=[title for title, _ in ALL])


@each_command
def test_every_command_has_a_page_with_its_sections(
    written: dict[str, str], title: str, command: click.Command
) -> None:
    """``man restow-plan`` would find nothing, or not tell how it is called, how it ends, and what to type."""
    page = written[f"{title}.1"]
    found = re.findall(r"^\.SH (.+)$", page, re.MULTILINE)
    optional = {"DESCRIPTION", "COMMANDS", "SEE ALSO"}
    assert [each for each in found if each != "COMMANDS"] == [each for each in SECTIONS if each in found]
    assert set(SECTIONS) - set(found) <= optional
    name = title.replace("-", r"\-")
    assert f".SH NAME\n{name} \\- " in page
    assert re.search(r"^\.B 0\n", page, re.MULTILINE), "how it ends well is not told"
    assert re.search(r"^\.B 2\n", page, re.MULTILINE), "how a wrong use ends is not told"
    for parameter in command.params:
        if isinstance(parameter, SharedOption) and title != "restow-options":
            assert ".BR restow\\-options (1)" in page
            continue
        for flag in parameter.opts if isinstance(parameter, click.Option) else ():
            assert flag.replace("-", r"\-") in page


def test_there_is_no_other_page(written: dict[str, str]) -> None:
    """A page of a command that is no more would be installed."""
    assert written.keys() == {f"{title}.1" for title, _ in ALL}


def test_the_first_page_leads_to_every_command(written: dict[str, str]) -> None:
    """Who reads ``man restow`` would not learn of a command."""
    for name, text in COMMANDS.items():
        shown = text.replace("-", r"\-").replace("'", r"\(aq")
        assert f".BR restow\\-{name} (1)\n{shown}\n" in written["restow.1"]


def test_the_exit_codes_are_told_one_by_one(written: dict[str, str]) -> None:
    """A Job that tells "run again" from "never" is written by this section."""
    told = written["restow-plan.1"].partition(".SH EXIT STATUS\n")[2].partition(".SH")[0]
    assert told.splitlines() == [
        *(".TP", ".B 0", "Nothing is due."),
        *(".TP", ".B 1", "A migration would fail."),
        *(".TP", ".B 2", "Usage or refused."),
        *(".TP", ".B 3", "Work is due."),
        *(".TP", ".B 4", "The API server or a converter stayed out of reach."),
    ]


@each_command
def test_roff_renders_the_page_without_a_complaint(
    written: dict[str, str], title: str, command: click.Command, tmp_path: Path
) -> None:
    """A hyphen that cannot be searched, a line that roff takes as a command, or an unknown escape would be shown."""
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("there is no groff here")
    file = tmp_path / f"{title}.1"
    file.write_text(written[f"{title}.1"], encoding="utf-8")
    ran = subprocess.run(
        [groff, "-man", "-ww", "-Tutf8", "-P-cbou", "-rLL=200n", "-rHY=0", str(file)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    shown = " ".join(ran.stdout.split())
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if not paragraph.startswith(("\b", "Exit codes:")):
            assert " ".join(paragraph.split()).rstrip(".") in shown
    for line in examples(command):
        assert " ".join(line.split()) in shown


def test_the_program_writes_them_into_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``make man`` would leave nothing, or report success without a folder."""
    folder = tmp_path / "made" / "man"
    assert write([str(folder)]) == 0
    assert {file.name for file in folder.iterdir()} == {f"{title}.1" for title, _ in ALL}
    assert write([]) == 2
    assert "usage" in capsys.readouterr().err
    assert "restow.manpages dist/man" in (ROOT / "Makefile").read_text(encoding="utf-8")

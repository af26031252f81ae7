"""Print results as a table for people, or as JSON or YAML for programs; results go to stdout, messages to stderr.

Every command prints through this module (a linter rule enforces it), because names and messages come from manifests and
servers: a control character in one could move a terminal's cursor, set its title, or start a line that looks like
restow's own. The module shows control characters as escapes, for example ``\u001b``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
import msgspec
import yaml
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from restow.cli.escapes import escaped, has_controls, visible
from restow.cli.tables import fold, lay_out

_WIDE = "restow.cli.printing.wide"
_NO_LIMIT = 100_000  # columns; a row is only as wide as its cells


class _Console(Console):
    """Escapes control characters in all text, including live views; Rich's own styles stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or not has_controls(segment.text):
                yield segment
            else:
                yield Segment(escaped(segment.text), segment.style)


class _Messages(_Console):
    """Stops printing when the reader has closed the pipe: messages must not end the work."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def console(*, stderr: bool = False) -> Console:
    """Return a console. Only on a terminal it uses colours and wraps lines; in a pipe a row is one line."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    coloured = has_colours(os.environ, terminal=terminal)
    made = (_Messages if stderr else _Console)(
        stderr=stderr, highlight=False, force_terminal=terminal or coloured, no_color=not coloured
    )
    if not terminal:
        made.soft_wrap, made.width = True, _NO_LIMIT
    return made


def has_colours(environment: Mapping[str, str], *, terminal: bool) -> bool:
    """Return whether to print colours, according to NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE and CLICOLOR."""
    if environment.get("NO_COLOR"):
        return False
    if any(environment.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return terminal and environment.get("CLICOLOR") != "0"


def echo(text: str = "", *, err: bool = False) -> None:
    """Print one line."""
    click.echo(visible(text), err=err)


def print_sentence(text: str, *, first: str = "", then: str = "  ") -> None:
    """Print a sentence of the result; a terminal folds it between words.

    Args:
        text: the sentence.
        first: what the first line begins with.
        then: what the other lines begin with.
    """
    out = console()
    for line in fold(visible(text), out.width if out.file.isatty() else None, first=first, then=then):
        click.echo(line)


def print_text(text: str) -> None:
    """Print a text for programs, or the user's own text, unchanged; on a terminal, escape its control characters."""
    shown = escaped(text) if sys.stdout.isatty() else text
    click.echo(shown.encode(errors="replace"), nl=False)


def print_data(data: Any, form: str) -> None:
    """Print data as ``json`` or ``yaml``; both formats write control characters as escapes with the same meaning."""
    if form == "json":
        text = msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
        click.echo(escaped(text))
    else:
        text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
        click.echo(escaped(text), nl=False)


class _Dumper(yaml.SafeDumper):
    """Writes strings with control characters in double quotes, where YAML allows escapes."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if has_controls(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, spare: Sequence[str] = ()) -> None:
    """Print a borderless table like kubectl's, fitted to the width of a terminal (``restow.cli.tables``).

    Args:
        columns: the column names.
        rows: the cells of each row.
        spare: columns that a narrow terminal may omit, the first one first; -o wide shows them.
    """
    out = console()
    width = out.width if out.file.isatty() and not is_wide() else None
    table = lay_out(columns, [[visible(cell) for cell in row] for row in rows], width, spare)
    for line in table.heading:
        out.print(Text(line, style="bold"), soft_wrap=True)
    for line in table.lines:
        out.print(Text(line), soft_wrap=True)
    if table.left_out:
        say(f"The terminal is too narrow for {', '.join(table.left_out)}: -o wide shows all columns.", style="dim")


def note_wide(context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """Read ``-o wide``, which shows all columns at any terminal width; a click callback."""
    if value != "wide":
        return value
    context.meta[_WIDE] = True
    return "table"


def is_wide() -> bool:
    """Return whether the user gave ``-o wide``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_WIDE))


def say(text: str, *, style: str = "") -> None:
    """Print a message on stderr, separate from the result; a terminal folds it between words."""
    out = console(stderr=True)
    for line in fold(visible(text), out.width if out.file.isatty() else None):
        out.print(Text(line, style=style), soft_wrap=True)


def counted(number: int, what: str) -> str:
    """Return a number with its noun: ``1 object``, ``2 objects``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

"""How results are printed: a table for people, JSON or YAML for programs; always on stdout, messages on stderr.

Every command prints through this module (a linter's rule sees to it), since names and messages come from manifests and
servers: a control character in one could move a terminal's cursor, set its title, or begin a line that looks like the
command's own. They are shown as their escapes, ``\u001b`` for instance.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec
import yaml
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from restow.cli.escapes import escaped, has_controls, visible

__all__ = [
    "console",
    "echo",
    "print_data",
    "print_table",
    "print_text",
    "say",
]


_NO_LIMIT = 100_000  # columns; rows are only as wide as their cells


class _Console(Console):
    """Shows control characters in whatever it is given, a live view too; styles are Rich's own and stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or not has_controls(segment.text):
                yield segment
            else:
                yield Segment(escaped(segment.text), segment.style)


class _Messages(_Console):
    """Stops printing when its reader has closed the pipe: messages must not end the work."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def console(*, stderr: bool = False) -> Console:
    """Return a console: colours and lines broken between words on a terminal only, one line a row in a pipe."""
    made = (_Messages if stderr else _Console)(stderr=stderr, highlight=False)
    if not made.is_terminal:
        made.soft_wrap, made.width = True, _NO_LIMIT
    return made


def echo(text: str = "", *, err: bool = False) -> None:
    """Print one line."""
    click.echo(visible(text), err=err)


def print_text(text: str) -> None:
    """Print a text for programs, or of the user, as it is; on a terminal its control characters as escapes."""
    shown = escaped(text) if sys.stdout.isatty() else text
    click.echo(shown.encode(errors="replace"), nl=False)


def print_data(data: Any, form: str) -> None:
    """Print as ``json`` or ``yaml``: control characters stand in escapes there as well, and mean the same."""
    if form == "json":
        text = msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
        click.echo(escaped(text))
    else:
        text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
        click.echo(escaped(text), nl=False)


class _Dumper(yaml.SafeDumper):
    """Writes texts with control characters in double quotes, where an escape stands for one."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if has_controls(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a borderless table with kubectl's look: upper-case headings, columns as wide as they need."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.upper(), overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    console().print(table)


def say(text: str, *, style: str = "") -> None:
    """Print a message on stderr, apart from the result."""
    console(stderr=True).print(Text(visible(text), style=style))

"""How results are printed: a table for people, JSON or YAML for programs; always on stdout, messages on stderr."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec
import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

_NO_LIMIT = 100_000  # columns; rows are only as wide as their cells

__all__ = ["console", "print_data", "print_table", "say"]


class _Messages(Console):
    """Falls silent when nobody reads it any more: what is told beside the work must not end the work."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def console(*, stderr: bool = False) -> Console:
    """Return a console: colours and lines broken between words on a terminal only, one line a row in a pipe."""
    made = (_Messages if stderr else Console)(stderr=stderr, highlight=False)
    if not made.is_terminal:
        made.soft_wrap, made.width = True, _NO_LIMIT
    return made


def print_data(data: Any, form: str) -> None:
    """Print as ``json`` or ``yaml``."""
    if form == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(data), indent=2))
    else:
        click.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a borderless table with kubectl's look: upper-case headings, columns as wide as they need."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.upper(), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def say(text: str, *, style: str = "") -> None:
    """Tell something beside the result, on stderr."""
    console(stderr=True).print(Text(text, style=style))

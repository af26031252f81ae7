"""How results are printed: a table for people, JSON or YAML for programs; always on stdout, messages on stderr.

Every command prints through this module (a linter's rule sees to it), since names and messages come from manifests and
servers: a control character in one could move a terminal's cursor, set its title, or begin a line that looks like the
command's own. They are shown as their escapes, ``\u001b`` for instance.
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
from restow.cli.tables import lay_out

__all__ = [
    "console",
    "counted",
    "echo",
    "has_colours",
    "is_wide",
    "note_wide",
    "print_data",
    "print_table",
    "print_text",
    "say",
]


_WIDE = "restow.cli.printing.wide"
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
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    coloured = has_colours(os.environ, terminal=terminal)
    made = (_Messages if stderr else _Console)(
        stderr=stderr, highlight=False, force_terminal=terminal or coloured, no_color=not coloured
    )
    if not terminal:
        made.soft_wrap, made.width = True, _NO_LIMIT
    return made


def has_colours(environment: Mapping[str, str], *, terminal: bool) -> bool:
    """Return whether output has colours, by the conventions of NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE and CLICOLOR."""
    if environment.get("NO_COLOR"):
        return False
    if any(environment.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return terminal and environment.get("CLICOLOR") != "0"


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


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, spare: Sequence[str] = ()) -> None:
    """Print a borderless table with kubectl's look; on a terminal as wide as that (``restow.cli.tables``).

    Args:
        columns: the column names.
        rows: the cells of each row.
        spare: columns that a narrow terminal may do without, the first one first; -o wide shows them.
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
    """Read ``-o wide``, a table with all columns however narrow the terminal is: a callback of click."""
    if value != "wide":
        return value
    context.meta[_WIDE] = True
    return "table"


def is_wide() -> bool:
    """Return whether the command was given ``-o wide``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_WIDE))


def say(text: str, *, style: str = "") -> None:
    """Print a message on stderr, apart from the result."""
    # Words stay whole, however narrow the terminal is.
    console(stderr=True).print(Text(visible(text), style=style), overflow="ignore", crop=False)


def counted(number: int, what: str) -> str:
    """Return ``1 object``, ``2 objects``: a number with its noun."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

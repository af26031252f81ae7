"""Print results as a table for people, or as JSON or YAML for programs; results go to stdout, messages to stderr.

Every command prints through this module (a linter rule enforces it), because names and messages come from manifests and
servers: a control character in one could move a terminal's cursor, set its title, or start a line that looks like
restow's own. The module shows control characters as escapes, for example ``\u001b``.

The libraries of a format are imported when something is printed in it: help needs none of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import click

from restow.cli.escapes import escaped, has_controls, visible

_WIDE = "restow.cli.printing.wide"


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
    from restow.cli.tables import fold

    for line in fold(visible(text), terminal_width(), first=first, then=then):
        click.echo(line)


def print_text(text: str) -> None:
    """Print a text for programs, or the user's own text, unchanged; on a terminal, escape its control characters."""
    shown = escaped(text) if sys.stdout.isatty() else text
    click.echo(shown.encode(errors="replace"), nl=False)


def print_data(data: Any, form: str) -> None:
    """Print data as ``json`` or ``yaml``; both formats write control characters as escapes with the same meaning."""
    if form == "json":
        import msgspec

        text = msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
        click.echo(escaped(text))
    else:
        import yaml

        class Dumper(yaml.SafeDumper):
            """Writes strings with control characters in double quotes, where YAML allows escapes."""

        def represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
            style = '"' if has_controls(text) else None
            return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

        Dumper.add_representer(str, represent)
        text = yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True)
        click.echo(escaped(text), nl=False)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    spare: Sequence[str] = (),
    trivial: Mapping[str, str] | None = None,
) -> None:
    """Print a borderless table like kubectl's, fitted to the width of a terminal (``restow.cli.tables``).

    Args:
        columns: the column names.
        rows: the cells of each row.
        spare: columns that a narrow terminal may omit, the first one first; -o wide shows them.
        trivial: columns that a terminal omits if all cells have this value; -o wide shows them.
    """
    from restow.cli.tables import lay_out

    width = None if is_wide() else terminal_width()
    table = lay_out(columns, [[visible(cell) for cell in row] for row in rows], width, spare, trivial or {})
    _print_lines(table.heading, "bold")
    _print_lines(table.lines)
    if table.left_out:
        say(f"The terminal is too narrow for {', '.join(table.left_out)}: -o wide shows all columns.", style="dim")


def print_heading(text: str) -> None:
    """Print the heading of a table."""
    _print_lines((visible(text),), "bold")


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
    from restow.cli.tables import fold

    _print_lines(fold(visible(text), terminal_width(stderr=True)), style, stderr=True)


def terminal_width(*, stderr: bool = False) -> int | None:
    """Return the width of the terminal in columns, None in a pipe, where a row is one line."""
    if not (sys.stderr if stderr else sys.stdout).isatty():
        return None
    from restow.cli.console import console

    return console(stderr=stderr).width


def _print_lines(lines: Iterable[str], style: str = "", *, stderr: bool = False) -> None:
    """Print lines in a style; a closed pipe ends a result, but messages do not end the work."""
    stream = sys.stderr if stderr else sys.stdout
    if has_colours(os.environ, terminal=stream.isatty()):
        from restow.cli.console import console

        out = console(stderr=stderr)
        for line in lines:
            out.print(line, style=style or None, markup=False, emoji=False, soft_wrap=True)
        return
    with suppress(*([BrokenPipeError] if stderr else [])):
        for line in lines:
            click.echo(escaped(line), err=stderr)


def counted(number: int, what: str) -> str:
    """Return a number with its noun: ``1 object``, ``2 objects``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

"""How commands show their help: folded between words at any width, and the options of all of them shown once.

As with kubectl, ``restow options`` shows the options that every command with an API server takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

import click

from restow.cli.tables import fold

OPTIONS: Final = "options"
"""The name of the command that shows the shared options."""

WORDS: Final = "restow.words"
"""The key of a context's ``meta`` with the command line, from the command's name on."""

_POINTER: Final = "`restow options` shows the options that select the cluster, the user and the log."
_NARROWEST: Final = 30  # columns of the explanations; on a narrower terminal they are below their options


class SharedOption(click.Option):
    """An option that only the help of ``restow options`` shows."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if ctx.command.name == OPTIONS else None


option = partial(click.option, cls=SharedOption)


class _Formatter(click.HelpFormatter):
    """Folds between words only: click's formatter also breaks words at hyphens, and leaves examples too wide."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        self.write("\n".join(fold(f"{prefix or 'Usage: '}{prog} {args}", self.width, then="    ")) + "\n")

    def write_text(self, text: str) -> None:
        indent = " " * self.current_indent
        parts = (
            [each for line in part.splitlines()[1:] for each in _example(line, self.width, indent)]
            if part.startswith("\b")
            else fold(" ".join(part.split()), self.width, first=indent, then=indent)
            for part in text.strip("\n").split("\n\n")
        )
        self.write("\n\n".join(map("\n".join, parts)) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        rows = list(rows)
        widest = min(max(len(first) for first, _ in rows), col_max)
        below = self.width - self.current_indent - widest - col_spacing < _NARROWEST
        start, column = " " * self.current_indent, 4 if below else widest + col_spacing
        for first, second in rows:
            room = " " * column
            lines = fold(second, self.width, first=start + room, then=start + room)
            if len(first) <= column - col_spacing and not below:
                lines[0] = start + first.ljust(column) + lines[0].lstrip()
            else:
                lines = [*fold(first, self.width, first=start, then=start + room), *lines]
            self.write("\n".join(lines).rstrip() + "\n")


def _example(line: str, width: int, indent: str) -> list[str]:
    """Return the lines of an example, which can still be copied into a shell if it is folded."""
    if len(indent + line) <= width:
        return [indent + line]
    command, _, comment = line.partition("  #")
    said = fold(f"# {comment.strip()}", width, first=indent, then=f"{indent}# ") if comment else []
    *before, last = fold(" ".join(command.split()), width - 2, first=indent, then=f"{indent}  ")
    return [*said, *(f"{each} \\" for each in before), last]


class HelpContext(click.Context):
    """The context of every command."""

    formatter_class = _Formatter


def dressed(command: click.Command) -> click.Command:
    """Return a command with this help; that of a command with shared options names ``restow options`` at its end."""
    command.context_class = HelpContext
    if command.name != OPTIONS and any(isinstance(each, SharedOption) for each in command.params):
        command.epilog = _POINTER
    return command

"""The output of the demo: numbered steps, short sentences, commands and responses.

A log gets plain lines, a terminal gets colours and a progress bar. The narration goes to stdout, bars go to stderr.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from restow.cli.console import console

__all__ = ["Narration"]

_INDENT = 3
_WIDTH = 110


class Narration:
    """Prints the narration; ``seconds`` has the duration of each step, by its title."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Print the title of a step, and its duration at its end."""
        begun = time.monotonic()
        self._print("")
        self._print(f"{len(self.seconds) + 1}. {title}", "bold", indent=0)
        self.seconds[title] = 0.0
        yield
        self.seconds[title] = time.monotonic() - begun
        self._print(f"({self.seconds[title]:.1f} s)", "dim")

    def say(self, sentence: str) -> None:
        """Print one or two sentences."""
        self._print(sentence)

    def heading(self, part: str) -> None:
        """Print the heading of a part of a step."""
        self._print("")
        self._print(part, "bold")

    def command(self, command: str) -> None:
        """Print a command; the demo sends the same request itself."""
        self._print(f"$ {command}", "bold")

    def output(self, response: str, *, good: bool | None = None) -> None:
        """Print a response or a result, and colour it if it is good or bad."""
        self._print(response, {True: "bold", False: "red", None: ""}[good], indent=_INDENT + 2)

    @contextmanager
    def counting(self, what: str, total: int) -> Iterator[Callable[[], None]]:
        """Show a progress bar on a terminal; each call of the yielded function advances it by one."""
        bars = Progress(
            TextColumn(" " * (_INDENT - 1) + what),
            BarColumn(),
            MofNCompleteColumn(),
            console=console(stderr=True),
            transient=True,
            disable=not console(stderr=True).is_terminal,
        )
        with bars:
            bar = bars.add_task(what, total=total)
            yield lambda: bars.advance(bar)

    @contextmanager
    def sharing(self) -> Iterator[Callable[[str, float | None], None]]:
        """Show a bar on a terminal, below what is printed meanwhile; the yielded function sets its text and share."""
        bars = Progress(
            TextColumn(" " * (_INDENT - 1)),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            console=console(stderr=True),
            transient=True,
            redirect_stdout=console().is_terminal,
            disable=not console(stderr=True).is_terminal,
        )
        with bars:
            bar = bars.add_task("", total=None)
            yield lambda text, share: bars.update(bar, description=text, total=share and 1.0, completed=share or 0.0)

    def _print(self, text: str, style: str = "", *, indent: int = _INDENT) -> None:
        """Print with an indentation; wrapped at words on a terminal, on one line in a log."""
        printer = console()
        width = min(printer.width, _WIDTH) - indent if printer.is_terminal else len(text) + 1
        for line in textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False) or [""]:
            printer.print(Text((" " * indent + line).rstrip(), style=style))

"""How the story is told: numbered steps, short sentences, what is typed and what the server says to it.

Plain lines in a log, colours and a bar on a terminal. The story goes to stdout like any result, bars to stderr.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from restow.cli.printing import console

__all__ = ["Story"]

_INDENT = 3
_WIDTH = 110


class Story:
    """Tells one story; ``seconds`` remembers how long each step took, by its title."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Head a step, and say at its end how long it took."""
        begun = time.monotonic()
        self._print("")
        self._print(f"{len(self.seconds) + 1}. {title}", "bold cyan", indent=0)
        self.seconds[title] = 0.0
        yield
        self.seconds[title] = time.monotonic() - begun
        self._print(f"({self.seconds[title]:.1f} s)", "dim")

    def tell(self, sentence: str) -> None:
        """Say a sentence or two."""
        self._print(sentence)

    def heads(self, part: str) -> None:
        """Head a part of a step."""
        self._print("")
        self._print(part, "bold")

    def types(self, command: str) -> None:
        """Show what somebody types; the demo sends the same request itself."""
        self._print(f"$ {command}", "bold")

    def hears(self, answer: str, *, good: bool | None = None) -> None:
        """Show what was answered, or what came out; good or bad where that can be said."""
        self._print(answer, {True: "green", False: "red", None: ""}[good], indent=_INDENT + 2)

    @contextmanager
    def counting(self, what: str, total: int) -> Iterator[Callable[[], None]]:
        """Show a bar on a terminal while something is counted up; what is yielded counts one."""
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

    def _print(self, text: str, style: str = "", *, indent: int = _INDENT) -> None:
        """Print with an indentation; wrapped at words on a terminal, on one line in a log."""
        printer = console()
        width = min(printer.width, _WIDTH) - indent if printer.is_terminal else len(text) + 1
        for line in textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False) or [""]:
            printer.print(Text((" " * indent + line).rstrip(), style=style))

"""Consoles of Rich that print only on terminals what a terminal understands: colours, bars, folded lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from restow.cli.escapes import escaped, has_controls
from restow.cli.printing import has_colours

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

"""An owner's apply in the demo, without restow and with it, and restow's commands, as a picture of a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from itertools import takewhile
from pathlib import Path

from rich.ansi import AnsiDecoder
from rich.color import parse_rgb_hex
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

__all__ = ["SHOWN", "PictureError", "applied", "blocks", "demo_output", "terminal", "write"]

COLUMNS, ROWS = 100, 50
SHOWN = {"restow migrate": 0, "restow ready": -1}
"""The commands of the picture, and which of their runs it shows: the first one, or the last one."""
_PROMPT = "   $ "
_APPLY = f"{_PROMPT}kubectl apply --server-side --field-manager=platform"
_NARRATED_RESULT = " " * 5
_NARRATED = re.compile(r" {3}( {2})?\S")


def _theme(paper: str, ansi: str) -> TerminalTheme:
    """Make a theme of a background and the eight colours of ANSI, the first one for text."""
    colours = [parse_rgb_hex(colour[1:]) for colour in ansi.split()]
    return TerminalTheme(parse_rgb_hex(paper[1:]), colours[0], [tuple(colour) for colour in colours])


# Colours that keep a contrast of 4.5 on their backgrounds: GitHub's, as the README is read there.
THEMES = {
    "light": _theme("#ffffff", "#1f2328 #cf222e #1a7f37 #9a6700 #0969da #8250df #1b7c83 #59636e"),
    "dark": _theme("#0d1117", "#f0f6fc #ff7b72 #3fb950 #d29922 #58a6ff #bc8cff #39c5cf #9198a1"),
}

# Rich's own template loads a font from another host, which neither GitHub nor an offline page does.
_TEMPLATE = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="restow in a terminal">
<title>restow in a terminal</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  line-height: {line_height}px }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class PictureError(Exception):
    """The demo failed, or did not print what the picture shows."""


def demo_output(*arguments: str) -> str:
    """Run the demo in a terminal of ``COLUMNS`` columns, and return what it prints on stdout, colours included.

    Raises:
        PictureError: it ends with another code than 0.
    """
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CI")}
    environment |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
    command = [sys.executable, "-m", "demo", *arguments]
    with subprocess.Popen(command, stdout=inner, stderr=subprocess.DEVNULL, env=environment) as running:  # noqa: S603
        os.close(inner)
        printed = b"".join(_read(outer))
        os.close(outer)
    if running.returncode:
        raise PictureError(f"{' '.join(command[1:])} ended with code {running.returncode}; run it to see why.")
    return printed.decode()


def _read(outer: int) -> Iterator[bytes]:
    """Read until the process at the other end has closed its terminal, which Linux reports as EIO."""
    while True:
        try:
            part = os.read(outer, 65536)
        except OSError:
            return
        if not part:
            return
        yield part


def blocks(printed: str, shown: Mapping[str, int] = SHOWN) -> list[list[Text]]:
    """Cut commands out of the demo's output, each with its result.

    The demo indents what it narrates by three or five spaces. What a command prints begins at the margin; only the
    further lines of a folded cell do not.

    Raises:
        PictureError: a command is missing.
    """
    lines = list(AnsiDecoder().decode(printed.replace("\r", "")))
    found = []
    for name, run in shown.items():
        starts = [number for number, line in enumerate(lines) if line.plain.startswith(_PROMPT + name)]
        if not starts:
            raise PictureError(f"The demo does not run {name}.")
        start = starts[run]
        found.append([lines[start][3:], *_result(lines[start + 1 :])])
    return found


def _result(lines: Iterable[Text]) -> Iterator[Text]:
    """Yield what the command prints: the lines after remarks of the narration, and up to the next ones."""
    begun = False
    for line in lines:
        narrated = not line.plain.strip() or _NARRATED.match(line.plain)
        if begun and narrated:
            return
        if not narrated:
            begun = True
            yield line


def applied(printed: str) -> list[list[Text]]:
    """Cut the platform's applies out of the demo's output, each with its result: the last that fails, and the last one.

    Raises:
        PictureError: none fails, or none succeeds after it.
    """
    lines = list(AnsiDecoder().decode(printed.replace("\r", "")))
    found: dict[bool, list[Text]] = {}
    for number, line in enumerate(lines):
        if line.plain.startswith(_APPLY):
            result = takewhile(lambda each: each.plain.startswith(_NARRATED_RESULT), lines[number + 1 :])
            block = [line[3:], *(each[3:] for each in result)]
            found["".join(each.plain for each in block[1:2]).strip().startswith("500")] = block
    if found.keys() != {True, False}:
        raise PictureError("The demo does not show an apply of the platform that fails, and one that succeeds.")
    return [found[True], found[False]]


def terminal(shown: Iterable[Iterable[Text]], theme: str) -> str:
    """Draw a terminal with these blocks of lines; ``theme`` is ``light`` or ``dark``."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    for number, block in enumerate(shown):
        if number:
            console.print()
        for line in block:
            console.print(line, soft_wrap=True, highlight=False)
    drawn = console.export_svg(title="", theme=THEMES[theme], code_format=_TEMPLATE, unique_id="restow")
    return re.sub(r"[ \t]+$", "", drawn, flags=re.MULTILINE)


def write(folder: Path, *arguments: str) -> None:
    """Run the demo, and write ``terminal-light.svg`` and ``terminal-dark.svg``."""
    printed = demo_output(*arguments)
    failed, succeeded = applied(printed)
    without, with_restow = ([Text(title, "bold underline")] for title in ("Without restow", "With restow"))
    shown = [without, failed, with_restow, *blocks(printed), succeeded]
    for theme in THEMES:
        (folder / f"terminal-{theme}.svg").write_text(terminal(shown, theme), encoding="utf-8")

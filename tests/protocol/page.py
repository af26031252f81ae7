"""docs/protocol.md: its traces and its table are what the searches found. Run as a module, this writes them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.protocol.cases import WORLDS, sentences, visited
from tests.protocol.rules import Bounds, StrategyBounds

__all__ = ["PAGE", "named", "written"]

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
_TRACE = re.compile(r"^(Without `(\w+)`([\w ]*):\n\n)(?:\d+\. .*\n)*\n?", re.MULTILINE)
_WORLDS = re.compile(r"^\| world .*\n(?:\|.*\n)*", re.MULTILINE)


def written(text: str) -> str:
    """Return the page with each trace and the table of worlds as the searches find them now."""
    traced = _TRACE.sub(lambda match: match[1] + _trace(match[2] + match[3]), text)
    return _WORLDS.sub(lambda _match: _worlds(), traced)


def named(text: str) -> set[str]:
    """Return the cases that the page has a trace of."""
    return {match[2] + match[3] for match in _TRACE.finditer(text)}


def _trace(name: str) -> str:
    return "".join(f"{number}. {sentence}\n" for number, sentence in enumerate(sentences(name), 1)) + "\n"


def _worlds() -> str:
    head = "| world | changes | any number of times | runs | API servers | objects | states |"
    rows = [_row(name, bounds) for name, bounds in WORLDS.items()]
    return "\n".join([head, "|---|---|---|---|---|---|---|", *rows, ""])


def _row(name: str, bounds: Bounds | StrategyBounds) -> str:
    if isinstance(bounds, Bounds):
        counts = {"flip": bounds.flips, "edit": bounds.edits, "failed migration": bounds.natives}
        has = {
            "trims": bounds.trims,
            "migrations": bounds.migrations,
            "failed writes": bounds.failures,
            "restores": bounds.restores,
            "held writes": bounds.lingering,
        }
        runs, ever = bounds.runs, ", ".join(what for what, happens in has.items() if happens)
    else:
        counts, runs, ever = {"strategy": bounds.changes, "edit": bounds.edits}, 1, ""
    changes = ", ".join(f"{count} {what}{'s' if count > 1 else ''}" for what, count in counts.items() if count)
    states = f"{visited(name).states:,}"
    cells = [name, changes.replace("strategys", "of the strategy"), ever, runs, bounds.servers, bounds.objects, states]
    return f"| {' | '.join(str(cell) for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

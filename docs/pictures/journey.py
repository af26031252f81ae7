"""The journey of a version as a picture: what is served, stored and owned, and the command of each step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

__all__ = ["journey"]

_LEFT, _TOP, _COLUMN, _ROW = 190, 84, 150, 38
_BAR = 20


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of a picture."""

    paper: str
    text: str
    dim: str
    line: str
    old: str
    new: str
    restow: str
    on_bar: str


THEMES = {
    "light": Theme("#ffffff", "#1f2328", "#59636e", "#d1d9e0", "#9a6700", "#1a7f37", "#0969da", "#ffffff"),
    "dark": Theme("#0d1117", "#f0f6fc", "#9198a1", "#3d444d", "#d29922", "#3fb950", "#4493f8", "#0d1117"),
}

STEPS = (
    ("1. declare", "restow check"),
    ("2. serve v2", "restow serve"),
    ("3. migrate", "restow migrate"),
    ("4. references", "restow references"),
    ("5. prove", "restow ready"),
    ("6. remove v1", "restow unwire"),
)


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar in a row, from the beginning of one step to the end of another (fractions of a step are allowed).

    Attributes:
        colour: the name of a colour of the theme; two names make a gradient.
    """

    first: float
    last: float
    text: str
    colour: str
    then: str = ""


ROWS = (
    ("served", Bar(0, 5, "v1, the old storage version", "old")),
    ("", Bar(1.4, 6, "v2, the new storage version", "new")),
    ("conversion webhook", Bar(1, 5.5, "translates every read and write", "restow")),
    ("objects in etcd", Bar(0, 6, "v1  →  v2, every write checked", "old", "new")),
    ("managedFields", Bar(0, 6, "entries translated, owners kept", "old", "new")),
    ("other references", Bar(0, 6, "owner references, Helm releases, …", "old", "new")),
    ("storedVersions", Bar(0, 6, "v1, v2  →  v2, once this is proved", "old", "new")),
)
# Where the gradient of a row is: the step in which it changes.
CHANGES = {"objects in etcd": 2, "managedFields": 2, "other references": 3, "storedVersions": 2.5}


def journey(theme: str) -> str:
    """Draw the journey; ``theme`` is ``light`` or ``dark``."""
    return "\n".join(_lines(THEMES[theme])) + "\n"


def _lines(theme: Theme) -> Iterator[str]:
    width = _LEFT + _COLUMN * len(STEPS) + 20
    height = _TOP + _ROW * len(ROWS) + 24
    said = "How restow takes a CRD from v1 to v2: declare, serve, migrate, move references, prove, remove"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{said}">'
    )
    yield f"<title>{said}</title>"
    yield "<style>"
    yield f"  text {{ font: 13px system-ui, sans-serif; fill: {theme.text} }}"
    yield f"  .step {{ font-weight: 600 }} .dim {{ fill: {theme.dim} }}"
    yield f"  .bar {{ fill: {theme.on_bar}; font-size: 12px }}"
    yield f"  .command {{ font: 12px ui-monospace, monospace; fill: {theme.restow} }} line {{ stroke: {theme.line} }}"
    yield "</style>"
    yield "<defs>"
    for row, change in CHANGES.items():
        yield _gradient(theme, _name(row), change)
    yield "</defs>"
    yield f'<rect width="{width}" height="{height}" fill="{theme.paper}"/>'
    for number, (title, command) in enumerate(STEPS):
        x = _x(number)
        yield f'<line x1="{x}" x2="{x}" y1="24" y2="{height - 16}"/>'
        yield f'<text class="step" x="{x + 8}" y="38">{escape(title)}</text>'
        yield f'<text class="command" x="{x + 8}" y="58">{escape(command)}</text>'
    for number, (label, bar) in enumerate(ROWS):
        y = _TOP + number * _ROW
        yield f'<text class="dim" x="16" y="{y + 14}">{escape(label)}</text>'
        yield from _bar(theme, label, bar, y)
    yield "</svg>"


def _bar(theme: Theme, label: str, bar: Bar, y: int) -> Iterator[str]:
    x, width = _x(bar.first), _x(bar.last) - _x(bar.first)
    fill = f"url(#{_name(label)})" if bar.then else getattr(theme, bar.colour)
    yield f'<rect x="{x + 4}" y="{y}" width="{width - 8}" height="{_BAR}" rx="4" fill="{fill}"/>'
    yield f'<text class="bar" x="{x + 14}" y="{y + 14}">{escape(bar.text)}</text>'


def _gradient(theme: Theme, name: str, change: float) -> str:
    begins, ends = (100 * (change + part) / len(STEPS) for part in (0, 0.8))
    return (
        f'<linearGradient id="{name}"><stop offset="{begins:.0f}%" stop-color="{theme.old}"/>'
        f'<stop offset="{ends:.0f}%" stop-color="{theme.new}"/></linearGradient>'
    )


def _name(row: str) -> str:
    return row.replace(" ", "-")


def _x(step: float) -> float:
    return _LEFT + step * _COLUMN

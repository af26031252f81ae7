"""The rooms of the code as a picture: layers from importlinter.toml, lines beside the budget."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

from docs.pictures.journey import THEMES, Theme

__all__ = ["BUDGETS", "lines", "rooms"]

ROOT: Final = Path(__file__).parents[2]
#: The lines that a room may have, from the top room to the lowest. A room that grows pays by deleting.
BUDGETS: Final = {
    "restow": 9_400,
    "cloudprofile": 8_200,
    "conversion": 25_400,
    "migrator": 14_400,
    "crds": 2_100,
    "kube": 4_300,
    "controlplane": 2_700,
}
#: Rooms that do not import each other stand side by side.
_ROWS: Final = (("restow",), ("cloudprofile",), ("conversion", "migrator"), ("crds",), ("kube", "controlplane"))
_WIDTH, _LEFT, _GAP, _LINE, _HEAD = 960, 16, 14, 19, 58


def lines(room: str) -> int:
    """Count the lines of a room's modules."""
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in (ROOT / room).rglob("*.py"))


def rooms(theme: str, counts: dict[str, int]) -> str:
    """Draw the rooms; ``theme`` is ``light`` or ``dark``."""
    return "\n".join(_drawn(THEMES[theme], counts)) + "\n"


def _layers() -> dict[str, list[str]]:
    """The layers of each room from the top; ``restow`` has its folders above the rooms."""
    contracts = tomllib.loads((ROOT / "importlinter.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    found = {
        contract["containers"][0].removeprefix("restow."): contract["layers"]
        for contract in contracts["contracts"]
        if len(contract.get("containers", ())) == 1 and contract["type"] == "layers"
    }
    top = next(each["layers"] for each in contracts["contracts"] if each["name"] == "the rooms are layers")
    of_restow = top[: top.index("restow.cloudprofile")]
    found["restow"] = [layer.replace("restow.", "") for layer in of_restow]
    return {room: [layer.replace(" : ", " | ") for layer in found[room]] for room in BUDGETS}


def _drawn(theme: Theme, counts: dict[str, int]) -> Iterator[str]:
    layers = _layers()
    heights = [_HEAD + _LINE * max(len(layers[room]) for room in row) for row in _ROWS]
    height = sum(heights) + _GAP * (len(_ROWS) + 1)
    said = "The rooms of restow: each imports only rooms below it; their layers, lines and budgets"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="{said}">'
    )
    yield f"<title>{said}</title>"
    yield f"<style>text {{ font: 13px system-ui, sans-serif; fill: {theme.text} }} .room {{ font-weight: 600 }}"
    yield f".dim {{ fill: {theme.dim} }} .layer {{ font: 12px ui-monospace, monospace }}</style>"
    yield f'<rect width="{_WIDTH}" height="{height}" fill="{theme.paper}"/>'
    y = _GAP
    for row, tall in zip(_ROWS, heights, strict=True):
        longest = [max(44, *map(len, layers[room])) for room in row]
        x = _LEFT
        for room, long in zip(row, longest, strict=True):
            width = (_WIDTH - 2 * _LEFT - _GAP * (len(row) - 1)) * long // sum(longest)
            yield from _room(theme, room, layers[room], counts[room], (x, y, width, tall))
            x += width + _GAP
        y += tall + _GAP
    yield "</svg>"


def _room(theme: Theme, room: str, layers: list[str], count: int, box: tuple[int, int, int, int]) -> Iterator[str]:
    x, y, width, height = box
    budget = BUDGETS[room]
    full = width - 24
    colour = theme.new if count <= budget else theme.old
    yield f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="none" stroke="{theme.line}"/>'
    yield f'<text class="room" x="{x + 12}" y="{y + 22}">{room}</text>'
    yield (
        f'<text class="dim" x="{x + width - 12}" y="{y + 22}" text-anchor="end">'
        f"{count:,} lines, budget {budget:,}</text>"
    )
    yield f'<rect x="{x + 12}" y="{y + 31}" width="{full}" height="6" rx="3" fill="{theme.line}"/>'
    share = min(full, full * count // budget)
    yield f'<rect x="{x + 12}" y="{y + 31}" width="{share}" height="6" rx="3" fill="{colour}"/>'
    for number, layer in enumerate(layers):
        yield f'<text class="layer" x="{x + 12}" y="{y + _HEAD + number * _LINE}">{escape(layer)}</text>'

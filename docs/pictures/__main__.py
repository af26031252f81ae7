"""``python -m docs.pictures [rooms]``: draws the pictures into docs/images/, or only what needs no cluster."""

from __future__ import annotations

import sys
from pathlib import Path

from docs.pictures import journey, rooms, terminal

IMAGES = Path(__file__).parents[1] / "images"


def draw_rooms() -> None:
    """Draw the map of the code, which needs no cluster."""
    counts = {room: rooms.lines(room) for room in rooms.BUDGETS}
    for theme in journey.THEMES:
        (IMAGES / f"rooms-{theme}.svg").write_text(rooms.rooms(theme, counts), encoding="utf-8")


if __name__ == "__main__":
    draw_rooms()
    for theme in journey.THEMES:
        (IMAGES / f"journey-{theme}.svg").write_text(journey.journey(theme), encoding="utf-8")
    if sys.argv[1:] != ["rooms"]:
        terminal.write(IMAGES)

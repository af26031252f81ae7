"""``python -m docs.pictures``, from a checkout: draws the pictures of README and documentation into docs/images/."""

from __future__ import annotations

from pathlib import Path

from docs.pictures import journey, terminal

IMAGES = Path(__file__).parents[1] / "images"

if __name__ == "__main__":
    for theme in journey.THEMES:
        (IMAGES / f"journey-{theme}.svg").write_text(journey.journey(theme), encoding="utf-8")
    terminal.write(IMAGES)

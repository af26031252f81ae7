"""The two sides of a conversion: the spoke is a version, the hub is the version that all others convert to.

Pure.
"""

from __future__ import annotations

from typing import Final, Literal

Side = Literal["spoke", "hub"]

Direction = Literal["up", "down"]

SIDES: Final[tuple[Side, ...]] = ("spoke", "hub")


def opposite(side: Side) -> Side:
    """Return the other side."""
    return "hub" if side == "spoke" else "spoke"

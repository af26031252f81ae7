"""Collects diagnostics of one spoke, so that freezing can report all of them at once.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from restow.conversion.errors import Diagnostic
from restow.conversion.path import Path, shown
from restow.conversion.rules.model import Side
from restow.crds.paths import ROOT

__all__ = ["Findings"]


@dataclass(slots=True)
class Findings:
    """The diagnostics of one kind's spoke, and where in its two versions one is looking."""

    kind: str
    spoke: str
    hub: str
    places: dict[Side, str] = field(default_factory=lambda: {"spoke": ROOT, "hub": ROOT})
    found: list[Diagnostic] = field(default_factory=list)

    def version(self, side: Side) -> str:
        """Return the name of that side's version."""
        return self.spoke if side == "spoke" else self.hub

    def place(self, side: Side, path: Path) -> str:
        """Return a path of that side as it is shown."""
        return shown(path, self.places[side])

    def add(self, side: Side, path: Path, problem: str, fix: str) -> None:
        """Report a defect of a field."""
        self.say(side, self.place(side, path), problem, fix)

    def say(self, side: Side, place: str, problem: str, fix: str) -> None:
        """Report a defect at a place that is written already."""
        self.found.append(Diagnostic(self.kind, self.version(side), place, problem, fix))

    def below(self, spoke: str, hub: str) -> Findings:
        """Return findings that report to the same list, for places below these two."""
        return replace(self, places={"spoke": spoke, "hub": hub})

"""The timeline as a table: a row per release, a column per version, as the issue of Cluster API shows it.

Versions that share their whole life share a column.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from restow.migrator.timeline.observed import Place
from restow.migrator.timeline.schedule import Schedule

__all__ = ["Column", "columns", "notes"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its versions, and a cell for each release."""

    versions: tuple[str, ...]
    cells: tuple[str, ...]

    @property
    def title(self) -> str:
        """How the column is headed."""
        return " + ".join(self.versions)


def columns(schedule: Schedule, first: int = 0) -> tuple[Column, ...]:
    """Return the columns of all versions that are there in any release from ``first`` on."""
    releases = range(first, len(schedule.policy.releases))
    found: dict[tuple[Place, ...], list[str]] = {}
    for version in schedule.policy.versions:
        places = tuple(schedule.place(version.name, release) for release in releases)
        if any(place.there for place in places):
            found.setdefault(places, []).append(version.name)
    return tuple(Column(tuple(names), tuple(map(_cell, places))) for places, names in found.items())


def notes(schedule: Schedule, release: int) -> str:
    """Return what happens in a release: versions added, unserved and removed, and the migrator's coming."""
    policy = schedule.policy
    happened = []
    if policy.migrator_since is not None and policy.index(policy.migrator_since) == release:
        happened.append("migrator added")
    for what in ("added", "unserved", "removed"):
        names = [version.name for version in policy.versions if schedule.release(version.name, what) == release]
        if names:
            happened.append(f"{_together(names)} {what}")
    return ", ".join(happened)


def _together(names: Sequence[str]) -> str:
    return " + ".join(names)


def _cell(place: Place) -> str:
    if not place.there:
        return ""
    return f"Served: {'true' if place.served else 'false'}" + (", Storage" if place.storage else "")

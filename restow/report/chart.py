"""The geometry of a policy's chart: the state of every version over the releases. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from restow.migrator.timeline import VersionState
from restow.report.model import PolicyPlan

_LABEL, _COLUMN, _RIGHT = 130, 84, 12  # widths, in units of the chart
_HEAD, _ROW, _BAR, _FOOT = 46, 30, 16, 34  # heights


@dataclass(frozen=True, slots=True)
class Bar:
    """A range of releases in which a version has the same state: ``stored``, ``served`` or ``kept``."""

    kind: str
    x: int
    y: int
    width: int
    height: int
    words: str


@dataclass(frozen=True, slots=True)
class PlanChart:
    """The chart: releases with the middle of their columns, versions with the baseline of their labels."""

    width: int
    height: int
    bottom: int
    releases: tuple[tuple[int, str, str], ...]
    edges: tuple[int, ...]
    versions: tuple[tuple[int, str], ...]
    bars: tuple[Bar, ...]
    here: tuple[int, int, str] | None
    description: str


def plan_chart(plan: PolicyPlan) -> PlanChart:
    """Return the chart of a plan, without versions that are in no release."""
    planned = plan.schedule
    releases = planned.policy.releases
    present = [
        version.name
        for version in planned.policy.versions
        if any(planned.place(version.name, index).there for index in range(len(releases)))
    ]
    bars = tuple(bar for row, name in enumerate(present) for bar in _bars(plan, name, _HEAD + row * _ROW))
    bottom = _HEAD + len(present) * _ROW
    return PlanChart(
        width=_LABEL + _COLUMN * len(releases) + _RIGHT,
        height=bottom + _FOOT,
        bottom=bottom,
        releases=tuple(
            (_x(index) + _COLUMN // 2, release.name, release.date) for index, release in enumerate(releases)
        ),
        edges=tuple(_x(index) for index in range(len(releases) + 1)),
        versions=tuple((_HEAD + row * _ROW + 19, name) for row, name in enumerate(present)),
        bars=bars,
        here=None if plan.at is None else (_x(plan.at), _COLUMN, releases[plan.at].name),
        description="; ".join(bar.words for bar in bars) + ".",
    )


def _x(release: int) -> int:
    return _LABEL + release * _COLUMN


def _bars(plan: PolicyPlan, version: str, top: int) -> Iterator[Bar]:
    planned = plan.schedule
    releases = range(len(planned.policy.releases))
    for kind, group in groupby(releases, key=lambda index: _kind(planned.place(version, index))):
        if not kind:
            continue
        stretch = list(group)
        first, last = planned.name(stretch[0]), planned.name(stretch[-1])
        when = f"in {first}" if first == last else f"from {first} to {last}"
        yield Bar(
            kind,
            _x(stretch[0]) + 3,
            top + (_ROW - _BAR) // 2,
            _COLUMN * len(stretch) - 6,
            _BAR,
            f"{version} {_WORDS[kind]} {when}",
        )


def _kind(place: VersionState) -> str:
    if not place.there:
        return ""
    return "stored" if place.storage else "served" if place.served else "kept"


_WORDS = {
    "stored": "is the storage version",
    "served": "is served",
    "kept": "is kept, but not served",
}

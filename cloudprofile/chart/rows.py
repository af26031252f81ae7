"""What a chart shows: for every version, what it is from when to when. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from restow.cloudprofile.lifecycle import Classification, classification_at, next_transition, stages
from restow.cloudprofile.parts import expirable_versions, image_versions, kubernetes_versions, machine_images

__all__ = ["Row", "Segment", "Window", "rows_of", "window_of"]

_MARGIN = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Window:
    """The time that a chart shows, from ``start`` to before ``end``."""

    start: datetime
    end: datetime

    def share(self, at: datetime) -> float:
        """Return how far into the window a time is, 0 to 1; beyond for times outside."""
        return (at - self.start) / (self.end - self.start)


@dataclass(frozen=True, slots=True)
class Segment:
    """What a version is from ``start`` to before ``end``."""

    classification: Classification
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Row:
    """One version. ``group`` is ``Kubernetes`` or the name of a machine image; the segments fill the window."""

    group: str
    version: str
    segments: tuple[Segment, ...]


def window_of(spec: Mapping[str, Any], now: datetime) -> Window:
    """Return the window that shows every start of every stage, and ``now``, with a month on either side."""
    starts = [stage.start for version in expirable_versions(spec) for stage in stages(version) if stage.start]
    times = [at.astimezone(UTC) for at in (*starts, now)]
    return Window(min(times) - _MARGIN, max(times) + _MARGIN)


def rows_of(spec: Mapping[str, Any], window: Window) -> tuple[Row, ...]:
    """Return the rows of a profile's spec, in its order.

    Raises:
        ValueError: a lifecycle cannot be read.
    """
    lists: list[tuple[str, Sequence[Mapping[str, Any]]]] = [("Kubernetes", kubernetes_versions(spec))]
    lists += [(image.get("name") or "", image_versions(image)) for image in machine_images(spec)]
    return tuple(
        Row(group, version.get("version") or "", tuple(_segments(version, window)))
        for group, versions in lists
        for version in versions
    )


def _segments(version: Mapping[str, Any], window: Window) -> Iterator[Segment]:
    start = window.start
    while start < window.end:
        change = next_transition(version, start)
        end = window.end if change is None else min(change.astimezone(UTC), window.end)
        yield Segment(classification_at(version, start), start, end)
        start = end

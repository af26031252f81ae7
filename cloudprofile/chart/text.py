"""The chart for a terminal: a column of letters or blocks for every stretch of time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from restow.cloudprofile.chart.rows import Row, Segment, Window
from restow.cloudprofile.lifecycle import Classification

__all__ = ["LETTERS", "text_chart"]

#: One character for each classification, which says the same without colours.
LETTERS: Final[Mapping[Classification, str]] = MappingProxyType(
    {
        Classification.UNAVAILABLE: "·",
        Classification.PREVIEW: "p",
        Classification.SUPPORTED: "S",
        Classification.DEPRECATED: "d",
        Classification.EXPIRED: "x",
    }
)


def text_chart(
    rows: Sequence[Row], window: Window, now: datetime, width: int
) -> Iterator[tuple[str, str, tuple[Classification, ...]]]:
    """Yield each row's group, version and its columns: what it is in each of ``width`` stretches of the window's time.

    A stretch shows what the version is at its start, so that a change is never shown early; the stretch of ``now``
    shows what it is now. The group is empty where it is the one before.
    """
    present = min(width - 1, max(0, int(window.share(now) * width)))
    group = None
    for row in rows:
        columns = tuple(_at(row.segments, window, now, index, present, width) for index in range(width))
        yield ("" if row.group == group else row.group, row.version, columns)
        group = row.group


def _at(
    segments: Sequence[Segment], window: Window, now: datetime, index: int, present: int, width: int
) -> Classification:
    span = window.end - window.start
    at = now if index == present else window.start + span * index / width
    for segment in segments:
        if at < segment.end:
            return segment.classification
    return segments[-1].classification

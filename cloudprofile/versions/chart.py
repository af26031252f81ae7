"""The lifecycles of a profile's versions as a chart: the rows of a spec, drawn as text or as SVG. Pure.

``rows_of`` returns the classifications of every version with their times. ``text_chart`` draws a column of letters or
blocks for every stretch of time; ``svg_chart`` draws a self-contained document, readable in light and dark, with a
tooltip on every stretch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from restow.cloudprofile.objects import placed_versions
from restow.cloudprofile.versions.lifecycle import Classification, classification_at, next_transition, stages

_MARGIN = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class ChartWindow:
    """The time that a chart shows, from ``start`` up to but not including ``end``."""

    start: datetime
    end: datetime

    def share(self, at: datetime) -> float:
        """Return the position of a time in the window, from 0 to 1; less or more for times outside."""
        return (at - self.start) / (self.end - self.start)


@dataclass(frozen=True, slots=True)
class ChartSegment:
    """The classification of a version from ``start`` up to but not including ``end``."""

    classification: Classification
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class ChartRow:
    """One version. ``group`` is ``Kubernetes`` or the name of a machine image; the segments fill the window."""

    group: str
    version: str
    segments: tuple[ChartSegment, ...]


def window_of(spec: Mapping[str, Any], now: datetime) -> ChartWindow:
    """Return the window from a month before to a month after ``now`` and all starts of stages."""
    starts = [stage.start for _, _, version in placed_versions(spec) for stage in stages(version) if stage.start]
    times = [at.astimezone(UTC) for at in (*starts, now)]
    return ChartWindow(min(times) - _MARGIN, max(times) + _MARGIN)


def rows_of(spec: Mapping[str, Any], window: ChartWindow) -> tuple[ChartRow, ...]:
    """Return the rows of a profile's spec, in its order.

    Raises:
        ValueError: a classification is unknown, or a time is not in the form of RFC 3339.
    """
    return tuple(
        ChartRow(key[0] or "Kubernetes", key[1], tuple(_segments(version, window)))
        for key, _, version in placed_versions(spec)
    )


def _segments(version: Mapping[str, Any], window: ChartWindow) -> Iterator[ChartSegment]:
    start = window.start
    while start < window.end:
        change = next_transition(version, start)
        end = window.end if change is None else min(change.astimezone(UTC), window.end)
        yield ChartSegment(classification_at(version, start), start, end)
        start = end


_LABELS, _PLOT, _RIGHT = 210, 760, 28  # widths, in pixels
_ROW, _BAR, _HEAD, _FOOT = 22, 14, 64, 44  # heights
_MONTHS_OF_TICKS: Final = (1, 2, 3, 6, 12, 24, 60, 120)
_MOST_TICKS: Final = 14
_COLOURS: Final[Mapping[Classification, str]] = {
    Classification.UNAVAILABLE: "none",
    Classification.PREVIEW: "#6ea8fe",
    Classification.SUPPORTED: "#2f9e5b",
    Classification.DEPRECATED: "#e8a33d",
    Classification.EXPIRED: "#c2505b",
}
_STYLE: Final = """
  text { font: 12px system-ui, sans-serif; fill: #24292f }
  .group { font-weight: 600 } .small { font-size: 11px; fill: #57606a }
  .grid { stroke: #d0d7de } .now { stroke: #24292f; stroke-dasharray: 3 3 } .paper { fill: #ffffff }
  .unavailable { stroke: #8c959f; stroke-dasharray: 2 2 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9198a1 } .grid { stroke: #3d444d } .now { stroke: #e6edf3 }
    .paper { fill: #0d1117 }
  }
"""


def svg_chart(title: str, rows: Sequence[ChartRow], window: ChartWindow, now: datetime) -> str:
    """Return the SVG document."""
    groups = len({row.group for row in rows})
    bottom = _HEAD + _ROW * (len(rows) + groups)
    width, height = _LABELS + _PLOT + _RIGHT, bottom + _FOOT
    label = quoteattr(f"Lifecycles of {title}")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
        f' role="img" aria-label={label}>',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        f'<text x="14" y="24" class="group" font-size="14">{escape(title)}</text>',
        *_grid(window, bottom),
        *_bars(rows, window),
        *_now(now, window, bottom),
        *_legend(bottom),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(at: datetime, window: ChartWindow) -> float:
    return round(_LABELS + _PLOT * window.share(at), 1)


def _grid(window: ChartWindow, bottom: int) -> Iterator[str]:
    for at in _ticks(window):
        x = _x(at, window)
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{_HEAD - 8}" y2="{bottom}"/>'
        yield f'<text class="small" x="{x}" y="{_HEAD - 14}" text-anchor="middle">{at:%Y-%m}</text>'


def _ticks(window: ChartWindow) -> list[datetime]:
    """Return the first days of months in the window, as many as fit."""
    first = window.start.astimezone(UTC)
    months = [
        datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)
        for number in range(first.year * 12 + first.month, window.end.year * 12 + window.end.month)
    ]
    apart = next((each for each in _MONTHS_OF_TICKS if len(months) / each <= _MOST_TICKS), _MONTHS_OF_TICKS[-1])
    return [at for at in months if (at.year * 12 + at.month - 1) % apart == 0]


def _bars(rows: Sequence[ChartRow], window: ChartWindow) -> Iterator[str]:
    y, group = _HEAD, None
    for row in rows:
        if row.group != group:
            group = row.group
            yield f'<text class="group" x="14" y="{y + 15}">{escape(group)}</text>'
            y += _ROW
        yield f'<text x="26" y="{y + 15}">{escape(row.version)}</text>'
        for segment in row.segments:
            start, end = _x(segment.start, window), _x(segment.end, window)
            name = segment.classification.value
            words = f"{row.group} {row.version}: {name} from {segment.start:%Y-%m-%d} to {segment.end:%Y-%m-%d}"
            yield (
                f'<rect class="{name}" x="{start}" y="{y + (_ROW - _BAR) // 2}" width="{max(end - start, 0.5):.1f}" '
                f'height="{_BAR}" rx="2" fill="{_COLOURS[segment.classification]}">'
                f"<title>{escape(words)}</title></rect>"
            )
        y += _ROW


def _now(now: datetime, window: ChartWindow, bottom: int) -> Iterator[str]:
    if 0 <= window.share(now) <= 1:
        x = _x(now, window)
        yield f'<line class="now" x1="{x}" x2="{x}" y1="{_HEAD - 8}" y2="{bottom}"/>'
        yield f'<text class="small" x="{x}" y="{bottom + 14}" text-anchor="middle">{now:%Y-%m-%d}</text>'


def _legend(bottom: int) -> Iterator[str]:
    x = _LABELS
    for classification, colour in _COLOURS.items():
        name = classification.value
        yield f'<rect class="{name}" x="{x}" y="{bottom + 24}" width="12" height="12" rx="2" fill="{colour}"/>'
        yield f'<text class="small" x="{x + 18}" y="{bottom + 34}">{name}</text>'
        x += 118


#: One character for each classification, for output without colours.
LETTERS: Final[Mapping[Classification, str]] = {
    Classification.UNAVAILABLE: "·",
    Classification.PREVIEW: "p",
    Classification.SUPPORTED: "S",
    Classification.DEPRECATED: "d",
    Classification.EXPIRED: "x",
}


def text_chart(
    rows: Sequence[ChartRow], window: ChartWindow, now: datetime, width: int
) -> Iterator[tuple[str, str, tuple[Classification, ...]]]:
    """Yield each row's group, its version, and its classification in each of ``width`` stretches of the window.

    A stretch has the version's classification at its start, so that a change is never shown early; the stretch of
    ``now`` has the present classification. The group is empty if it is the same as in the row before.
    """
    times = [window.start + (window.end - window.start) * index / width for index in range(width)]
    times[min(width - 1, max(0, int(window.share(now) * width)))] = now
    group = None
    for row in rows:
        columns = tuple(_classification_in(row.segments, at) for at in times)
        yield ("" if row.group == group else row.group, row.version, columns)
        group = row.group


def _classification_in(segments: Sequence[ChartSegment], at: datetime) -> Classification:
    return next((segment for segment in segments if at < segment.end), segments[-1]).classification

"""The charts of lifecycles: their segments match the classification at every time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from restow.cloudprofile.versions.chart import ChartWindow, rows_of, svg_chart, text_chart, window_of
from restow.cloudprofile.versions.lifecycle import Classification, classification_at

NOW = datetime(2026, 6, 1, tzinfo=UTC)
YEAR = ChartWindow(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
SPEC = {
    "kubernetes": {
        "versions": [
            {
                "version": "1.31.2",
                "lifecycle": [
                    {"classification": "supported", "startTime": "2026-03-01T00:00:00Z"},
                    {"classification": "expired", "startTime": "2026-09-01T00:00:00Z"},
                ],
            },
            {"version": "1.32.0"},
        ]
    },
    "machineImages": [{"name": "os<1>", "versions": [{"version": "1.0"}]}],
}
STARTS = st.integers(0, 2 * 365 * 24).map(lambda hours: datetime(2025, 6, 1, tzinfo=UTC) + timedelta(hours=hours))


@st.composite
def versions(draw):
    """Draw a version whose stages are in order."""
    names = draw(st.lists(st.sampled_from([*Classification]), min_size=1, unique=True))
    ordered = sorted(names)
    starts = sorted(draw(st.lists(STARTS, min_size=len(ordered), max_size=len(ordered))))
    return {
        "version": "1.0.0",
        "lifecycle": [
            {"classification": name.value, "startTime": start.isoformat()}
            for name, start in zip(ordered, starts, strict=True)
        ],
    }


@given(versions(), st.floats(0, 0.999))
def test_segments_are_the_evaluation(version, share):
    """A chart that differs from the classification at some instant would mislead users who plan by it."""
    (row,) = rows_of({"kubernetes": {"versions": [version]}}, YEAR)
    at = YEAR.start + (YEAR.end - YEAR.start) * share
    (segment,) = [each for each in row.segments if each.start <= at < each.end]
    assert segment.classification == classification_at(version, at)
    assert (row.segments[0].start, row.segments[-1].end) == (YEAR.start, YEAR.end)
    assert all(left.end == right.start for left, right in zip(row.segments, row.segments[1:], strict=False))


def test_window_shows_every_stage_and_now():
    """A user would overlook a stage, or the present, outside of the chart."""
    window = window_of(SPEC, NOW)
    margin = timedelta(days=30)
    assert window.start == datetime(2026, 3, 1, tzinfo=UTC) - margin
    assert window.end == datetime(2026, 9, 1, tzinfo=UTC) + margin
    assert window_of({}, NOW) == ChartWindow(NOW - margin, NOW + margin)


def test_text_chart():
    """A chart with columns in the wrong place, or a group on each line, could not be read."""
    lines = list(text_chart(rows_of(SPEC, YEAR), YEAR, NOW, 12))
    assert [(group, version) for group, version, _ in lines] == [
        ("Kubernetes", "1.31.2"),
        ("", "1.32.0"),
        ("os<1>", "1.0"),
    ]
    months = "".join(classification.value[0] for classification in lines[0][2])
    assert months == "uusssssseeee"


def test_the_column_of_now_shows_now():
    """A version that expires later in the same column would be shown as expired already."""
    soon = ChartWindow(NOW - timedelta(days=300), NOW + timedelta(days=300))
    version = {"version": "1", "expirationDate": (NOW + timedelta(days=1)).isoformat()}
    (line,) = text_chart(rows_of({"kubernetes": {"versions": [version]}}, soon), soon, NOW, 6)
    assert line[2][3] == Classification.SUPPORTED
    assert line[2][4] == Classification.EXPIRED


def test_svg_is_well_formed_and_tells_each_segment():
    """A name with a bracket would break the document, or a screen reader would find no text for a bar."""
    root = ET.fromstring(svg_chart("CloudProfile <a>", rows_of(SPEC, YEAR), YEAR, NOW))
    space = {"s": "http://www.w3.org/2000/svg"}
    titles = [each.text for each in root.findall(".//s:title", space)]
    assert "Kubernetes 1.31.2: supported from 2026-03-01 to 2026-09-01" in titles
    assert len(titles) == 5
    bars = {each.find("s:title", space).text: each for each in root.findall("s:rect", space) if len(each)}
    supported = bars["Kubernetes 1.31.2: supported from 2026-03-01 to 2026-09-01"]
    expired = bars["Kubernetes 1.31.2: expired from 2026-09-01 to 2027-01-01"]
    assert float(supported.get("x")) + float(supported.get("width")) == float(expired.get("x"))

"""The classification of versions, as laws."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given

from restow.cloudprofile.objects import placed_versions
from restow.cloudprofile.versions.lifecycle import (
    Classification,
    InvalidTime,
    LifecycleStage,
    classification_at,
    next_transition,
    next_transition_of,
    parse_time,
    stages,
    status_of,
)
from tests.cloudprofile.strategies import any_lifecycles, moments, overrides, profile_specs, versions

LAST = "2025-03-01T00:00:00Z"


@given(version=versions, now=moments, later=moments)
def test_a_version_never_grows_younger(version: dict[str, Any], now: datetime, later: datetime) -> None:
    """A version would return from a later stage to an earlier one as time passes."""
    before, after = sorted([now, later])
    assert classification_at(version, before) <= classification_at(version, after)


@given(version=overrides, now=moments, later=moments)
def test_nothing_changes_before_the_next_transition_and_something_at_it(
    version: dict[str, Any], now: datetime, later: datetime
) -> None:
    """A controller would sleep through a change of classification, or wake without one."""
    current, at = classification_at(version, now), next_transition(version, now)
    if at is not None:
        assert at > now
        assert classification_at(version, at) != current
    if later >= now and (at is None or later < at):
        assert classification_at(version, later) == current


@given(spec=profile_specs, now=moments)
def test_a_profile_changes_when_the_first_of_its_versions_does(spec: dict[str, Any], now: datetime) -> None:
    """The status of one version would be stale until another version changes."""
    times = [at for _, _, version in placed_versions(spec) if (at := next_transition(version, now))]
    assert next_transition_of(spec, now) == min(times, default=None)
    if times:
        assert status_of(spec, min(times)) != status_of(spec, now)


@given(lifecycle=any_lifecycles, now=moments)
def test_the_last_listed_of_the_active_stages_counts(lifecycle: list[dict[str, str]], now: datetime) -> None:
    """Equal starts would favour the earlier stage (GEP-32 favours the last)."""
    active = [
        stage["classification"]
        for stage in lifecycle
        if "startTime" not in stage or datetime.fromisoformat(stage["startTime"]) <= now
    ]
    assert classification_at({"lifecycle": lifecycle}, now) == (active[-1] if active else "unavailable")


def test_classifications_are_in_order() -> None:
    """Comparisons would be alphabetical, which puts deprecated before preview."""
    names = ["unavailable", "preview", "supported", "deprecated", "expired"]
    assert sorted(Classification, reverse=True) == [Classification(name) for name in reversed(names)]
    assert [Classification(name).rank for name in names] == [0, 1, 2, 3, 4]
    assert Classification.PREVIEW < "supported" <= Classification.SUPPORTED
    assert Classification.EXPIRED > Classification.DEPRECATED >= Classification.DEPRECATED
    assert [name for name in names if Classification(name).is_active] == ["preview", "supported", "deprecated"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ({}, [("supported", None)]),
        ({"lifecycle": None, "classification": None}, [("supported", None)]),
        ({"classification": "preview"}, [("preview", None)]),
        ({"expirationDate": "2025-01-01T00:00:00Z"}, [("supported", None), ("expired", "2025-01-01T00:00:00+00:00")]),
        (
            {"classification": "deprecated", "expirationDate": "2025-01-01T01:00:00+01:00"},
            [("deprecated", None), ("expired", "2025-01-01T00:00:00+00:00")],
        ),
        ({"lifecycle": [{"classification": "preview"}], "expirationDate": "2025-01-01T00:00:00Z"}, [("preview", None)]),
    ],
)
def test_stages_of_every_form(version: dict[str, Any], expected: list[tuple[str, str | None]]) -> None:
    """A version of v1beta1 would not have the stages that its fields stand for."""
    wanted = [
        LifecycleStage(Classification(name), datetime.fromisoformat(start) if start else None)
        for name, start in expected
    ]
    assert list(stages(version)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "2025-03-01T00:00:00Z",
        "2025-03-01t00:00:00z",
        "2025-03-01T02:00:00+02:00",
        "2025-02-28T14:30:00-09:30",
        "2025-03-01T00:00:00.000000000Z",
    ],
)
def test_times_are_rfc_3339(text: str) -> None:
    """A time that the API server accepts would be refused."""
    assert parse_time(text) == datetime(2025, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2025-03-01",
        "2025-03-01T00:00:00",
        "2025-03-01T24:00:00Z",
        "2025-02-30T00:00:00Z",
        "2023-08-8T23:59:59Z",
        "2025-W09-6T00:00:00Z",
        "2025-03-01T00:00Z",
        "2025-03-01T00:00:60Z",
        "2025-03-01T00:00:00+2:00",
    ],
)
def test_other_times_are_refused(text: str) -> None:
    """A mistyped time would be read as some other time."""
    with pytest.raises(InvalidTime, match="is not a time like"):
        parse_time(text)


def test_times_of_other_zones_compare() -> None:
    """A stage would begin hours early or late if its time is written in another zone."""
    version = {"lifecycle": [{"classification": "preview", "startTime": "2025-03-01T02:00:00+02:00"}]}
    start = datetime(2025, 3, 1, 9, tzinfo=timezone(timedelta(hours=9)))
    assert classification_at(version, start) == "preview"
    assert classification_at(version, start - timedelta(microseconds=1)) == "unavailable"


def test_a_status_says_nothing_of_what_is_not_there() -> None:
    """The status of an empty profile would contain an empty list for each of its parts."""
    now = datetime(2025, 1, 1, tzinfo=UTC)
    assert status_of({}, now) == {}
    assert status_of({"machineImages": [{"name": "a"}]}, now) == {"machineImages": [{"name": "a", "versions": []}]}


def test_no_classification_is_before_or_after_itself() -> None:
    """Two stages of equal rank would count as out of order, and a filter by a lowest classification would drop one."""
    for one in Classification:
        assert not one < one.value and not one > one.value
        assert one <= one.value and one >= one.value


@pytest.mark.parametrize(
    ("now", "expected"),
    [("2025-01-01T00:00:00Z", "2025-02-01T00:00:00Z"), ("2025-02-01T00:00:00Z", "2025-03-01T00:00:00Z"), (LAST, None)],
    ids=["the first start ahead", "a start that is now", "none ahead"],
)
def test_the_start_of_a_stage_without_classification_always_counts(now: str, expected: str | None) -> None:
    """A controller would sleep past a change of the status, or reconcile in an endless loop."""
    version = {"lifecycle": [{"startTime": "2025-02-01T00:00:00Z"}, {"classification": "supported", "startTime": LAST}]}
    assert next_transition(version, parse_time(now)) == (parse_time(expected) if expected else None)


def test_the_status_names_each_version_as_the_api_does() -> None:
    """The API server would silently drop fields of the status under other names, which clients read."""
    spec = {
        "kubernetes": {"versions": [{"version": "1.31.0", "classification": "preview"}, {}]},
        "machineImages": [{"name": "suse", "versions": [{"version": "15.4.0"}]}, {"versions": []}],
    }
    assert status_of(spec, parse_time(LAST)) == {
        "kubernetes": {
            "versions": [
                {"version": "1.31.0", "classification": "preview"},
                {"version": "", "classification": "supported"},
            ]
        },
        "machineImages": [
            {"name": "suse", "versions": [{"version": "15.4.0", "classification": "supported"}]},
            {"name": "", "versions": []},
        ],
    }

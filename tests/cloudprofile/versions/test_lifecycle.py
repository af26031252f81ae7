"""Lifecycle evaluation as laws."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given

from restow.cloudprofile.objects import expirable_versions
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
    """A version would come back from a later stage merely by time passing."""
    before, after = sorted([now, later])
    assert classification_at(version, before) <= classification_at(version, after)


@given(version=overrides, now=moments, later=moments)
def test_nothing_changes_before_the_next_transition_and_something_at_it(
    version: dict[str, Any], now: datetime, later: datetime
) -> None:
    """A controller would sleep through a change, or wake for none; this holds for lifecycles in any order."""
    current, at = classification_at(version, now), next_transition(version, now)
    if at is not None:
        assert at > now
        assert classification_at(version, at) != current
    if later >= now and (at is None or later < at):
        assert classification_at(version, later) == current


@given(spec=profile_specs, now=moments)
def test_a_profile_changes_when_the_first_of_its_versions_does(spec: dict[str, Any], now: datetime) -> None:
    """The status of one version would be stale until another changes."""
    times = [at for version in expirable_versions(spec) if (at := next_transition(version, now))]
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
    """Comparisons would go by the alphabet, in which deprecated comes before preview."""
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
    """A v1beta1 version would not mean the stages that it stands for."""
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
    """A time that the API server accepts would not be understood."""
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
    """A slip of the pen would be read as some time or other."""
    with pytest.raises(InvalidTime, match="is not a time like"):
        parse_time(text)


def test_times_of_other_zones_compare() -> None:
    """A stage would begin hours early or late where its time is written in another zone."""
    version = {"lifecycle": [{"classification": "preview", "startTime": "2025-03-01T02:00:00+02:00"}]}
    start = datetime(2025, 3, 1, 9, tzinfo=timezone(timedelta(hours=9)))
    assert classification_at(version, start) == "preview"
    assert classification_at(version, start - timedelta(microseconds=1)) == "unavailable"


def test_a_status_says_nothing_of_what_is_not_there() -> None:
    """An empty profile would get an empty list for each of its parts."""
    now = datetime(2025, 1, 1, tzinfo=UTC)
    assert status_of({}, now) == {}
    assert status_of({"machineImages": [{"name": "a"}]}, now) == {"machineImages": [{"name": "a", "versions": []}]}


def test_no_classification_is_before_or_after_itself() -> None:
    """Two stages of one rank would be out of order, and a filter by a lowest classification would drop that one."""
    for one in Classification:
        assert not one < one.value and not one > one.value
        assert one <= one.value and one >= one.value


@pytest.mark.parametrize(
    ("now", "expected"),
    [("2025-01-01T00:00:00Z", "2025-02-01T00:00:00Z"), ("2025-02-01T00:00:00Z", "2025-03-01T00:00:00Z"), (LAST, None)],
    ids=["the first start ahead", "a start that is now", "none ahead"],
)
def test_the_start_of_a_stage_without_classification_always_counts(now: str, expected: str | None) -> None:
    """A controller would sleep past the moment at which the status changes, or look again at once, for ever."""
    version = {"lifecycle": [{"startTime": "2025-02-01T00:00:00Z"}, {"classification": "supported", "startTime": LAST}]}
    assert next_transition(version, parse_time(now)) == (parse_time(expected) if expected else None)


def test_the_status_names_each_version_as_the_api_does() -> None:
    """Clients read these fields; one under another name is dropped by the API server without a word."""
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

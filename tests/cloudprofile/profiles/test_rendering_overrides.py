"""Overrides: laws, and special cases."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import assume, given

from restow.cloudprofile.profiles.rendering import foreign_stages, overridden
from restow.cloudprofile.versions.lifecycle import Classification, LifecycleStage, stages, written_stages
from tests.cloudprofile.strategies import any_lifecycles, lifecycles, pulled_down, versions

_Lifecycle = list[dict[str, str]]


def _in_order(listed: tuple[LifecycleStage, ...]) -> bool:
    ranks = [stage.classification.rank for stage in listed]
    starts = [stage.start.timestamp() if stage.start else 0.0 for stage in listed]
    return ranks == sorted(set(ranks)) and starts == sorted(starts)


@given(base=versions, override=any_lifecycles)
def test_the_result_is_always_in_order(base: dict[str, Any], override: _Lifecycle) -> None:
    """A rendered lifecycle would be invalid, or a version would return to an earlier stage."""
    assert _in_order(stages(overridden(base, {"lifecycle": override})))


@given(base=any_lifecycles, override=any_lifecycles)
def test_even_disorder_ends_in_order(base: _Lifecycle, override: _Lifecycle) -> None:
    """A parent that bypassed validation would break the rendered profiles of its projects."""
    assume(not _all_foreign(base, override))
    assert _in_order(stages(overridden({"lifecycle": base}, {"lifecycle": override})))


def _all_foreign(base: _Lifecycle, override: _Lifecycle) -> bool:
    return len(foreign_stages({"lifecycle": base}, {"lifecycle": override})) == len(override)


@given(base=versions, override=any_lifecycles)
def test_no_stage_is_added_but_expired_and_none_is_lost(base: dict[str, Any], override: _Lifecycle) -> None:
    """A project would get stages that the landscape does not have, or lose one that it has."""
    before = {stage.classification for stage in stages(base)}
    after = {stage.classification for stage in stages(overridden(base, {"lifecycle": override}))}
    asked = {stage["classification"] for stage in override}
    assert before <= after <= before | ({Classification.EXPIRED} if "expired" in asked else set())


@given(base=versions, override=lifecycles())
def test_an_overridden_stage_starts_when_the_override_says(base: dict[str, Any], override: _Lifecycle) -> None:
    """The parent's stages would win over the project's overrides."""
    foreign = foreign_stages(base, {"lifecycle": override})
    result = {stage["classification"]: stage for stage in written_stages(overridden(base, {"lifecycle": override}))}
    for place, stage in enumerate(override):
        if place not in foreign:
            assert result[stage["classification"]].get("startTime") == stage.get("startTime")


@given(both=pulled_down())
def test_each_overridden_stage_pulls_those_below_it_down(both: tuple[_Lifecycle, _Lifecycle]) -> None:
    """A stage between two overridden ones would move the second one to a day that the project did not choose."""
    base, override = both
    result = {
        stage["classification"]: stage
        for stage in overridden({"lifecycle": base}, {"lifecycle": override})["lifecycle"]
    }
    assert [result[stage["classification"]] for stage in override] == override


@given(base=versions, override=lifecycles())
def test_other_stages_move_no_further_than_they_must(base: dict[str, Any], override: _Lifecycle) -> None:
    """A stage that is in order already would move, or a stage would move further than its override requires."""
    result = {stage.classification: stage for stage in stages(overridden(base, {"lifecycle": override}))}
    foreign = foreign_stages(base, {"lifecycle": override})
    anchors = [stage for place, stage in enumerate(stages({"lifecycle": override})) if place not in foreign]
    names = {stage.classification for stage in anchors}
    for stage in stages(base):
        if stage.classification not in names:
            allowed = {stage.start} | {anchor.start for anchor in anchors}
            assert result[stage.classification].start in allowed
            if _fits(stage, anchors):
                assert result[stage.classification] == stage


def _fits(stage: LifecycleStage, anchors: list[LifecycleStage]) -> bool:
    def moment(start: Any) -> float:
        return start.timestamp() if start else 0.0

    return all(
        moment(anchor.start) <= moment(stage.start)
        if anchor.classification < stage.classification
        else moment(anchor.start) >= moment(stage.start)
        for anchor in anchors
    )


@given(base=versions, override=any_lifecycles)
def test_overriding_twice_is_overriding_once(base: dict[str, Any], override: _Lifecycle) -> None:
    """The rendered profile would depend on how often it is rendered."""
    once = overridden(base, {"lifecycle": override})
    assert overridden(once, {"lifecycle": override}) == once


@given(base=versions, override=any_lifecycles)
def test_nothing_is_changed_in_place(base: dict[str, Any], override: _Lifecycle) -> None:
    """A parent in a cache would get the overrides of a project."""
    before = copy.deepcopy((base, override))
    overridden(base, {"lifecycle": override})
    assert (base, override) == before


@pytest.mark.parametrize(
    ("base", "override", "expected"),
    [
        pytest.param(
            {"version": "1"},
            {"lifecycle": [{"classification": "expired", "startTime": "2025-06-01T00:00:00Z"}]},
            {
                "version": "1",
                "lifecycle": [
                    {"classification": "supported"},
                    {"classification": "expired", "startTime": "2025-06-01T00:00:00Z"},
                ],
            },
            id="GEP-25: setting the expiration of a version that has none",
        ),
        pytest.param(
            {"version": "1", "classification": "deprecated", "expirationDate": "2025-01-01T00:00:00Z"},
            {"lifecycle": [{"classification": "expired", "startTime": "2025-06-01T00:00:00Z"}]},
            {
                "version": "1",
                "lifecycle": [
                    {"classification": "deprecated"},
                    {"classification": "expired", "startTime": "2025-06-01T00:00:00Z"},
                ],
            },
            id="GEP-25: extending that of a version in the plain form",
        ),
        pytest.param(
            {"version": "1"},
            {"lifecycle": [{"classification": "supported", "startTime": "2025-06-01T00:00:00Z"}]},
            {"version": "1", "lifecycle": [{"classification": "supported", "startTime": "2025-06-01T00:00:00Z"}]},
            id="the implicit stage may be moved",
        ),
        pytest.param(
            {"version": "1", "classification": "preview"},
            {"lifecycle": [{"classification": "deprecated", "startTime": "2025-06-01T00:00:00Z"}]},
            {"version": "1", "classification": "preview"},
            id="a stage that the parent lacks is passed over",
        ),
        pytest.param(
            {
                "version": "1",
                "lifecycle": [
                    {"classification": "preview", "startTime": "2025-02-01T00:00:00Z"},
                    {"classification": "supported", "startTime": "2025-03-01T00:00:00Z", "note": "kept"},
                ],
            },
            {"lifecycle": [{"classification": "supported"}]},
            {
                "version": "1",
                "lifecycle": [{"classification": "preview"}, {"classification": "supported", "note": "kept"}],
            },
            id="a stage moved to the beginning takes the earlier ones with it",
        ),
        pytest.param(
            {
                "version": "1",
                "lifecycle": [
                    {"classification": "deprecated", "startTime": "2025-02-01T02:00:00+02:00"},
                    {"classification": "expired", "startTime": "2025-03-01T00:00:00Z"},
                ],
            },
            {"lifecycle": [{"classification": "expired", "startTime": "2025-02-01T00:00:00Z"}]},
            {
                "version": "1",
                "lifecycle": [
                    {"classification": "deprecated", "startTime": "2025-02-01T02:00:00+02:00"},
                    {"classification": "expired", "startTime": "2025-02-01T00:00:00Z"},
                ],
            },
            id="what need not move stays as it is written",
        ),
        pytest.param(
            {
                "version": "1",
                "lifecycle": [
                    {"classification": "preview", "startTime": "2025-04-01T00:00:00Z"},
                    {"classification": "supported", "startTime": "2025-05-01T00:00:00Z"},
                    {"classification": "deprecated", "startTime": "2025-06-01T00:00:00Z"},
                    {"classification": "expired", "startTime": "2025-07-01T00:00:00Z"},
                ],
            },
            {
                "lifecycle": [
                    {"classification": "supported", "startTime": "2025-01-01T00:00:00Z"},
                    {"classification": "expired", "startTime": "2025-03-01T00:00:00Z"},
                ]
            },
            {
                "version": "1",
                "lifecycle": [
                    {"classification": "preview", "startTime": "2025-01-01T00:00:00Z"},
                    {"classification": "supported", "startTime": "2025-01-01T00:00:00Z"},
                    {"classification": "deprecated", "startTime": "2025-03-01T00:00:00Z"},
                    {"classification": "expired", "startTime": "2025-03-01T00:00:00Z"},
                ],
            },
            id="of two overridden stages each is the ceiling of those below it",
        ),
    ],
)
def test_corners(base: dict[str, Any], override: dict[str, Any], expected: dict[str, Any]) -> None:
    """A special case would be rendered against the rules."""
    assert overridden(base, override) == expected


def test_a_stage_that_is_none_is_said() -> None:
    """A mistyped stage or time would be rendered at an arbitrary place instead of being refused."""
    with pytest.raises(ValueError, match="ancient"):
        overridden({"version": "1"}, {"lifecycle": [{"classification": "ancient"}]})
    with pytest.raises(ValueError, match="is not a time"):
        overridden({"version": "1", "expirationDate": "soon"}, {"lifecycle": [{"classification": "supported"}]})

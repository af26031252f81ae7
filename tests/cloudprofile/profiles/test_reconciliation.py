"""The status of a profile, and the time of its next change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given

from restow.cloudprofile.profiles.reconciliation import StatusDecision, decide_namespaced_status, decide_status
from restow.cloudprofile.versions.lifecycle import status_of
from tests.cloudprofile.strategies import moments, profile_specs
from tests.memory.custom import apply_merge_patch

NOW = datetime(2025, 3, 1, tzinfo=UTC)
LATER = datetime(2025, 6, 1, tzinfo=UTC)
VERSION = {
    "version": "1.30.1",
    "lifecycle": [
        {"classification": "supported"},
        {"classification": "deprecated", "startTime": "2025-06-01T00:00:00Z"},
    ],
}

COMPLETE = {
    "type": "UpdatePathComplete",
    "status": "True",
    "reason": "Complete",
    "message": "every version that expires can be updated",
    "lastTransitionTime": "2025-03-01T00:00:00Z",
}


def profile(status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """Return a CloudProfile with one version."""
    made = {"metadata": {"name": "a", **metadata}, "spec": {"kubernetes": {"versions": [VERSION]}}}
    return made if status is None else made | {"status": status}


def test_the_first_status() -> None:
    """A new profile would get no classifications, or not be reconciled when its next stage starts."""
    ahead = decide_status(profile(generation=3), NOW)
    versions = [{"version": "1.30.1", "classification": "supported"}]
    assert ahead.patch == {
        "kubernetes": {"versions": versions},
        "observedGeneration": 3,
        "conditions": [COMPLETE],
        "nextTransition": {"startTime": "2025-06-01T00:00:00Z", "description": "Kubernetes 1.30.1 deprecated"},
    }
    assert ahead.next_change == LATER


def test_a_status_that_says_so_is_left_alone() -> None:
    """Every reconcile would write the status, and every write would cause another reconcile."""
    status = {**decide_status(profile(), NOW).patch, "others": {"a": 1}}
    assert decide_status(profile(status), NOW).patch == {}
    assert decide_status(profile(status), LATER - timedelta(seconds=1)).patch == {}
    assert decide_status(profile(status), LATER).patch == {
        "kubernetes": {"versions": [{"version": "1.30.1", "classification": "deprecated"}]},
        "nextTransition": None,
    }


def test_what_is_gone_from_the_spec_goes_from_the_status() -> None:
    """The status would keep images that the profile no longer has, or lose fields of other controllers."""
    status = {"machineImages": [{"name": "x"}], "conditions": [{"type": "Other"}]}
    patch = decide_status(profile(status), NOW).patch
    assert patch["machineImages"] is None
    assert patch["conditions"] == [{"type": "Other"}, COMPLETE]


def test_without_a_parent_nothing_is_written() -> None:
    """Shoots would lose their offer while a parent is being replaced."""
    child = {"metadata": {"name": "b"}, "spec": {"parent": {"name": "a"}}, "status": {"cloudProfileSpec": {"x": 1}}}
    assert decide_namespaced_status(child, None, NOW) == decide_namespaced_status(child, None, LATER)
    assert decide_namespaced_status(child, None, NOW).patch == {}


def test_a_child_follows_its_overrides() -> None:
    """A child's status would follow the stages of its parent instead of its own overrides."""
    override = {
        "version": "1.30.1",
        "lifecycle": [{"classification": "deprecated", "startTime": "2025-09-01T00:00:00Z"}],
    }
    spec = {"parent": {"name": "a"}, "kubernetes": {"versions": [override]}}
    child = {"metadata": {"name": "b"}, "spec": spec, "status": {"cloudProfileSpec": {"gone": True}}}
    ahead = decide_namespaced_status(child, profile(), LATER)
    assert ahead.next_change == datetime(2025, 9, 1, tzinfo=UTC)
    assert ahead.patch["kubernetes"] == {"versions": [{"version": "1.30.1", "classification": "supported"}]}
    assert ahead.patch["cloudProfileSpec"]["gone"] is None


@given(spec=profile_specs, now=moments)
def test_one_write_is_enough(spec: dict[str, Any], now: datetime) -> None:
    """The controller would write the status in an endless loop."""
    made: dict[str, Any] = {"metadata": {"name": "a", "generation": 1}, "spec": spec}
    status = apply_merge_patch({}, decide_status(made, now).patch)
    added = {"conditions", "nextTransition", "observedGeneration"}
    others = {name: value for name, value in status.items() if name not in added}
    assert others == status_of(spec, now)
    following = decide_status({**made, "status": status}, now).next_change
    assert ("nextTransition" in status) == (following is not None)
    until = now if following is None else following - timedelta(seconds=1)
    for at in (now, until):
        assert decide_status({**made, "status": status}, at) == StatusDecision({}, following)

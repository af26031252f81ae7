"""What a profile's status is to say, and when next."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given

from restow.cloudprofile.profiles.reconciliation import decide_namespaced_status, decide_status
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


def profile(status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """Return a CloudProfile with one version."""
    made = {"metadata": {"name": "a", **metadata}, "spec": {"kubernetes": {"versions": [VERSION]}}}
    return made if status is None else made | {"status": status}


def test_the_first_status() -> None:
    """A new profile gets its classifications and is looked at again at the next stage start."""
    ahead = decide_status(profile(generation=3), NOW)
    versions = [{"version": "1.30.1", "classification": "supported"}]
    assert ahead.patch == {"kubernetes": {"versions": versions}, "observedGeneration": 3}
    assert ahead.next_change == LATER


def test_a_status_that_says_so_is_left_alone() -> None:
    """Every look would write, and every write cause another look."""
    status = {"kubernetes": {"versions": [{"version": "1.30.1", "classification": "supported"}]}, "others": {"a": 1}}
    assert decide_status(profile(status), NOW).patch == {}
    assert decide_status(profile(status), LATER).patch == {
        "kubernetes": {"versions": [{"version": "1.30.1", "classification": "deprecated"}]}
    }


def test_what_is_gone_from_the_spec_goes_from_the_status() -> None:
    """The status would go on speaking of images that the profile no longer has; other controllers' fields stay."""
    status = {"machineImages": [{"name": "x"}], "conditions": [1]}
    patch = decide_status(profile(status), NOW).patch
    assert patch["machineImages"] is None
    assert "conditions" not in patch


def test_without_a_parent_nothing_is_written() -> None:
    """A parent that is being replaced would take away what Shoots are offered."""
    child = {"metadata": {"name": "b"}, "spec": {"parent": {"name": "a"}}, "status": {"cloudProfileSpec": {"x": 1}}}
    assert decide_namespaced_status(child, None, NOW) == decide_namespaced_status(child, None, LATER)
    assert decide_namespaced_status(child, None, NOW).patch == {}


def test_a_child_follows_its_overrides() -> None:
    """A child's status tells what it renders, at its own times and not at its parent's."""
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
    """A controller that is never content would write for ever."""
    made: dict[str, Any] = {"metadata": {"name": "a", "generation": 1}, "spec": spec}
    status = apply_merge_patch({}, decide_status(made, now).patch)
    assert {name: value for name, value in status.items() if name != "observedGeneration"} == status_of(spec, now)
    assert decide_status({**made, "status": status}, now).patch == {}

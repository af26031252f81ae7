"""Warnings for a profile's author, and fields that are kept consistent, as requests at both versions."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from restow.cloudprofile.profiles.reconciliation import UPDATE_PATH, decide_status
from tests.cloudprofile.served import HUB, OLD, Answer, ApiServer

NOW = datetime(2025, 3, 1, tzinfo=UTC)
GROUP = "core.gardener.cloud"
SOON = "2025-06-01T00:00:00Z"


def profile(version: str, *versions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a CloudProfile that is complete except for the given parts."""
    whole = {
        "type": "local",
        "regions": [{"name": "here"}],
        "machineTypes": [{"name": "t", "cpu": "1", "gpu": "0", "memory": "1Gi"}],
        "machineImages": [{"name": "ubuntu", "versions": [{"version": "1.0.0"}]}],
        "kubernetes": {"versions": list(versions or ({"version": "1.31.0"},))},
        **spec,
    }
    metadata = {"name": "a"}
    return {"apiVersion": f"{GROUP}/{version}", "kind": "CloudProfile", "metadata": metadata, "spec": whole}


def sent(new: dict[str, Any], old: dict[str, Any] | None = None) -> Answer:
    """Return the answer to a request."""
    server = ApiServer(NOW, {} if old is None else {"cloudprofiles": [copy.deepcopy(old)]})
    return server.create(copy.deepcopy(new)) if old is None else server.update(copy.deepcopy(new), copy.deepcopy(old))


def ending(version: str, number: str) -> dict[str, Any]:
    """Return a version that expires soon."""
    if version == OLD:
        return {"version": number, "expirationDate": SOON}
    stages = [{"classification": "supported"}, {"classification": "expired", "startTime": SOON}]
    return {"version": number, "lifecycle": stages}


@pytest.mark.parametrize("version", [OLD, HUB])
def test_gaps_are_told(version: str) -> None:
    """An author would not learn, before a version expires, that its Shoots have no version to move to."""
    gap = profile(version, ending(version, "1.29.5"), {"version": "1.31.0"})
    answer = sent(gap)
    assert answer.allowed
    assert any("of 1.30 the profile offers nothing; add a version of 1.30" in each for each in answer.warnings)
    closed = profile(version, ending(version, "1.29.5"), {"version": "1.30.1"}, {"version": "1.31.0"})
    assert sent(closed).warnings == ()


def test_gaps_are_a_condition_of_the_status() -> None:
    """Operators would not see a gap that arises with time, without a request."""
    gap = profile(HUB, ending(HUB, "1.29.5"), {"version": "1.31.0"})
    (condition,) = decide_status(gap, NOW).patch["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (UPDATE_PATH, "False", "Gap")
    assert "of 1.30 the profile offers nothing" in condition["message"]
    later = NOW + timedelta(days=1)
    known = {**gap, "status": {"conditions": [condition]}}
    assert "conditions" not in decide_status(known, later).patch
    closed = profile(HUB, ending(HUB, "1.29.5"), {"version": "1.30.1"}, {"version": "1.31.0"})
    (healed,) = decide_status({**closed, "status": {"conditions": [condition]}}, later).patch["conditions"]
    assert (healed["status"], healed["lastTransitionTime"]) == ("True", "2025-03-02T00:00:00Z")
    (first,) = decide_status(closed, NOW).patch["conditions"]  # `kubectl wait` finds it before there ever was a gap
    assert (first["status"], first["reason"]) == ("True", "Complete")


BOTH = [{"name": "architecture", "values": ["amd64", "arm64"]}]
IMAGES = [{"name": "ubuntu", "versions": [{"version": "1.0.0", "architectures": ["amd64", "arm64"]}]}]


@pytest.mark.parametrize("version", [OLD, HUB])
def test_capabilities_are_added_and_removed_in_step(version: str) -> None:
    """Moving a profile to capabilities, or back, would require writing every flavor by hand."""
    plain = profile(version, machineImages=IMAGES)
    answer = sent(profile(version, machineImages=IMAGES, machineCapabilities=BOTH), plain)
    assert answer.allowed, answer.refusal
    assert answer.stored is not None
    (image,), (machine_type,) = answer.stored["spec"]["machineImages"], answer.stored["spec"]["machineTypes"]
    assert image["versions"][0]["capabilityFlavors"] == [{"architecture": ["amd64"]}, {"architecture": ["arm64"]}]
    assert machine_type["capabilities"] == {"architecture": ["amd64"]}
    assert machine_type["architecture"] == "amd64"
    back = copy.deepcopy(answer.at(version))
    del back["spec"]["machineCapabilities"]
    bare = sent(back, answer.at(version))
    assert bare.stored is not None, bare.refusal
    assert "capabilityFlavors" not in bare.stored["spec"]["machineImages"][0]["versions"][0]
    assert "capabilities" not in bare.stored["spec"]["machineTypes"][0]
    assert bare.stored["spec"]["machineImages"][0]["versions"][0]["architectures"] == ["amd64", "arm64"]


@pytest.mark.parametrize("version", [OLD, HUB])
def test_the_only_architecture_is_written_out(version: str) -> None:
    """A reader that does not know capabilities would take every machine for amd64."""
    answer = sent(profile(version, machineCapabilities=[{"name": "architecture", "values": ["arm64"]}]))
    assert answer.stored is not None, answer.refusal
    assert answer.stored["spec"]["machineTypes"][0]["architecture"] == "arm64"
    assert answer.stored["spec"]["machineImages"][0]["versions"][0]["architectures"] == ["arm64"]


def test_a_new_version_says_its_own_flavors() -> None:
    """A build for arm64 without flavors would count as amd64."""
    flavors = [{"architecture": ["amd64"]}]
    one = {"version": "1.0.0", "capabilityFlavors": flavors}
    had = profile(HUB, machineCapabilities=BOTH, machineImages=[{"name": "ubuntu", "versions": [one]}])
    two = [{"name": "ubuntu", "versions": [one, {"version": "1.1.0"}]}]
    assert (
        "versions[1].capabilityFlavors: Required"
        in sent(profile(HUB, machineCapabilities=BOTH, machineImages=two), had).refusal
    )


@pytest.mark.parametrize("kind", ["kubernetes", "image"])
def test_a_planned_version_can_be_withdrawn(kind: str) -> None:
    """A cancelled release would stay in the profile until it became available and expired."""
    coming = {"version": "1.32.0", "lifecycle": [{"classification": "supported", "startTime": SOON}]}
    if kind == "kubernetes":
        before, after = profile(HUB, {"version": "1.31.0"}, coming), profile(HUB, {"version": "1.31.0"})
    else:
        planned = [{"name": "ubuntu", "versions": [{"version": "1.0.0"}, coming]}]
        before, after = profile(HUB, machineImages=planned), profile(HUB)
    answer = sent(after, before)
    assert answer.allowed, answer.refusal
    assert answer.warnings == ()


@pytest.mark.parametrize("version", [OLD, HUB])
def test_leading_zeros_make_no_other_version(version: str) -> None:
    """A version with two spellings would have two entries and two lifecycles."""
    answer = sent(profile(version, {"version": "1.30.1"}, {"version": "1.30.01"}))
    assert 'spec.kubernetes.versions[1].version: Duplicate value: "1.30.01"' in answer.refusal


@pytest.mark.parametrize("version", [OLD, HUB])
def test_findings_name_the_value_and_the_key(version: str) -> None:
    """An author with four thousand versions would have to search for the wrong value."""
    flavored = [{"name": "ubuntu", "versions": [{"version": "1.0.0", "capabilityFlavors": [{"colour": ["red"]}]}]}]
    answer = sent(
        profile(version, machineImages=flavored, machineCapabilities=[{"name": "architecture", "values": ["amd64"]}])
    )
    where = "spec.machineImages[0].versions[0].capabilityFlavors[0]"
    assert f'{where}: Unsupported value: "colour": supported values: "architecture"' in answer.refusal
    assert answer.code == 422
    odd = [{"name": "ubuntu", "versions": [{"version": "one"}]}]
    assert (
        'versions[0].version: Invalid value: "one": could not parse version'
        in sent(profile(version, machineImages=odd)).refusal
    )

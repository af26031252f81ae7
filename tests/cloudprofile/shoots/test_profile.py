"""The profile of a Shoot: agreement of its two fields, and moves between profiles."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from restow.cloudprofile.shoots.profile import (
    disagreement_findings,
    reference_findings,
    sync_reference,
    transition_findings,
)
from tests.cloudprofile.hostile import PARENTS, whole
from tests.cloudprofile.manifests import shoot_profiles
from tests.cloudprofile.served import HUB, ApiServer


def shoot(version: str = "1.32.1", workers: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a Shoot in the namespace ``ns``."""
    spec |= {"kubernetes": {"version": version}, "provider": {"workers": workers or []}}
    return {"metadata": {"name": "s", "namespace": "ns"}, "spec": spec}


def reference(kind: str, name: str) -> dict[str, Any]:
    """Return a reference to a profile."""
    return {"kind": kind, "name": name}


def child(name: str, parent: str = "p", **offer: Any) -> dict[str, Any]:
    """Return a NamespacedCloudProfile."""
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"parent": {"kind": "CloudProfile", "name": parent}},
        "status": {"cloudProfileSpec": offer},
    }


OFFER = {
    "machineTypes": [{"name": "m1"}],
    "volumeTypes": [{"name": "gp3"}],
    "machineImages": [{"name": "img", "versions": [{"version": "1.0.0"}]}],
}
WORKER = {
    "name": "w",
    "machine": {"type": "m1", "image": {"name": "img", "version": "1.0.0"}},
    "volume": {"type": "gp3"},
}


def test_siblings_of_one_root_may_be_switched() -> None:
    """A team that tries another NamespacedCloudProfile would have to move over the root (Design 7)."""
    profiles = shoot_profiles([{"metadata": {"name": "p"}, "spec": OFFER}], [child("a", **OFFER), child("b", **OFFER)])
    old = shoot(workers=[WORKER], cloudProfile=reference("NamespacedCloudProfile", "a"))
    new = shoot(workers=[WORKER], cloudProfile=reference("NamespacedCloudProfile", "b"))
    assert transition_findings(old, new, profiles) == ()


@pytest.mark.parametrize(
    ("missing", "field", "said"),
    [
        ("machineTypes", "machine.type", 'the machine type "m1" currently in use by worker "w"'),
        ("volumeTypes", "volume.type", 'the volume type "gp3" currently in use by worker "w"'),
        ("machineImages", "machine.image", 'the machine image version "img@1.0.0" currently in use by worker "w"'),
    ],
)
def test_moves_need_what_workers_use(missing: str, field: str, said: str) -> None:
    """A pool whose machines the new profile does not offer could not be rolled any more."""
    less = {name: value for name, value in OFFER.items() if name != missing}
    profiles = shoot_profiles([{"metadata": {"name": "p"}, "spec": OFFER}], [child("a", **less)])
    old = shoot(workers=[WORKER], cloudProfileName="p")
    new = shoot(workers=[WORKER], cloudProfile=reference("NamespacedCloudProfile", "a"))
    found = transition_findings(old, new, profiles)
    assert [(finding.type.value, finding.field) for finding in found] == [
        ("Invalid", f"spec.provider.workers[0].{field}")
    ]
    assert said in found[0].detail


def test_an_image_that_neither_profile_has_does_not_hold_back() -> None:
    """A Shoot on an image that no profile offers any more could never move."""
    old_offer = {**OFFER, "machineImages": []}
    profiles = shoot_profiles([{"metadata": {"name": "p"}, "spec": old_offer}], [child("a", **old_offer)])
    new = shoot(workers=[WORKER], cloudProfile=reference("NamespacedCloudProfile", "a"))
    assert transition_findings(shoot(workers=[WORKER], cloudProfileName="p"), new, profiles) == ()


def test_cloud_profiles_are_never_exchanged() -> None:
    """A Shoot could move to another CloudProfile, which is another infrastructure."""
    profiles = shoot_profiles([{"metadata": {"name": name}, "spec": OFFER} for name in "pq"])
    old, new = (shoot(cloudProfile=reference("CloudProfile", name)) for name in "pq")
    (found,) = transition_findings(old, new, profiles)
    assert found.field == "spec.cloudProfile" and 'cannot change from "p" to "q"' in found.detail


def test_a_root_of_the_same_name_in_another_kind_is_no_relative() -> None:
    """A Shoot could move to a NamespacedCloudProfile that only has the name of its CloudProfile (GEP-25)."""
    profiles = shoot_profiles([{"metadata": {"name": "p"}, "spec": OFFER}], [child("p", parent="q", **OFFER)])
    old, new = shoot(cloudProfileName="p"), shoot(cloudProfile=reference("NamespacedCloudProfile", "p"))
    (found,) = transition_findings(old, new, profiles)
    assert 'from "p" to "p" (root: "q")' in found.detail


@pytest.mark.parametrize(
    ("new", "old", "refused"),
    [
        pytest.param(
            {"cloudProfileName": "p", "cloudProfile": reference("CloudProfile", "p")}, None, False, id="equal"
        ),
        pytest.param({"cloudProfileName": "p", "cloudProfile": {"name": "p"}}, None, False, id="equal without kind"),
        pytest.param({"cloudProfileName": "q", "cloudProfile": {"name": "p"}}, None, True, id="different on create"),
        pytest.param(
            {"cloudProfileName": "p", "cloudProfile": reference("NamespacedCloudProfile", "p")},
            None,
            True,
            id="other kind on create",
        ),
        pytest.param(
            {"cloudProfileName": "p", "cloudProfile": reference("NamespacedCloudProfile", "n")},
            {"cloudProfileName": "p", "cloudProfile": {"name": "p"}},
            False,
            id="a patch that moves cloudProfile only",
        ),
        pytest.param(
            {"cloudProfileName": "q", "cloudProfile": {"name": "p"}},
            {"cloudProfileName": "p", "cloudProfile": {"name": "p"}},
            True,
            id="a patch that moves cloudProfileName only",
        ),
    ],
)
def test_fields_must_agree(new: dict[str, Any], old: dict[str, Any] | None, refused: bool) -> None:
    """A contradiction would be overwritten, and silently move a Shoot or not move it."""
    found = disagreement_findings(shoot(**new), shoot(**old) if old else None)
    assert [finding.field for finding in found] == (["spec.cloudProfileName"] if refused else [])


def test_a_moved_reference_takes_the_old_name_along() -> None:
    """A client of the old field would read a profile that the Shoot no longer uses."""
    old = shoot(cloudProfileName="p", cloudProfile=reference("CloudProfile", "p"))
    new = shoot(cloudProfileName="p", cloudProfile=reference("NamespacedCloudProfile", "n"))
    assert "cloudProfileName" not in sync_reference(new, old)["spec"]


def test_a_reference_without_a_name_is_none() -> None:
    """An empty reference would be looked up as a profile with an empty name."""
    (found,) = reference_findings(shoot(cloudProfile={"kind": "CloudProfile"}))
    assert (found.type.value, found.field) == ("Required", "spec.cloudProfile.name")


def test_a_shoot_without_its_profile_changes_again_once_that_is_back() -> None:
    """If a user removes a profile's finalizer, creating the profile again must make its Shoots editable again."""
    (parent, _), shoot_before = PARENTS, whole("Shoot", HUB)
    labelled, grown = copy.deepcopy(shoot_before), copy.deepcopy(shoot_before)
    labelled["metadata"]["labels"] = {"a": "c"}
    grown["spec"]["provider"]["workers"][0]["maximum"] = 3
    gone, back = (ApiServer(datetime(2026, 1, 1, tzinfo=UTC), {"cloudprofiles": held}) for held in ([], [parent]))
    assert gone.update(labelled, shoot_before).allowed
    assert 'CloudProfile "parent" not found' in gone.update(grown, shoot_before).refusal
    assert back.update(grown, shoot_before).allowed

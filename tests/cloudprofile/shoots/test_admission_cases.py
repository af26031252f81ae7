"""Shoots against profiles, as Gardener does it: references, moves, defaults, admission."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from restow.cloudprofile.findings import ValidationFinding
from restow.cloudprofile.objects import is_deleting, profile_of
from restow.cloudprofile.shoots.admission import complete_shoot
from restow.cloudprofile.shoots.defaulting import default_kubernetes_version
from restow.cloudprofile.shoots.profile import ShootProfiles, reference_findings, sync_reference, transition_findings
from restow.cloudprofile.shoots.versions import change_findings, version_findings, worker_findings
from tests.cloudprofile.cases import Case, assert_errors, assert_outcome, load, now_of, params

MOVES, ADMISSION = "shoot_profile", "shoot_admission"


def profiles_of(case: Case) -> ShootProfiles:
    """Return the profiles that exist in a case."""
    existing = case["input"]["existing"]
    return ShootProfiles.of(existing.get("cloudProfiles") or (), existing.get("namespacedCloudProfiles") or ())


def assert_static(found: tuple[ValidationFinding, ...], expected: dict[str, Any]) -> None:
    """Compare findings with expected errors of which only type and detail are known."""
    known = [(error["type"], error["detail"]) for error in expected["errors"]]
    assert len(found) == len(known)
    for finding, (kind, detail) in zip(found, known, strict=True):
        assert finding.type == kind and detail in finding.detail


@pytest.mark.parametrize("case", params(load(MOVES, "moves")))
def test_moves(case: Case) -> None:
    """A Shoot that moved to another family of profiles would run on what its operators never offered."""
    found = transition_findings(case["input"]["oldShoot"], case["input"]["newShoot"], profiles_of(case))
    assert_outcome(found, case["expected"])


@pytest.mark.parametrize("case", params(load(MOVES, "references")))
def test_reference(case: Case) -> None:
    """Everything else rests on which profile a Shoot refers to."""
    reference = profile_of(case["input"]["shoot"])
    assert reference is not None
    assert {"kind": reference.kind, "name": reference.name} == case["expected"]["reference"]


@pytest.mark.parametrize("case", params(load(MOVES, "sync")))
def test_sync(case: Case) -> None:
    """Old clients read ``cloudProfileName``, new ones ``cloudProfile``: both have to see the same."""
    spec = sync_reference(case["input"]["newShoot"], case["input"]["oldShoot"])["spec"]
    assert spec.get("cloudProfileName") == case["expected"]["cloudProfileName"]
    assert spec.get("cloudProfile") == case["expected"]["cloudProfile"]


@pytest.mark.parametrize("case", params(load(MOVES, "static references")))
def test_static_reference(case: Case) -> None:
    """A Shoot without a profile, or of an unknown kind of profile, cannot be looked at further."""
    given = case["input"]
    spec = {"cloudProfile": given["cloudProfile"], "cloudProfileName": given["cloudProfileName"]}
    spec |= {"kubernetes": {"version": given["kubernetesVersion"]}}
    assert_errors(reference_findings({"spec": spec}), case["expected"])


@pytest.mark.parametrize("case", params(load(MOVES, "offers")))
def test_offer(case: Case) -> None:
    """What holds for a Shoot is its own profile's spec, or what was rendered for its own namespace."""
    case = copy.deepcopy(case)
    existing, expected = case["input"]["existing"], case["expected"]["spec of"]
    name = expected.split(" ")[0].rpartition("/")[2]
    namespaced = expected.startswith("NamespacedCloudProfile/")
    listed = existing["namespacedCloudProfiles" if namespaced else "cloudProfiles"]
    profile = next(item for item in listed if item["metadata"]["name"] == name)
    profile["status" if namespaced else "spec"] = {"cloudProfileSpec": {"type": "x"}} if namespaced else {"type": "x"}
    reference = profile_of(case["input"]["shoot"])
    assert reference is not None
    assert profiles_of(case).offer(reference) == {"type": "x"}


@pytest.mark.parametrize("case", params(load(ADMISSION, "version changes")))
def test_static_change(case: Case) -> None:
    """A downgrade or a skipped minor version breaks a control plane for good."""
    given = case["input"]
    found = change_findings(
        given["new"], given["old"], "spec.kubernetes.version", may_skip_minor=given["skipMinorAllowed"]
    )
    assert_static(found, case["expected"])


@pytest.mark.parametrize("case", params(load(ADMISSION, "worker skew")))
def test_static_skew(case: Case) -> None:
    """Kubelets above their control plane, or too far below it, are not supported by Kubernetes."""
    found = worker_findings(case["input"]["worker"], case["input"]["controlPlane"], "path")
    assert_static(found, case["expected"])


@pytest.mark.parametrize("case", params(load(ADMISSION, "default version")))
def test_default_kubernetes_version(case: Case) -> None:
    """A Shoot that leaves its version open gets a supported one or none."""
    given = case["input"]
    chosen = default_kubernetes_version(given["versions"], given["shootVersion"], "path", now_of(case))
    if isinstance(chosen, ValidationFinding):
        assert_static((chosen,), case["expected"])
    else:
        assert chosen == case["expected"]["version"]


@pytest.mark.parametrize("case", params(load(ADMISSION, "validation")))
def test_validation(case: Case) -> None:
    """What the profile does not offer to a Shoot, or no longer offers to new ones, is refused with its reason."""
    given, profiles = case["input"], profiles_of(case)
    if given["operation"] == "DELETE" or is_deleting(given["object"]):
        assert case["expected"]["allowed"]  # nobody asks
        return
    reference = profile_of(given["object"])
    assert reference is not None
    offer = profiles.offer(reference)
    assert offer is not None
    found = version_findings(given["object"], given.get("oldObject"), offer, now_of(case))
    assert_outcome(found, case["expected"])


@pytest.mark.parametrize("case", params(load(ADMISSION, "defaults")))
def test_defaulting(case: Case) -> None:
    """What a Shoot leaves open is filled in from its profile, and what it has is kept."""
    given = case["input"]
    before = repr(given)
    done = complete_shoot(given["object"], given.get("oldObject"), profiles_of(case), now_of(case))
    assert_outcome(done.findings, case["expected"])
    for path, value in case["expected"].get("mutated", {}).items():
        assert at(done.shoot, path) == value, path
    assert repr(given) == before


def at(obj: dict[str, Any], path: str) -> Any:
    """Return the value at a path like ``spec.workers[0].machine``, None where there is none."""
    value: Any = obj
    for step in re.findall(r"[^.\[\]]+", path):
        value = value[int(step)] if step.isdigit() else (value or {}).get(step)
    return value

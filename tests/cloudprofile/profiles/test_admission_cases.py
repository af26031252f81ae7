"""Gardener's cases of admitting profiles: parent rules, reference manager, custom verbs, what a write changes."""

from __future__ import annotations

from typing import Any

import pytest

from restow.cloudprofile.capabilities import synchronise
from restow.cloudprofile.findings import ValidationVerdict
from restow.cloudprofile.objects import by_name
from restow.cloudprofile.profiles.admission import judge, judge_namespaced, needed_verbs
from restow.cloudprofile.profiles.protection import protect, protect_namespaced
from tests.cloudprofile.cases import Case, assert_outcome, load, now_of, params


@pytest.mark.parametrize("case", params(load("namespaced_admission")))
def test_a_namespacedcloudprofile_says_only_what_its_parent_lets_it_say(case: Case) -> None:
    """A project could bring versions or images that the landscape does not support, or could not extend a date."""
    given = case["input"]
    parents = {profile["metadata"]["name"]: profile for profile in given["existing"].get("cloudProfiles", ())}
    verdict = judge_namespaced(
        _in_namespace(given["object"]),
        _in_namespace(given.get("oldObject")),
        parent=parents.get(given["object"]["spec"]["parent"]["name"]),
        shoots=(),
        now=now_of(case),
    )
    assert_outcome(verdict.findings, case["expected"])


def _in_namespace(profile: Any) -> Any:
    """Give a profile of a case, which has none, a namespace."""
    return profile and {**profile, "metadata": {"namespace": "ns", **profile["metadata"]}}


@pytest.mark.parametrize("case", params(load("protection")))
def test_what_others_use_stays(case: Case) -> None:
    """A Shoot would run a version, or a NamespacedCloudProfile override one, that is nowhere to be found any more."""
    given, existing = case["input"], case["input"]["existing"]
    shoots = existing.get("shoots", ())
    if given["kind"] == "CloudProfile":
        children = existing.get("namespacedCloudProfiles", ())
        found = protect(given["object"], given["oldObject"], children, shoots)
    else:
        parents = by_name({**profile, "name": profile["metadata"]["name"]} for profile in existing["cloudProfiles"])
        parent = parents[given["object"]["spec"]["parent"]["name"]]
        found = protect_namespaced(given["object"], given["oldObject"], parent, shoots, now_of(case))
    assert_outcome(found, case["expected"])


@pytest.mark.parametrize("case", params(load("verbs")))
def test_who_changes_versions_needs_a_verb(case: Case) -> None:
    """A project's administrator could keep expired versions alive, or an operator be refused without reason.

    GEP-25 spells the verbs as the fields are spelled, the cases in small letters.
    """
    given, expected = case["input"], case["expected"]
    needed = [verb.lower() for verb in needed_verbs(given["object"], given.get("oldObject"))]
    if "verbsChecked" in expected:
        assert needed == expected["verbsChecked"]
    assert all(given["verbs"].get(verb) for verb in needed) is expected["allowed"]


@pytest.mark.parametrize("case", params(load("expired_on_write", "expired")))
def test_expired_versions_are_warned_of_on_create_and_refused_on_update(case: Case) -> None:
    """Versions would vanish from a manifest without a word, and GitOps would fight for them."""
    given, expired = case["input"], case["expected"]["spoken"]
    verdict = _judge(given, now_of(case))
    spoken = [
        remark
        for remark in (*verdict.findings, *verdict.warnings)
        if "in the past" in str(remark) or "expired already" in str(remark)
    ]
    assert len(spoken) == expired
    refused = [remark for remark in verdict.findings if remark in spoken]
    assert len(refused) == (expired if given["operation"] == "UPDATE" else 0)


def _judge(given: dict[str, Any], now: Any) -> ValidationVerdict:
    meta = {"metadata": {"name": "p", "namespace": "ns"}}
    new = {**meta, "spec": given["spec"]}
    old = {**meta, "spec": given["oldSpec"]} if "oldSpec" in given else None
    if given["kind"] == "CloudProfile":
        return judge(new, old, children=(), shoots=(), now=now)
    new["spec"] = {
        **given["spec"],
        "parent": {"kind": "CloudProfile", "name": "parent"},
        "limits": {"maxNodesTotal": 1},
    }
    if old:
        old["spec"] = {**given["oldSpec"], "parent": {"kind": "CloudProfile", "name": "parent"}}
    bare = [{"version": version["version"]} for version in given["spec"].get("kubernetes", {}).get("versions", ())]
    images = [
        {"name": image["name"], "versions": [{"version": version["version"]} for version in image.get("versions", ())]}
        for image in given["spec"].get("machineImages", ())
    ]
    parent = {"metadata": {"name": "parent"}, "spec": {"kubernetes": {"versions": bare}, "machineImages": images}}
    return judge_namespaced(new, old, parent=parent, shoots=(), now=now)


@pytest.mark.parametrize("case", params(load("expired_on_write", "capabilities")))
def test_capabilities_and_plain_architectures_say_the_same(case: Case) -> None:
    """A reader that knows only the plain fields would see machines without architecture."""
    given = case["input"]
    assert synchronise(given["spec"], given.get("oldSpec")) == case["expected"]["spec"]

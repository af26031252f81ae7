"""Gardener's cases of admitting profiles: parent rules, reference manager, custom verbs, what a write changes."""

from __future__ import annotations

from typing import Any

import pytest

from restow.cloudprofile.capabilities import synchronise
from restow.cloudprofile.findings import Verdict
from restow.cloudprofile.parts import by_name
from restow.cloudprofile.protection import protect, protect_namespaced
from restow.cloudprofile.verbs import needed_verbs
from restow.cloudprofile.verdicts import judge, judge_namespaced
from tests.cloudprofile.cases import Case, Overruled, assert_outcome, load, now_of, params

_SPEC_EQUAL = "an update that leaves the spec equal is always admitted"

OVERRULED_ADMISSION = {
    "QUIRK: updateStrategy override of a parent image cannot be changed any more once the image entry is in the "
    "NamespacedCloudProfile": Overruled("QUIRK not followed", {"allowed": True}),
    "metadata-only update (annotation) still runs the full validation and fails if the parent is gone": Overruled(
        _SPEC_EQUAL, {"allowed": True}
    ),
}


@pytest.mark.parametrize("case", params(load("ncp_admission"), OVERRULED_ADMISSION))
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


OVERRULED_PROTECTION = {
    "CloudProfile: removing a lifecycle stage that a NamespacedCloudProfile overrides is not protected at HEAD (GEP-32 "
    "demands it)": Overruled(
        "GEP-32: an overridden stage cannot be deleted",
        {"allowed": False, "errorContains": ["stage expired of version 1.29.4", "NamespacedCloudProfile 'ns/n'"]},
    ),
}


@pytest.mark.parametrize("case", params(load("reference_manager"), OVERRULED_PROTECTION))
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


@pytest.mark.parametrize("case", params(load("ncp_custom_verbs")))
def test_who_changes_versions_needs_a_verb(case: Case) -> None:
    """A project's administrator could keep expired versions alive, or an operator be refused without reason.

    GEP-25 spells the verbs as the fields are spelled, the cases in small letters.
    """
    given, expected = case["input"], case["expected"]
    needed = [verb.lower() for verb in needed_verbs(given["object"], given.get("oldObject"))]
    if "verbsChecked" in expected:
        assert needed == expected["verbsChecked"]
    assert all(given["verbs"].get(verb) for verb in needed) is expected["allowed"]


_NOT_DROPPED = "nothing is dropped in silence: refuse on update, warn on create"
_API_SERVER = "the API server keeps generation, status and the status subresource of a CRD"

DROPPED = {
    "CloudProfile create drops expired Kubernetes and image versions (legacy and lifecycle)": 5,
    "NamespacedCloudProfile create drops expired versions / only machineImages": 2,
    "NamespacedCloudProfile create drops expired versions / both": 4,
    "NamespacedCloudProfile create: image entry with updateStrategy is kept without versions": 1,
    "CloudProfile update drops nothing": 5,
    "NamespacedCloudProfile update: expired Kubernetes versions already present stay": 0,
    "NamespacedCloudProfile update: expired image versions already present stay": 0,
}
"""Cases of dropping versions, with how many expired ones they bring: none of those goes, each is spoken of."""

OF_THE_API_SERVER = {
    "generation is 1 on create",
    "generation incremented on spec change",
    "status sent on a spec update is ignored",
    "CloudProfile: spec sent on a status update is ignored",
}


def test_each_case_of_writing_is_followed_or_overruled() -> None:
    """A case of what happens on a write would be passed over in silence."""
    names = {case["name"] for case in load("version_drop_on_write")}
    canonical = {name for name in names if "canonicalize" in name}
    assert names == DROPPED.keys() | OF_THE_API_SERVER | canonical, _API_SERVER


@pytest.mark.parametrize("case", params(case for case in load("version_drop_on_write") if case["name"] in DROPPED))
def test_expired_versions_are_warned_of_on_create_and_refused_on_update(case: Case) -> None:
    """Versions would vanish from a manifest without a word, and GitOps would fight for them."""
    given, expired = case["input"], DROPPED[case["name"]]
    verdict = _judge(given, now_of(case))
    spoken = [
        remark
        for remark in (*verdict.findings, *verdict.cautions)
        if "in the past" in str(remark) or "expired already" in str(remark)
    ]
    assert len(spoken) == expired, _NOT_DROPPED
    refused = [remark for remark in verdict.findings if remark in spoken]
    assert len(refused) == (expired if given["operation"] == "UPDATE" else 0)


def _judge(given: dict[str, Any], now: Any) -> Verdict:
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


@pytest.mark.parametrize(
    "case", params(case for case in load("version_drop_on_write") if "canonicalize" in case["name"])
)
def test_capabilities_and_plain_architectures_say_the_same(case: Case) -> None:
    """A reader that knows only the plain fields would see machines without architecture."""
    given = case["input"]
    assert synchronise(given["spec"], given.get("oldSpec")) == case["expected"]["spec"]

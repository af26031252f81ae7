"""Gardener's cases of admitting profiles, as requests: parent rules, protection, custom verbs, expired versions."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from restow.cloudprofile.profiles.admission import needed_verbs
from tests.cloudprofile.cases import Case, assert_answer, load, params
from tests.cloudprofile.requests import answer_to, server_of
from tests.cloudprofile.validation.test_namespaced_cases import parents_of

Document = dict[str, Any]


@pytest.mark.parametrize("case", params(load("namespaced_admission")))
def test_a_namespacedcloudprofile_says_only_what_its_parent_lets_it_say(case: Case) -> None:
    """A project could add versions or images that the landscape does not support, or could not extend a date."""
    given = case["input"]
    answer = answer_to(server_of(case), "NamespacedCloudProfile", given["object"], given.get("oldObject"))
    assert_answer(answer, case["expected"])


@pytest.mark.parametrize("case", params(load("protection")))
def test_what_others_use_stays(case: Case) -> None:
    """A Shoot would run, or a NamespacedCloudProfile override, a version that no profile lists any more."""
    given = case["input"]
    existing = given.get("existing") or {}
    parents = [with_versions(profile) for profile in existing.get("cloudProfiles") or ()]
    new, old = (with_versions(given[name], given["kind"]) for name in ("object", "oldObject"))
    answer = answer_to(server_of(case, {"cloudProfiles": parents}), given["kind"], new, old)
    assert_answer(answer, case["expected"])


def with_versions(profile: Document, kind: str = "CloudProfile") -> Document:
    """Return a profile of a case about images; every CloudProfile gets a Kubernetes version."""
    if kind != "CloudProfile" or (profile.get("spec", {}).get("kubernetes") or {}).get("versions"):
        return profile
    made = copy.deepcopy(profile)
    made.setdefault("spec", {})["kubernetes"] = {"versions": [{"version": "1.30.0"}]}
    return made


@pytest.mark.parametrize("case", params(load("verbs")))
def test_who_changes_versions_needs_a_verb(case: Case) -> None:
    """A project's administrator could keep expired versions alive, or an operator would be refused without reason.

    GEP-25 spells the verbs like the fields, the cases in lower case.
    """
    given, expected = case["input"], case["expected"]
    new, old = given["object"], given.get("oldObject")
    spelled = {verb.lower(): verb for verb in needed_verbs({"spec": ALL_PARTS})}
    held = {spelled[verb] for verb, granted in given["verbs"].items() if granted}
    server = server_of(case, {"cloudProfiles": parents_of(new) or parents_of(old or {})}, member=held)
    answer = answer_to(server, "NamespacedCloudProfile", new, old, user="member")
    assert_answer(answer, expected)
    if "verbsChecked" in expected:
        asked = [each.body["spec"]["resourceAttributes"]["verb"] for each in server.reviews]
        assert [verb.lower() for verb in asked] == expected["verbsChecked"]


ALL_PARTS = {"kubernetes": {"versions": [{"version": "1"}]}, "machineImages": [{"name": "i"}], "providerConfig": {}}


@pytest.mark.parametrize("case", params(load("expired_on_write", "expired")))
def test_expired_versions_are_warned_of_on_create_and_refused_on_update(case: Case) -> None:
    """Expired versions would be dropped from a manifest silently, and GitOps would add them again and again."""
    given, expired = case["input"], case["expected"]["spoken"]
    kind = given["kind"]
    new, old = (about(given[name]) if name in given else None for name in ("spec", "oldSpec"))
    answer = answer_to(server_of(case, {"cloudProfiles": bare_parents(new or {})}), kind, new, old)
    refused = [each for each in answer.findings if "in the past" in each.detail]
    warned = [text for text in answer.warnings if "expired already" in text]
    assert (len(refused), len(warned)) == ((expired, 0) if given["operation"] == "UPDATE" else (0, expired))


def about(spec: Document) -> Document:
    """Return a profile with the spec of a case."""
    return {"metadata": {"name": "p"}, "spec": {"parent": {"kind": "CloudProfile", "name": "parent"}, **spec}}


def bare_parents(profile: Document) -> list[Document]:
    """Return a parent that has all versions of a profile, without any stages."""
    spec = copy.deepcopy(profile["spec"])
    lists = [spec.get("kubernetes") or {}, *(spec.get("machineImages") or ())]
    for part in lists:
        part["versions"] = [{"version": version["version"]} for version in part.get("versions") or ()]
    made = {"kubernetes": lists[0], "machineImages": lists[1:]}
    return [with_versions({"metadata": {"name": "parent"}, "spec": made})]

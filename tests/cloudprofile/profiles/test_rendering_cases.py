"""Gardener's cases of merging a NamespacedCloudProfile into its parent, as requests, and of forms of capabilities."""

from __future__ import annotations

from typing import Any

import pytest

from restow.cloudprofile.capabilities import defaulted, definitions_of, in_form_of
from restow.cloudprofile.profiles.reconciliation import decide_namespaced_status
from tests.cloudprofile.cases import Case, load, now_of, params
from tests.cloudprofile.requests import profile_with, written
from tests.cloudprofile.served import Answer, ApiServer, decoded

Document = dict[str, Any]


@pytest.mark.parametrize("case", params(load("rendering", "merge")))
def test_a_namespacedcloudprofile_renders(case: Case) -> None:
    """Shoots would be offered versions, images or machines that neither profile has."""
    given, expected, now = case["input"], case["expected"], now_of(case)
    parent = profile_with(given["parent"]["spec"])
    of_parent = ApiServer(now).create(parent)
    child = child_with(given["namespacedCloudProfile"]["spec"], parent)
    of_child = ApiServer(now, {"cloudprofiles": [parent]}).create(child)
    refusal = " ".join(filter(None, (of_parent.refusal, of_child.refusal)))
    assert [text for text in expected.get("refused", ()) if text not in refusal] == []
    assert bool(refusal) is bool(expected.get("refused")), refusal
    before, stored = (was_stored(*each) for each in ((parent, of_parent), (child, of_child)))
    rendered = defaulted(decide_namespaced_status(stored, before, now).patch["cloudProfileSpec"])
    wanted = expected_spec(expected["cloudProfileSpec"])
    assert {name: value for name, value in rendered.items() if name in wanted} == wanted
    assert rendered.keys() - wanted.keys() <= parent["spec"].keys() - given["parent"]["spec"].keys()


def child_with(spec: Document, parent: Document) -> Document:
    """Return a NamespacedCloudProfile with the spec of a case, at the version of its fields."""
    made = {"parent": {"kind": "CloudProfile", "name": parent["metadata"]["name"]}, **spec}
    return written({"metadata": {"name": "n"}, "spec": made}, "NamespacedCloudProfile")


def was_stored(sent: Document, answer: Answer) -> Document:
    """Return an object as stored; one that is refused now may have been stored when its parent was different."""
    return decoded(sent) if answer.stored is None else answer.stored


def expected_spec(spec: Document) -> Document:
    """Return the expected spec as stored, with the parts that the requests of a case add."""
    return defaulted(decoded(profile_with(spec))["spec"])


@pytest.mark.parametrize("case", params(load("rendering", "form")))
def test_a_project_may_use_the_other_form_of_architectures(case: Case) -> None:
    """An image of a project, described in the other form, would fit no machine of its parent."""
    given = case["input"]
    changed = in_form_of(given["spec"], definitions_of(given))
    assert _without_order(changed, case) == _without_order(case["expected"]["spec"], case)


def _without_order(spec: dict[str, Any], case: Case) -> dict[str, Any]:
    if "unordered" not in case["expected"]:
        return spec
    images = [
        {**image, "versions": [{**v, "architectures": sorted(v.get("architectures") or ())} for v in image["versions"]]}
        for image in spec["machineImages"]
    ]
    return {**spec, "machineImages": images}

"""Revisions of conversions, and the ConfigMap through which leader and replicas agree on them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from restow.conversion.operate.revisions import (
    Report,
    Revision,
    RevisionRecord,
    RevisionUnreadable,
    StepState,
    record_name,
    report_key,
)
from restow.crds import Crd


def crd(**metadata: Any) -> dict[str, Any]:
    """A CRD whose versions spell one field in two ways."""

    def version(name: str, field: str) -> dict[str, Any]:
        spec = {"type": "object", "properties": {field: {"type": "string"}}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        return {"name": name, "served": True, "storage": name == "v1", "schema": schema}

    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobs.example.dev", **metadata},
        "spec": {
            "group": "example.dev",
            "scope": "Namespaced",
            "names": {"plural": "jobs", "kind": "Job"},
            "versions": [version("v1beta1", "old"), version("v1", "new")],
        },
    }


def rules(**metadata: Any) -> dict[str, Any]:
    """The document for it."""
    declared = [{"rename": {"spoke": "spec.old", "hub": "spec.new"}}]
    return {
        "apiVersion": "restow.dev/v1alpha1",
        "kind": "ConversionRules",
        "metadata": {"name": "jobs", **metadata},
        "spec": {
            "target": {"group": "example.dev", "kind": "Job"},
            "hub": "v1",
            "spokes": [{"version": "v1beta1", "rules": declared}],
        },
    }


def test_a_revision_is_named_after_what_conversions_depend_on() -> None:
    """Labels and wiring make no new revision, or every write would send all objects through a rehearsal."""
    first = Revision.of(rules(), Crd.from_document(crd()))
    wired = crd(labels={"a": "b"}, generation=7)
    wired["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://a.example.dev"}},
    }
    assert Revision.of(rules(generation=5, labels={"a": "b"}), Crd.from_document(wired)).name == first.name
    asked = rules()
    asked["spec"]["takeOver"] = "a/b"
    assert Revision.of(asked, Crd.from_document(crd())).name == first.name
    for change in (("spec", "hub"), ("spec", "spokes")):
        other = rules()
        other[change[0]][change[1]] = copy.deepcopy(other[change[0]][change[1]]) * 2
        assert Revision.of(other, Crd.from_document(crd())).name != first.name
    schema = crd()
    schema["spec"]["versions"][0]["served"] = False
    assert Revision.of(rules(), Crd.from_document(schema)).name != first.name


def test_a_stored_revision_converts() -> None:
    """A replica compiles from the ConfigMap alone what the leader rehearsed."""
    made = Revision.of(rules(), Crd.from_document(crd()))
    graph = Revision.read(made.name, made.body).graph()
    obj = {"apiVersion": "example.dev/v1beta1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"old": "x"}}
    assert graph.convert(obj, "example.dev/v1")["spec"] == {"new": "x"}


@pytest.mark.parametrize("spoilt", ["", "%%%", "aGVsbG8=", "eJyrrgUAAXUA+Q=="])
def test_a_spoilt_revision_is_an_error(spoilt: str) -> None:
    """A ConfigMap that was edited must not end the replica, nor be served as if it were whole."""
    with pytest.raises(RevisionUnreadable, match="the revision abc cannot be read"):
        Revision.read("abc", spoilt)


def test_another_content_is_not_served_under_the_name() -> None:
    """The leader waits for a name: what it stands for must be what was rehearsed."""
    made = Revision.of(rules(), Crd.from_document(crd()))
    with pytest.raises(RevisionUnreadable, match="another content"):
        Revision.read("0" * 16, made.body)


def test_the_record_keeps_what_is_needed_alone() -> None:
    """Old revisions, and reports of replicas that ended, go; the reports of others are left to them."""
    stored = {
        "metadata": {"name": record_name("jobs.example.dev")},
        "data": {
            "rules": "jobs",
            "active": "a",
            "activeGeneration": "3",
            "candidate": "a",
            "wired": "true",
            report_key("one"): Report(("a",), "a", wires=True).text,
            report_key("two"): "garbage",
        },
        "binaryData": {"revision.a": "AA==", "revision.old": "AA=="},
    }
    record = RevisionRecord.read(stored)
    assert record.crd == "jobs.example.dev"
    assert (record.active, record.active_generation, record.wired) == ("a", 3, True)
    assert record.reports == {"one": Report(("a",), "a", wires=True), "two": Report()}
    patch = record.patch(live=frozenset({"one"}), candidate="b", candidate_generation=4, revisions={"b": "BB=="})
    assert patch["binaryData"] == {"revision.old": None, "revision.b": "BB=="}
    assert patch["data"]["candidate"] == "b"
    assert patch["data"][report_key("two")] is None
    assert report_key("one") not in patch["data"]


def test_steps_of_the_record_are_those_of_the_last_write() -> None:
    """A step that is not removed from the record is removed from the cluster again and again, or never."""
    data = {"step.one": "wanted", "step.two": "ending", "step.three": "spoilt"}
    record = RevisionRecord.read({"metadata": {"name": record_name("jobs.example.dev")}, "data": data})
    assert record.steps == {"one": StepState.WANTED, "two": StepState.ENDING}
    patched = record.patch(steps={"one": StepState.ENDING})["data"]
    assert {name: state for name, state in patched.items() if name.startswith("step.")} == {
        "step.one": "ending",
        "step.two": None,
    }
    assert record.patch(rehearsed="a")["data"]["step.two"] == "ending", "another write must not end a step"

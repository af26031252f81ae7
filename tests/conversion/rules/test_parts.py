"""Rules that show a part of a value, or one of two names, through the webhook: what is shown, and what an edit does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from restow.conversion import DefinitionError, Graph, convert_review, rules
from restow.conversion.model.values import ABSENT
from restow.conversion.rules.standard.parts import FittingPart
from restow.crds import Schema
from tests.conversion.rules.standardkinds import (
    ANYTHING,
    GROUP,
    INTEGER,
    KIND,
    TEXT,
    crd_of,
    frozen,
    listed,
    mapped,
    obj,
)

CONDITIONS = {
    "type": "array",
    "items": obj({"type": TEXT, "status": TEXT}, required=["type"]),
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}
NODE = obj({"tags": listed(TEXT), "disks": mapped(obj({"path": TEXT, "size": INTEGER}, required=["path"]))})
PLAIN = obj({"rules": listed(obj({"host": TEXT})), "conditions": CONDITIONS})


def opaque(by: str = "hub") -> Graph:
    """A kind with two fields that only one version describes, as the spec and status of Longhorn's Node."""
    declared = [rules.described(f"spec.{each}", by=by, partial=True) for each in ("node", "state")]  # type: ignore[arg-type]
    described, loose = {"node": NODE, "state": PLAIN}, {"node": ANYTHING, "state": ANYTHING}
    return frozen(declared, crd_of(*(map(obj, (loose, described) if by == "hub" else (described, loose)))))


def reviewed(graph: Graph, version: str, found: dict[str, Any]) -> dict[str, Any]:
    """Return an object as the webhook converts it."""
    request = {"uid": "u", "desiredAPIVersion": f"{GROUP}/{version}", "objects": [found]}
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    response = json.loads(convert_review(graph, json.dumps(review).encode()))["response"]
    assert response["result"]["status"] == "Success"
    converted: dict[str, Any] = response["convertedObjects"][0]
    return converted


def thing(version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": KIND, "metadata": {"name": "a"}, **fields}


@pytest.mark.parametrize("by", ["hub", "spoke"])
def test_one_undeclared_field_does_not_hide_the_others(by: str) -> None:
    """A controller of the other version would see an object without a spec, and act on that."""
    stored, shown = ("v1", "v2") if by == "hub" else ("v2", "v1")
    disks = {"a": {"path": "/a", "size": "1Gi"}, "b": {"size": 1}, "c": {"path": "/c", "size": 3}}
    status = {"rules": [{"host": "a", "x": 1}], "conditions": {"Ready": {"type": "Ready"}}}
    source = thing(
        stored, spec={"node": {"tags": ["x"], "disks": disks, "engineManagerCPURequest": 5}, "state": status}
    )
    graph = opaque(by)
    there = reviewed(graph, shown, source)
    assert there["spec"]["node"] == {"tags": ["x"], "disks": {"a": {"path": "/a"}, "c": {"path": "/c", "size": 3}}}
    assert there["spec"]["state"] == {"rules": [{"host": "a"}]}
    assert reviewed(graph, stored, there) == source

    edited = json.loads(json.dumps(there))
    node = edited["spec"]["node"]
    node["tags"].append("y")
    del node["disks"]["c"]
    node["disks"]["a"]["path"] = "/z"
    node["disks"]["n"] = {"path": "/n"}
    back = reviewed(graph, stored, edited)["spec"]["node"]
    assert back == {
        "tags": ["x", "y"],
        "disks": {"a": {"path": "/z", "size": "1Gi"}, "b": {"size": 1}, "n": {"path": "/n"}},
        "engineManagerCPURequest": 5,
    }


@pytest.mark.parametrize(
    ("items", "edit", "expected"),
    [
        ([{"host": "a", "x": 1}, {"host": "b", "x": 2}], [{"host": "b"}, {"host": "a"}], [2, 1]),
        ([{"host": "a", "x": 1}, {"host": "b", "x": 2}], [{"host": "z"}, {"host": "b"}], [1, 2]),
        ([{"host": "a", "x": 1}, {"host": "b", "x": 2}], [{"host": "n"}, {"host": "b"}, {"host": "a"}], [None, 2, 1]),
        ([{"host": "a", "x": 1}, {"host": "a", "x": 2}], [{"host": "a"}], [1]),
    ],
)
def test_items_keep_what_is_hidden_of_them(items: list[Any], edit: list[Any], expected: list[Any]) -> None:
    """An edit would give the hidden fields of one item to another, or take them all away."""
    graph = opaque()
    there = reviewed(graph, "v2", thing("v1", spec={"state": {"rules": items}}))
    back = reviewed(graph, "v1", {**there, "spec": {"state": {"rules": edit}}})
    assert [each.get("x") for each in back["spec"]["state"]["rules"]] == expected
    assert [each["host"] for each in back["spec"]["state"]["rules"]] == [each["host"] for each in edit]


def test_items_with_a_key_are_found_by_it() -> None:
    """A reordered and edited list would lose what is hidden."""
    graph = opaque()
    stored = [{"type": "A", "status": "1", "x": 1}, {"type": "B", "status": "2", "x": 2}]
    there = reviewed(graph, "v2", thing("v1", spec={"state": {"conditions": stored}}))
    edit = [{"type": "C"}, {"type": "B", "status": "3"}, {"type": "A", "status": "4"}]
    back = reviewed(graph, "v1", {**there, "spec": {"state": {"conditions": edit}}})
    assert back["spec"]["state"]["conditions"] == [
        {"type": "C"},
        {"type": "B", "status": "3", "x": 2},
        {"type": "A", "status": "4", "x": 1},
    ]


def test_a_part_is_the_largest_that_fits() -> None:
    """What is shown must be what an API server keeps of it, and no less."""
    part = FittingPart(Schema.root(obj({"a": obj({"b": INTEGER}, required=["b"]), "c": {**obj({}), **ANYTHING}})))
    assert part({"a": {"b": 1, "z": 1}, "c": {"any": 1}, "d": 1}) == {"a": {"b": 1}, "c": {"any": 1}}
    assert (
        part({"a": {"z": 1}, "c": {"d": 1}}) == {"c": {"d": 1}} and part({"a": {"z": 1}}) is ABSENT and part({}) == {}
    )


OLD, NEW = "old", "new"


@pytest.mark.parametrize(("show", "other"), [(NEW, OLD), (OLD, NEW)])
def test_an_edit_of_the_name_that_is_shown_is_not_ignored(show: str, other: str) -> None:
    """A client of an old version cannot know that a field which it never set counts for more."""
    graph = frozen([rules.copy(["spec.old", "spec.new"], "spec.new", show=show)], None)  # type: ignore[arg-type]
    shown = reviewed(graph, "v1", thing("v2", spec={"new": "a"}))
    assert shown["spec"] == {show: "a"}
    assert reviewed(graph, "v2", {**shown, "spec": {show: "b"}})["spec"] == {"new": "b"}
    assert reviewed(graph, "v2", {**shown, "spec": {show: "a", other: "b"}})["spec"] == {"new": "b"}

    stored = thing("v1", spec={other: "a"})
    there = reviewed(graph, "v2", stored)
    assert there["spec"] == {"new": "a"} and reviewed(graph, "v1", there) == stored
    assert reviewed(graph, "v1", {**there, "spec": {"new": "b"}})["spec"] == {other: "b"}


def test_what_cannot_be_shown_is_refused() -> None:
    """A required copy would never be written, and of three names none is the new one."""
    fields = obj({"old": TEXT, "new": TEXT}, required=["old"])
    rule = rules.copy(["spec.old", "spec.new"], "spec.new", show="new")
    with pytest.raises(DefinitionError, match="is required, but show= names the other copy"):
        frozen([rule], crd_of(fields, obj({"new": TEXT}, required=["new"])))
    with pytest.raises(DefinitionError, match="has 3 copies, of which none is the new one"):
        frozen([rules.copy(["a", "b", "c"], "a", show="new")], None)
    with pytest.raises(DefinitionError, match="has show='some'"):
        frozen([rules.copy(["a", "b"], "a", show="some")], None)  # type: ignore[arg-type]

"""Groups of fields that a rule converts together: what of the stash is believed, and what a function may return."""

from __future__ import annotations

import json
from typing import Any

import pytest

from restow.conversion import ConversionError, Graph, Registry, rules
from restow.conversion.explain import explain
from restow.crds import Crd
from tests.conversion.compile.test_reads import ITEMS, V1, V2, graph_of, nested, phases, thing

KEY = "reads.example.dev/conversion-stash"


def crd() -> Crd:
    """v1 has a group of two fields, v2 one field."""
    text = {"type": "string"}
    spec = {
        "v1": {"first": text, "rest": {"type": "array", "items": text}},
        "v2": {"values": {"type": "array", "items": text}},
    }
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v2",
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": spec[name]}},
                }
            },
        }
        for name in ("v1", "v2")
    ]
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    return Crd.from_document(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.reads.example.dev"},
            "spec": {"group": "reads.example.dev", "scope": "Namespaced", "names": names, "versions": versions},
        }
    )


def up(fields: dict[str, Any]) -> Any:
    return [fields.get("spec.first", ""), *fields.get("spec.rest", [])]


def down(values: Any) -> dict[str, Any]:
    """Leave out what is empty, so that an empty first value of v1 does not come back by itself."""
    first, *rest = values
    return ({"spec.first": first} if first else {}) | ({"spec.rest": rest} if rest else {})


def group() -> Graph:
    registry = Registry()
    kind = registry.kind("reads.example.dev", "Thing", hub="v2")
    kind.spoke("v1")(lambda: [rules.pair(("spec.first", "spec.rest"), "spec.values", up=up, down=down, loses="up")])
    return registry.freeze([crd()])


@pytest.mark.parametrize(
    "spec", [{"first": "", "rest": ["a"]}, {"rest": ["a"]}, {"first": "a", "rest": []}, {"first": ""}], ids=json.dumps
)
def test_a_part_of_a_group_comes_back(spec: dict[str, Any]) -> None:
    """A field of the group that is not there would count as one that its schema refuses, and the others be lost."""
    old = thing(V1, spec=spec)
    assert group().convert(group().convert(old, V2), V1) == old


@pytest.mark.parametrize("name", ["first", "rest"])
def test_a_group_of_the_stash_is_checked_field_by_field(name: str) -> None:
    """Whoever writes the annotation would put a value of any type into an object that was valid."""
    stored = group().convert(thing(V1, spec={"first": "", "rest": ["a"]}), V2)
    text = stored["metadata"]["annotations"][KEY]
    kept = json.loads(text)
    [entry] = kept["kept"]["v1"].values()
    entry["is"][f"spec.{name}"] = 5
    stored["metadata"]["annotations"][KEY] = json.dumps(kept)
    assert group().convert(stored, V1)["spec"] == {"rest": ["a"]}


@pytest.mark.parametrize("more", ["spec.other", "first"])
def test_a_group_has_no_field_that_its_rule_does_not_claim(more: str) -> None:
    """It would overwrite what another rule put there."""
    registry = Registry()

    def too_much(values: Any) -> dict[str, Any]:
        return {**down(values), more: "x"}

    rule = rules.pair(("spec.first", "spec.rest"), "spec.values", up=up, down=too_much, loses="up")
    registry.kind("reads.example.dev", "Thing", hub="v2").spoke("v1")(lambda: [rule])
    with pytest.raises(ConversionError, match="does not claim"):
        registry.freeze().convert(thing(spec={"values": ["a"]}), V1)


def test_an_explanation_names_the_item_that_was_read() -> None:
    """Who wonders where a value comes from would be sent to another item's state."""
    stored = thing(spec={"items": ITEMS}, status=phases(z={2: "no"}, a={1: "n", 2: "two"}, b={2: "no"}))
    explanation = explain(graph_of(nested()), stored, V1)
    read = {leaf.place: leaf.origin.sources for leaf in explanation.leaves if leaf.place[-1] == "shown"}
    plan = ("spec", "items")
    assert read == {
        (*plan, 0, "parts", 0, "shown"): ((*plan, 0, "parts", 0, "plan"), ("status", "items", 1, "parts", 0, "phase")),
        (*plan, 0, "parts", 1, "shown"): ((*plan, 0, "parts", 1, "plan"), ("status", "items", 1, "parts", 1, "phase")),
        (*plan, 1, "parts", 0, "shown"): ((*plan, 1, "parts", 0, "plan"),),
    }

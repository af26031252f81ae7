"""Groups of fields that a rule converts together: what of the stash is believed, and what a function may return."""

from __future__ import annotations

import json
from typing import Any

import pytest

from restow.conversion import ABSENT, ConversionError, Graph, Registry, rules
from restow.conversion.explain import explain
from restow.crds import Crd
from tests.conversion.compile.test_reads import ITEMS, V1, V2, graph_of, nested, phases, thing

KEY = "reads.example.dev/conversion-stash"


TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}


def crd(v1: dict[str, Any], v2: dict[str, Any]) -> Crd:
    """A CRD with these fields of the spec."""
    spec = {"v1": v1, "v2": v2}
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
    return registry.freeze([crd({"first": TEXT, "rest": TEXTS}, {"values": TEXTS})])


@pytest.mark.parametrize(
    "spec", [{"first": "", "rest": ["a"]}, {"rest": ["a"]}, {"first": "a", "rest": []}, {"first": ""}], ids=json.dumps
)
def test_a_part_of_a_group_comes_back(spec: dict[str, Any]) -> None:
    """A field of the group that is not there would count as one that its schema refuses, and the others be lost."""
    old = thing(V1, spec=spec)
    assert group().convert(group().convert(old, V2), V1) == old


@pytest.mark.parametrize("name", ["first", "rest"])
def test_a_group_of_the_stash_is_checked_field_by_field(name: str) -> None:
    """Without the check, an edited annotation could put a value of any type into a valid object."""
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


@pytest.mark.parametrize("value", ["text", 5, ["spec.first"], None], ids=json.dumps)
def test_a_group_of_the_stash_is_an_object(value: Any) -> None:
    """An edited annotation would fail the conversion of its object."""
    stored = group().convert(thing(V1, spec={"first": "", "rest": ["a"]}), V2)
    assert group().convert(forged(stored, value), V1)["spec"] == {"rest": ["a"]}


def tree(made: Any, *hub: str) -> Graph:
    """A function that returns this object of v2."""
    registry = Registry()
    rule = rules.functions(spoke="spec.old", hub=hub, up=lambda _value: made, down=lambda _value: {}, loses="both")
    registry.kind("reads.example.dev", "Thing", hub="v2").spoke("v1")(lambda: [rule])
    return registry.freeze()


@pytest.mark.parametrize(
    "made",
    [
        {"spec": {"a": {"b": 1}, "c": {"d": {"any": [2]}}}},
        {"spec": {"a": {"b": {}}}},
        {"spec": {"a": {}}},
        {},
    ],
    ids=json.dumps,
)
def test_a_function_may_return_what_it_claims(made: dict[str, Any]) -> None:
    """A rule that keeps to its claims would fail every object of its kind."""
    shown = tree(made, "spec.a.b", "spec.c.d").convert(thing(V1, spec={"old": 1}), V2)
    assert {name: value for name, value in shown.get("spec", {}).items() if value} == {
        name: value for name, value in made.get("spec", {}).items() if value
    }


@pytest.mark.parametrize(
    "made",
    [
        {"spec": {"a": {"b": 1, "c": 2}}},
        {"spec": {"a": {"c": 2}}},
        {"spec": {"a": "text"}},
        {"spec": "text"},
        {"spec": {"a": {"b": 1}}, "other": {}},
        {"spec": {"a": {"b": 1}, "c": {"e": 1}}},
    ],
    ids=json.dumps,
)
def test_a_function_returns_no_field_that_it_does_not_claim(made: dict[str, Any]) -> None:
    """It would overwrite what another rule put there."""
    with pytest.raises(ConversionError, match="returned a field that it does not claim"):
        tree(made, "spec.a.b", "spec.c.d").convert(thing(V1, spec={"old": 1}), V2)


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


# One field for one.


def length() -> Registry:
    """A text of v1 is a number in v2: which text it was is lost, and stashed."""
    registry = Registry()
    rule = rules.pair("spec.first", "spec.size", up=len, down=lambda size: "x" * size, loses="both")
    registry.kind("reads.example.dev", "Thing", hub="v2").spoke("v1")(lambda: [rule])
    return registry


def forged(stored: dict[str, Any], value: Any) -> dict[str, Any]:
    """The object with another value in its stash."""
    kept = json.loads(stored["metadata"]["annotations"][KEY])
    [entry] = kept["kept"]["v1"].values()
    entry["is"] = value
    return {**stored, "metadata": {**stored["metadata"], "annotations": {KEY: json.dumps(kept)}}}


def test_a_value_of_the_stash_is_checked_against_the_schema() -> None:
    """A list of the same length passes the rule's own check, and would stand where a text belongs."""
    graph = length().freeze([crd({"first": TEXT}, {"size": {"type": "integer"}})])
    stored = graph.convert(thing(V1, spec={"first": "ab"}), V2)
    assert graph.convert(stored, V1)["spec"] == {"first": "ab"}
    assert graph.convert(forged(stored, "no"), V1)["spec"] == {"first": "no"}
    assert graph.convert(forged(stored, ["a", "b"]), V1)["spec"] == {"first": "xx"}


@pytest.mark.parametrize("value", [5, None, "abc"])
def test_a_value_of_the_stash_that_the_rule_cannot_show_so_is_not_used(value: Any) -> None:
    """The stash would overrule what the client sees, or an author's function that refuses it fail the object."""
    graph = length().freeze()
    stored = graph.convert(thing(V1, spec={"first": "ab"}), V2)
    assert graph.convert(forged(stored, value), V1)["spec"] == {"first": "xx"}


def test_an_empty_object_is_a_value() -> None:
    """It would be taken for nothing, and cost a stash in every object."""
    graph = graph_of(rules.pair("old", "new", up=lambda value: value, down=lambda value: value))
    shown = graph.convert(thing(V1, old={}), V2)
    assert shown == thing(V2, new={}) and graph.convert(shown, V1) == thing(V1, old={})


def test_a_group_of_nothing_is_no_value() -> None:
    """A function that has nothing to say of a value would leave the other side without the way back."""
    graph = graph_of(rules.pair(("a", "b"), "new", up=lambda _fields: "new", down=lambda _value: {}, loses="down"))
    stored = thing(V2, new="other")
    shown = graph.convert(stored, V1)
    assert {name for name in shown if name not in stored} == set() and "new" not in shown
    assert graph.convert(shown, V2) == stored


# What functions raise.


def test_a_failure_names_the_rule_and_keeps_its_cause() -> None:
    """The author would search for the function that raised, and for the line."""

    def broken(_value: Any) -> Any:
        raise KeyError("secret")

    rule = rules.pair("spec.first", "spec.size", up=broken, down=broken)
    with pytest.raises(ConversionError, match=r"pair\(spec.first <-> spec.size\) raised KeyError") as raised:
        graph_of(rule).convert(thing(V1, spec={"first": "ab"}), V2)
    assert "secret" not in str(raised.value)
    assert isinstance(raised.value.__cause__, KeyError)


def test_a_group_that_is_no_object_is_named_by_its_type() -> None:
    """The author would see that something is wrong with a rule, and not what."""
    rule = rules.pair(("a", "b"), "new", up=lambda _fields: 1, down=lambda _value: [], loses="down")
    with pytest.raises(ConversionError, match="must return an object, not a list"):
        graph_of(rule).convert(thing(V2, new=1), V1)


# Reads of items with several keys.


@pytest.mark.parametrize(
    ("other", "phase"),
    [
        ({"host": "a", "port": 1}, "read"),
        ({"host": "a", "port": 2}, "own"),
        ({"port": 1, "host": "b"}, "own"),
        ({"host": "a"}, "own"),
        ({"host": "a", "port": {}}, "own"),
        ({}, "own"),
    ],
    ids=json.dumps,
)
def test_all_keys_of_an_item_count(other: dict[str, Any], phase: str) -> None:
    """An item that shares one key with another would show that one's state."""
    rule = rules.pair(
        "shown", "plan", up=lambda value: value, down=shown, loses="down", reads=["$.status.items[].phase"]
    )
    graph = graph_of(rules.each("spec.items", [rule], key=("host", "port")))
    stored = thing(
        spec={"items": [{"host": "a", "port": 1, "plan": "own"}]}, status={"items": [{**other, "phase": "read"}]}
    )
    assert graph.convert(stored, V1)["spec"]["items"][0]["shown"] == phase


def test_items_without_any_key_are_not_the_same() -> None:
    """Two items of which neither has a key would show each other's state."""
    rule = rules.pair(
        "shown", "plan", up=lambda value: value, down=shown, loses="down", reads=["$.status.items[].phase"]
    )
    graph = graph_of(rules.each("spec.items", [rule], key=("host", "port")))
    stored = thing(spec={"items": [{"plan": "own"}]}, status={"items": [{"phase": "read"}]})
    assert graph.convert(stored, V1)["spec"]["items"][0]["shown"] == "own"


def shown(value: Any, phase: Any) -> Any:
    return value if phase is ABSENT else phase

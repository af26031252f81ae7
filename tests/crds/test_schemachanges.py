"""What clients notice of a change of a schema, as tables; and that nothing is no change."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from restow.crds import Schema
from restow.crds.crddiff import CHECKS
from restow.crds.schemachanges import schema_changes
from tests.crds.test_compare import ATOMIC_MAP, ITEM, PRESERVE, STRING, Node, listing, listing_set, mapping, struct
from tests.crds.test_compare_properties import roots

INTEGER: Node = {"type": "integer"}
ENUM: Node = {**STRING, "enum": ["a", "b"]}


def told(old: Node | None, new: Node | None) -> list[tuple[str, str, str]]:
    """Return check, verdict and path of the changes of the field ``f``."""
    schemas = (Schema.root(struct({} if node is None else {"f": node})) for node in (old, new))
    found = list(schema_changes(*schemas))
    assert {each.check for each in found} <= CHECKS.keys()
    return [(each.check, each.severity.value, each.path) for each in found]


def rule(text: str, message: str = "") -> dict[str, Any]:
    return {"rule": text} | ({"message": message} if message else {})


BREAKING = {
    "field removed": (STRING, None, "field-removed"),
    "integer to string": (INTEGER, STRING, "type"),
    "number to integer": ({"type": "number"}, INTEGER, "type"),
    "int-or-string to string": ({"x-kubernetes-int-or-string": True}, STRING, "type"),
    "any to string": (PRESERVE, STRING, "type"),
    "enum new": (STRING, ENUM, "enum"),
    "enum value removed": (ENUM, {**STRING, "enum": ["a"]}, "enum"),
    "maximum lower": ({**INTEGER, "maximum": 9}, {**INTEGER, "maximum": 5}, "bound"),
    "maximum new": (INTEGER, {**INTEGER, "maximum": 5}, "bound"),
    "maximum exclusive": ({**INTEGER, "maximum": 5}, {**INTEGER, "maximum": 5, "exclusiveMaximum": True}, "bound"),
    "minimum higher": ({**INTEGER, "minimum": -9}, {**INTEGER, "minimum": 0}, "bound"),
    "minItems new": (listing(STRING), listing(STRING, minItems=1), "bound"),
    "maxProperties new": (mapping(STRING), mapping(STRING, maxProperties=3), "bound"),
    "multipleOf other": ({**INTEGER, "multipleOf": 2}, {**INTEGER, "multipleOf": 3}, "bound"),
    "pattern new": (STRING, {**STRING, "pattern": "^a"}, "pattern"),
    "pattern other": ({**STRING, "pattern": "^a"}, {**STRING, "pattern": "^b"}, "pattern"),
    "format new": (STRING, {**STRING, "format": "date-time"}, "format"),
    "default other": ({**STRING, "default": "a"}, {**STRING, "default": "b"}, "default"),
    "default gone": ({**STRING, "default": "a"}, STRING, "default-removed"),
    "required": (struct({"a": STRING}), struct({"a": STRING}, required=["a"]), "required"),
    "list to map": (listing(ITEM), listing(ITEM, "name"), "list-type"),
    "list to atomic": (listing_set(STRING), listing(STRING), "list-type"),
    "list keys": (listing(ITEM, "name"), listing(ITEM, "name", "port"), "list-type"),
    "map to atomic": (struct({"a": STRING}), struct({"a": STRING}, **ATOMIC_MAP), "map-type"),
    "cel new": (STRING, {**STRING, "x-kubernetes-validations": [rule("self != ''")]}, "cel"),
    "oneOf new": (struct({"a": STRING}), struct({"a": STRING}, oneOf=[{"required": ["a"]}]), "junctor"),
    "fields closed": (struct({"a": STRING}, **PRESERVE), struct({"a": STRING}), "fields-closed"),
    "embedded": (
        struct({}, **PRESERVE),
        struct({}, **PRESERVE, **{"x-kubernetes-embedded-resource": True}),
        "embedded",
    ),
}


@pytest.mark.parametrize("name", BREAKING)
def test_a_breaking_change(name: str) -> None:
    """An upgrade would refuse or drop what clients write, after a verdict that it does not."""
    old, new, check = BREAKING[name]
    assert (check, "breaking", ".f") in told(old, new)
    mutual = check in ("type", "default", "pattern", "list-type", "map-type") or name == "multipleOf other"
    assert mutual or (check, "breaking", ".f") not in told(new, old)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, STRING, [("field-added", "ok", ".f")], id="field added"),
        pytest.param(INTEGER, {"type": "number"}, [("type-widened", "notice", ".f")], id="integer to number"),
        pytest.param(ENUM, {**STRING, "enum": ["a", "b", "c"]}, [("enum-widened", "notice", ".f")], id="enum value"),
        pytest.param(ENUM, {**STRING, "enum": ["b", "a"]}, [], id="enum in another order"),
        pytest.param(STRING, {**STRING, "minLength": 0}, [], id="a bound for nothing"),
        pytest.param(STRING, {**STRING, "description": "x", "title": "y", "example": 1}, [], id="only prose"),
        pytest.param(INTEGER, {**INTEGER, "format": "int64"}, [], id="a format of any integer"),
        pytest.param(
            {**INTEGER, "multipleOf": 4}, {**INTEGER, "multipleOf": 2}, [("bound-widened", "ok", ".f")], id="multipleOf"
        ),
        pytest.param(
            struct({"a": STRING}),
            struct({"a": {**STRING, "default": "x"}}, required=["a"]),
            [("required-with-default", "ok", ".f"), ("default-added", "notice", ".f.a")],
            id="required with a default",
        ),
        pytest.param(
            struct({"a": STRING}, required=["a"]),
            struct({"a": STRING}),
            [("required-dropped", "notice", ".f")],
            id="required dropped",
        ),
        pytest.param(struct({"a": STRING}), mapping(STRING), [("fields-opened", "ok", ".f")], id="struct to map"),
        pytest.param(
            listing(struct({"a": INTEGER})), listing(struct({})), [("field-removed", "breaking", ".f[].a")], id="items"
        ),
        pytest.param(mapping(INTEGER), mapping(STRING), [("type", "breaking", ".f{}")], id="values"),
        pytest.param(
            {"x-kubernetes-int-or-string": True},
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            [],
            id="int-or-string spelled out",
        ),
        pytest.param({**STRING, "nullable": True}, STRING, [("nullable-removed", "notice", ".f")], id="null field"),
        pytest.param(
            listing({**STRING, "nullable": True}),
            listing(STRING),
            [("nullable-removed", "breaking", ".f[]")],
            id="null item",
        ),
        pytest.param(
            {**STRING, "x-kubernetes-validations": [rule("self != ''", "empty")]},
            {**STRING, "x-kubernetes-validations": [rule("self  !=\n ''", "must not be empty")]},
            [],
            id="cel with another message",
        ),
        pytest.param(
            {**STRING, "x-kubernetes-validations": [rule("self != ''", "empty"), rule("self != 'a'")]},
            {**STRING, "x-kubernetes-validations": [rule("self != '' && self != 'b'", "empty")]},
            [("cel", "breaking", ".f"), ("cel-removed", "ok", ".f")],
            id="cel tightened",
        ),
    ],
)
def test_what_is_told(old: Node | None, new: Node | None, expected: list[tuple[str, str, str]]) -> None:
    """A false alarm hides the true one, and a change that is left out is found in production."""
    assert told(old, new) == expected


def test_metadata_of_the_object_is_always_there() -> None:
    """Every CRD that stops declaring metadata would count as breaking."""
    meta = Schema.root(struct({"metadata": struct({})}))
    assert list(schema_changes(meta, Schema.root(struct({})))) == []
    named = Schema.root(struct({"metadata": struct({"name": {**STRING, "maxLength": 9}})}))
    assert [each.path for each in schema_changes(meta, named)] == [".metadata.name"]


@given(roots)
def test_a_schema_that_stays_has_no_changes(node: Node) -> None:
    """A CRD that is applied again would be reported."""
    assert list(schema_changes(Schema.root(node), Schema.root(copy.deepcopy(node)))) == []


@given(roots, roots)
def test_every_change_is_known(old: Node, new: Node) -> None:
    """A verdict would have no sentence, or come twice."""
    found = list(schema_changes(Schema.root(old), Schema.root(new)))
    assert len(set(found)) == len(found)
    assert {each.check for each in found} <= CHECKS.keys()

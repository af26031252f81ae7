"""A schema node in the terms of server-side apply and of pruning."""

from __future__ import annotations

from typing import Any

import pytest

from restow.crds import ANY, Schema
from restow.crds.schema import UNDESCRIBED

PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        ({"type": "string"}, "scalar"),
        ({"type": "string", "format": "date-time"}, "scalar"),
        ({"type": "integer"}, "scalar"),
        ({"type": "number"}, "scalar"),
        ({"type": "boolean"}, "scalar"),
        ({"x-kubernetes-int-or-string": True}, "scalar"),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, "scalar"),
        ({"type": "array", "items": STRING}, "list"),
        ({"type": "object"}, "map"),
        ({"type": "object", **PRESERVE}, "map"),
        (PRESERVE, "any"),
        ({**PRESERVE, "properties": {"a": STRING}}, "any"),
        ({"type": "", **PRESERVE}, "any"),
        ({}, "any"),
    ],
)
def test_kind(node: dict[str, Any], kind: str) -> None:
    """A wrong kind would make a leaf of ownership out of a list or object, and move entries wrongly."""
    assert Schema(node).kind == kind


@pytest.mark.parametrize(
    ("node", "list_type", "keys", "map_type"),
    [
        ({"type": "array", "items": STRING}, "atomic", (), None),
        ({"type": "array", "items": STRING, "x-kubernetes-list-type": "atomic"}, "atomic", (), None),
        ({"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}, "set", (), None),
        (
            {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b", "a"]},
            "map",
            ("b", "a"),
            None,
        ),
        ({"type": "array", "x-kubernetes-list-map-keys": ["a"]}, "atomic", (), None),
        ({"type": "object"}, None, (), "granular"),
        ({"type": "object", "x-kubernetes-map-type": "granular"}, None, (), "granular"),
        ({"type": "object", "x-kubernetes-map-type": "atomic"}, None, (), "atomic"),
        (PRESERVE, "atomic", (), "granular"),
        ({}, "atomic", (), "granular"),
        (STRING, None, (), None),
        ({"x-kubernetes-int-or-string": True}, None, (), None),
    ],
)
def test_topology(node: dict[str, Any], list_type: str | None, keys: tuple[str, ...], map_type: str | None) -> None:
    """If the default types differed from the API server's, entries would own other paths than on the server."""
    schema = Schema(node)
    assert (schema.list_type, schema.list_keys, schema.map_type) == (list_type, keys, map_type)


@pytest.mark.parametrize(
    ("node", "name", "expected"),
    [
        ({"type": "object", "properties": {"a": STRING}}, "a", "scalar"),
        ({"type": "object", "properties": {"a": STRING}}, "b", None),
        ({"type": "object"}, "a", None),
        ({"type": "object", "additionalProperties": STRING}, "a", "scalar"),
        ({"type": "object", "additionalProperties": True}, "a", "any"),
        ({"type": "object", "properties": {"a": STRING}, "additionalProperties": True}, "b", "any"),
        ({"type": "object", "properties": {"a": STRING}, **PRESERVE}, "a", "scalar"),
        ({"type": "object", "properties": {"a": STRING}, **PRESERVE}, "b", "any"),
        ({"type": "object", "additionalProperties": STRING, **PRESERVE}, "b", "scalar"),
        (PRESERVE, "a", "any"),
        (STRING, "a", None),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": False}, "a", None),
        ({"type": "object", "allOf": [{"properties": {"a": {"minLength": 1}}}]}, "a", None),
    ],
)
def test_field(node: dict[str, Any], name: str, expected: str | None) -> None:
    """If a field were not None exactly where the server prunes it, projections would lose or invent fields."""
    field = Schema(node).field(name)
    assert (field and field.kind) == expected


def test_preserving_does_not_reach_declared_fields() -> None:
    """Fields below a declared field would count as kept, although the server prunes them."""
    outer = Schema({"type": "object", **PRESERVE, "properties": {"a": {"type": "object"}}})
    inner = outer.field("a")
    assert inner is not None
    assert (outer.field("b"), inner.field("b")) == (ANY, None)
    assert outer.preserves_unknown_fields
    assert not inner.preserves_unknown_fields


def test_preserving_reaches_the_items_of_a_list() -> None:
    """Unknown fields in the items of a preserving list would count as pruned, although the server keeps them."""
    items = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "object"}}}}
    nested = Schema({"type": "array", "items": items, **PRESERVE})
    assert nested.items is not None
    item = nested.items.items
    assert item is not None
    assert item.field("unknown") is ANY
    declared = item.field("a")
    assert declared is not None
    assert declared.field("unknown") is None
    plain = Schema(items).items
    assert plain is not None
    assert plain.field("unknown") is None


def test_a_legacy_crd_keeps_every_field_and_its_types() -> None:
    """With spec.preserveUnknownFields nothing is pruned at any depth, but lists and maps are owned by their types."""
    item = {"type": "object", "properties": {"k": STRING}}
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    free = {"type": "object", "additionalProperties": True}
    node = {"type": "object", "properties": {"l": keyed, "m": {"type": "object", "additionalProperties": item}}}
    root = Schema.root(node | {"properties": node["properties"] | {"free": free}}, legacy=True)
    listed, mapped, free_map = (root.field(name) for name in ("l", "m", "free"))
    assert listed and listed.items and mapped and mapped.values and free_map
    assert (listed.list_type, listed.list_keys, listed.element({"k": "a"})) == ("map", ("k",), 'k:{"k":"a"}')
    for place in (root, listed.items, mapped.values, free_map):
        assert place.field("unknown") is ANY
    metadata = root.field("metadata")
    assert metadata and metadata.field("unknown") is None
    finalizers = metadata.field("finalizers")
    assert finalizers and finalizers.list_type == "set"


def test_any_stays_any() -> None:
    """Values below a schemaless place would count as pruned, or be owned in other units than on the server."""
    assert ANY.field("a") is ANY
    assert ANY.items is ANY
    assert (ANY.kind, ANY.list_type, ANY.map_type) == ("any", "atomic", "granular")
    assert Schema.root(None) is ANY


def test_values_of_free_maps_keep_only_scalars() -> None:
    """Fields of objects under ``additionalProperties: true`` would count as kept, although the server prunes them."""
    value = Schema({"type": "object", "additionalProperties": True}).field("x")
    assert value is UNDESCRIBED
    assert value.field("a") is None
    assert value.items is None


@pytest.mark.parametrize(
    "schema",
    [
        Schema.root({"type": "object"}),
        Schema.root({"type": "object", "properties": {"metadata": {"type": "object"}}}),
        Schema({"type": "object", "x-kubernetes-embedded-resource": True, **PRESERVE}),
    ],
    ids=["root", "root declaring metadata", "embedded"],
)
def test_implicit_fields(schema: Schema) -> None:
    """Finalizers and owner references would have other list types than on the server, which loses owners."""
    metadata = schema.field("metadata")
    assert metadata is not None
    owners, finalizers, managed = (metadata.properties[n] for n in ("ownerReferences", "finalizers", "managedFields"))
    assert (owners.list_type, owners.list_keys, finalizers.list_type) == ("map", ("uid",), "set")
    assert owners.items is not None
    assert owners.items.map_type == "atomic"
    assert managed.list_type == "atomic"
    assert metadata.field("unknown") is None
    assert [schema.is_declared(name) for name in ("apiVersion", "kind", "metadata", "spec")] == [
        True,
        True,
        True,
        False,
    ]
    assert set(schema.properties) == {"apiVersion", "kind", "metadata"}


def test_a_plain_field_has_no_metadata() -> None:
    """A nested object would get metadata that the server prunes."""
    nested = Schema({"type": "object", "properties": {"spec": STRING}})
    assert [nested.is_declared(name) for name in ("metadata", "spec")] == [False, True]
    assert set(nested.properties) == {"spec"}
    assert nested.field("metadata") is None


@pytest.mark.parametrize(
    ("node", "has_default", "default"),
    [
        ({**STRING, "default": ""}, True, ""),
        ({"type": "boolean", "default": False}, True, False),
        ({"type": "object", "default": {}}, True, {}),
        ({**STRING, "nullable": True, "default": None}, False, None),
        (STRING, False, None),
    ],
)
def test_defaults(node: dict[str, Any], has_default: bool, default: object) -> None:
    """A falsy default would be ignored, or a null one persisted, unlike on the API server."""
    assert (Schema(node).has_default, Schema(node).default) == (has_default, default)


def test_flags() -> None:
    """Validation and conversion would read a flag that the node does not set, or miss one that it sets."""
    flags = Schema({"type": "object", "nullable": True, "required": ["a"], "x-kubernetes-embedded-resource": True})
    assert (flags.nullable, flags.required, flags.embedded_resource) == (True, frozenset({"a"}), True)
    plain = Schema(STRING)
    assert (plain.nullable, plain.embedded_resource, plain.int_or_string) == (False, False, False)
    assert plain.required == frozenset()


def test_the_document_is_not_copied() -> None:
    """Thousands of views would copy the document instead of pointing into it, and use much more memory."""
    node = {"type": "object", "properties": {"a": {"type": "array", "items": STRING}}}
    field = Schema(node).field("a")
    assert field is not None
    assert field.node is node["properties"]["a"]  # type: ignore[index]

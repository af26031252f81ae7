"""The effects of a schema change on objects and their owners, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from restow.crds import ANY, Schema, added_defaults, dropped_fields, pruned_paths, topology_differences

Node = dict[str, Any]

STRING: Node = {"type": "string"}
PRESERVE: Node = {"x-kubernetes-preserve-unknown-fields": True}
ATOMIC_MAP: Node = {"x-kubernetes-map-type": "atomic"}


def struct(fields: Mapping[str, Node] | None = None, **extra: Any) -> Node:
    """Return an object node with these declared fields; ``required=`` and the like go into the node."""
    return {"type": "object", "properties": dict(fields or {}), **extra}


def mapping(values: Node | bool, **extra: Any) -> Node:
    """Return a map node with these values."""
    return {"type": "object", "additionalProperties": values, **extra}


def listing(items: Node, *keys: str, **extra: Any) -> Node:
    """Return a list node: atomic, or a map list with these keys."""
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)} if keys else {}
    return {"type": "array", "items": items, **keyed, **extra}


def listing_set(items: Node) -> Node:
    """Return a set list node."""
    return listing(items, **{"x-kubernetes-list-type": "set"})


def root(field: Node | None) -> Schema:
    """Return the schema of a whole object whose field ``f`` is this node."""
    return Schema.root(struct({} if field is None else {"f": field}))


ITEM = struct({"name": STRING, "port": {"type": "integer"}})


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        pytest.param(STRING, {"type": "integer"}, (), id="leaf stays leaf"),
        pytest.param(STRING, {"x-kubernetes-int-or-string": True}, (), id="leaf and int-or-string"),
        pytest.param(listing(ITEM), listing(ITEM, "name"), (".f",), id="atomic list to map"),
        pytest.param(listing(ITEM, "name"), listing(ITEM), (".f",), id="map list to atomic"),
        pytest.param(listing(STRING), listing_set(STRING), (".f",), id="atomic list to set"),
        pytest.param(listing_set(STRING), listing(ITEM, "name"), (".f",), id="set to map"),
        pytest.param(listing(ITEM, "name"), listing(ITEM, "name", "port"), (".f",), id="other keys"),
        pytest.param(listing(ITEM, "port", "name"), listing(ITEM, "name", "port"), (), id="same keys reordered"),
        pytest.param(struct({"a": STRING}), struct({"a": STRING}, **ATOMIC_MAP), (".f",), id="granular to atomic"),
        pytest.param(struct({"a": STRING}, **ATOMIC_MAP), struct({"a": STRING}), (".f",), id="atomic to granular"),
        pytest.param(STRING, struct({"a": STRING}), (".f",), id="leaf to object"),
        pytest.param(struct({"a": STRING}), listing(STRING), (".f",), id="object to list"),
        pytest.param(mapping(STRING), listing(ITEM, "name"), (".f",), id="map to list"),
        pytest.param(struct({"a": STRING}), mapping(STRING), (), id="struct to map of leaves"),
        pytest.param(None, listing(ITEM, "name"), (), id="only new knows it"),
        pytest.param(listing(ITEM, "name"), None, (), id="only old knows it"),
        pytest.param(
            listing(struct({"a": listing(STRING)}), "a"),
            listing(struct({"a": listing_set(STRING)}), "a"),
            (".f[].a",),
            id="inside items",
        ),
        pytest.param(
            listing(struct({"a": STRING, "b": listing(STRING)}), "a"),
            listing(struct({"a": STRING, "b": listing_set(STRING)}), "a", "b"),
            (".f", ".f[].b"),
            id="other keys and inside items",
        ),
        pytest.param(
            listing(struct({"a": listing(STRING)})),
            listing(struct({"a": listing_set(STRING)})),
            (),
            id="inside the items of an atomic list nothing is owned",
        ),
        pytest.param(
            struct({"a": listing(STRING)}, **ATOMIC_MAP),
            struct({"a": listing_set(STRING)}, **ATOMIC_MAP),
            (),
            id="inside an atomic object nothing is owned",
        ),
        pytest.param(
            listing(struct({"a": listing(STRING)})),
            listing(struct({"a": listing_set(STRING)}), "a"),
            (".f",),
            id="below a difference nothing is compared",
        ),
        pytest.param(mapping(listing(STRING)), mapping(listing_set(STRING)), (".f{}",), id="inside map values"),
        pytest.param(
            struct({"a": listing(STRING)}), mapping(listing_set(STRING)), (".f.a",), id="declared against map value"
        ),
        pytest.param(PRESERVE, PRESERVE, (), id="any against any"),
        pytest.param(PRESERVE, STRING, (), id="any against leaf"),
        pytest.param(PRESERVE, struct({"a": STRING}), (), id="any object is granular"),
        pytest.param(PRESERVE, struct({"a": STRING}, **ATOMIC_MAP), (".f",), id="any against atomic object"),
        pytest.param(PRESERVE, listing(STRING), (), id="any list is atomic"),
        pytest.param(PRESERVE, listing_set(STRING), (".f",), id="any against set"),
        pytest.param(PRESERVE, struct({"a": listing_set(STRING)}), (".f.a",), id="any against declared set"),
        pytest.param(
            struct({"a": listing_set(STRING)}),
            struct({}, **PRESERVE),
            (".f.a",),
            id="a declared set became unknown",
        ),
        pytest.param(mapping(True), struct({"a": struct({"b": listing_set(STRING)})}), (), id="pruned below old"),
    ],
)
def test_topology_differences(old: Node | None, new: Node | None, paths: tuple[str, ...]) -> None:
    """A missed difference would leave an entry without ownership; a false one would cost a needless expansion."""
    assert topology_differences(root(old), root(new)) == paths


def test_topology_of_a_version_without_schema() -> None:
    """For a version without schema, the owners of atomic finalizers and owner references would be lost."""
    assert topology_differences(ANY, root(None)) == (".metadata.finalizers", ".metadata.ownerReferences")
    assert topology_differences(ANY, ANY) == ()


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        pytest.param(STRING, {**STRING, "default": "x"}, (".f",), id="new default"),
        pytest.param(None, {**STRING, "default": "x"}, (".f",), id="new field with a default"),
        pytest.param({**STRING, "default": "x"}, {**STRING, "default": "y"}, (), id="old has its own"),
        pytest.param({**STRING, "default": "x"}, STRING, (), id="default gone"),
        pytest.param(STRING, {**STRING, "default": ""}, (".f",), id="falsy default"),
        pytest.param(STRING, {**STRING, "default": None}, (), id="null is no default"),
        pytest.param(
            {**STRING, "default": "x", "nullable": True},
            {**STRING, "default": "x"},
            (".f",),
            id="a stored null is replaced",
        ),
        pytest.param(
            {**STRING, "default": "x", "nullable": True},
            {**STRING, "default": "x", "nullable": True},
            (),
            id="a stored null stays",
        ),
        pytest.param(
            struct({"a": STRING}), struct({"a": STRING, "b": {**STRING, "default": "x"}}), (".f.b",), id="in an object"
        ),
        pytest.param(None, struct({"b": {**STRING, "default": "x"}}), (), id="in an object that nobody has"),
        pytest.param(
            None,
            struct({"b": {**STRING, "default": "x"}}, default={}),
            (".f", ".f.b"),
            id="in an object that is defaulted",
        ),
        pytest.param(
            struct({"a": struct({})}),
            struct({"a": struct({"b": {**STRING, "default": "x"}}, default={})}),
            (".f.a", ".f.a.b"),
            id="in a known object that is defaulted",
        ),
        pytest.param(
            struct({}, **PRESERVE),
            struct({"a": struct({"b": {**STRING, "default": "x"}})}),
            (".f.a.b",),
            id="in an object that old kept as unknown",
        ),
        pytest.param(
            listing(struct({})), listing(struct({"b": {**STRING, "default": "x"}})), (".f[].b",), id="in list items"
        ),
        pytest.param(
            mapping(struct({})), mapping(struct({"b": {**STRING, "default": "x"}})), (".f{}.b",), id="in map values"
        ),
        pytest.param(
            struct({"a": struct({})}),
            mapping(struct({"b": {**STRING, "default": "x"}})),
            (".f{}.b",),
            id="a struct became a map",
        ),
        pytest.param(
            mapping(struct({}, default={})),
            struct({"a": struct({}, default={})}),
            (".f.a",),
            id="a default of map values adds no key",
        ),
        pytest.param(
            struct({"a": STRING}, required=["a"]),
            struct({"a": {**STRING, "default": "x"}}, required=["a"]),
            (),
            id="old requires it",
        ),
        pytest.param(
            struct({"a": {**STRING, "nullable": True}}, required=["a"]),
            struct({"a": {**STRING, "default": "x"}}),
            (".f.a",),
            id="old requires it but allows null",
        ),
        pytest.param(
            struct({"a": STRING}),
            struct({"a": {**STRING, "default": "x"}}, required=["a"]),
            (".f.a",),
            id="only new requires it",
        ),
        pytest.param(listing(STRING), listing({**STRING, "default": "x"}), (), id="items are never null"),
        pytest.param(
            listing({**STRING, "nullable": True}), listing({**STRING, "default": "x"}), (".f[]",), id="null items"
        ),
        pytest.param(listing(PRESERVE), listing({**STRING, "default": "x"}), (".f[]",), id="untyped items"),
        pytest.param(
            mapping({**STRING, "nullable": True}), mapping({**STRING, "default": "x"}), (".f{}",), id="null values"
        ),
        pytest.param(
            STRING, struct({"a": {**STRING, "default": "x"}}), (), id="no object was there, so none is completed"
        ),
    ],
)
def test_added_defaults(old: Node | None, new: Node | None, paths: tuple[str, ...]) -> None:
    """A missed default would be persisted under the migrator's own name; a false one would cost a second write."""
    assert added_defaults(root(old), root(new)) == paths


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        pytest.param(None, struct({"b": {**STRING, "default": "x"}}), (".f.b",), id="an object made by the webhook"),
        pytest.param(
            struct({"a": STRING}, required=["a"]),
            struct({"a": {**STRING, "default": "x"}}),
            (".f.a",),
            id="a required field that the webhook leaves out",
        ),
        pytest.param(STRING, struct({"a": {**STRING, "default": "x"}}), (".f.a",), id="another kind of value"),
        pytest.param(
            struct({}), mapping(struct({"a": {**STRING, "default": "x"}})), (".f{}.a",), id="a map made by the webhook"
        ),
        pytest.param({**STRING, "default": "x"}, {**STRING, "default": "y"}, (), id="old has its own"),
    ],
)
def test_added_defaults_behind_a_webhook(old: Node | None, new: Node | None, paths: tuple[str, ...]) -> None:
    """If fields that the old version lacks ruled out defaults, those of objects made by a webhook would be missed."""
    assert added_defaults(root(old), root(new), webhook=True) == paths


def test_defaults_of_metadata() -> None:
    """Root metadata, which has no defaults, would cost a second write; those of embedded metadata would be missed."""
    metadata = struct({"metadata": struct({"labels": struct({}, default={})})})
    assert added_defaults(Schema.root(struct()), Schema.root(metadata), webhook=True) == ()
    embedded = {**metadata, "x-kubernetes-embedded-resource": True}
    bare = {"type": "object", "x-kubernetes-embedded-resource": True, **PRESERVE}
    assert added_defaults(root(bare), root(embedded)) == (".f.metadata.labels",)
    assert added_defaults(root(embedded), root(embedded)) == ()


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        pytest.param(STRING, None, (".f",), id="field"),
        pytest.param(None, STRING, (), id="new field"),
        pytest.param(struct({"a": struct({"b": STRING})}), struct({}), (".f.a",), id="only the uppermost"),
        pytest.param(listing(ITEM), listing(struct({"name": STRING})), (".f[].port",), id="in list items"),
        pytest.param(mapping(ITEM), mapping(struct({"name": STRING})), (".f{}.port",), id="in map values"),
        pytest.param(mapping(STRING), struct({"a": STRING}), (".f{}",), id="a map became a struct"),
        pytest.param(struct({"a": STRING}), mapping(STRING), (), id="a struct became a map"),
        pytest.param(mapping(True), struct({}), (".f{}",), id="a free map became a struct"),
        pytest.param(struct({"a": ITEM}), mapping(True), (".f.a.name", ".f.a.port"), id="a free map empties objects"),
        pytest.param(struct({}, **PRESERVE), struct({}), (".f",), id="unknown fields"),
        pytest.param(struct({}, **PRESERVE), struct({}, **PRESERVE), (), id="unknown fields kept"),
        pytest.param(PRESERVE, mapping(STRING), (), id="unknown fields become map values"),
        pytest.param(
            struct({"a": struct({})}, **PRESERVE), struct({"a": struct({})}), (".f",), id="preserving ends above"
        ),
        pytest.param(
            PRESERVE, struct({"a": struct({"b": STRING})}, **PRESERVE), (".f.a",), id="declaring starts pruning"
        ),
        pytest.param(PRESERVE, STRING, (), id="a leaf in place of any refuses objects"),
        pytest.param(PRESERVE, listing(ITEM), (".f[]",), id="a list in place of any"),
        pytest.param(
            listing(struct({}), **PRESERVE), listing(struct({})), (".f[]",), id="a list that preserved for its items"
        ),
        pytest.param(listing(ITEM, **PRESERVE), listing(ITEM), (".f[]",), id="a list that preserved, the same items"),
        pytest.param(PRESERVE, mapping(True), (".f{}",), id="a free map in place of any"),
        pytest.param(struct({"a": STRING}), STRING, (".f.a",), id="an object became a leaf"),
        pytest.param(struct({}, **PRESERVE), STRING, (".f",), id="a free object became a leaf"),
        pytest.param(
            {"type": "object", "x-kubernetes-embedded-resource": True, **PRESERVE},
            {"type": "object", **PRESERVE},
            (),
            id="an embedded resource became a free object",
        ),
        pytest.param(
            struct({}, **{"x-kubernetes-embedded-resource": True}),
            struct({}),
            (".f.apiVersion", ".f.kind", ".f.metadata"),
            id="an embedded resource became a plain object",
        ),
    ],
)
def test_dropped_fields(old: Node | None, new: Node | None, paths: tuple[str, ...]) -> None:
    """A dropped field that is not listed would be lost without a warning."""
    assert dropped_fields(root(old), root(new)) == paths


def test_dropped_from_a_version_without_schema() -> None:
    """If the root were not listed, a schema added to a version without one would drop fields without a warning."""
    assert dropped_fields(ANY, root(STRING)) == (".",)
    assert dropped_fields(root(STRING), ANY) == ()
    assert dropped_fields(ANY, ANY) == ()


@pytest.mark.parametrize(
    ("node", "value", "paths"),
    [
        pytest.param(struct({"a": STRING}), {"a": "x", "b": {"c": 1}}, (".f.b",), id="the uppermost only"),
        pytest.param(listing(struct({})), [{"a": 1}, {"a": 2}, {"b": 3}], (".f[].a", ".f[].b"), id="each once"),
        pytest.param(mapping(struct({})), {"x": {"a": 1}}, (".f.x.a",), id="map values"),
        pytest.param(mapping(True), {"x": {"a": 1}, "y": [{"b": 1}], "z": 1}, (".f.x.a", ".f.y[].b"), id="free map"),
        pytest.param(mapping(False), {"x": 1}, (), id="a forbidden map is refused, not pruned"),
        pytest.param(PRESERVE, {"x": [{"y": {"z": 1}}]}, (), id="any"),
        pytest.param(struct({"a": struct({})}, **PRESERVE), {"a": {"b": 1}, "c": {"d": 1}}, (".f.a.b",), id="preserve"),
        pytest.param(
            listing(struct({"a": struct({})}), **PRESERVE),
            [{"x": 1, "a": {"y": 1}}, [{"z": 1}]],
            (".f[].a.y",),
            id="a preserving list",
        ),
        pytest.param(STRING, {"a": {"b": 1}}, (".f.a",), id="an object in a leaf"),
        pytest.param(STRING, [{"a": 1}], (".f[].a",), id="a list in a leaf"),
        pytest.param(struct({"a": STRING}), {"a": None, "b": None}, (".f.b",), id="null"),
        pytest.param(
            struct({}, **{"x-kubernetes-embedded-resource": True}),
            {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "labels": {"a/b": "c"}, "x": 1}, "spec": {}},
            (".f.metadata.x", ".f.spec"),
            id="embedded",
        ),
        pytest.param(struct({}), {"apiVersion": "v1"}, (".f.apiVersion",), id="not embedded"),
        pytest.param(struct({}), {"a/b": 1}, ('.f["a/b"]',), id="an odd name"),
    ],
)
def test_pruned_paths(node: Node, value: Any, paths: tuple[str, ...]) -> None:
    """A missing path would hide data that a rewrite loses; an extra path would block a migration."""
    obj = {"apiVersion": "example.io/v1", "kind": "K", "metadata": {"name": "x", "finalizers": ["a"]}, "f": value}
    assert pruned_paths(obj, root(node)) == paths


def test_pruned_at_the_root() -> None:
    """A missed unknown field of the object or its metadata would be lost without a warning."""
    obj = {"apiVersion": "v1", "kind": "K", "metadata": {"ownerReferences": [{"uid": "u", "x": 1}]}, "spec": {}}
    assert pruned_paths(obj, root(None)) == (".metadata.ownerReferences[].x", ".spec")
    assert pruned_paths(obj, ANY) == ()

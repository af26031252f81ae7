"""Comparisons against the API server's own algorithms, on generated schemas and objects.

The reference functions below follow apiextensions' ``schema/pruning`` and ``schema/defaulting`` step by step, on
raw nodes and without ``Schema``. The comparisons have to list every effect that these functions have on an object.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from restow.crds import ANY, Schema, added_defaults, dropped_fields, pruned_paths, topology_differences

Node = dict[str, Any]

NAMES = ("a", "b", "c")
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
META = ("apiVersion", "kind", "metadata")
SAMPLES: dict[str, Any] = {"string": "s", "integer": 1, "boolean": True}


@st.composite
def leaves(draw: st.DrawFn) -> Node:
    """Draw a scalar or untyped node."""
    choices: list[Node] = [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {PRESERVE: True}]
    node = draw(st.sampled_from(choices))
    flags: Node = {"nullable": True} if draw(st.booleans()) else {}
    if "type" in node and draw(st.booleans()):
        flags["default"] = SAMPLES[node["type"]]
    return {**node, **flags}


@st.composite
def objects(draw: st.DrawFn, children: st.SearchStrategy[Node]) -> Node:
    """Draw a struct, map or free object node."""
    node: Node = {"type": "object"}
    shape = draw(st.sampled_from(["struct", "struct", "struct", "map", "free map"]))
    if shape == "struct":
        node["properties"] = draw(st.dictionaries(st.sampled_from(NAMES), children, max_size=3))
        if draw(st.booleans()) and node["properties"]:
            node["required"] = [min(node["properties"])]
        node |= {flag: True for flag in (PRESERVE, EMBEDDED) if draw(st.integers(0, 4)) == 0}
    else:
        node["additionalProperties"] = draw(children) if shape == "map" else True
    if draw(st.integers(0, 3)) == 0:
        node["x-kubernetes-map-type"] = "atomic"
    if "required" not in node and draw(st.integers(0, 2)) == 0:
        node["default"] = {}
    return node


@st.composite
def lists(draw: st.DrawFn, children: st.SearchStrategy[Node]) -> Node:
    """Draw a list node."""
    node: Node = {"type": "array", "items": draw(children)}
    if draw(st.integers(0, 4)) == 0:
        node[PRESERVE] = True
    kind = draw(st.sampled_from(["atomic", "set", "map"]))
    if kind == "map":
        keys = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True))
        return {**node, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
    return {**node, "x-kubernetes-list-type": kind}


nodes = st.recursive(leaves(), lambda children: st.one_of(objects(children), lists(children)), max_leaves=12)
roots = st.dictionaries(st.sampled_from(NAMES), nodes, max_size=3).map(
    lambda properties: {"type": "object", "properties": properties}
)
json_values = st.recursive(
    st.sampled_from(["s", 1, True, None]),
    lambda values: st.one_of(
        st.lists(values, max_size=2), st.dictionaries(st.sampled_from((*NAMES, "u")), values, max_size=2)
    ),
    max_leaves=6,
)


@st.composite
def values_of(draw: st.DrawFn, node: Node) -> Any:
    """Draw a value of the node's type, with unknown fields now and then, and null if the node allows it."""
    if node.get("nullable") and draw(st.integers(0, 3)) == 0:
        return None
    kind = node.get("type")
    if kind == "array":
        return draw(st.lists(values_of(node["items"]), max_size=2))
    if kind != "object":
        return SAMPLES[kind] if kind else draw(json_values)
    value: dict[str, Any] = draw(st.dictionaries(st.just("u"), json_values, max_size=1))
    values = node.get("additionalProperties")
    if isinstance(values, dict):
        value = draw(st.dictionaries(st.sampled_from(NAMES), values_of(values), max_size=2))
    for name, child in node.get("properties", {}).items():
        if name in node.get("required", ()) or draw(st.booleans()):
            value[name] = draw(values_of(child))
    if node.get(EMBEDDED):
        value |= {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "labels": {"a": "b"}}}
    return value


@st.composite
def edited(draw: st.DrawFn, node: Node) -> Node:
    """Draw a later version of the schema, with other fields, flags, defaults and list types but the same types."""
    new = dict(node)
    for flag in (PRESERVE, "nullable", "default", "required", "x-kubernetes-map-type", "x-kubernetes-list-type"):
        untyped = flag == PRESERVE and "type" not in node
        if not untyped and draw(st.integers(0, 3)) == 0:
            new.pop(flag, None)
    if node.get("type") in SAMPLES and draw(st.booleans()):
        new["default"] = SAMPLES[node["type"]]
    if node.get("type") == "object" and "required" not in new and draw(st.integers(0, 3)) == 0:
        new["default"] = {}
    if "properties" in node:
        kept = {name: draw(edited(child)) for name, child in node["properties"].items() if draw(st.integers(0, 4))}
        new["properties"] = {**draw(st.dictionaries(st.sampled_from(NAMES), nodes, max_size=1)), **kept}
    for below in ("items", "additionalProperties"):
        if isinstance(node.get(below), dict):
            new[below] = draw(edited(node[below]))
    return new


@st.composite
def changes(draw: st.DrawFn) -> tuple[Node, Node, dict[str, Any]]:
    """Draw a schema, its successor, and an object as the server stores it under the first."""
    old = draw(roots)
    new = draw(edited(old))
    obj = {**draw(values_of(old)), "apiVersion": "example.io/v1", "kind": "K", "metadata": {"name": "x"}}
    prune(obj, {**old, EMBEDDED: True})
    drop_nulls(obj, old)
    put_defaults(obj, old)
    return old, new, obj


def prune(value: Any, node: Node | None) -> None:
    """Drop the fields that the API server drops, in place."""
    if node is not None and node.get(PRESERVE):
        prune_preserving(value, node)
    elif isinstance(value, dict):
        for name in list(value):
            if node is not None and node.get(EMBEDDED) and name in META:
                continue
            known, child = child_node(node, name)
            if known:
                prune(value[name], child)
            else:
                del value[name]
    elif isinstance(value, list):
        for item in value:
            prune(item, node.get("items") if node is not None else None)


def prune_preserving(value: Any, node: Node | None) -> None:
    """Prune below a node that keeps its unknown fields."""
    if node is None:
        return
    if isinstance(value, dict):
        for name, child_value in value.items():
            known, child = child_node(node, name)
            if known and not (node.get(EMBEDDED) and name in META):
                prune(child_value, child)
    elif isinstance(value, list):
        for item in value:
            prune_preserving(item, node.get("items"))


def child_node(node: Node | None, name: str) -> tuple[bool, Node | None]:
    """Return whether a field is known, and its node if it has one."""
    if node is None:
        return False, None
    if name in node.get("properties", {}):
        return True, node["properties"][name]
    values = node.get("additionalProperties")
    return values is not None, values if isinstance(values, dict) else None


def drop_nulls(value: Any, node: Node | None) -> None:
    """Remove every null that is neither a valid value nor replaced by a default, in place."""
    if isinstance(value, dict):
        for name in list(value):
            child = child_node(node, name)[1]
            if value[name] is None and child is not None and not child.get("nullable") and "default" not in child:
                del value[name]
            else:
                drop_nulls(value[name], child)
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, node.get("items") if node is not None else None)


def put_defaults(value: Any, node: Node | None) -> None:
    """Insert defaults in the places where the API server does, in place."""
    if node is None:
        return
    if isinstance(value, dict):
        for name, child in node.get("properties", {}).items():
            if name not in value and "default" in child:
                value[name] = copy.deepcopy(child["default"])
        for name in value:
            value[name] = with_defaults(value[name], child_node(node, name)[1])
    elif isinstance(value, list):
        value[:] = [with_defaults(item, node.get("items")) for item in value]


def with_defaults(value: Any, node: Node | None) -> Any:
    """Return the value with its defaults inserted; its own default replaces a null that is not a valid value."""
    if value is None and node is not None and not node.get("nullable"):
        value = copy.deepcopy(node.get("default"))
    put_defaults(value, node)
    return value


def is_stored_under(value: Any, node: Node | None) -> bool:
    """Return whether validation accepts the value: required fields exist, types fit, null only where allowed."""
    if node is None or "type" not in node:
        return True
    if value is None:
        return bool(node.get("nullable"))
    if isinstance(value, dict):
        return (
            node["type"] == "object"
            and all(name in value for name in node.get("required", ()))
            and all(is_stored_under(child, child_node(node, name)[1]) for name, child in value.items())
        )
    if isinstance(value, list):
        return node["type"] == "array" and all(is_stored_under(item, node["items"]) for item in value)
    return isinstance(value, type(SAMPLES[node["type"]])) if node["type"] in SAMPLES else False


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield the concrete places where two values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            if name in before and name in after:
                yield from differences(before[name], after[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}"
    elif isinstance(before, list) and isinstance(after, list):
        for old, new in zip(before, after, strict=True):
            yield from differences(old, new, f"{path}[]")
    elif before != after:
        yield path


def is_covered(path: str, named: tuple[str, ...]) -> bool:
    """Return whether a concrete place is one of the named ones, or below one."""
    steps = split(path)
    return any(
        len(pattern) <= len(steps)
        and all(a == b or (a == "{}" and b != "[]") for a, b in zip(pattern, steps, strict=False))
        for pattern in map(split, named)
    )


def split(path: str) -> list[str]:
    """Return the steps of a path."""
    return re.findall(r"\w+|\[\]|\{\}", path)


@given(roots, st.data())
def test_pruned_paths_are_what_pruning_drops(node: Node, data: st.DataObject) -> None:
    """If the two disagreed, a rewrite would lose a field without a warning."""
    obj = {**data.draw(values_of(node)), "apiVersion": "v1", "kind": "K", "metadata": {"name": "x"}}
    pruned = copy.deepcopy(obj)
    prune(pruned, {**node, EMBEDDED: True})
    assert set(pruned_paths(obj, Schema.root(node))) == set(differences(obj, pruned))
    assert pruned_paths(pruned, Schema.root(node)) == ()


@given(changes())
def test_dropped_fields_cover_every_loss(change: tuple[Node, Node, dict[str, Any]]) -> None:
    """If a loss were not listed, a migration would prune a stored field without a warning."""
    old, new, obj = change
    assume(is_stored_under(obj, new))
    dropped = dropped_fields(Schema.root(old), Schema.root(new))
    for path in pruned_paths(obj, Schema.root(new)):
        assert is_covered(path, dropped)


@given(changes())
def test_added_defaults_cover_every_default(change: tuple[Node, Node, dict[str, Any]]) -> None:
    """A default that is not listed would be persisted under the migrator's own name."""
    old, new, obj = change
    assume(is_stored_under(obj, old))
    prune(obj, {**new, EMBEDDED: True})
    drop_nulls(obj, new)
    before = copy.deepcopy(obj)
    put_defaults(obj, new)
    added = added_defaults(Schema.root(old), Schema.root(new))
    for path in differences(before, obj):
        assert is_covered(path, added)


@given(changes())
def test_a_webhook_rules_out_fewer_defaults(change: tuple[Node, Node, dict[str, Any]]) -> None:
    """If the webhook case listed fewer defaults, the migrator would persist a default under its own name."""
    old, new = Schema.root(change[0]), Schema.root(change[1])
    assert set(added_defaults(old, new)) <= set(added_defaults(old, new, webhook=True))


@given(roots, roots)
def test_topology_differences_are_mutual(one: Node, other: Node) -> None:
    """If the result depended on the direction, a change back to the old storage version would lose owners."""
    there = topology_differences(Schema.root(one), Schema.root(other))
    back = topology_differences(Schema.root(other), Schema.root(one))
    assert sorted(there) == sorted(back)


@given(roots)
def test_a_schema_does_not_differ_from_its_equal(node: Node) -> None:
    """Two versions that differ only in name would cost extra requests for each object."""
    old, new = Schema.root(node), Schema.root(copy.deepcopy(node))
    assert topology_differences(old, new) == ()
    assert added_defaults(old, new) == added_defaults(old, new, webhook=True) == ()
    assert dropped_fields(old, new) == ()


@given(nodes, nodes)
def test_comparisons_end(one: Node, other: Node) -> None:
    """A walk that follows schemaless places on both sides would never return."""
    for old, new in ((Schema(one), Schema(other)), (ANY, Schema(other)), (Schema(one), ANY)):
        assert len(set(topology_differences(old, new))) == len(topology_differences(old, new))
        assert len(set(dropped_fields(old, new))) == len(dropped_fields(old, new))
        assert len(set(added_defaults(old, new))) == len(added_defaults(old, new))

"""What Hypothesis draws: field sets, managedFields lists as a server may hold them, and schemas that change."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st

from restow.crds.fieldpath import FieldSet
from restow.migrator.ownership.entries import ManagedFieldsEntry, identity
from tests.migrator import builders as b
from tests.migrator.oracle import WHOLE, Mask, is_one_leaf

ELEMENTS = ("f:a", "f:b", "f:c", 'k:{"id":1}', 'k:{"id":1,"on":true}', 'v:"x"', "v:2")


def _node(children: st.SearchStrategy[FieldSet]) -> st.SearchStrategy[FieldSet]:
    below = st.dictionaries(st.sampled_from(ELEMENTS), children, max_size=3)
    return st.builds(lambda node, dot: node | ({".": {}} if dot else {}), below, st.booleans())


_nodes = st.recursive(st.just({}), _node, max_leaves=8)

field_sets: st.SearchStrategy[FieldSet] = st.dictionaries(st.sampled_from(ELEMENTS), _nodes, max_size=3)
"""Field sets over few path elements, so that two of them often meet."""

filled_field_sets = st.dictionaries(st.sampled_from(ELEMENTS), _nodes, min_size=1, max_size=3)
"""The same, but none is empty: a server keeps no entry that owns nothing."""


def respelled(fields: FieldSet, chance: Random, *, root: bool = True) -> FieldSet:
    """The same set in another order and spelling."""
    children = [key for key in fields if key != "."]
    made = {_respelled(key, chance): respelled(fields[key], chance, root=False) for key in _shuffled(children, chance)}
    if not root and ((children and "." in fields) or (not children and chance.random() < 0.5)):
        made["."] = {}
    return made


def _respelled(element: str, chance: Random) -> str:
    if element[:2] not in ("k:", "v:"):
        return element
    value = json.loads(element[2:])
    if isinstance(value, dict):
        value = {key: value[key] for key in _shuffled(list(value), chance)}
    return element[:2] + json.dumps(value, separators=chance.choice([(",", ":"), (" , ", " : ")]))


def _shuffled(names: list[str], chance: Random) -> list[str]:
    return chance.sample(names, len(names))


chances = st.integers(0, 2**16).map(Random)
"""Sources of chance, each of them repeatable."""


def entries(
    versions: tuple[str, ...] = ("v1", "v2"), fields: st.SearchStrategy[FieldSet] = filled_field_sets
) -> st.SearchStrategy[ManagedFieldsEntry]:
    """One managedFields entry."""
    return st.builds(
        b.entry,
        manager=st.sampled_from(["alice", "bob", "kubectl"]),
        version=st.sampled_from(versions),
        fields=fields,
        operation=st.sampled_from(["Apply", "Update"]),
        subresource=st.sampled_from(["", "status"]),
        time=st.sampled_from(["", "2024-05-01T10:00:00Z", "2024-05-01T10:00:01Z"]),
    )


def entry_lists(
    versions: tuple[str, ...] = ("v1", "v2"), fields: st.SearchStrategy[FieldSet] = filled_field_sets
) -> st.SearchStrategy[list[ManagedFieldsEntry]]:
    """managedFields as a server holds them: one entry for each identity."""
    return st.lists(entries(versions, fields), max_size=5, unique_by=identity)


@dataclass(frozen=True)
class Change:
    """Two schemas of one kind of object, a live object, and the part of it that somebody owned under the old one."""

    old: dict[str, Any]
    new: dict[str, Any]
    live: Any
    mask: Mask


_PROTOCOL = {"type": "string", "default": "TCP"}
_KEYS = (("id",), ("port",), ("id", "port"), ("id", "protocol"))


def _one_of_both(draw: st.DrawFn, *choices: Any, same: bool) -> tuple[Any, Any]:
    one = draw(st.sampled_from(choices))
    return one, one if same else draw(st.sampled_from(choices))


def _shape(draw: st.DrawFn, depth: int, *, same: bool) -> tuple[b.Node, b.Node]:
    """The schema of one place, in both versions: alike but for what can be owned."""
    kinds = ["scalar", "set", "struct", "map", "items"] if depth else ["scalar", "set"]
    match draw(st.sampled_from(kinds)):
        case "scalar":
            return b.STRING, b.STRING
        case "set":
            pair = _one_of_both(draw, b.atomic_list, b.set_list, same=same)
            return pair[0](b.STRING), pair[1](b.STRING)
        case "struct":
            return _maybe_atomic(draw, _fields(draw, depth, same=same), same=same)
        case "map":
            old, new = _shape(draw, depth - 1, same=same)
            return _maybe_atomic(draw, (b.mapping(old), b.mapping(new)), same=same)
        case _:
            keyed = {"id": b.STRING, "port": b.INTEGER, "protocol": _PROTOCOL}
            old, new = _maybe_atomic(draw, _fields(draw, depth, keyed, same=same), same=same)
            keys = _one_of_both(draw, (), *_KEYS, same=same)
            return _list(old, keys[0]), _list(new, keys[1])


def _list(items: b.Node, keys: tuple[str, ...]) -> b.Node:
    return b.keyed_list(items, *keys) if keys else b.atomic_list(items)


def _fields(
    draw: st.DrawFn, depth: int, known: dict[str, b.Node] | None = None, *, same: bool
) -> tuple[b.Node, b.Node]:
    pairs = {name: _shape(draw, depth - 1, same=same) for name in draw(st.sets(st.sampled_from("xyz"), min_size=1))}
    known = known or {}
    old = b.struct(**known, **{name: pair[0] for name, pair in pairs.items()})
    return old, b.struct(**known, **{name: pair[1] for name, pair in pairs.items()})


def _maybe_atomic(draw: st.DrawFn, pair: tuple[b.Node, b.Node], *, same: bool) -> tuple[b.Node, b.Node]:
    how = _one_of_both(draw, lambda node: node, b.atomic, same=same)
    return how[0](pair[0]), how[1](pair[1])


def _value(draw: st.DrawFn, node: b.Node, number: int = 0) -> Any:
    if node["type"] == "string":
        return f"text {number}"
    if node["type"] == "array":
        count = draw(st.integers(0, 3))
        if node["items"]["type"] == "string":
            return [f"item {index}" for index in range(count)]
        return [_item(draw, node["items"], index) for index in range(count)]
    if "additionalProperties" in node:
        keys = draw(st.lists(st.sampled_from(["k", "l", "m.n/o"]), max_size=2, unique=True))
        return {key: _value(draw, node["additionalProperties"]) for key in keys}
    return _some_fields(draw, node)


def _some_fields(draw: st.DrawFn, node: b.Node) -> dict[str, Any]:
    names = [name for name in node["properties"] if name in "xyz" and draw(st.booleans())]
    return {name: _value(draw, node["properties"][name]) for name in names}


def _item(draw: st.DrawFn, node: b.Node, index: int) -> dict[str, Any]:
    keys = {"id": f"id {index}", "port": 80 + index, "protocol": draw(st.sampled_from(["TCP", "UDP"]))}
    return keys | _some_fields(draw, node)


def _mask(draw: st.DrawFn, value: Any, node: b.Node, *, always: frozenset[str] = frozenset()) -> Mask:
    """Some of a value, as the schema allows to own some of it."""
    if is_one_leaf(value, node) or not value:
        return WHOLE
    if isinstance(value, list):
        items = draw(st.sets(st.sampled_from(range(len(value))), min_size=1))
        return {i: _mask(draw, value[i], node["items"], always=frozenset({"id"})) for i in sorted(items)}
    names = always | draw(st.sets(st.sampled_from(list(value)), min_size=0 if always else 1))
    properties = node.get("properties", {})
    return {
        name: _mask(draw, value[name], properties.get(name) or node["additionalProperties"])
        for name in value
        if name in names
    }


@st.composite
def changes(draw: st.DrawFn, *, same: bool = False) -> Change:
    """Two versions' schemas (the same one twice if asked for), a live object, and what a manager owns of it."""
    old, new = _fields(draw, 3, same=same)
    live = {name: _value(draw, node) for name, node in old["properties"].items()}
    return Change(old, new, live, _mask(draw, live, old))

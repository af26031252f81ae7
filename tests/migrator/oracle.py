"""What is owned, worked out in another way than by the code under test: as plain sets of paths.

``members`` reads the paths out of a set in FieldsV1 notation. ``owned_paths`` goes the other way round: it knows which
values of a concrete object somebody owns (a ``Mask``), and names the paths by which the API server would write that
down under a schema: structured-merge-diff 6.3.3 ``typed/tofieldset.go``, read on raw schema nodes. One deviation: an
empty list that is owned item by item stays a path of its own, where the server would name nothing; an entry must not
become empty over it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from restow.crds.fieldpath import FieldSet

Path: TypeAlias = tuple[str, ...]

WHOLE: Any = True
"""The mask of a value that is owned with everything in it."""

Mask: TypeAlias = Any
"""``WHOLE``, or the owned parts of an object by field name, or of a list by index."""


def members(fields: FieldSet) -> frozenset[Path]:
    """The paths that a set names as its members, their JSON spelt in one way."""
    return frozenset(_members(fields, ()))


def _members(node: FieldSet, path: Path) -> Iterator[Path]:
    children = {key: child for key, child in node.items() if key != "."}
    if path and (not children or "." in node):
        yield path
    for key, child in children.items():
        yield from _members(child, (*path, canonical(key)))


def canonical(element: str) -> str:
    """A path element with its JSON spelt in one way."""
    if element[:2] in ("k:", "v:"):
        return element[:2] + json.dumps(json.loads(element[2:]), sort_keys=True)
    return element


def field_set(paths: Iterable[Path]) -> FieldSet:
    """The set, in FieldsV1 notation, that has exactly these members."""
    root: FieldSet = {}
    for path in paths:
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    _without_needless_dots(root)
    return root


def _without_needless_dots(node: FieldSet) -> None:
    for child in node.values():
        _without_needless_dots(child)
        if set(child) == {"."}:
            del child["."]


def owned_paths(mask: Mask, value: Any, node: dict[str, Any], path: Path = ()) -> frozenset[Path]:
    """The members of the set of whoever owns the masked part of a value, under a schema node."""
    return frozenset(_owned_paths(mask, value, node, path))


def _owned_paths(mask: Mask, value: Any, node: dict[str, Any], path: Path) -> Iterator[Path]:
    if is_one_leaf(value, node) or not value:
        yield path
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if mask is WHOLE or index in mask:
                below = (*path, element_of(item, node))
                yield below
                yield from _inside(mask if mask is WHOLE else mask[index], item, node["items"], below)
    else:
        yield from _inside(mask, value, node, path)


def _inside(mask: Mask, value: Any, node: dict[str, Any], path: Path) -> Iterator[Path]:
    """The members below a path that is, or is not, one itself."""
    if not isinstance(value, dict) or is_one_leaf(value, node):
        return
    properties = node.get("properties", {})
    for name, child in value.items():
        if mask is not WHOLE and name not in mask:
            continue
        below = (*path, f"f:{name}")
        if name not in properties:
            yield below
        child_node = properties.get(name) or node.get("additionalProperties") or node
        yield from _owned_paths(mask if mask is WHOLE else mask[name], child, child_node, below)


def is_one_leaf(value: Any, node: dict[str, Any]) -> bool:
    """Whether the server owns a value as a whole."""
    if isinstance(value, list):
        return node.get("x-kubernetes-list-type", "atomic") == "atomic"
    if isinstance(value, dict):
        return node.get("x-kubernetes-map-type") == "atomic"
    return True


def element_of(item: Any, node: dict[str, Any]) -> str:
    """The path element of an item of a list that is owned item by item."""
    if node["x-kubernetes-list-type"] == "set":
        return canonical("v:" + json.dumps(item))
    declared = node["items"]["properties"]
    keys = {name: item.get(name, declared[name].get("default")) for name in node["x-kubernetes-list-map-keys"]}
    return canonical("k:" + json.dumps({name: value for name, value in keys.items() if value is not None}))


def values(mask: Mask, value: Any, path: str = "") -> frozenset[str]:
    """JSON paths of the scalars, and of the empty lists and objects, in the masked part of a value."""
    return frozenset(_values(mask, value, path))


def _values(mask: Mask, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, (dict, list)) or not value:
        yield path
        return
    for name, child in value.items() if isinstance(value, dict) else enumerate(value):
        if mask is WHOLE or name in mask:
            yield from _values(mask if mask is WHOLE else mask[name], child, f"{path}/{name}")


def covered_values(fields: FieldSet, value: Any, node: dict[str, Any]) -> frozenset[str]:
    """JSON paths of the scalars, and of the empty lists and objects, that a set owns of a value under a schema."""
    return frozenset(_covered(members(fields), value, node, (), ""))


def _covered(owned: frozenset[Path], value: Any, node: dict[str, Any], path: Path, where: str) -> Iterator[str]:
    if is_one_leaf(value, node) or not value:
        if path in owned:
            yield from _values(WHOLE, value, where)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _covered(owned, item, node["items"], (*path, element_of(item, node)), f"{where}/{index}")
    else:
        for name, child in value.items():
            child_node = node.get("properties", {}).get(name) or node.get("additionalProperties") or node
            yield from _covered(owned, child, child_node, (*path, f"f:{name}"), f"{where}/{name}")

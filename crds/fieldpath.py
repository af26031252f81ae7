"""Path elements, and sets of paths in the ``FieldsV1`` notation, which say which paths of an object a manager owns.

A path is a tuple of elements (structured-merge-diff ``fieldpath``): ``f:<name>`` for a field, ``k:<json>`` for the item
of a list of type map, by its keys, ``v:<json>`` for one of a set, by its value, ``i:<n>`` for an index (accepted,
although the API server writes none). A set is a tree of JSON objects whose keys are elements. A path is a *member* if
its node is ``{}`` or has the key ``.``; ``{}`` and ``{".": {}}`` mean the same. No function here reads an object or a
schema, and none changes a set in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

FieldSet: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

METADATA_NAME: FieldSet = {"f:metadata": {"f:name": {}}}
"""The smallest set that the server keeps; it names a field that every object has, and no field of the spec."""

_decoder = msgspec.json.Decoder(dict[str, Any])
_sorted_encoder = msgspec.json.Encoder(order="sorted")

_KEPT = 64
_LONGEST_KEPT = 4096
"""How many decoded sets are cached, and the most bytes of a cached one: a manager owns the same fields of many objects.
"""

_decode_once = lru_cache(maxsize=_KEPT)(_decoder.decode)


def decode(raw: bytes | msgspec.Raw) -> FieldSet:
    """Decode a set from the wire.

    Raises:
        msgspec.MsgspecError: the bytes are not a JSON object.
    """
    return _decode_once(bytes(raw)) if len(raw) <= _LONGEST_KEPT else _decoder.decode(raw)


def is_readable(raw: bytes | msgspec.Raw) -> bool:
    """Return whether the API server can read a set: all nodes are objects, and keys, values and indices can be parsed.

    Elements of unknown kinds are no fault, because the server skips them. Source: structured-merge-diff
    ``fieldpath/serialize.go`` and ``serialize-pe.go``.
    """
    return _is_readable_once(bytes(raw)) if len(raw) <= _LONGEST_KEPT else _is_text_readable(raw)


def _is_text_readable(raw: bytes | msgspec.Raw) -> bool:
    try:
        return _is_readable(_decoder.decode(raw))
    except (msgspec.MsgspecError, RecursionError):
        return False


_is_readable_once = lru_cache(maxsize=_KEPT)(_is_text_readable)


def _is_readable(node: FieldSet) -> bool:
    for key, child in node.items():
        if not isinstance(child, dict):
            return False
        kind = key[:2]
        if kind in ("k:", "v:"):
            value = msgspec.json.decode(key[2:])
            if kind == "k:" and not isinstance(value, dict):
                return False
        elif kind == "i:" and not key[2:].removeprefix("-").isdecimal():
            return False
        if child and not _is_readable(child):
            return False
    return True


def encode(fields: FieldSet) -> msgspec.Raw:
    """Encode a set for the wire, with its elements in the API server's order."""
    return msgspec.Raw(_sorted_encoder.encode(fields))


def is_leaf(node: FieldSet) -> bool:
    """Return whether a node is a member and has no member below it."""
    return not node or (len(node) == 1 and "." in node)


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the set of the paths that either set owns.

    A leaf of one set stays a member when the other set has children below it.
    """
    return _union(one, other, root=True)


def _union(one: FieldSet, other: FieldSet, *, root: bool = False) -> FieldSet:
    merged = dict(one)
    for key, node in other.items():
        merged[key] = _union(merged[key], node) if key in merged else node
    if not root and merged and (not one or not other):
        merged["."] = {}
    return merged


def only(fields: FieldSet, *elements: str) -> FieldSet:
    """Return the part of a set below the given top-level path elements."""
    return {key: fields[key] for key in elements if key in fields}


def without(fields: FieldSet, *elements: str) -> FieldSet:
    """Return a set without the part below the given top-level path elements."""
    return {key: node for key, node in fields.items() if key not in elements}


def from_paths(paths: Iterable[Path]) -> FieldSet:
    """Return the set of the given members; a leaf is ``{}`` without a dot, as the server writes it."""
    members = frozenset(paths)
    return _from_members_once(members) if len(members) <= _MOST_MEMBERS_KEPT else _from_members(members)


def _from_members(members: frozenset[Path]) -> FieldSet:
    fields: FieldSet = {}
    nodes = []
    for path in members:
        node = fields
        for each in path:
            below = node.get(each)
            if below is None:
                below = node[each] = {}
            node = below
        nodes.append(node)
    for node in nodes:
        if node and node is not fields:
            node["."] = {}
    return fields


_MOST_MEMBERS_KEPT = 128
_from_members_once = lru_cache(maxsize=_KEPT)(_from_members)


def equal(one: bytes | msgspec.Raw, other: bytes | msgspec.Raw) -> bool:
    """Return whether two encoded sets have the same members, regardless of order and spelling."""
    if bytes(one) == bytes(other):
        return True
    return _normal(decode(one), root=True) == _normal(decode(other), root=True)


def _normal(node: FieldSet, *, root: bool = False) -> FieldSet:
    children = {normal(key): _normal(child) for key, child in node.items() if key != "."}
    if children and not root and "." in node:
        children["."] = {}
    return children


def normal(key: str) -> str:
    """Return a path element in one normal spelling: its JSON has several, and the API server rounds its numbers."""
    return _normal_element(key) if key.startswith(("k:", "v:")) else key


@lru_cache(maxsize=1024)
def _normal_element(key: str) -> str:
    try:
        return key[:2] + _sorted_encoder.encode(as_compared(msgspec.json.decode(key[2:]))).decode()
    except (msgspec.MsgspecError, OverflowError):
        return key


_EXACT = 1 << 53


def as_compared(value: Any) -> Any:
    """Return a list key or set item as the API server compares it with a path element: it reads integers as float64.

    Any write rounds an element of a larger integer in managedFields (structured-merge-diff ``readJSONIter``).
    """
    if isinstance(value, dict):
        return {name: as_compared(child) for name, child in value.items()}
    if isinstance(value, list):
        return [as_compared(item) for item in value]
    return float(value) if type(value) is int and abs(value) >= _EXACT else value


def key_element(keys: Mapping[str, Any]) -> str:
    """Return the path element of the list item with these keys."""
    return "k:" + _sorted_encoder.encode(keys).decode()


def value_element(value: Any) -> str:
    """Return the path element of the list item with this value."""
    return "v:" + _sorted_encoder.encode(value).decode()


def keys_of(element: str) -> dict[str, Any]:
    """Return the keys in a ``k:`` path element; the result is empty for a value or an index."""
    try:
        named = msgspec.json.decode(element[2:]) if element.startswith("k:") else {}
    except msgspec.MsgspecError:
        return {}
    return named if isinstance(named, dict) else {}

"""Path elements, and sets of paths in the ``FieldsV1`` notation: which paths of an object a manager owns.

A path is a tuple of elements (structured-merge-diff ``fieldpath``): ``f:<name>`` for a field, ``k:<json>`` for the item
of a list of type map, by its keys, ``v:<json>`` for one of a set, by its value, ``i:<n>`` for an index (understood,
although the API server writes none). A set is a tree of JSON objects whose keys are elements. A path is a *member* if
its node is ``{}`` or has the key ``.``; ``{}`` and ``{".": {}}`` mean the same. Nothing here looks at an object or a
schema; sets are never changed in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

__all__ = [
    "METADATA_NAME",
    "FieldSet",
    "Path",
    "decode",
    "encode",
    "equal",
    "from_paths",
    "is_leaf",
    "is_readable",
    "key_element",
    "keys_of",
    "normal",
    "only",
    "union",
    "value_element",
    "without",
]

FieldSet: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

METADATA_NAME: FieldSet = {"f:metadata": {"f:name": {}}}
"""The smallest set that the server keeps: it names a field of every object and stands for no field of its spec."""

_decoder = msgspec.json.Decoder(dict[str, Any])
_encoder = msgspec.json.Encoder()
_sorted_encoder = msgspec.json.Encoder(order="sorted")


def decode(raw: bytes | msgspec.Raw) -> FieldSet:
    """Decode a set from the wire.

    Raises:
        msgspec.MsgspecError: the bytes are not a JSON object.
    """
    return _decoder.decode(raw)


def is_readable(raw: bytes | msgspec.Raw) -> bool:
    """Whether the API server can read a set: objects throughout, and keys, values and indices that it can parse.

    Elements of kinds that it does not know are no fault, it skips them. Source: structured-merge-diff
    ``fieldpath/serialize.go`` and ``serialize-pe.go``.
    """
    try:
        return _is_readable(_decoder.decode(raw))
    except (msgspec.MsgspecError, RecursionError):
        return False


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
    """Encode a set for the wire."""
    return msgspec.Raw(_encoder.encode(fields))


def is_leaf(node: FieldSet) -> bool:
    """Whether a node is a member and has no member below it."""
    return not node or (len(node) == 1 and "." in node)


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the set that owns what either owns.

    A path that is a member of one side only through being a leaf stays a member when the other side has
    children below it.
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
    """Return the part of a set below these top-level path elements."""
    return {key: fields[key] for key in elements if key in fields}


def without(fields: FieldSet, *elements: str) -> FieldSet:
    """Return the rest of a set, without the part below these top-level path elements."""
    return {key: node for key, node in fields.items() if key not in elements}


def from_paths(paths: Iterable[Path]) -> FieldSet:
    """Return the set of these members."""
    fields: FieldSet = {}
    for path in paths:
        node = fields
        for each in path:
            node = node.setdefault(each, {})
        if path:
            node["."] = {}
    return _plain(fields, root=True)


def _plain(node: FieldSet, *, root: bool = False) -> FieldSet:
    """Spell a leaf as the server does: ``{}``, without a dot."""
    if not root and is_leaf(node):
        return {}
    return {key: _plain(child) if key != "." else child for key, child in node.items()}


def equal(one: bytes | msgspec.Raw, other: bytes | msgspec.Raw) -> bool:
    """Whether two encoded sets have the same members, whatever their order and spelling."""
    if bytes(one) == bytes(other):
        return True
    return _normal(decode(one), root=True) == _normal(decode(other), root=True)


def _normal(node: FieldSet, *, root: bool = False) -> FieldSet:
    children = {normal(key): _normal(child) for key, child in node.items() if key != "."}
    if children and not root and "." in node:
        children["."] = {}
    return children


def normal(key: str) -> str:
    """Return a path element in one spelling: ``k:`` and ``v:`` elements hold JSON, of which there are several."""
    if key[:2] not in ("k:", "v:"):
        return key
    try:
        return key[:2] + _sorted_encoder.encode(msgspec.json.decode(key[2:])).decode()
    except msgspec.MsgspecError:
        return key


def key_element(keys: Mapping[str, Any]) -> str:
    """Return the path element of a list item that is named by these keys."""
    return "k:" + _sorted_encoder.encode(keys).decode()


def value_element(value: Any) -> str:
    """Return the path element of a list item that is named by its value."""
    return "v:" + _sorted_encoder.encode(value).decode()


def keys_of(element: str) -> dict[str, Any]:
    """Return the keys that a path element names an item by; none of a set's value or an index."""
    try:
        named = msgspec.json.decode(element[2:]) if element.startswith("k:") else {}
    except msgspec.MsgspecError:
        return {}
    return named if isinstance(named, dict) else {}

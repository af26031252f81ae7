"""Carry a field set from one schema to another where they differ in what can be owned (design §3.9).

Under strategy None the fields of two versions have the same paths and values, but a list that is atomic in one version
may be keyed in the other (all of Cluster API's CRDs changed ``.status.conditions`` so). Ownership of the whole list
then means ownership of each of its items, and the other way round. The live object says which items there are. The
rules are those of structured-merge-diff's ``ToFieldSet``, by which the API server itself names what an apply owns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from restow.crds import Scalar, Schema
from restow.migrator.fieldset import FieldSet, is_leaf, union

__all__ = ["Unknown", "misfit", "reshape", "whole_owners"]

_ABSENT: Any = object()
_elements = msgspec.json.Encoder(order="sorted")


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands for the schema of a version that is no longer in the CRD.

    What it was can be told in part: where any manager of that version owns something *below* a list or map, that one
    was granular. ``owned`` is the union of what all managers of the version own here.
    """

    owned: FieldSet

    def below(self, element: str) -> Unknown:
        """What is known of the child at this path element."""
        return Unknown(self.owned.get(element, {}))


def reshape(fields: FieldSet, old: Schema | Unknown, new: Schema, live: Any) -> FieldSet:
    """Return the set that owns under ``new`` what ``fields`` owns under ``old``.

    Args:
        fields: a set, or the node of one.
        old: the schema that the set was made under, or what can be told of one that is not known any more.
        new: the schema to own under.
        live: the object's value here, as served at the new version.
    """
    carried: FieldSet = {}
    for key, node in fields.items():
        if key == ".":
            carried[key] = {}
        elif key.startswith("f:"):
            value = live.get(key[2:], _ABSENT) if isinstance(live, dict) else _ABSENT
            was = old.below(key) if isinstance(old, Unknown) else old.field(key[2:])
            below = _node(node, was, new.field(key[2:]), value)
            carried[key] = below if new.is_declared(key[2:]) or not is_leaf(node) else _member(below)
        else:
            element, below = _item(key, node, old, new, live)
            carried[element] = union(carried[element], below) if element in carried else below
    return carried


def misfit(value: Any, schema: Schema, path: str = "") -> str:
    """Return the first place whose value is of a type that the schema does not admit, or an empty string.

    The API server cannot tell the owners of such an object: any write empties its managedFields.
    """
    below: list[tuple[Any, Schema | None, str]] = []
    if isinstance(value, dict):
        admitted = schema.admits_map
        below = [(child, schema.field(key), _place(path, key, schema)) for key, child in value.items()]
    elif isinstance(value, list):
        admitted, below = schema.admits_list, [(item, schema.items, f"{path}[]") for item in value]
    else:
        admitted = value is None or _scalar(value) in schema.scalars
    found = (misfit(child, field, place) for child, field, place in below if field is not None)
    return next(filter(None, found), "") if admitted else path


def _place(path: str, name: str, schema: Schema) -> str:
    """A key of a map is the user's, and not told."""
    return f"{path}.{name}" if schema.is_declared(name) else f"{path}{{}}"


def _scalar(value: Any) -> Scalar:
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def _node(node: FieldSet, old: Schema | Unknown | None, new: Schema | None, live: Any) -> FieldSet:
    if new is None or old is None:
        return node  # a field that one of the versions does not know: there is nothing to own otherwise
    if _atomic(new, live):
        return {}
    if is_leaf(node) and live is not _ABSENT and _was_atomic(old, live):
        return _owned(live, new)
    return reshape(node, old, new, live)


def _item(key: str, node: FieldSet, old: Schema | Unknown, new: Schema, live: Any) -> tuple[str, FieldSet]:
    """An owned list item; its element is spelt anew where the list's keys differ between the versions."""
    if new.kind != "list" or new.items is None:
        return key, node
    position = _find(key, live, new if isinstance(old, Unknown) else old)
    value = live[position] if position is not None else _ABSENT
    below = _node(node, old.below(key) if isinstance(old, Unknown) else old.items, new.items, value)
    if is_leaf(node):
        below = _member(below)
    if position is None or _spelling(key) == _spelling_of(new):
        return key, below
    return _element(value, new) or key, below


def _owned(value: Any, schema: Schema) -> FieldSet:
    """The set of everything in a value: structured-merge-diff's ``ToFieldSet``."""
    if _atomic(schema, value):
        return {}
    if schema.kind == "list":
        return _owned_items(value, schema)
    if not isinstance(value, dict):
        return {}
    node: FieldSet = {}
    for name, child in value.items():
        below = schema.field(name)
        owned = _owned(child, below) if below is not None else {}
        # A key of a map is a member itself, a declared field is not.
        node[f"f:{name}"] = owned if schema.is_declared(name) else _member(owned)
    return node


def _owned_items(value: Any, schema: Schema) -> FieldSet:
    node: FieldSet = {}
    if not isinstance(value, list) or schema.items is None:
        return node
    for item in value:
        element = _element(item, schema)
        if element is None:
            return {}
        # Items that cannot be told apart are owned as one, and nothing below them.
        node[element] = {} if element in node else _member(_owned(item, schema.items))
    return node


def _member(node: FieldSet) -> FieldSet:
    """The node of a path that is a member itself, whatever is below."""
    return node | {".": {}} if node else node


def _atomic(schema: Schema, value: Any = _ABSENT) -> bool:
    """Whether this is owned as a whole only; where any type is allowed, the value tells which one it is."""
    if schema.kind == "list" or (schema.kind == "any" and isinstance(value, list)):
        return schema.list_type == "atomic"
    if schema.kind in ("map", "any"):
        return schema.map_type == "atomic"
    return True


def _was_atomic(schema: Schema | Unknown, live: Any = _ABSENT) -> bool:
    if isinstance(schema, Unknown):
        # Of objects, an empty one is owned just so far more often than one that was atomic.
        return is_leaf(schema.owned) and not isinstance(live, dict)
    return _atomic(schema, live)


def _spelling(element: str) -> frozenset[str]:
    """The keys by which a path element names an item; none of a set's value or an index."""
    try:
        named = msgspec.json.decode(element[2:]) if element.startswith("k:") else {}
    except msgspec.MsgspecError:
        return frozenset()
    return frozenset(named) if isinstance(named, dict) else frozenset()


def _spelling_of(schema: Schema) -> frozenset[str]:
    return frozenset(schema.list_keys)


def _element(item: Any, schema: Schema) -> str | None:
    """The path element of a list item, or None where it lacks its keys."""
    if schema.list_type == "set":
        return "v:" + _elements.encode(item).decode()
    if not isinstance(item, dict) or schema.items is None:
        return None
    keys: dict[str, Any] = {}
    for name in schema.list_keys:
        below = schema.items.field(name)
        if name in item:
            keys[name] = item[name]
        elif below is not None and below.has_default:
            keys[name] = below.default
    return "k:" + _elements.encode(keys).decode() if keys else None


def _find(key: str, live: Any, schema: Schema) -> int | None:
    """The position in the live list of the item that a path element names."""
    if not isinstance(live, list):
        return None
    if key.startswith("i:"):
        return int(key[2:]) if key[2:].isdecimal() and int(key[2:]) < len(live) else None
    try:
        wanted = msgspec.json.decode(key[2:])
    except msgspec.MsgspecError:
        return None
    if key.startswith("v:"):
        return next((i for i, item in enumerate(live) if item == wanted), None)
    if not isinstance(wanted, dict) or not wanted:
        return None
    for i, item in enumerate(live):
        element = _element(item, schema) if schema.kind == "list" and schema.list_type == "map" else None
        if element is not None and msgspec.json.decode(element[2:]) == wanted:
            return i
        if isinstance(item, dict) and all(item.get(name, _ABSENT) == value for name, value in wanted.items()):
            return i
    return None


def whole_owners(fields: FieldSet, old: Unknown, new: Schema) -> bool:
    """Whether a set of an unknown version has a leaf that may stand for the whole of a list that is granular now.

    Also whether it names a list's items by other keys than the list has now.
    """
    for key, node in fields.items():
        if new.kind == "list" and key != "." and _spelling(key) != _spelling_of(new):
            return True
        below = new.field(key[2:]) if key.startswith("f:") else new.items if new.kind == "list" else None
        if key == "." or below is None or _atomic(below):
            continue
        if is_leaf(node):
            if below.kind == "list" and _was_atomic(old.below(key)):
                return True
        elif whole_owners(node, old.below(key), below):
            return True
    return False

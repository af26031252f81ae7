"""Carry a field set from one schema to another where they differ in what can be owned.

Under strategy None the fields of two versions have the same paths and values, but a list that is atomic in one version
may be keyed in the other (all of Cluster API's CRDs changed ``.status.conditions`` so). Ownership of the whole list
then means ownership of each of its items, and the other way round. The live object says which items there are. Pure.
"""

from __future__ import annotations

from typing import Any

from restow.crds import Scalar, Schema
from restow.migrator.managedfields.fieldset import FieldSet, from_paths, is_leaf, union
from restow.migrator.managedfields.ownership import Unknown, owned, was_whole
from restow.migrator.managedfields.shapes import Shape, keys_of, shape_of

__all__ = ["misfit", "reshape", "whole_owners"]

_ABSENT: Any = object()


def reshape(fields: FieldSet, old: Schema | Unknown, new: Schema, live: Any) -> FieldSet:
    """Return the set that owns under ``new`` what ``fields`` owns under ``old``.

    Args:
        fields: a set, or the node of one.
        old: the schema that the set was made under, or what can be told of one that is not known any more.
        new: the schema to own under.
        live: the object's value here, as served at the new version.
    """
    return _reshape(fields, old if isinstance(old, Unknown) else shape_of(old), shape_of(new), live)


def _reshape(fields: FieldSet, old: Shape | Unknown, new: Shape, live: Any) -> FieldSet:
    carried: FieldSet = {}
    for key, node in fields.items():
        if key == ".":
            carried[key] = {}
        elif key.startswith("f:"):
            value = live.get(key[2:], _ABSENT) if isinstance(live, dict) else _ABSENT
            was = old.below(key) if isinstance(old, Unknown) else old.field(key[2:])
            below = _node(node, was, new.field(key[2:]), value)
            carried[key] = below if new.declares(key[2:]) or not is_leaf(node) else _member(below)
        else:
            name, below = _item(key, node, old, new, live)
            carried[name] = union(carried[name], below) if name in carried else below
    return carried


def misfit(value: Any, schema: Schema, path: str = "") -> str:
    """Return the first place whose value is of a type that the schema does not admit, or an empty string.

    The API server cannot tell the owners of such an object: any write empties its managedFields (before 1.37).
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


def _node(node: FieldSet, old: Shape | Unknown | None, new: Shape | None, live: Any) -> FieldSet:
    if new is None or old is None:
        return node  # a field that one of the versions does not know: there is nothing to own otherwise
    if new.is_whole(None if live is _ABSENT else live):
        return {}
    if is_leaf(node) and live is not _ABSENT and was_whole(old, live):
        everything = from_paths(owned(live, new, empty_lists=True))
        return old.left_to(everything) if isinstance(old, Unknown) else everything
    return _reshape(node, old, new, live)


def _item(key: str, node: FieldSet, old: Shape | Unknown, new: Shape, live: Any) -> tuple[str, FieldSet]:
    """An owned list item; its element is spelt anew where the list's keys differ between the versions."""
    if new.is_map or new.items is None:  # where any type may stand, a list is atomic
        return key, node
    position = (new if isinstance(old, Unknown) else old).find(key, live)
    value = live[position] if position is not None else _ABSENT
    below = _node(node, old.below(key) if isinstance(old, Unknown) else old.items, new.items, value)
    if is_leaf(node):
        below = _member(below)
    if position is None or keys_of(key).keys() == new.keys:
        return key, below
    return new.element(value) or key, below


def _member(node: FieldSet) -> FieldSet:
    """The node of a path that is a member itself, whatever is below."""
    return node | {".": {}} if node else node


def whole_owners(fields: FieldSet, old: Unknown, new: Schema) -> bool:
    """Whether a set of an unknown version has a leaf that may stand for the whole of a list that is granular now.

    Also whether it names a list's items by other keys than the list has now.
    """
    return _has_whole(fields, old, shape_of(new))


def _has_whole(fields: FieldSet, old: Unknown, new: Shape) -> bool:
    listed = new.is_list and not new.is_map
    for key, node in fields.items():
        if listed and key != "." and keys_of(key).keys() != new.keys:
            return True
        below = new.field(key[2:]) if key.startswith("f:") else new.items if listed else None
        if key == "." or below is None or below.is_whole():
            continue
        if is_leaf(node):
            if below.is_list and not below.is_map and was_whole(old.below(key)):
                return True
        elif _has_whole(node, old.below(key), below):
            return True
    return False

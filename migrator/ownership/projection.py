"""Split an object into the part that a field set owns and the rest, as objects that a converter accepts.

List items keep their keys even if the set does not own the keys, because an item without keys is invalid
(structured-merge-diff's ``ExtractItems`` with key fields). The result omits fields that the set names and the object
lacks, and adds no values. Results share parts with the object and never change them. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from restow.crds import ANY, Schema
from restow.crds.fieldpath import FieldSet, Path, is_leaf, keys_of, normal
from restow.crds.ownedpaths import Items, Members, Place, place_of
from restow.migrator.ownership.reconcile import Unknown, was_whole

_ABSENT: Any = object()


@dataclass(slots=True)
class Projection:
    """The part of an object that a set owns.

    Attributes:
        part: the owned part of the object.
        bare: the part without the owned values: its objects, and its list items with only their keys.
        owned: the owned values, by path; the value of a list item is its keys, that of a map's key is its name.
        places: objects that are owned as a place, whatever their content; those with nothing else owned are also among
            the owned values, as empty objects.
    """

    part: dict[str, Any] = field(default_factory=dict)
    bare: dict[str, Any] = field(default_factory=dict)
    owned: Members = field(default_factory=dict)
    places: set[Path] = field(default_factory=set)


class _UnknownPlace:
    """A place in a version whose schema is unknown; see ``Place``."""

    __slots__ = ("path", "schema")

    is_key = False
    fields: ClassVar[Mapping[str, _UnknownPlace]] = {}

    def __init__(self, path: Path, schema: Unknown) -> None:
        self.path = path
        self.schema = schema

    def field(self, name: str) -> _UnknownPlace:
        """Return the place of a field of the object here."""
        key = f"f:{name}"
        return _UnknownPlace((*self.path, key), self.schema.below(key))

    def item(self, element: str) -> _UnknownPlace:
        """Return the place of an item of the list here."""
        return _UnknownPlace((*self.path, normal(element)), self.schema.below(element))

    @property
    def names(self) -> dict[str, Any]:
        """The keys that identify the item here."""
        return keys_of(self.path[-1])


_Here: TypeAlias = Place | _UnknownPlace

_Both: TypeAlias = tuple[Any, Any]
"""A value in the part, and in the bare part, where it may be absent."""


def project(fields: FieldSet, value: dict[str, Any], schema: Schema | Unknown) -> Projection:
    """Return the part of an object that a set owns.

    Args:
        fields: the set.
        value: the object, without fields that no set names (apiVersion, kind).
        schema: the schema of the version of set and object, or the known part of it.
    """
    found = Projection()
    root = _UnknownPlace((), schema) if isinstance(schema, Unknown) else place_of(schema)
    both = _of_object(fields, value, root, found)
    if both is not None:
        found.part, found.bare = both
    return found


def _of(node: FieldSet, value: Any, here: _Here, found: Projection) -> _Both | None:
    if is_leaf(node):
        return _of_leaf(value, here, found)
    if isinstance(value, dict):
        return _of_object(node, value, here, found)
    if isinstance(value, list):
        return _of_list(node, value, here, found)
    return None


def _of_leaf(value: Any, here: _Here, found: Projection) -> _Both | None:
    if not value or not isinstance(value, dict | list) or was_whole(here.schema, value):
        found.owned[here.path] = value
        return value, _ABSENT
    if isinstance(value, dict):
        found.owned[here.path] = {}
        found.places.add(here.path)
        return {}, {}
    return None


def _of_object(node: FieldSet, value: dict[str, Any], here: _Here, found: Projection) -> _Both | None:
    part: dict[str, Any] = {}
    bare: dict[str, Any] = {}
    fields, owned = here.fields, found.owned
    for key, child in node.items():
        name = key[2:]
        if name not in value or key[:2] != "f:":
            continue
        inner, place = value[name], fields.get(name) or here.field(name)
        if not child and not isinstance(inner, dict | list):  # the most frequent case
            owned[place.path] = part[name] = inner
            continue
        below = _of(child, inner, place, found)
        if below is not None:
            if place.is_key and (is_leaf(child) or "." in child):
                found.places.discard(place.path)
                if owned.get(place.path, {}) == {} and not was_whole(place.schema, inner):
                    owned[place.path] = {"": name}  # the name is a key where the other version has a list
            part[name] = below[0]
            if below[1] is not _ABSENT:
                bare[name] = below[1]
    if "." in node:
        found.places.add(here.path)
        return part, bare
    return (part, bare) if part else None


def _of_list(node: FieldSet, value: list[Any], here: _Here, found: Projection) -> _Both | None:
    items = Items(value, None if isinstance(here.schema, Unknown) else here.schema)
    shown: dict[int, _Both] = {}
    for key, child in node.items():
        position = _position(key, items, here.schema)
        if position is not None:
            both = _of_item(child, value[position], here.item(key), found)
            if both is not None:
                shown[position] = both
    if not shown:
        return None
    in_order = [shown[position] for position in sorted(shown)]
    bare = [below for _, below in in_order if below is not _ABSENT]
    return [part for part, _ in in_order], bare or _ABSENT


def _of_item(node: FieldSet, item: Any, here: _Here, found: Projection) -> _Both | None:
    if not isinstance(item, dict) or (is_leaf(node) and _is_whole_item(here.schema)):
        found.owned[here.path] = item
        return item, _ABSENT
    names = here.names
    keys = {name: item[name] for name in names if name in item}
    below = _of_object(node, item, here, found)
    if "." in node or is_leaf(node):
        found.places.discard(here.path)
        found.owned[here.path] = names
    elif below is None:
        return None
    return (keys, keys) if below is None else (keys | below[0], keys | below[1])


def leave_out(fields: FieldSet, value: dict[str, Any], schema: Schema | Unknown) -> dict[str, Any]:
    """Return an object without the fields that a set owns.

    A list item keeps its keys if another part of it stays, or if the set does not own the item itself. The function
    removes an object that is owned as a place, and an item that is owned, if nothing is left in it but objects that
    became empty.

    Args:
        fields: the set.
        value: the object, without fields that no set names (apiVersion, kind).
        schema: the schema of the version of set and object, or the known part of it.
    """
    return _object_without(fields, value, schema)


def _without(node: FieldSet, value: Any, schema: Schema | Unknown) -> Any:
    """Return the rest of a value, or the marker that the whole value is removed."""
    if not value or not isinstance(value, dict | list) or (is_leaf(node) and was_whole(schema, value)):
        return _ABSENT
    if isinstance(value, dict):
        rest = _object_without(node, value, schema)
        return _ABSENT if (is_leaf(node) or "." in node) and _became_empty(rest, value) else rest
    return _list_without(node, value, schema) or _ABSENT


def _object_without(
    node: FieldSet, value: dict[str, Any], schema: Schema | Unknown, keep: Collection[str] = ()
) -> dict[str, Any]:
    rest = dict(value)
    for key, child in node.items():
        name = key[2:]
        if key.startswith("f:") and name in rest and name not in keep:
            rest[name] = _without(child, rest[name], _below(schema, key))
    return {name: child for name, child in rest.items() if child is not _ABSENT}


def _list_without(node: FieldSet, value: list[Any], schema: Schema | Unknown) -> list[Any]:
    items = Items(value, None if isinstance(schema, Unknown) else schema)
    rest = list(value)
    for key, child in node.items():
        position = _position(key, items, schema)
        if position is not None and rest[position] is not _ABSENT:
            rest[position] = _item_without(key, child, rest[position], _below(schema, key))
    return [item for item in rest if item is not _ABSENT]


def _item_without(key: str, node: FieldSet, item: Any, schema: Schema | Unknown) -> Any:
    names = keys_of(key)
    if not isinstance(item, dict) or (is_leaf(node) and _is_whole_item(schema)):
        return _ABSENT
    rest = _object_without(node, item, schema, names)
    is_owned = is_leaf(node) or "." in node
    goes = is_owned and all(_became_empty(child, item[name]) for name, child in rest.items() if name not in names)
    return _ABSENT if goes else rest


def _became_empty(rest: Any, before: Any) -> bool:
    """Return whether nothing is left of a value but objects, and whether something in each of them was removed."""
    if not isinstance(rest, dict) or rest == before:
        return False
    return all(_became_empty(child, before[name]) for name, child in rest.items())


def _is_whole_item(schema: Schema | Unknown) -> bool:
    """Return whether an object in a list is owned as one if nothing below it is owned.

    In an unknown version it is: for any other owned item, the server lists at least the keys as owned fields.
    """
    return isinstance(schema, Unknown) or schema.is_whole()


def _below(schema: Schema | Unknown, key: str) -> Schema | Unknown:
    return schema.below(key) or ANY


def _position(key: str, items: Items, schema: Schema | Unknown) -> int | None:
    position = items.find(key)
    return items.find_loosely(key) if position is None and isinstance(schema, Unknown) else position

"""The part of an object that a field set owns, and the rest of it, as objects that a converter can be sent.

List items are shown with their keys, also where the keys are not owned: an item without them is none
(structured-merge-diff's ``ExtractItems`` with key fields). What the set names and the object does not have is left out;
nothing is made up. Parts are shared with the object and never changed. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from restow.crds import ANY, Schema
from restow.crds.fieldpath import FieldSet, Path, is_leaf, keys_of, normal
from restow.crds.ownedpaths import Items, Members, Place, place_of
from restow.migrator.ownership.reconcile import Unknown, was_whole

__all__ = ["Projection", "leave_out", "project"]


_ABSENT: Any = object()


@dataclass(slots=True)
class Projection:
    """What a set owns of an object.

    Attributes:
        part: the owned part of the object.
        bare: the same without what is owned: its objects, and its list items with nothing but their keys.
        owned: the owned values, by path; those of list items are their keys, of keys of a map their names.
        places: objects that are owned as a place, whatever stands in them; those of which nothing else is owned are
            among the owned values, too, as empty ones.
    """

    part: dict[str, Any] = field(default_factory=dict)
    bare: dict[str, Any] = field(default_factory=dict)
    owned: Members = field(default_factory=dict)
    places: set[Path] = field(default_factory=set)


class _UnknownPlace:
    """A place of a version whose schema is not known; see ``Place``."""

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
        """The keys that name the item here."""
        return keys_of(self.path[-1])


_Here: TypeAlias = Place | _UnknownPlace

_Both: TypeAlias = tuple[Any, Any]
"""A value as it stands in the part, and in the bare part (there perhaps absent)."""


def project(fields: FieldSet, value: dict[str, Any], schema: Schema | Unknown) -> Projection:
    """Return what a set owns of an object.

    Args:
        fields: the set.
        value: the object (without what no set names: apiVersion, kind).
        schema: that of the version that set and object are of, or what is known of it.
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
        if not child and not isinstance(inner, dict | list):  # most are so
            owned[place.path] = part[name] = inner
            continue
        below = _of(child, inner, place, found)
        if below is not None:
            if place.is_key and (is_leaf(child) or "." in child):
                found.places.discard(place.path)
                found.owned.setdefault(place.path, {"": name})
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
    # Nothing but whole items are owned without a field below; in a version that is not known any more, too.
    whole = isinstance(here.schema, Unknown) or was_whole(here.schema, item)
    if not isinstance(item, dict) or (whole and is_leaf(node)):
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
    """Return the rest of an object, without what a set owns of it.

    An item of a list keeps its keys where anything else of it stays, or where the set does not own the item itself. An
    object that is owned as a place goes if nothing is left in it.

    Args:
        fields: the set.
        value: the object (without what no set names: apiVersion, kind).
        schema: that of the version that set and object are of, or what is known of it.
    """
    return _object_without(fields, value, schema)


def _without(node: FieldSet, value: Any, schema: Schema | Unknown) -> Any:
    """The rest of a value, or that it goes as a whole."""
    if not value or not isinstance(value, dict | list) or (is_leaf(node) and was_whole(schema, value)):
        return _ABSENT
    if isinstance(value, dict):
        return _object_without(node, value, schema) or (_ABSENT if is_leaf(node) or "." in node else {})
    return value if is_leaf(node) else _list_without(node, value, schema) or _ABSENT


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
    if not isinstance(item, dict) or (is_leaf(node) and was_whole(schema, item)):
        return _ABSENT
    rest = _object_without(node, item, schema, names)
    is_owned = is_leaf(node) or "." in node
    return _ABSENT if is_owned and rest.keys() <= names.keys() else rest


def _below(schema: Schema | Unknown, key: str) -> Schema | Unknown:
    return schema.below(key) or ANY


def _position(key: str, items: Items, schema: Schema | Unknown) -> int | None:
    position = items.find(key)
    return items.find_loosely(key) if position is None and isinstance(schema, Unknown) else position

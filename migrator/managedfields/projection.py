"""The part of an object that a field set owns, and the rest of it, as objects that a converter can be sent.

List items are shown with their keys, also where the keys are not owned: an item without them is none
(structured-merge-diff's ``ExtractItems`` with key fields). What the set names and the object does not have is left out;
nothing is made up. Parts are shared with the object and never changed. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from restow.crds import ANY, Schema
from restow.migrator.managedfields.fieldset import FieldSet, Path, is_leaf, normal
from restow.migrator.managedfields.ownership import Members, Unknown, was_whole
from restow.migrator.managedfields.shapes import Shape, keys_of, shape_of

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


class _Both(NamedTuple):
    """A value as it stands in the part, and in the bare part."""

    part: Any
    bare: Any = _ABSENT


def project(fields: FieldSet, value: dict[str, Any], schema: Schema | Unknown) -> Projection:
    """Return what a set owns of an object.

    Args:
        fields: the set.
        value: the object (without what no set names: apiVersion, kind).
        schema: that of the version that set and object are of, or what can be told of it.
    """
    found = Projection()
    shape = schema if isinstance(schema, Unknown) else shape_of(schema)
    both = _of_object(fields, value, shape, (), found)
    if both is not None:
        found.part, found.bare = both
    return found


def _of(node: FieldSet, value: Any, shape: Shape | Unknown, path: Path, found: Projection) -> _Both | None:
    if is_leaf(node):
        return _of_leaf(value, shape, path, found)
    if isinstance(value, dict):
        return _of_object(node, value, shape, path, found)
    if isinstance(value, list):
        return _of_list(node, value, shape, path, found)
    return None


def _of_leaf(value: Any, shape: Shape | Unknown, path: Path, found: Projection) -> _Both | None:
    if not value or not isinstance(value, dict | list) or was_whole(shape, value):
        found.owned[path] = value
        return _Both(value)
    if isinstance(value, dict):
        found.owned[path] = {}
        found.places.add(path)
        return _Both({}, {})
    return None


def _of_object(
    node: FieldSet, value: dict[str, Any], shape: Shape | Unknown, path: Path, found: Projection
) -> _Both | None:
    both = _Both({}, {})
    for key, child in node.items():
        name = key[2:]
        if key.startswith("f:") and name in value:
            below = _of(child, value[name], _below(shape, key), (*path, key), found)
            if below is not None:
                if (is_leaf(child) or "." in child) and _is_key(shape, name):
                    found.places.discard((*path, key))
                    found.owned.setdefault((*path, key), {"": name})
                both.part[name] = below.part
                if below.bare is not _ABSENT:
                    both.bare[name] = below.bare
    if "." in node:
        found.places.add(path)
    return both if both.part or "." in node else None


def _of_list(node: FieldSet, value: list[Any], shape: Shape | Unknown, path: Path, found: Projection) -> _Both | None:
    items = _Items(value, shape)
    shown: dict[int, _Both] = {}
    for key, child in node.items():
        position = items.find(key) if key != "." else None
        if position is not None:
            both = _of_item(key, child, value[position], _items(shape, key), (*path, normal(key)), found)
            if both is not None:
                shown[position] = both
    if not shown:
        return None
    in_order = [shown[position] for position in sorted(shown)]
    bare = [both.bare for both in in_order if both.bare is not _ABSENT]
    return _Both([both.part for both in in_order], bare or _ABSENT)


def _of_item(
    key: str, node: FieldSet, item: Any, shape: Shape | Unknown, path: Path, found: Projection
) -> _Both | None:
    # Nothing but whole items are owned without a field below; in a version that is not known any more, too.
    whole = isinstance(shape, Unknown) or was_whole(shape, item)
    if not isinstance(item, dict) or (is_leaf(node) and whole):
        found.owned[path] = item
        return _Both(item)
    names = keys_of(key)
    keys = {name: item[name] for name in names if name in item}
    below = _of_object(node, item, shape, path, found)
    if "." in node or is_leaf(node):
        found.places.discard(path)
        found.owned[path] = names
    elif below is None:
        return None
    return _Both(keys, keys) if below is None else _Both(keys | below.part, keys | below.bare)


def leave_out(fields: FieldSet, value: dict[str, Any], schema: Schema | Unknown) -> dict[str, Any]:
    """Return the rest of an object, without what a set owns of it.

    An item of a list keeps its keys where anything else of it stays, or where the set does not own the item itself. An
    object that is owned as a place goes if nothing is left in it.

    Args:
        fields: the set.
        value: the object (without what no set names: apiVersion, kind).
        schema: that of the version that set and object are of, or what can be told of it.
    """
    shape = schema if isinstance(schema, Unknown) else shape_of(schema)
    return _object_without(fields, value, shape)


def _without(node: FieldSet, value: Any, shape: Shape | Unknown) -> Any:
    """The rest of a value, or that it goes as a whole."""
    if not value or not isinstance(value, dict | list) or (is_leaf(node) and was_whole(shape, value)):
        return _ABSENT
    if isinstance(value, dict):
        return _object_without(node, value, shape) or (_ABSENT if is_leaf(node) or "." in node else {})
    return value if is_leaf(node) else _list_without(node, value, shape) or _ABSENT


def _object_without(
    node: FieldSet, value: dict[str, Any], shape: Shape | Unknown, keep: Collection[str] = ()
) -> dict[str, Any]:
    rest = dict(value)
    for key, child in node.items():
        name = key[2:]
        if key.startswith("f:") and name in rest and name not in keep:
            rest[name] = _without(child, rest[name], _below(shape, key))
    return {name: child for name, child in rest.items() if child is not _ABSENT}


def _list_without(node: FieldSet, value: list[Any], shape: Shape | Unknown) -> list[Any]:
    items = _Items(value, shape)
    rest = list(value)
    for key, child in node.items():
        position = items.find(key) if key != "." else None
        if position is not None and rest[position] is not _ABSENT:
            rest[position] = _item_without(key, child, rest[position], _items(shape, key))
    return [item for item in rest if item is not _ABSENT]


def _item_without(key: str, node: FieldSet, item: Any, shape: Shape | Unknown) -> Any:
    names = keys_of(key)
    if not isinstance(item, dict) or (is_leaf(node) and was_whole(shape, item)):
        return _ABSENT
    rest = _object_without(node, item, shape, names)
    is_owned = is_leaf(node) or "." in node
    return _ABSENT if is_owned and rest.keys() <= names.keys() else rest


def _below(shape: Shape | Unknown, key: str) -> Shape | Unknown:
    return shape.below(key) if isinstance(shape, Unknown) else shape.field(key[2:]) or shape_of(ANY)


def _items(shape: Shape | Unknown, key: str) -> Shape | Unknown:
    return shape.below(key) if isinstance(shape, Unknown) else shape.items or shape_of(ANY)


def _is_key(shape: Shape | Unknown, name: str) -> bool:
    """Whether an object's field is a key of a map: then it is owned by itself, whatever is owned in it."""
    return isinstance(shape, Shape) and not shape.declares(name)


class _Items:
    """The items of a list by the path elements that name them."""

    def __init__(self, value: list[Any], shape: Shape | Unknown) -> None:
        self._value = value
        self._shape = shape
        self._positions: dict[str | None, int] = {}
        if isinstance(shape, Shape) and (shape.by_keys or shape.by_value):
            for position, item in enumerate(value):
                self._positions.setdefault(shape.element(item), position)

    def find(self, key: str) -> int | None:
        """Return the position of the item that an element names, or None."""
        position = self._positions.get(normal(key))
        if position is None:
            position = shape_of(ANY).find(key, self._value)
        if position is None and isinstance(self._shape, Unknown):
            position = self._find_loosely(key)
        return position

    def _find_loosely(self, key: str) -> int | None:
        """Find the one item that differs from a name only by lacking a key: one that had a default, then."""
        wanted = keys_of(key)
        alike = [
            position
            for position, item in enumerate(self._value)
            if isinstance(item, dict)
            and any(name in item for name in wanted)
            and all(item[name] == text for name, text in wanted.items() if name in item)
        ]
        return alike[0] if len(alike) == 1 else None

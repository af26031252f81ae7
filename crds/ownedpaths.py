"""A value with its schema: the leaves that a manager can own, and list items by their path elements.

A scalar, and an atomic list or object, is owned as one; a set value by value; a list of type map item by item, and an
item once more field by field; any other object field by field. This is how the API server itself names what an apply
owns (structured-merge-diff 6.3 ``typed``, above all ``tofieldset.go``). Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeAlias

import msgspec

from restow.crds.fieldpath import Path, keys_of, normal
from restow.crds.schema import Schema

__all__ = ["Items", "Members", "children", "owned"]

Members: TypeAlias = dict[Path, Any]
"""Values by the paths that they are owned by. A path that is owned in addition to what is in it has a value of its own:
an item of a list its keys, a key of a map its name."""

_Positions: TypeAlias = Mapping[Hashable, list[int]]


def children(value: Any, schema: Schema) -> Iterator[tuple[str | int, Any, Schema | None]]:
    """Yield what is in a value: its name or position, itself, and its schema, None where the server would prune it.

    A scalar has nothing in it. A name that is no string, which no JSON has, is pruned.
    """
    if isinstance(value, Mapping):
        for name, child in value.items():
            yield name, child, schema.field(name) if isinstance(name, str) else None
    elif isinstance(value, list):
        items = schema.items
        for position, child in enumerate(value):
            yield position, child, items


def owned(value: Any, schema: Schema, *, empty_lists: bool = False) -> Members:
    """Return everything that there is to own in a value.

    Args:
        value: a value; an object without the fields that no manager can own (``apiVersion``, ``kind``).
        schema: its schema.
        empty_lists: count an empty list as a member, too, that the server would own item by item and hence not at all.
    """
    found: Members = {}
    _collect(value, schema, (), found, empty_lists)
    return found


def _collect(value: Any, schema: Schema, path: Path, found: Members, empty_lists: bool) -> None:
    if schema.is_whole(value):
        found[path] = value
    elif isinstance(value, list) and schema.admits_list:
        _collect_items(value, schema, path, found, empty_lists)
    elif isinstance(value, dict) and schema.admits_map:
        for name, child in value.items():
            below, here = schema.field(name), (*path, f"f:{name}")
            if below is None:
                found[here] = child
                continue
            _collect(child, below, here, found, empty_lists)
            # A key of a map is a member itself, a declared field is not, unless it is empty.
            if not schema.is_declared(name):
                found.setdefault(here, {"": name})
            elif child is None or child == {}:
                found.setdefault(here, child)


def _collect_items(value: list[Any], schema: Schema, path: Path, found: Members, empty_lists: bool) -> None:
    names = [schema.element(item) for item in value]
    items = schema.items
    if None in names or items is None or (not names and empty_lists):
        found[path] = value
        return
    times = Counter(names)
    for name, item in zip(names, value, strict=True):
        assert name is not None
        here = (*path, name)
        if times[name] == 1:  # items that cannot be told apart are owned as one, and nothing below them
            _collect(item, items, here, found, empty_lists)
        found.setdefault(here, keys_of(name))


class Items:
    """The items of a list by the path elements that name them.

    Each index is made when it is first needed, in one pass over the list; a look-up visits no item.
    """

    def __init__(self, value: Any, schema: Schema | None = None) -> None:
        """Take the list, and its schema where that is known; a value that is no list has no items."""
        self._items: list[Any] = value if isinstance(value, list) else []
        self._schema = schema
        self._by_fields: dict[frozenset[str], Mapping[frozenset[str], _Positions]] = {}

    def find(self, element: str) -> int | None:
        """Return the position of the first item that an element names, None if there is none.

        An item is named as the schema names it (an absent key counts as its default), or else by the very value, or
        by the very fields, that the element holds.
        """
        if element.startswith("i:"):
            index = int(element[2:]) if element[2:].isdecimal() else len(self._items)
            return index if index < len(self._items) else None
        position = self._by_element.get(normal(element))
        if position is None and element.startswith("v:"):
            position = self._find_value(element)
        elif position is None and (keys := keys_of(element)):
            names = frozenset(keys)
            position = next(iter(self._having(names).get(names, {}).get(_hashable(keys), ())), None)
        return position

    def find_loosely(self, element: str) -> int | None:
        """Return the position of the one item that has some of an element's keys and lacks the others.

        None if several items are so. An absent key had a default, then.
        """
        keys = keys_of(element)
        alike: list[int] = []
        for names, positions in self._having(frozenset(keys)).items():
            alike += positions.get(_hashable({name: keys[name] for name in names}), ())
        return alike[0] if len(alike) == 1 else None

    def __getitem__(self, position: int) -> Any:
        """Return the item at a position that was found."""
        return self._items[position]

    @cached_property
    def _by_element(self) -> Mapping[str, int]:
        """The first item of each name that the schema gives."""
        positions: dict[str, int] = {}
        if self._schema is not None and self._schema.list_type in ("set", "map"):
            for position, item in enumerate(self._items):
                name = self._schema.element(item)
                if name is not None:
                    positions.setdefault(name, position)
        return positions

    @cached_property
    def _by_value(self) -> Mapping[Hashable, int]:
        """The first item of each value."""
        positions: dict[Hashable, int] = {}
        for position, item in enumerate(self._items):
            positions.setdefault(_hashable(item), position)
        return positions

    def _find_value(self, element: str) -> int | None:
        try:
            return self._by_value.get(_hashable(msgspec.json.decode(element[2:])))
        except msgspec.MsgspecError:
            return None

    def _having(self, names: frozenset[str]) -> Mapping[frozenset[str], _Positions]:
        """The items by those of some fields that they have, and by the values of these."""
        found = self._by_fields.get(names)
        if found is None:
            sorted_out: dict[frozenset[str], dict[Hashable, list[int]]] = defaultdict(lambda: defaultdict(list))
            for position, item in enumerate(self._items):
                if isinstance(item, dict) and (there := {name: item[name] for name in names if name in item}):
                    sorted_out[frozenset(there)][_hashable(there)].append(position)
            # Plain ones, which no look-up adds to.
            found = {here: dict(positions) for here, positions in sorted_out.items()}
            self._by_fields[names] = found
        return found


def _hashable(value: Any) -> Hashable:
    """Return what is equal for equal JSON values."""
    if isinstance(value, dict):
        return ("{}", frozenset((name, _hashable(child)) for name, child in value.items()))
    if isinstance(value, list):
        return ("[]", tuple(map(_hashable, value)))
    return value  # type: ignore[no-any-return]

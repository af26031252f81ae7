"""The paths of a value that a manager can own, according to its schema, and a look-up of list items by path element.

A scalar, an atomic list and an atomic object are each owned as one. A set is owned value by value; a list of type map
item by item, and each item field by field; any other object field by field. The API server names the paths of an
apply in the same way (structured-merge-diff 6.3 ``typed``, mainly ``tofieldset.go``). Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import msgspec

from restow.crds.fieldpath import Path, as_compared, keys_of, normal
from restow.crds.schema import ANY, Schema

Members: TypeAlias = dict[Path, Any]
"""Values by the paths that own them. A path that is owned in addition to the paths below it has its own value: the keys
of a list item, the name of a map key.
"""

_Positions: TypeAlias = Mapping[Hashable, list[int]]


def children(value: Any, schema: Schema) -> Iterator[tuple[str | int, Any, Schema | None]]:
    """Yield each child's name or position, its value, and its schema, which is None where the server would prune it.

    A scalar has no children. A child whose name is not a string counts as pruned; JSON has no such names.
    """
    if isinstance(value, Mapping):
        for name, child in value.items():
            yield name, child, schema.field(name) if isinstance(name, str) else None
    elif isinstance(value, list):
        items = schema.items
        for position, child in enumerate(value):
            yield position, child, items


def owned(value: Any, schema: Schema, *, empty_lists: bool = False) -> Members:
    """Return every path of a value that a manager can own.

    Args:
        value: a value; an object without the fields that no manager can own (``apiVersion``, ``kind``).
        schema: its schema.
        empty_lists: count an empty list as a member too, although the server owns it item by item and hence not at all.
    """
    found: Members = {}
    _collect(value, place_of(schema), found, empty_lists)
    return found


class Place:
    """A path with the schema of its value; objects of one kind share the places that most of them have.

    The number of map keys and of list items has no bound, so a tree keeps only as many places as its root allows.
    Further places are made for each object.

    Attributes:
        path: from the root of the object.
        schema: of the value; ``ANY`` where the server would prune it.
        is_one: whether any value here is owned as one; also true where the server would prune the value.
        is_key: whether no property declares the field; then the field itself is owned, in addition to the paths below
            it.
        names: the keys that identify the item of a list; they are never changed.
        fields, items: the places of fields and of list items that are kept; ``field`` and ``item`` make the others.
    """

    __slots__ = ("_room", "fields", "is_key", "is_one", "items", "names", "path", "schema")

    def __init__(self, path: Path, schema: Schema | None, room: list[int], *, is_key: bool = False) -> None:
        self.path = path
        self.schema = ANY if schema is None else schema
        self.is_one = schema is None or schema.is_one
        self.is_key = is_key
        self.names = keys_of(path[-1]) if path else {}
        self.fields: dict[str, Place] = {}
        self.items: dict[str, Place] = {}
        self._room = room

    def field(self, name: str) -> Place:
        """Return the place of a field of this object."""
        found = self.fields.get(name)
        if found is None:
            schema = self.schema
            path, is_key = (*self.path, f"f:{name}"), not schema.is_declared(name)
            found = Place(path, schema.field(name), self._room, is_key=is_key)
            self._keep(self.fields, name, found)
        return found

    def item(self, element: str) -> Place:
        """Return the place of an item of this list, by its path element."""
        found = self.items.get(element)
        if found is None:
            found = Place((*self.path, normal(element)), self.schema.below(element), self._room)
            self._keep(self.items, element, found)
        return found

    def _keep(self, places: dict[str, Place], name: str, place: Place) -> None:
        if self._room[0] > 0:
            self._room[0] -= 1
            places[name] = place


_PLACES = 4096
"""How many places are kept for one schema: enough for a few very different objects, about a megabyte."""


@lru_cache(maxsize=8)
def place_of(schema: Schema) -> Place:
    """Return the root place of a schema."""
    return Place((), schema, [_PLACES])


def _collect(value: Any, place: Place, found: Members, empty_lists: bool) -> None:
    schema = place.schema
    if schema.is_whole(value):
        found[place.path] = value
    elif isinstance(value, list) and schema.admits_list:
        _collect_items(value, place, schema, found, empty_lists)
    elif isinstance(value, dict) and schema.admits_map:
        fields = place.fields
        for name, child in value.items():
            below = fields.get(name) or place.field(name)
            if below.is_one:
                found[below.path] = child
                continue
            _collect(child, below, found, empty_lists)
            # A map key is a member itself; a declared field is a member only if it is empty.
            if below.is_key:
                found.setdefault(below.path, {"": name})
            elif child is None or child == {}:
                found.setdefault(below.path, child)


def _collect_items(value: list[Any], place: Place, schema: Schema, found: Members, empty_lists: bool) -> None:
    names = [schema.element(item) for item in value]
    if None in names or schema.items is None or (not names and empty_lists):
        found[place.path] = value
        return
    times = Counter(names) if len(set(names)) < len(names) else {}
    for name, item in zip(names, value, strict=True):
        assert name is not None
        here = place.item(name)
        if times.get(name, 1) == 1:  # items with equal keys are owned as one, and nothing below them is owned
            _collect(item, here, found, empty_lists)
        found.setdefault(here.path, here.names)


class Items:
    """An index of a list's items by the path elements that name them.

    Each index is built on first use, in one pass over the list; a look-up visits no item.
    """

    def __init__(self, value: Any, schema: Schema | None = None) -> None:
        """Take the list, and its schema if it is known; a value that is not a list counts as empty."""
        self._items: list[Any] = value if isinstance(value, list) else []
        self._schema = schema
        self._by_fields: dict[frozenset[str], Mapping[frozenset[str], _Positions]] = {}

    def find(self, element: str) -> int | None:
        """Return the position of the first item that an element names, or None if there is none.

        An item matches by the name that the schema gives it (an absent key counts as its default), or else by a value
        or fields equal to those that the element holds.
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
        """Return the position of the only item that has some of an element's keys with their values and lacks the rest.

        The result is None if several items match. A missing key is taken for one that had a default.
        """
        keys = keys_of(element)
        alike: list[int] = []
        for names, positions in self._having(frozenset(keys)).items():
            alike += positions.get(_hashable({name: keys[name] for name in names}), ())
        return alike[0] if len(alike) == 1 else None

    def __getitem__(self, position: int) -> Any:
        """Return the item at a position that ``find`` or ``find_loosely`` returned."""
        return self._items[position]

    @cached_property
    def _by_element(self) -> Mapping[str, int]:
        """The position of the first item with each name that the schema gives."""
        positions: dict[str, int] = {}
        if self._schema is not None and self._schema.list_type in ("set", "map"):
            for position, item in enumerate(self._items):
                name = self._schema.element(item)
                if name is not None:
                    positions.setdefault(name, position)
        return positions

    @cached_property
    def _by_value(self) -> Mapping[Hashable, int]:
        """The position of the first item with each value."""
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
        """Return positions by which of these fields an item has, and by the values of those fields."""
        found = self._by_fields.get(names)
        if found is None:
            sorted_out: dict[frozenset[str], dict[Hashable, list[int]]] = defaultdict(lambda: defaultdict(list))
            for position, item in enumerate(self._items):
                if isinstance(item, dict) and (there := {name: item[name] for name in names if name in item}):
                    sorted_out[frozenset(there)][_hashable(there)].append(position)
            # Plain dicts, to which a look-up adds no entry.
            found = {here: dict(positions) for here, positions in sorted_out.items()}
            self._by_fields[names] = found
        return found


def _hashable(value: Any) -> Hashable:
    """Return a hashable value that is equal for equal JSON values."""
    if isinstance(value, dict):
        return ("{}", frozenset((name, _hashable(child)) for name, child in value.items()))
    if isinstance(value, list):
        return ("[]", tuple(map(_hashable, value)))
    return as_compared(value)  # type: ignore[no-any-return]

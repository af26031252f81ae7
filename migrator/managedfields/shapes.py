"""A version's schema as ownership sees it: what is one leaf, what are many, and how the items of a list are named.

The same answers as ``restow.crds.Schema`` gives, each looked up once: every object of a CRD is measured by the same few
schemas. An item of a list of type map is named by its keys (``k:{"name":"a"}``), one of a set by its value (``v:"a"``);
an index (``i:0``) is understood, although the API server writes none. Source: structured-merge-diff. Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import msgspec

from restow.crds import Schema

__all__ = ["Shape", "keys_of", "shape_of"]

_NOT_LOOKED_UP: Any = object()
_ABSENT: Any = object()
_encoder = msgspec.json.Encoder(order="sorted")


class Shape:
    """One node of a schema.

    Attributes:
        is_list, is_map: whether a list, or an object, can stand here.
        by_value, by_keys: whether the items of a list here are named by their value, or by their keys.
        keys: the names of those keys.
    """

    __slots__ = (
        "_atomic_list",
        "_atomic_map",
        "_declared",
        "_defaults",
        "_fields",
        "_items",
        "_schema",
        "_values",
        "_whole",
        "by_keys",
        "by_value",
        "is_list",
        "is_map",
        "keys",
    )

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.is_list, self.is_map = schema.admits_list, schema.admits_map
        self.by_value, self.by_keys = schema.list_type == "set", schema.list_type == "map"
        self.keys = frozenset(schema.list_keys)
        self._atomic_list, self._atomic_map = schema.list_type == "atomic", schema.map_type == "atomic"
        whole = {"list": self._atomic_list, "map": self._atomic_map, "scalar": True}
        self._whole: bool | None = whole.get(schema.kind)
        self._declared: frozenset[str] | None = None
        self._fields: dict[str, Shape] = {}
        self._values: Shape | None = _NOT_LOOKED_UP
        self._items: Shape | None = _NOT_LOOKED_UP
        self._defaults: Sequence[tuple[str, Any]] = _NOT_LOOKED_UP

    def is_whole(self, value: Any = None) -> bool:
        """Whether a value here is owned as one; where any type is allowed, the value tells which one it is."""
        if self._whole is not None:
            return self._whole
        if isinstance(value, list):
            return self._atomic_list
        return self._atomic_map if value is None or isinstance(value, dict) else True

    def declares(self, name: str) -> bool:
        """Whether a field of an object here is declared; otherwise it is a key of a map, or pruned."""
        if self._declared is None:
            self._declared = frozenset(self._schema.properties)
        return name in self._declared

    def field(self, name: str) -> Shape | None:
        """Return the shape of a field of an object here, None if the server would prune it."""
        if not self.declares(name):
            if self._values is _NOT_LOOKED_UP:
                values = self._schema.values
                self._values = None if values is None else Shape(values)
            return self._values
        found = self._fields.get(name)
        if found is None:
            schema = self._schema.field(name)
            assert schema is not None
            found = self._fields[name] = Shape(schema)
        return found

    @property
    def items(self) -> Shape | None:
        """The shape of a list's items, None if no list stands here, or the schema describes none."""
        if self._items is _NOT_LOOKED_UP:
            items = self._schema.items if self.is_list else None
            self._items = None if items is None else Shape(items)
        return self._items

    def element(self, item: Any) -> str | None:
        """Return the path element of an item of a list here, or None where it lacks its keys."""
        if self.by_value:
            return "v:" + _encoder.encode(item).decode()
        if not isinstance(item, dict):
            return None
        if self._defaults is _NOT_LOOKED_UP:
            items = self._schema.items
            below = [(name, items.field(name) if items is not None else None) for name in self._schema.list_keys]
            self._defaults = [(name, None if field is None else field.default) for name, field in below]
        named = {name: item.get(name, default) for name, default in self._defaults}
        named = {name: value for name, value in named.items() if value is not None or name in item}
        return "k:" + _encoder.encode(named).decode() if named else None

    def find(self, name: str, live: Any) -> int | None:
        """Return the position in a list of the item that a path element names."""
        if not isinstance(live, list):
            return None
        if name.startswith("i:"):
            return int(name[2:]) if name[2:].isdecimal() and int(name[2:]) < len(live) else None
        try:
            wanted = msgspec.json.decode(name[2:])
        except msgspec.MsgspecError:
            return None
        if name.startswith("v:"):
            return next((i for i, item in enumerate(live) if item == wanted), None)
        if not isinstance(wanted, dict) or not wanted:
            return None
        for i, item in enumerate(live):
            if self.by_keys and keys_of(self.element(item) or "") == wanted:
                return i
            if isinstance(item, dict) and all(item.get(key, _ABSENT) == value for key, value in wanted.items()):
                return i
        return None


@functools.lru_cache(maxsize=64)
def shape_of(schema: Schema) -> Shape:
    """Return the shape of a schema that is asked for again and again."""
    return Shape(schema)


def keys_of(name: str) -> dict[str, Any]:
    """Return the keys that a path element names an item by; none of a set's value or an index."""
    try:
        named = msgspec.json.decode(name[2:]) if name.startswith("k:") else {}
    except msgspec.MsgspecError:
        return {}
    return named if isinstance(named, dict) else {}

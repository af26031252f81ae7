"""Which fields an object has, with list-map items named by their keys, as managedFields would name them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from restow.conversion.model.values import Json, canonical
from restow.crds import ANY, Schema

__all__ = [
    "Steps",
    "empties",
    "empty_places",
    "fields",
    "shown_steps",
    "support",
]


#: The way to a field: names, and for the items of a list-map their keys, as JSON in brackets.
Steps = tuple[str, ...]
#: The way to a value: names, and the positions of items.
Place = tuple[str | int, ...]


def support(obj: Json, schema: Schema | None) -> set[str]:
    """Return the paths of all fields of an object; an atomic list is one field."""
    return {shown_steps(steps) for steps in fields(obj, schema)}


def fields(obj: Json, schema: Schema | None) -> set[Steps]:
    """Return the same as steps."""
    return set(_fields(obj, schema or ANY, ()))


def shown_steps(steps: Steps) -> str:
    """Return the readable form of a field's path: ``.spec.items[["a"]].name``."""
    return "".join(step if step.startswith("[") else f".{step}" for step in steps)


def empties(obj: Json, schema: Schema | None) -> Counter[str]:
    """Count what an object has of null, {} and [].

    An empty object does not count where it holds a place: as an item of a list or a map, or because it is required.
    """
    return Counter(kind for _, kind in empty_places(obj, schema))


def empty_places(value: Any, schema: Schema | None, steps: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield the places of null, {} and [] in an object, as ``empties`` counts them, with what stands there."""
    if value is None or value in ({}, []):
        yield steps, "null" if value is None else "{}" if isinstance(value, dict) else "[]"
    elif isinstance(value, dict):
        for name, child in value.items():
            if child != {} or schema is None or (name not in schema.required and schema.is_declared(name)):
                yield from empty_places(child, None if schema is None else schema.field(name), (*steps, name))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            if child != {} or schema is None:
                yield from empty_places(child, None if schema is None else schema.items, (*steps, index))


def _fields(value: Any, schema: Schema, steps: Steps) -> Iterator[Steps]:
    if steps and not steps[-1].startswith("["):
        yield steps
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _fields(child, schema.field(name) or ANY, (*steps, name))
    elif isinstance(value, list) and schema.list_type == "map":
        for item in value:
            if isinstance(item, dict):
                key = canonical([item.get(name) for name in schema.list_keys]).decode()
                yield from _fields(item, schema.items or ANY, (*steps, f"[{key}]"))

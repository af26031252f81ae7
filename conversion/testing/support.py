"""Which fields an object has, with list-map items named by their keys, as managedFields would name them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from restow.conversion.values import Json, canonical
from restow.crds import ANY, Schema
from restow.crds.paths import ROOT, field_path

__all__ = ["empties", "support"]


def support(obj: Json, schema: Schema | None) -> set[str]:
    """Return the paths of all fields of an object; an atomic list is one field."""
    return {path for path, _ in _fields(obj, schema or ANY, ROOT)}


def empties(obj: Json, schema: Schema | None) -> Counter[str]:
    """Count what an object has of null, {} and [].

    An empty object does not count where it holds a place: as an item of a list or a map, or because it is required.
    """
    counts: Counter[str] = Counter()
    for value in _empty_values(obj, schema):
        counts["null" if value is None else "{}" if isinstance(value, dict) else "[]"] += 1
    return counts


def _fields(value: Any, schema: Schema, path: str) -> Iterator[tuple[str, Any]]:
    if path != ROOT:
        yield path, value
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _fields(child, schema.field(name) or ANY, field_path(path, name))
    elif isinstance(value, list) and schema.list_type == "map":
        for item in value:
            if isinstance(item, dict):
                key = canonical([item.get(name) for name in schema.list_keys]).decode()
                yield from _fields(item, schema.items or ANY, f"{path}[{key}]")


def _empty_values(value: Any, schema: Schema | None) -> Iterator[Any]:
    if value is None or value in ({}, []):
        yield value
    elif isinstance(value, dict):
        for name, child in value.items():
            if child != {} or schema is None or (name not in schema.required and schema.is_declared(name)):
                yield from _empty_values(child, None if schema is None else schema.field(name))
    elif isinstance(value, list):
        for child in value:
            if child != {} or schema is None:
                yield from _empty_values(child, None if schema is None else schema.items)

"""Does a value fit a structural schema: the types and, where asked for, required fields and enums.

Two callers: the stash lets nothing into an object that its schema cannot hold (a conversion's result is stored
without validation, so a forged annotation must not be a way around it), by types only, since an older stored
object may violate newer rules; the testing helpers check whole outputs.

Null fits everywhere: the server drops it or puts a default in its place.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from restow.conversion.path import Path
from restow.crds import Schema
from restow.crds.paths import ROOT, field_path, items_path
from restow.crds.types import has_type

__all__ = ["at", "fits", "violations"]


def at(schema: Schema | None, path: Path) -> Schema | None:
    """Return the schema of the field at `path`, None if there is none (or no schema at all)."""
    for name in path:
        if schema is None:
            return None
        schema = schema.field(name)
    return schema


def fits(value: Any, schema: Schema | None) -> bool:
    """Say whether the types of a value are those of the schema. Without a schema everything fits."""
    return schema is None or next(violations(value, schema, types_only=True), None) is None


def violations(value: Any, schema: Schema, path: str = ROOT, *, types_only: bool = False) -> Iterator[str]:
    """Yield a sentence for each place where the value violates the schema; it names the place, never the value."""
    if value is None:
        return
    if not has_type(value, schema):
        yield f"{path} is no {'integer or string' if schema.int_or_string else schema.node.get('type')}"
        return
    if not types_only:
        allowed = schema.node.get("enum")
        if allowed is not None and value not in allowed:
            yield f"{path} is none of the values that its enum allows"
    if isinstance(value, dict):
        if not types_only:
            yield from (f"{field_path(path, name)} is required" for name in sorted(schema.required - value.keys()))
        for name, child in value.items():
            field = schema.field(name)
            if field is not None:
                yield from violations(child, field, field_path(path, name), types_only=types_only)
    elif isinstance(value, list) and schema.items is not None:
        for child in value:
            yield from violations(child, schema.items, items_path(path), types_only=types_only)

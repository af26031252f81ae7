"""Parts of a value: those that a schema can hold, and the edits of those, brought back into the whole value.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from restow.conversion.model.values import ABSENT, canonical, same
from restow.crds import Schema, pruned_paths
from restow.crds.types import violations


@dataclass(frozen=True, slots=True)
class FittingPart:
    """Returns the part of a value that a schema can hold, ABSENT if there is none; a list has all items or none.

    An object of which nothing fits is not there: as an empty one it would be a value that no field stands for.
    """

    schema: Schema

    def __call__(self, value: Any) -> Any:
        if _fits(value, self.schema):
            return value
        part: Any = ABSENT
        if isinstance(value, dict):
            part = {name: found for name, found in self._fields(value) if found is not ABSENT} or ABSENT
        elif isinstance(value, list) and self.schema.items is not None:
            part = [*map(FittingPart(self.schema.items), value)]
            part = ABSENT if any(each is ABSENT for each in part) else part
        return part if part is not ABSENT and _fits(part, self.schema) else ABSENT

    def _fields(self, value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, child in value.items():
            schema = self.schema.field(name)
            if schema is not None:
                yield name, FittingPart(schema)(child)
            elif self.schema.preserves_unknown_fields:
                yield name, child


def _fits(value: Any, schema: Schema) -> bool:
    return next(violations(value, schema), None) is None and not pruned_paths(value, schema)


@dataclass(frozen=True, slots=True)
class EditedParts:
    """Merges an edit of the shown part into the whole value: what was hidden stays, next to what the edit left."""

    schema: Schema

    def __call__(self, edited: Any, shown: Any, kept: Any) -> Any:
        return _merged(edited, shown, kept, self.schema)


def _merged(edited: Any, shown: Any, kept: Any, schema: Schema | None) -> Any:
    if same(edited, shown):
        return kept
    if all(isinstance(each, dict) for each in (edited, shown, kept)):
        hidden = {name: value for name, value in kept.items() if name not in shown and name not in edited}
        return hidden | {
            name: _merged(value, shown.get(name, ABSENT), kept.get(name, ABSENT), schema and schema.field(name))
            for name, value in edited.items()
        }
    if all(isinstance(each, list) for each in (edited, shown, kept)) and len(shown) == len(kept):
        items = None if schema is None else schema.items
        found = _matches(edited, shown, () if schema is None else schema.list_keys)
        return [
            item if place is None else _merged(item, shown[place], kept[place], items)
            for item, place in zip(edited, found, strict=True)
        ]
    return edited


def _matches(edited: Sequence[Any], shown: Sequence[Any], keys: Sequence[str]) -> list[int | None]:
    """Return the place of each item in the list that was shown: by key, unchanged, or at the same place."""
    free: dict[Any, list[int]] = {}
    for place, item in enumerate(shown):
        free.setdefault(_identity(item, keys), []).append(place)
    found = [places.pop(0) if (places := free.get(_identity(item, keys))) else None for item in edited]
    if keys or len(edited) != len(shown):
        return found
    left = {place for places in free.values() for place in places}
    return [index if place is None and index in left else place for index, place in enumerate(found)]


def _identity(item: Any, keys: Sequence[str]) -> bytes:
    return canonical([item.get(key) for key in keys] if keys and isinstance(item, dict) else item)

"""Reads from the root by key: what another list says of the item that a rule stands in.

``$.status.images[].versions[].phase``, read inside of ``each("spec.images", [each("versions", …)])``, is the phase of
the item with the keys of this version in the item with the keys of this image. The lists are indexed once per object.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from restow.conversion.compile.lens import dig
from restow.conversion.path import Path
from restow.conversion.values import ABSENT

__all__ = ["found", "indexed", "placed"]


def indexed(value: Any, steps: Sequence[Path], keys: Sequence[Sequence[str]]) -> Any:
    """Return what stands at a read's place by the keys of the items on the way; of equal keys the first counts."""
    value = dig(value, steps[0])
    if not keys:
        return value
    index: dict[Any, Any] = {}
    for item in value if isinstance(value, list) else ():
        key = _key(item, keys[0])
        if key is not None:
            index.setdefault(key, indexed(item, steps[1:], keys[1:]))
    return index


def found(index: Any, items: Sequence[tuple[Any, Sequence[str]]]) -> Any:
    """Return what an index has for a list item; ``items`` are those around it and itself, with their key fields."""
    for item, keys in items:
        index = index.get(_key(item, keys), ABSENT) if isinstance(index, dict) else ABSENT
    return index


def placed(value: Any, steps: Sequence[Path], items: Sequence[tuple[Any, Sequence[str]]]) -> tuple[str | int, ...]:
    """Return where such a read finds what it reads, with the places of the items; empty if it finds nothing."""
    place: tuple[str | int, ...] = steps[0]
    value = dig(value, steps[0])
    for path, (item, keys) in zip(steps[1:], items, strict=False):
        key, others = _key(item, keys), value if isinstance(value, list) else ()
        index = next((index for index, other in enumerate(others) if key and _key(other, keys) == key), None)
        if index is None:
            return ()
        place, value = (*place, index, *path), dig(others[index], path)
    return () if value is ABSENT else place


def _key(item: Any, keys: Sequence[str]) -> Any:
    """Return the key of an item, None if it has none: keys are texts and numbers, and at least one is there."""
    if not keys or not isinstance(item, dict):
        return None
    if len(keys) == 1:
        value = item.get(keys[0])
        return None if isinstance(value, dict | list) else value
    values = tuple([item.get(key) for key in keys])
    if any(isinstance(value, dict | list) for value in values) or all(value is None for value in values):
        return None
    return values

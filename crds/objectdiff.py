"""How two states of one object differ: the places that are gone, new or changed, never their values. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from restow.crds.paths import ROOT, field_path, items_path


class PlaceChange(StrEnum):
    """What happened at a place of an object."""

    GONE = "gone"
    NEW = "new"
    CHANGED = "changed"


_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")


def object_changes(
    before: Mapping[str, Any], after: Mapping[str, Any], ignored: str = ""
) -> Iterator[tuple[PlaceChange, str]]:
    """Yield each difference and its place, without apiVersion, kind and what the API server writes into metadata.

    A list with another number of items is changed as a whole. ``ignored`` is an annotation that does not count.
    """
    yield from _fields(_content(before, ignored), _content(after, ignored), ROOT)


def _content(obj: Mapping[str, Any], ignored: str) -> dict[str, Any]:
    metadata = {key: obj["metadata"][key] for key in _METADATA if obj["metadata"].get(key)}
    kept = {key: text for key, text in metadata.pop("annotations", {}).items() if key != ignored}
    content = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    return content | {"metadata": metadata | ({"annotations": kept} if kept else {})}


def _fields(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[tuple[PlaceChange, str]]:
    for name in dict.fromkeys((*before, *after)):
        below = field_path(path, name)
        if name not in after:
            yield PlaceChange.GONE, below
        elif name not in before:
            yield PlaceChange.NEW, below
        else:
            yield from _values(before[name], after[name], below)


def _values(before: Any, after: Any, path: str) -> Iterator[tuple[PlaceChange, str]]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _fields(before, after, path)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for ours, theirs in zip(before, after, strict=True):
            yield from _values(ours, theirs, items_path(path))
    elif before != after or isinstance(before, bool) is not isinstance(after, bool):
        yield PlaceChange.CHANGED, path

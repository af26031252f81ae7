"""The stash: one annotation, as canonical JSON, with the fields that an object's version does not have.

    {"format": 1, "kept": {VERSION: {PATH: entry}}, "dropped": 2, "was": …}

``VERSION`` is the version that has the field. A conversion keeps the entries of versions that it does not reach, so an
admission step may keep entries of its own under a name that is no version (``section``, ``with_section``).
``PATH`` is a path in that version. ``dropped`` counts lost entries: those that exceeded the budget, and those of list
items without keys that could not be matched after an edit. The count stays when no entry is left, because a loss in a
stored object must leave a trace. ``was`` describes the metadata before the annotation was added, if adding it changed
more than the annotation. ``restow.conversion.stash.entries`` defines the entries.

No content of the annotation can fail a conversion. A text that is no stash is ignored, and stays until the annotation
is needed. A stash of an unknown format belongs to a newer release and is never changed.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from restow.conversion.model.values import Json, canonical, depth

FORMAT: Final = 1

#: The largest size of the annotation in bytes, of the 256 KiB that the API server allows for all annotations together.
DEFAULT_BUDGET: Final = 64 * 1024

_ALL_ANNOTATIONS: Final = 256 * 1024

#: A larger count is forged.
_MOST_DROPPED: Final = 2**31

#: Far below the limit of JSON decoders; ``_DEPTH_OF_UNITS`` is the depth in a stash of the parts that can be dropped.
_MAX_DEPTH: Final = 128
_DEPTH_OF_UNITS: Final = 6

Entries = dict[str, Json]


@dataclass(slots=True)
class Stash:
    """The decoded annotation of one object, owned by one conversion. ``foreign``: unknown format, must not change."""

    kept: dict[str, Entries] = field(default_factory=dict)
    dropped: int = 0
    foreign: bool = False

    def take(self, version: str) -> Entries | None:
        """Remove and return the entries of a version."""
        return self.kept.pop(version, None)

    def put(self, version: str, entries: Entries) -> None:
        """Keep entries for a version."""
        self.kept[version] = entries


def parse_stash(text: object) -> tuple[Stash, Json] | None:
    """Return the stash in an annotation's text, and its ``was``; None if the text is no stash."""
    if not isinstance(text, str) or len(text) > _ALL_ANNOTATIONS:
        return None
    try:
        document = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or _is_too_deep(text, document):
        return None
    number = document.get("format")
    if number.__class__ is not int or number < min(_READERS):
        return None
    return _READERS[number](document) if number in _READERS else (Stash(foreign=True), {})


def _read_1(document: Json) -> tuple[Stash, Json] | None:
    kept, dropped, was = document.get("kept"), document.get("dropped", 0), document.get("was", {})
    if not isinstance(kept, dict) or not all(isinstance(entries, dict) for entries in kept.values()):
        return None
    dropped = dropped if dropped.__class__ is int and 0 <= dropped < _MOST_DROPPED else 0
    return Stash(kept, dropped), was if isinstance(was, dict) else {}


#: The reader of each format. A new format is added here; the others stay, because stored objects use them.
_READERS: Final[Mapping[int, Callable[[Json], tuple[Stash, Json] | None]]] = {1: _read_1}


def unseal(obj: Json, key: str) -> tuple[Json, Stash | None]:
    """Return the object as it was without its stash, and the stash. The object must have the annotation ``key``."""
    parsed = parse_stash(obj["metadata"]["annotations"][key])
    if parsed is None:
        return obj, None
    stash, was = parsed
    if stash.foreign:
        return obj, stash
    obj = {**obj, "metadata": {**obj["metadata"]}}
    annotations = {name: text for name, text in obj["metadata"]["annotations"].items() if name != key}
    _put_back(obj["metadata"], "annotations", annotations, was)
    _put_back(obj, "metadata", obj["metadata"], was)
    return obj, stash


def annotations_of(obj: Json) -> Json:
    """Return the annotations of an object; empty if it has none."""
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


def section(obj: Json, key: str, name: str) -> Entries:
    """Return the entries that an object's stash keeps under a name; empty if there are none, or no stash."""
    parsed = parse_stash(annotations_of(obj).get(key))
    return {} if parsed is None else parsed[0].kept.get(name, {})


def with_section(obj: Json, key: str, name: str, entries: Entries, budget: int) -> Json:
    """Return an object whose stash keeps these entries under a name; a stash of a foreign format stays as it is."""
    found, stash = unseal(obj, key) if key in annotations_of(obj) else (obj, None)
    if stash is not None and stash.foreign:
        return obj
    changed, stash = {**found}, stash or Stash()
    stash.put(name, entries)
    seal(changed, key, stash, budget)
    return changed


def _put_back(parent: Json, name: str, value: Json, was: Json) -> None:
    if value:
        parent[name] = value
    elif name in was and not was[name]:
        parent[name] = None if was[name] is None else {}
    else:
        del parent[name]


def seal(obj: Json, key: str, stash: Stash, budget: int = DEFAULT_BUDGET) -> None:
    """Write the stash into an object made by this conversion; only the object's own dict is changed.

    Over the budget, the largest entries are dropped first and counted. A metadata that cannot hold annotations, or an
    existing stash of a foreign format, is left as it is.
    """
    if stash.foreign or not (stash.dropped or any(stash.kept.values())):
        return
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict | None) or not isinstance(annotations, dict | None):
        return
    document: Json = {
        "format": FORMAT,
        "kept": {name: entries for name, entries in stash.kept.items() if entries},
    }
    if stash.dropped:
        document["dropped"] = stash.dropped
    was = _was(obj, metadata, annotations)
    if was:
        document["was"] = was
    others = {name: text for name, text in (annotations or {}).items() if name != key}
    try:
        text = _within(document, min(budget, _ALL_ANNOTATIONS - len(key) - _size(others)))
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, OverflowError):
        return
    if text is not None:
        obj["metadata"] = {**(metadata or {}), "annotations": {**others, key: text}}


def _was(obj: Json, metadata: Json | None, annotations: Json | None) -> Json:
    if not metadata:
        return {"metadata": metadata} if "metadata" in obj else {}
    return {"annotations": annotations} if "annotations" in metadata and not annotations else {}


def _size(annotations: Json) -> int:
    return sum(len(name.encode()) + len(text.encode()) for name, text in annotations.items() if isinstance(text, str))


def _within(document: Json, budget: int) -> str | None:
    text = canonical(document)
    if len(text) > budget or _is_too_deep(text.decode(), document):
        _degrade(document, len(text) - budget)
        text = canonical(document)
    return text.decode() if len(text) <= budget else None


def _is_too_deep(text: str, document: Json) -> bool:
    """Return whether a stash is nested too deeply to be read; most texts have too few brackets for that."""
    return text.count("{") + text.count("[") > _MAX_DEPTH and depth(document) > _MAX_DEPTH


def _degrade(document: Json, excess: int) -> None:
    """Drop entries that are nested too deeply, then the largest ones, until the document is ``excess`` bytes smaller.

    All dropped entries are counted.
    """
    excess += len(',"dropped":') + len(str(2**63))
    doomed: dict[int, Any] = {}
    for size, unit in sorted(_units(document["kept"]), key=lambda sized: -sized[0]):
        if excess > 0 or depth(unit) > _MAX_DEPTH - _DEPTH_OF_UNITS:
            doomed[id(unit)] = unit
            excess -= size
    document["dropped"] = document.get("dropped", 0) + sum(not isinstance(unit, str) for unit in doomed.values())
    kept = {
        version: {path: _without(entry, doomed) for path, entry in entries.items() if id(entry) not in doomed}
        for version, entries in document["kept"].items()
    }
    document["kept"] = {
        version: {
            path: entry for path, entry in entries.items() if not isinstance(entry, dict) or entry.get("items") != []
        }
        for version, entries in kept.items()
    }


def _units(kept: dict[str, Entries]) -> Iterator[tuple[int, Any]]:
    """Yield the parts that can be dropped separately, with their sizes: list items one by one, else the whole entry.

    The order of a list's items is a text. Dropping it loses nothing yet, but edited items cannot be matched any more.
    """
    for _, entries in sorted(kept.items()):
        for path, entry in sorted(entries.items()):
            items = entry.get("items") if isinstance(entry, dict) else None
            if isinstance(items, list):
                yield from ((len(canonical(item)) + 1, item) for item in items)
                if isinstance(entry.get("order"), str):
                    yield len(entry["order"]) + len(',"order":""'), entry["order"]
            else:
                yield len(canonical(entry)) + len(path) + 4, entry


def _without(entry: Any, doomed: Container[int]) -> Any:
    if not isinstance(entry, dict) or not isinstance(entry.get("items"), list):
        return entry
    rest = {name: value for name, value in entry.items() if name != "order" or id(value) not in doomed}
    return {**rest, "items": [item for item in entry["items"] if id(item) not in doomed]}

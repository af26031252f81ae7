"""What one rule leaves in the stash, and how it is read again: the slow paths of generated code.

An entry is a dict under the path of the field that could not be said, in the terms of the version that can:

- a leaf: `{"is": value}`, without `is` if the field was absent; `shown`, of fields that functions converted, is what
  the other version showed instead (absent alike), the guard by which a later edit wins;
- an object on the way to claimed fields, where the plain way back would not leave it as it was: a leaf as well, whose
  value is `{}`, null or nothing;
- a list: `{"items": [{"item": id, "kept": {…}}, {"hidden": {…}, "after": id}]}`. `id` is the list of an item's key
  values or, without keys, a digest of the item as it was shown, never its position; `nth` distinguishes equal ids;
  `hidden` is a whole item that the other version did not show, `after` the shown item before it;
- a map: `{"values": {key: {…}}}`;
- an object with rules of its own: `{"inside": {…}}`, where `left` says what the other version had if all that is
  inside came from the stash: an empty object (true) or none (false).

`gone` is the second guard: how many of the objects around the field the other version did not show. An entry counts
only while the next object outwards, which was shown, still is: who removes an object removes what was hidden in it.

Reading checks everything, because any client may have edited the annotation. An entry of a wrong shape is ignored.

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from restow.conversion.model.values import ABSENT, Json, canonical, plain
from restow.crds import Schema
from restow.crds.types import fits

__all__ = [
    "Kept",
    "emptied",
    "hidden_inside",
    "inside",
    "is_shown",
    "kept_inside",
    "kept_items",
    "kept_leaf",
    "kept_values",
    "leaf",
    "left_inside",
    "list_entry",
    "note",
    "stays",
    "with_gone",
    "with_hidden",
]


Kept = Mapping[str, Any] | None

_IS: Final = "is"
_GONE: Final = "gone"
_INSIDE: Final = "inside"
_LEFT: Final = "left"
_VALUES: Final = "values"


def leaf(value: Any, around: Sequence[bool] = ()) -> Json:
    """Return the entry of a field; ``around`` says of the objects around it, inmost first, whether they are shown."""
    return with_gone({} if value is ABSENT else {_IS: value}, around)


def with_gone(entry: Json, around: Sequence[bool]) -> Json:
    """Return an entry that has its second guard."""
    gone = next((index for index, shown in enumerate(around) if shown), len(around))
    return {**entry, _GONE: gone} if gone else entry


def is_shown(entry: Json, around: Sequence[bool]) -> bool:
    """Say whether the objects around a field are as much there as they were shown when its entry was made."""
    gone = entry.get(_GONE, 0)
    if gone.__class__ is not int or gone < 0:
        return False
    return bool(gone >= len(around) or around[gone])


def kept_leaf(kept: Kept, path: str, schema: Schema | None) -> Json | None:
    """Return the entry of a field if it has the right shape, and a value that the schema can hold."""
    entry = kept.get(path) if kept else None
    if not isinstance(entry, dict) or not fits(entry.get(_IS), schema):
        return None
    return entry


def note(source: Any, *, required: bool) -> Json | None:
    """Return the entry of an object that others' fields filled, None where the plain way back leaves it as it was.

    ``required`` is what the schema of its own version says.
    """
    if isinstance(source, dict):
        return None if required else {_IS: {}}
    if source is ABSENT:
        return {} if required else None
    return {_IS: source}


def emptied(kept: Kept, path: str, schema: Schema | None, *, required: bool) -> Any:
    """Return what becomes of an object that lost all its fields: ``{}``, ABSENT, or what was noted."""
    entry = kept_leaf(kept, path, schema)
    if entry is None:
        return {} if required else ABSENT
    noted = entry.get(_IS, ABSENT)
    return {} if isinstance(noted, dict) else noted


def stays(source: Any, kept: Kept, path: str, schema: Schema | None, *, required: bool, bare: bool) -> bool:
    """Say whether an object of the source is one of the target even if nothing is left in it.

    ``bare`` says whether an empty one may pass as it is.
    """
    if not isinstance(source, dict):
        return False
    if not source:
        return bare
    return isinstance(emptied(kept, path, schema, required=required), dict)


def kept_inside(kept: Kept, path: str) -> Kept:
    """Return what is kept for the fields of one object."""
    return _section(kept, path, _INSIDE)


def hidden_inside(kept: Kept, path: str, around: Sequence[bool]) -> Any:
    """Return the object of which only the stash knows: ``{}`` to be filled, or ABSENT."""
    entry = kept.get(path) if kept else None
    if not isinstance(entry, dict) or not isinstance(entry.get(_INSIDE), dict) or not is_shown(entry, around):
        return ABSENT
    return {}


def left_inside(kept: Kept, path: str, *, natural: bool) -> Any:
    """Return what becomes of an object whose inner rules left nothing in it: ``{}`` or ABSENT."""
    entry = kept.get(path) if kept else None
    left = entry.get(_LEFT) if isinstance(entry, dict) else None
    return {} if (left if isinstance(left, bool) else natural) else ABSENT


def inside(lost: Json, source: Any, target: Any, around: Sequence[bool], *, required: bool) -> Json | None:
    """Return the entry of an object with rules of its own, None if there is nothing to say.

    ``source`` and ``target`` are the object before and after, ABSENT where it is not there; ``lost`` is what its rules
    lost. ``required`` is what the schema of its own version says.
    """
    entry: Json = {_INSIDE: lost} if lost or (target is ABSENT and source is not ABSENT) else {}
    if target and not source and (source is not ABSENT) is not required:
        entry[_LEFT] = source is not ABSENT
    return with_gone(entry, around) if entry else None


def kept_values(kept: Kept, path: str) -> Mapping[str, Json]:
    """Return what is kept for the values of a map, by key."""
    values = _section(kept, path, _VALUES) or {}
    return {key: entry for key, entry in values.items() if isinstance(entry, dict)}


def _section(kept: Kept, path: str, name: str) -> Json | None:
    entry = kept.get(path) if kept else None
    section = entry.get(name) if isinstance(entry, dict) else None
    return section if isinstance(section, dict) else None


Id = tuple[str, int]


def list_entry(lost: Sequence[tuple[int, Any, Json | None]], shown: Sequence[Any], keys: Sequence[str]) -> Json | None:
    """Return the entry of a list.

    ``lost`` has, in order: the index in ``shown`` at or before which the item stands, the item itself if it is hidden,
    and else what its rules lost. ``keys`` are the key fields of the items of ``shown``.
    """
    ids = _ids(shown, keys)
    items: list[Json] = []
    for index, hidden, entries in lost:
        if entries is None:
            items.append({"hidden": hidden, **(_named("after", ids[index - 1]) if index else {})})
        else:
            items.append({**_named("item", ids[index]), "kept": entries})
    return {"items": items} if items else None


def kept_items(kept: Kept, path: str, shown: Sequence[Any], keys: Sequence[str]) -> tuple[list[Kept], list[Json]]:
    """Return what is kept for each item of a list as it is now, and the hidden ones."""
    entry = kept.get(path) if kept else None
    items = entry.get("items") if isinstance(entry, dict) else None
    if not isinstance(items, list):
        return [None] * len(shown), []
    items = [item for item in items if isinstance(item, dict)]
    named = {_read(item, "item"): item["kept"] for item in items if isinstance(item.get("kept"), dict)}
    hidden = [item for item in items if isinstance(item.get("hidden"), dict)]
    return [named.get(each) for each in _ids(shown, keys)] if named else [None] * len(shown), hidden


def with_hidden(
    converted: Sequence[Any],
    hidden: Sequence[Json],
    shown: Sequence[Any],
    shown_keys: Sequence[str],
    keys: Sequence[str],
    schema: Schema | None,
    merge: Callable[[Any, Any], Any] | None = None,
) -> list[Any]:
    """Return the list with its hidden items in their places again; where the item before is gone, at the end.

    A hidden item stays away if an edit has used its key in the meantime: the edit wins, or ``merge`` decides. Items
    without a key have nothing in common.
    """
    taken = {_key(item, keys) for item in converted if _is_named(item, keys)}
    places: dict[Id | None, list[Any]] = {}
    covered: dict[str | None, Any] = {}
    for entry in hidden:
        if not fits(entry["hidden"], schema):
            continue
        if keys and (key := _key(entry["hidden"], keys)) in taken:
            covered[key] = entry["hidden"]
        else:
            places.setdefault(_read(entry, "after"), []).append(entry["hidden"])
    result = places.pop(None, [])
    for identity, item in zip(_ids(shown, shown_keys), converted, strict=True):
        if merge is not None and covered and (key := _key(item, keys)) in covered:
            item = merge(item, covered[key])  # noqa: PLW2901 the same item, as the author judges it
        result.append(item)
        result.extend(places.pop(identity, ()))
    for left in places.values():
        result.extend(left)
    return result


def _named(name: str, identity: Id) -> Json:
    text, nth = identity
    return {name: msgspec.json.decode(text), **({"nth": nth} if nth else {})}


def _read(entry: Json, name: str) -> Id | None:
    identity, nth = entry.get(name), entry.get("nth", 0)
    if not isinstance(identity, list | str) or not isinstance(nth, int):
        return None
    return canonical(plain(identity)).decode(), nth


def _ids(items: Sequence[Any], keys: Sequence[str]) -> list[Id]:
    seen: dict[str, int] = {}
    ids: list[Id] = []
    for item in items:
        text = _key(item, keys) if keys else None
        if text is None:
            text = f'"{hashlib.sha256(canonical(plain(item))).hexdigest()[:16]}"'
        nth = seen.get(text, 0)
        seen[text] = nth + 1
        ids.append((text, nth))
    return ids


def _is_named(item: Any, keys: Sequence[str]) -> bool:
    return isinstance(item, dict) and any(item.get(key) is not None for key in keys)


def _key(item: Any, keys: Sequence[str]) -> str | None:
    if not isinstance(item, dict) or not any(key in item for key in keys):
        return None
    return canonical(plain([item.get(key) for key in keys])).decode()

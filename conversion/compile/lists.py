"""What the stash keeps of a list: ``{"items": [{"item": id, "kept": {…}}, {"hidden": {…}, "after": id}]}``.

``id`` is the list of an item's key values or, for an item without keys, a digest of it as it was shown: items are found
again by what they are, never by position. ``nth`` tells equal ids apart. ``hidden`` is a whole item that the other
version did not show, ``after`` the shown item before it.

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from restow.conversion.compile.entries import Kept
from restow.conversion.values import Json, canonical, plain
from restow.crds import Schema
from restow.crds.types import fits

__all__ = ["kept_items", "list_entry", "with_hidden"]

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

    A hidden item whose key somebody has used in the meantime stays away: the edit wins, or ``merge`` judges it. Items
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

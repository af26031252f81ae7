"""The stash entries of list items, and how the items are found again.

An entry is `{"items": [{"item": id, "kept": {…}}, {"hidden": {…}, "after": id}], "order": "…"}`:

- `id` is the list of an item's key values or, without keys, a digest of the item as it was shown, never its position;
  `nth` distinguishes equal ids;
- `kept` are the entries of the item's own fields;
- `hidden` is a whole item that the other version did not show, `after` the shown item before it;
- `order` exists if some id is a digest: it holds a shorter digest of every shown item, in order. It is used to find an
  item whose shown fields were edited (``restow.conversion.stash.alignment``). Stashes of earlier releases lack it.

An entry that matches no item is dropped. It is reported and counted if it may belong to an existing item.

Pure, except that ``kept_items`` marks entries in the stash that it gets, which one conversion decoded for itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import msgspec

from restow.conversion.model.values import Json, canonical, plain
from restow.conversion.stash.alignment import align
from restow.conversion.stash.entries import Kept
from restow.crds import Schema
from restow.crds.types import fits

Id = tuple[str, int]

#: A hidden item, after the index that it gets among the current items of the list.
HiddenItem = tuple[int, Any]

_ITEMS: Final = "items"
_ORDER: Final = "order"
_DOUBTFUL: Final = "doubtful"
_DIGEST: Final = 16
_LOOK: Final = 8


def list_entry(lost: Sequence[tuple[int, Any, Json | None]], shown: Sequence[Any], keys: Sequence[str]) -> Json | None:
    """Return the entry of a list.

    ``lost`` has, in order: the index in ``shown`` at or before which the item stands, the item itself if it is hidden,
    and otherwise the losses of its rules. ``keys`` are the key fields of the items of ``shown``.
    """
    ids = _ids(shown, keys)
    items: list[Json] = []
    named: list[Id] = []
    for index, hidden, entries in lost:
        if entries is not None:
            named.append(ids[index])
            items.append({**_named("item", ids[index]), "kept": entries})
        elif index:
            named.append(ids[index - 1])
            items.append({"hidden": hidden, **_named("after", ids[index - 1])})
        else:
            items.append({"hidden": hidden})
    if not items:
        return None
    return {_ITEMS: items} if all(map(_has_key, named)) else {_ITEMS: items, **_order(ids)}


def kept_items(kept: Kept, path: str, shown: Sequence[Any], keys: Sequence[str]) -> tuple[list[Kept], list[HiddenItem]]:
    """Return the entries for each current item of a list, and the hidden items.

    Entries that belong to an unknown item of the list are marked in ``kept``, for ``doubtful``.
    """
    entry = kept.get(path) if kept else None
    items = entry.get(_ITEMS) if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(items, list):
        return [None] * len(shown), []
    items = [item for item in items if isinstance(item, dict)]
    named = {name: item for item in items if isinstance(item.get("kept"), dict) and (name := _read(item, "item"))}
    hidden = [(_read(item, "after"), item["hidden"]) for item in items if isinstance(item.get("hidden"), dict)]
    found = _FoundItems.of(
        entry.get(_ORDER),
        _ids(shown, keys),
        {name: item["kept"] for name, item in named.items()},
        [name for name, _ in hidden if name is not None],
    )
    result: list[Kept] = [None] * len(shown)
    for name, item in named.items():
        if name in found.indices:
            result[found.indices[name]] = item["kept"]
        elif name in found.doubtful:
            item[_DOUBTFUL] = True
    return result, [(found.behind(name), item) for name, item in hidden]


def doubtful(kept: Kept) -> list[tuple[str, Json]]:
    """Return the entries of items that ``kept_items`` could not attribute: their place, and their content."""
    found: list[tuple[str, Json]] = []
    if kept:
        _collect(kept, "", found)
    return found


def _collect(kept: Mapping[str, Any], around: str, found: list[tuple[str, Json]]) -> None:
    for path, entry in kept.items():
        if not isinstance(entry, dict):
            continue
        items, values, inside = entry.get(_ITEMS), entry.get("values"), entry.get("inside")
        if isinstance(items, list):
            place = f"{around}{path}[]"
            for item in items:
                inner = item.get("kept") if isinstance(item, dict) else None
                if isinstance(inner, dict) and item.get(_DOUBTFUL) is True:
                    found.append((place, inner))
                elif isinstance(inner, dict):
                    _collect(inner, place, found)
        if isinstance(values, dict):
            for value in values.values():
                if isinstance(value, dict):
                    _collect(value, f"{around}{path}{{}}", found)
        if isinstance(inside, dict):
            _collect(inside, around + path, found)


@dataclass(frozen=True, slots=True)
class _FoundItems:
    """The current positions of the shown items, and the current item that each hidden item follows."""

    count: int
    indices: dict[Id, int]
    doubtful: frozenset[Id]
    after: dict[Id, int]

    @classmethod
    def of(cls, order: Any, now: Sequence[Id], kept: Mapping[Id, Any], behind: Sequence[Id]) -> _FoundItems:
        """Find the items by the order in their entry, or by their ids alone.

        ``kept`` are the entries of the items; ``behind`` are the ids of the items that hidden ones follow.
        """
        looks = [_look(text) for text, _ in now]
        if isinstance(order, str) and order and not len(order) % _LOOK and order != "".join(looks):
            return cls._aligned(
                [order[at : at + _LOOK] for at in range(0, len(order), _LOOK)], looks, now, kept, behind
            )
        indices = {identity: index for index, identity in enumerate(now)}
        # An older release has not written the order, so any item without an entry may be an edited one.
        is_open = not order and any(identity not in kept and not _has_key(identity) for identity in now)
        gone = [name for name in kept if name not in indices and not _has_key(name)] if is_open else []
        return cls(len(now), indices, frozenset(gone), {identity: index + 1 for identity, index in indices.items()})

    @classmethod
    def _aligned(
        cls, then: list[str], looks: list[str], now: Sequence[Id], kept: Mapping[Id, Any], after: Sequence[Id]
    ) -> _FoundItems:
        places = _indices(then, (*kept, *after))
        aligned = align(then, looks, {places[name]: kept[name] for name in kept if name in places})
        found = {name: aligned.found[index] for name, index in places.items() if aligned.is_found(index)}
        behind = list(accumulate((aligned.found.get(index, -1) + 1 for index in range(len(then))), _latest))
        return cls(
            len(now),
            {name: index for name, index in found.items() if not _is_renamed(name, now[index])},
            frozenset(name for name, index in places.items() if index in aligned.doubtful and not _has_key(name)),
            {name: behind[index] for name, index in places.items()},
        )

    def behind(self, name: Id | None) -> int:
        """Return the index for an item that followed another one; None is the beginning of the list."""
        return 0 if name is None else self.after.get(name, self.count)


def _latest(before: int, place: int) -> int:
    return place or before


def _indices(looks: Sequence[str], names: Iterable[Id]) -> dict[Id, int]:
    """Return the index of the item for each id, given the digests of the items."""
    places: dict[str, list[int]] = {}
    for index, look in enumerate(looks):
        places.setdefault(look, []).append(index)
    found: dict[Id, int] = {}
    for text, nth in names:
        same = places.get(_look(text), ())
        if nth < len(same):
            found[text, nth] = same[nth]
    return found


def _is_renamed(name: Id, now: Id) -> bool:
    """Return whether the keys show that two items differ, whatever their places are."""
    return name[0] != now[0] and (_has_key(name) or _has_key(now))


def with_hidden(
    converted: Sequence[Any],
    hidden: Sequence[HiddenItem],
    keys: Sequence[str],
    schema: Schema | None,
    merge: Callable[[Any, Any], Any] | None = None,
) -> list[Any]:
    """Return the list with its hidden items in their places again, as ``kept_items`` found them.

    If an edit has used the key of a hidden item meanwhile, the edit takes precedence, or ``merge`` decides. Items
    without a key cannot collide.
    """
    taken = {_key(item, keys) for item in converted if _is_named(item, keys)}
    places: dict[int, list[Any]] = {}
    covered: dict[str | None, Any] = {}
    for place, item in hidden:
        if not fits(item, schema):
            continue
        if keys and (key := _key(item, keys)) in taken:
            covered[key] = item
        else:
            places.setdefault(min(place, len(converted)), []).append(item)
    result = places.get(0, [])
    for index, item in enumerate(converted, 1):
        if merge is not None and covered and (key := _key(item, keys)) in covered:
            item = merge(item, covered[key])  # noqa: PLW2901 the same item, as the author judges it
        result.append(item)
        result.extend(places.get(index, ()))
    return result


def _order(ids: Sequence[Id]) -> Json:
    """Return the digest of each item of a list; empty if two different items have the same digest."""
    looks = [_look(text) for text, _ in ids]
    return {_ORDER: "".join(looks)} if len({*looks}) == len({text for text, _ in ids}) else {}


def _look(text: str) -> str:
    """Return the part of an id that represents the item in the order of its list."""
    return text[1 : _LOOK + 1] if text.startswith('"') else hashlib.sha256(text.encode()).hexdigest()[:_LOOK]


def _has_key(identity: Id) -> bool:
    """Return whether an id holds the values of an item's keys, and is not a digest."""
    return identity[0].startswith("[")


def _named(name: str, identity: Id) -> Json:
    text, nth = identity
    return {name: msgspec.json.decode(text), **({"nth": nth} if nth else {})}


def _read(entry: Json, name: str) -> Id | None:
    identity, nth = entry.get(name), entry.get("nth", 0)
    if not isinstance(identity, list | str) or nth.__class__ is not int or nth < 0:
        return None
    if isinstance(identity, str) and identity.isalnum() and identity.isascii():
        return f'"{identity}"', nth
    return canonical(plain(identity)).decode(), nth


def _ids(items: Sequence[Any], keys: Sequence[str]) -> list[Id]:
    seen: dict[str, int] = {}
    ids: list[Id] = []
    for item in items:
        text = _key(item, keys) if keys else None
        if text is None:
            text = f'"{hashlib.sha256(canonical(plain(item))).hexdigest()[:_DIGEST]}"'
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

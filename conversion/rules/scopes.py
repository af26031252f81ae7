"""Rules that apply inside of something repeated.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from restow.conversion.rules.model import Rule, Scope

__all__ = ["each", "each_value", "inside"]


def each(
    spoke: str,
    rules: Sequence[Rule],
    *,
    hub: str | None = None,
    key: str | Sequence[str] | None = None,
    hide: Callable[..., bool] | None = None,
    merge: Callable[[Any, Any], Any] | None = None,
    reads: str | Sequence[str] = (),
) -> Rule:
    """Apply rules to every item of a list of objects; paths of ``rules`` start at the item.

    ``key`` names the hub's fields that tell items apart (a list-map's keys; taken from the CRD if left out): by them,
    never by position, the stash finds an item again. An item of a list without keys is found by what was shown of it.

    ``hide(item)`` says which hub items the spoke does not show at all; the stash keeps them and their places. It gets
    the values of ``reads`` as further arguments, as in ``pair``. A hidden item outlives the list itself: to a client
    that was shown none of the items, an empty list and none are the same.

    ``merge(item, hidden)`` decides what becomes of an item, already in the hub's terms, that an edit of the spoke gave
    the key of a hidden one. Without it the edit wins, and what was hidden is forgotten.
    """
    keys = (key,) if isinstance(key, str) else None if key is None else tuple(key)
    return Scope(
        name="each",
        container="list",
        spoke=(spoke,),
        hub=(hub or spoke,),
        rules=tuple(rules),
        keys=keys,
        hide=hide,
        merge=merge,
        reads=(reads,) if isinstance(reads, str) else tuple(reads),
    )


def each_value(spoke: str, rules: Sequence[Rule], *, hub: str | None = None) -> Rule:
    """Apply rules to every value of a map (additionalProperties); paths of ``rules`` start at the value."""
    return Scope(name="each_value", container="map", spoke=(spoke,), hub=(hub or spoke,), rules=tuple(rules))


def inside(spoke: str, rules: Sequence[Rule], *, hub: str | None = None) -> Rule:
    """Apply rules inside of one object, which may move as a whole; paths of ``rules`` start there."""
    return Scope(name="inside", container="object", spoke=(spoke,), hub=(hub or spoke,), rules=tuple(rules))

"""What makes a controller look at a key: events of its own objects, and of others that belong to them. Pure.

An object is remembered by the keys that it last stood for. So a change asks for the keys of before and of after
(a Shoot that moved to another CloudProfile concerns both), and a relist asks for those of objects that vanished
during the gap, whose Deleted nobody saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from restow.kube.resources import qualified_name
from restow.kube.selection import Selection
from restow.kube.watchevents import Added, Bookmark, Deleted, Item, Listed, Modified, WatchEvent

__all__ = ["Key", "KeyIndex", "Source", "key_of"]


@dataclass(frozen=True, slots=True)
class Key:
    """Which object to reconcile; ``namespace`` is None for cluster-scoped resources."""

    namespace: str | None
    name: str

    def __str__(self) -> str:
        return qualified_name(self.namespace, self.name)


KeysOf: TypeAlias = Callable[[Item], Iterable[Key]]


@dataclass(frozen=True, slots=True)
class Source:
    """Other objects whose events concern a controller's keys.

    Attributes:
        selection: what to watch.
        keys_of: the keys that an object concerns; depends on nothing but the object.
    """

    selection: Selection
    keys_of: KeysOf


def key_of(item: Item) -> Key:
    """Return the key of the object itself."""
    return Key(item.metadata.namespace or None, item.metadata.name)


class KeyIndex:
    """Which keys each object of one source stands for; memory is one small entry an object."""

    def __init__(self, keys_of: KeysOf) -> None:
        self._keys_of = keys_of
        self._known: dict[Key, tuple[Key, ...]] = {}

    def known_keys(self) -> list[Key]:
        """Return all keys that some object stands for now."""
        return _unique(key for keys in self._known.values() for key in keys)

    def apply(self, event: WatchEvent) -> list[Key]:
        """Take note of an event; return the keys that it concerns, each once."""
        match event:
            case Listed(items=items):
                before, self._known = (
                    self._known,
                    {key_of(item): tuple(self._keys_of(item)) for item in items},
                )
                return _unique(key for known in (self._known, before) for keys in known.values() for key in keys)
            case Added(item=item) | Modified(item=item):
                own, now = key_of(item), tuple(self._keys_of(item))
                before_it = self._known.get(own, ())
                self._known[own] = now
                return _unique((*now, *before_it))
            case Deleted(item=item):
                return _unique((*self._known.pop(key_of(item), ()), *self._keys_of(item)))
            case Bookmark():
                return []


def _unique(keys: Iterable[Key]) -> list[Key]:
    return list(dict.fromkeys(keys))

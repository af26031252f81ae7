"""Sample a long list in constant memory: objects of every shape, from many namespaces, from all pages.

An object that cannot be written is most often unusual: the only one in a namespace with a policy, or the oldest one
with entries of a forgotten version. Therefore the sample covers shapes first and namespaces second. Among equal objects
a hash of the uid decides, which is the same in every run and independent of the order of the list. Pure.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from restow.migrator.requests.wire import Meta

_T = TypeVar("_T")


@dataclass(slots=True, order=True)
class _Pick(Generic[_T]):
    """A picked object; the least wanted one, by its hash, sorts first."""

    order: int
    item: _T = field(compare=False)


@dataclass(slots=True)
class _ObjectShape(Generic[_T]):
    """The picks of one shape, by place, with the least wanted one first in each place.

    ``crowded`` has the fullest place first: its number of picks and its least wanted pick at its last change. Entries
    of places that have changed since are skipped.
    """

    places: dict[Hashable, list[_Pick[_T]]] = field(default_factory=dict)
    crowded: list[tuple[int, int, int, Hashable]] = field(default_factory=list)
    size: int = 0
    _changes: int = 0

    def add(self, place: Hashable, pick: _Pick[_T]) -> None:
        heapq.heappush(self.places.setdefault(place, []), pick)
        self.size += 1
        self._changed(place)

    def remove_least_wanted(self) -> _Pick[_T]:
        while True:
            fill, order, _change, place = heapq.heappop(self.crowded)
            picks = self.places.get(place)
            if picks and (-len(picks), picks[0].order) == (fill, order):
                break
        gone = heapq.heappop(picks)
        self.size -= 1
        if picks:
            self._changed(place)
        else:
            del self.places[place]
        return gone

    def _changed(self, place: Hashable) -> None:
        picks = self.places[place]
        self._changes += 1  # makes all rows different, so that places are never compared
        heapq.heappush(self.crowded, (-len(picks), picks[0].order, self._changes, place))
        if len(self.crowded) > 2 * self.size + 8:
            rows = enumerate(self.places.items())
            self.crowded = [(-len(each), each[0].order, number, where) for number, (where, each) in rows]
            heapq.heapify(self.crowded)


class Sample(Generic[_T]):
    """The objects picked so far.

    Args:
        most: the number of objects to keep.
        detached: returns the part of a picked item to keep, so that it does not keep its page in memory.
    """

    def __init__(self, most: int, detached: Callable[[_T], _T]) -> None:
        self._most = most
        self._detached = detached
        self._shapes: dict[Hashable, _ObjectShape[_T]] = {}
        self._size = 0

    @property
    def items(self) -> list[_T]:
        """The picked items, the most wanted first."""
        picks = [pick for shape in self._shapes.values() for place in shape.places.values() for pick in place]
        return [pick.item for pick in sorted(picks, reverse=True)]

    def offer(self, shape: Hashable, place: Hashable, uid: str, item: _T) -> None:
        """Add an object if it improves the sample.

        Args:
            shape: equal for objects that a migration treats alike.
            place: its namespace.
            uid: decides the order of objects with the same shape and place.
            item: the item to keep.
        """
        if self._most < 1:
            return
        new = _Pick(-int.from_bytes(hashlib.blake2b(uid.encode(), digest_size=8).digest()), item)
        self._shapes.setdefault(shape, _ObjectShape()).add(place, new)
        self._size += 1
        if self._size > self._most and self._remove_least_wanted() is new:
            return
        new.item = self._detached(item)

    def _remove_least_wanted(self) -> _Pick[_T]:
        """Remove and return the least wanted pick of the fullest place of the most frequent shape."""
        fullest = max(self._shapes, key=lambda shape: self._shapes[shape].size)
        gone = self._shapes[fullest].remove_least_wanted()
        self._size -= 1
        if not self._shapes[fullest].size:
            del self._shapes[fullest]
        return gone


def detached(meta: Meta) -> Meta:
    """Return a copy of an object's metadata: field sets are views of the page's bytes, and would keep it in memory."""
    entries = tuple(msgspec.structs.replace(entry, fields=entry.fields.copy()) for entry in meta.managed_fields)
    return msgspec.structs.replace(meta, managed_fields=entries)

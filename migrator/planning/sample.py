"""A few of very many objects, in constant memory: of every shape, from as many namespaces as possible, from all pages.

An object that cannot be written is most often one of a kind: the only one of a namespace with a policy, the oldest one
with entries of a forgotten version. So the sample is spread over shapes first and namespaces second, and only among
equals a hash of the uid decides, which is the same in every run and knows nothing of the order of a list. Pure.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from restow.migrator.requests.wire import Meta

__all__ = ["Sample", "detached"]


_T = TypeVar("_T")


@dataclass(slots=True, order=True)
class _Pick(Generic[_T]):
    """An object; the one that is least wanted, by its hash, sorts first."""

    order: int
    item: _T = field(compare=False)


@dataclass(slots=True)
class _ObjectShape(Generic[_T]):
    """The picks of one shape, by place, each with the least wanted one first.

    ``crowded`` holds the fullest place: how full it was, and its least wanted pick, when it last changed. Places that
    have changed since are skipped.
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
        self._changes += 1  # no two rows are alike, so places are never compared
        heapq.heappush(self.crowded, (-len(picks), picks[0].order, self._changes, place))
        if len(self.crowded) > 2 * self.size + 8:
            rows = enumerate(self.places.items())
            self.crowded = [(-len(each), each[0].order, number, where) for number, (where, each) in rows]
            heapq.heapify(self.crowded)


class Sample(Generic[_T]):
    """The objects picked so far.

    Args:
        most: how many to keep.
        detached: makes of a picked item what is kept of it, so that it does not hold on to the page that it came in.
    """

    def __init__(self, most: int, detached: Callable[[_T], _T]) -> None:
        self._most = most
        self._detached = detached
        self._shapes: dict[Hashable, _ObjectShape[_T]] = {}
        self._size = 0

    @property
    def items(self) -> list[_T]:
        """What was picked, the most wanted first."""
        picks = [pick for shape in self._shapes.values() for place in shape.places.values() for pick in place]
        return [pick.item for pick in sorted(picks, reverse=True)]

    def offer(self, shape: Hashable, place: Hashable, uid: str, item: _T) -> None:
        """Take an object in, if it adds to the picture.

        Args:
            shape: what makes objects alike to a migration.
            place: its namespace.
            uid: the order of objects that are alike in both.
            item: what to keep of it.
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
        """Of the shape of which there are most, and there of the fullest place."""
        fullest = max(self._shapes, key=lambda shape: self._shapes[shape].size)
        gone = self._shapes[fullest].remove_least_wanted()
        self._size -= 1
        if not self._shapes[fullest].size:
            del self._shapes[fullest]
        return gone


def detached(meta: Meta) -> Meta:
    """Return an object's metadata by itself: field sets are views of the page's bytes, and would keep it in memory."""
    entries = tuple(msgspec.structs.replace(entry, fields=entry.fields.copy()) for entry in meta.managed_fields)
    return msgspec.structs.replace(meta, managed_fields=entries)

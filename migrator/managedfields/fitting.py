"""Keep a large object from growing by its managedFields.

An object that etcd refuses as too large the API server stores all the same, without any of its managedFields, unless
the write is a server-side apply (``finishRequest`` of its ``handlers``, on "request is too large"). The answer says
nothing of that, and a dry run does not reach etcd. So the list of a large object is sent in no more bytes than it had:
an entry's time is the one part of it that no ownership rests on. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from restow.migrator.managedfields.entries import Entry

__all__ = ["ETCD_TAKES", "LARGE", "fitted", "growth", "size_of", "without_times"]

LARGE = 1 << 20
"""Bytes from which an object is large: two thirds of what etcd takes unless configured otherwise. A list of a smaller
object would have to grow by half a MiB to lose it."""

ETCD_TAKES = 1_572_864 - 2048
"""Bytes of an object that etcd takes unless configured otherwise (``--max-request-bytes``), its key and the rest of the
request left out."""

_TIME = len('"time":"",')


def size_of(obj: Mapping[str, Any]) -> int:
    """Return how many bytes an object takes, as the server stores it."""
    return len(_encoder.encode(obj))


def growth(before: Sequence[Entry], after: Sequence[Entry]) -> int:
    """Return by how many bytes one list is longer than another, as the server stores them."""
    return _weight(after) - _weight(before)


def fitted(before: Sequence[Entry], after: Sequence[Entry], room: int = 0) -> tuple[Entry, ...]:
    """Return a list without as many of its times, the oldest first, as it takes to be no longer than another.

    Args:
        before: the list that is stored.
        after: the list to send.
        room: by how many bytes it may be longer; less than none where the rest of the object grows.
    """
    over = growth(before, after) - room
    fitting = list(after)
    for place in sorted(range(len(after)), key=lambda place: after[place].time):
        if over <= 0:
            break
        if time := after[place].time:
            fitting[place] = msgspec.structs.replace(after[place], time="")
            over -= len(time) + _TIME
    return tuple(fitting)


def without_times(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return a list in the fewest bytes that keep every owner."""
    return tuple(msgspec.structs.replace(entry, time="") for entry in entries)


def _weight(entries: Sequence[Entry]) -> int:
    return sum(len(_encoder.encode(entry)) + 1 for entry in entries)


_encoder = msgspec.json.Encoder()

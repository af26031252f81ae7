"""Matches the items of a list without keys after an edit.

The stash knows only the order of the items as they were shown, with a digest of each shown item ("the items before").
The items of the edited list are "the items now". Each step uses the items that the previous step left over:

1. Items with the same digest match, in order, if their number is the same before and now.
2. Between two neighbouring matches, or an end of the list, the items match in order if their number is the same before
   and now: their shown fields were edited. They do not match if one of them has the digest of another of these items,
   which may have moved.
3. Items with the same digest but in different numbers match, in order, if it does not matter which is which.

Inserting, deleting and moving items thus never turns one item into another. An item before that step 2 could not match
is *doubtful* if items now are left at its place: one of them may be this item. Otherwise it was removed.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: The items before on both sides of some neighbours; -1 and the number of items are the ends.
_Gap = tuple[int, int]


@dataclass(slots=True)
class Alignment:
    """Which items of a list before and now are the same.

    ``then`` and ``now`` hold the digests of the items before and now. ``found`` maps the index of an item before to its
    index now. ``left`` are the indices of items now without a match, ``doubtful`` those of items before that may match
    one of them.
    """

    then: Sequence[str]
    now: Sequence[str]
    found: dict[int, int] = field(default_factory=dict)
    left: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)

    def pair(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Record matches: pairs of (index before, index now)."""
        for before, after in pairs:
            self.found[before] = after
            self.left.discard(after)

    def is_found(self, before: int) -> bool:
        """Return whether an item before has a match now."""
        return before in self.found


def align(then: Sequence[str], now: Sequence[str], kept: Mapping[int, Any]) -> Alignment:
    """Match the items of a list; ``kept`` is, by index before, what the stash would restore to an item."""
    alignment = Alignment(then, now, left=set(range(len(now))))
    for before, after in _by_look(alignment):
        if len(before) == len(after):
            alignment.pair(zip(before, after, strict=True))
    if len(alignment.found) == len(then):
        return alignment
    gaps_then, gaps_now = _gaps(alignment)
    gaps_then = {gap: before for gap, before in gaps_then.items() if before}
    for gap, before in gaps_then.items():
        _pair_edited(alignment, before, gaps_now.get(gap, ()))
    for before, after in _by_look(alignment):
        if len(before) == 1 or all(kept.get(index) == kept.get(before[0]) for index in before):
            alignment.pair(zip(before, after, strict=False))
    looks = {now[index] for index in alignment.left}
    for gap, before in gaps_then.items():
        around = gaps_now.get(gap, alignment.left)
        is_open = any(index in alignment.left for index in around)
        lost = (index for index in before if index in kept and not alignment.is_found(index))
        alignment.doubtful.update(index for index in lost if is_open or then[index] in looks)
    return alignment


def _by_look(alignment: Alignment) -> list[tuple[list[int], list[int]]]:
    """Return the indices of items, before and now, that have the same digest and no match yet."""
    looks: dict[str, tuple[list[int], list[int]]] = {}
    for index, look in enumerate(alignment.then):
        if not alignment.is_found(index):
            looks.setdefault(look, ([], []))[0].append(index)
    for index in sorted(alignment.left):
        if alignment.now[index] in looks:
            looks[alignment.now[index]][1].append(index)
    return list(looks.values())


def _gaps(alignment: Alignment) -> tuple[dict[_Gap, list[int]], dict[_Gap, list[int]]]:
    """Return the unmatched items before, and those now, grouped by the matches on both sides of them."""
    end = len(alignment.then)
    before = {after: index for index, after in alignment.found.items()}
    then = [index if alignment.is_found(index) else None for index in range(end)]
    return _between(then, end), _between([before.get(index) for index in range(len(alignment.now))], end)


def _between(known: Sequence[int | None], end: int) -> dict[_Gap, list[int]]:
    gaps: dict[_Gap, list[int]] = {}
    since, gap = -1, list[int]()
    for index, name in enumerate((*known, end)):
        if name is None:
            gap.append(index)
        else:
            gaps[since, name] = gap
            since, gap = name, []
    return gaps


def _pair_edited(alignment: Alignment, before: Sequence[int], after: Sequence[int]) -> None:
    if len(before) != len(after):
        return
    pairs = list(zip(before, after, strict=True))
    edited = [(alignment.then[one], alignment.now[other]) for one, other in pairs]
    edited = [(look, new) for look, new in edited if look != new]
    if {look for look, _ in edited}.isdisjoint(new for _, new in edited):
        alignment.pair(pairs)

"""Matches the items of a list before and after an edit by their content, where no rule relates them.

Equal items match first, then objects that agree in most of their fields, then the rest in order.

Pure.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from restow.conversion.manifests.document import YamlMapping, YamlNode, YamlSequence
from restow.conversion.model.fieldpath import Steps, value_at
from restow.conversion.model.values import canonical, same

#: The most pairs to compare; with more, the remaining items are paired in order.
_MOST_PAIRS: Final = 20_000


def align(old: Sequence[Any], new: Sequence[Any], *, taken: Collection[int] = ()) -> list[int | None]:
    """Return for each new item the index of its old one or None; each old one, except ``taken``, is used once."""
    free = [index for index in range(len(old)) if index not in taken]
    found: list[int | None] = [None] * len(new)
    by_text: dict[bytes, deque[int]] = defaultdict(deque)
    for index in free:
        by_text[canonical(old[index])].append(index)
    for position, item in enumerate(new):
        same_ones = by_text.get(canonical(item))
        if same_ones:
            found[position] = same_ones.popleft()
    free = [index for index in free if index not in set(found)]
    left = [position for position, index in enumerate(found) if index is None]
    for position, index in _alike(old, new, free, left):
        found[position] = index
        free.remove(index)
        left.remove(position)
    if len(free) == len(left):
        for position, index in zip(left, free, strict=True):
            found[position] = index
    return found


def _alike(old: Sequence[Any], new: Sequence[Any], free: Sequence[int], left: Sequence[int]) -> list[tuple[int, int]]:
    if len(free) * len(left) > _MOST_PAIRS:
        return []
    scored = sorted(
        (-_likeness(old[index], new[position]), abs(index - position), position, index)
        for index in free
        for position in left
    )
    positions: set[int] = set()
    indices: set[int] = set()
    pairs = []
    for score, _, position, index in scored:
        if score < 0 and position not in positions and index not in indices:
            positions.add(position)
            indices.add(index)
            pairs.append((position, index))
    return pairs


def _likeness(old: Any, new: Any) -> float:
    """Return the share of fields that two objects have in common."""
    if not isinstance(old, dict) or not isinstance(new, dict) or not old or not new:
        return 0.0
    return sum(name in new and same(value, new[name]) for name, value in old.items()) / max(len(old), len(new))


class Tracing(Protocol):
    """The interface of ``restow.conversion.explain.FieldLinks``."""

    def trace(self, place: Steps) -> tuple[Steps, bool] | None:
        """Return the old place, and whether positions in lists are reliable; None if there was none."""
        ...


@dataclass(slots=True)
class Matches:
    """``before`` has the old place of each new field that has one of its own; ``after`` is its inverse.

    ``neighbours`` has the old place near which a new field without one belongs.
    """

    before: dict[Steps, Steps] = field(default_factory=dict)
    after: dict[Steps, Steps] = field(default_factory=dict)
    neighbours: dict[Steps, Steps] = field(default_factory=dict)

    def pair(self, new: Steps, old: Steps) -> None:
        """Record a match; the first new place that claims an old place gets it."""
        if new in self.before:
            return
        if old in self.after:
            self.neighbours.setdefault(new, old)
            return
        self.before[new] = old
        self.after[old] = new


def places(node: YamlNode, place: Steps = ()) -> Iterator[tuple[Steps, YamlNode]]:
    """Yield all values that are written out in a document with their places, without those of aliases and merges."""
    yield place, node
    if isinstance(node, YamlMapping):
        for entry in node.entries:
            if not entry.merges:
                yield from places(entry.value, (*place, entry.name))
    elif isinstance(node, YamlSequence):
        for index, item in enumerate(node.items):
            yield from places(item, (*place, index))


def match(nodes: dict[Steps, YamlNode], old: Any, new: Any, links: Tracing) -> Matches:
    """Match a document's ``nodes``, whose data is ``old``, with its new data."""
    found = Matches()
    found.pair((), ())
    matcher = _Matcher(nodes, links, found)
    matcher.in_place(new, ())
    matcher.elsewhere(old, new, ())
    return found


@dataclass(slots=True)
class _Matcher:
    nodes: dict[Steps, YamlNode]
    links: Tracing
    found: Matches

    def in_place(self, new: Any, place: Steps) -> None:
        """Match the values that stay in place, so that no other value takes their lines."""
        children = new.items() if isinstance(new, dict) else enumerate(new) if isinstance(new, list) else ()
        for step, child in children:
            below = (*place, step)
            if self.links.trace(below) == (below, True) and below in self.nodes:
                self.found.pair(below, below)
            self.in_place(child, below)

    def elsewhere(self, old: Any, new: Any, place: Steps) -> Steps | None:
        """Match the rest; ``old`` is the data of the whole document.

        Return the old place of the first matched value in ``new``.
        """
        if isinstance(new, list):
            self._items(old, new, place)
        children = new.items() if isinstance(new, dict) else enumerate(new) if isinstance(new, list) else ()
        first = None
        for step, child in children:
            below = (*place, step)
            if isinstance(step, str):
                self._field(below, place)
            inside = self.elsewhere(old, child, below)
            first = first or inside
        if place in self.found.before:
            return self.found.before[place]
        if first is not None:
            self.found.neighbours.setdefault(place, first)
        return first

    def _field(self, place: Steps, around: Steps) -> None:
        traced = self.links.trace(place)
        if traced is None:
            return
        source, is_exact = traced
        if not is_exact and around in self.found.before:
            source = (*self.found.before[around], place[-1])
        if source in self.nodes and isinstance(source[-1], str):
            self.found.pair(place, source)

    def _items(self, old: Any, new: list[Any], place: Steps) -> None:
        for number in range(len(new)):
            traced = self.links.trace((*place, number))
            if traced is not None and traced[1] and traced[0] in self.nodes and isinstance(traced[0][-1], int):
                self.found.pair((*place, number), traced[0])
        source = self.found.before.get(place)
        if source is None or not isinstance(self.nodes.get(source), YamlSequence):
            return
        open_ones = [number for number in range(len(new)) if self._is_open((*place, number))]
        if not open_ones:
            return
        items = value_at(old, source)
        taken = {number for number in range(len(items)) if (*source, number) in self.found.after}
        aligned = align(items, [new[number] for number in open_ones], taken=taken)
        for number, index in zip(open_ones, aligned, strict=True):
            if index is not None:
                self.found.pair((*place, number), (*source, index))

    def _is_open(self, place: Steps) -> bool:
        """Return whether no rule relates an item to an old one, or declares that it has none."""
        traced = self.links.trace(place)
        return place not in self.found.before and traced is not None and not traced[1]

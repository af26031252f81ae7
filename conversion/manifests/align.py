"""Which item of a list before stands for which item after, where no rule says so: by what they are.

Equal items first, then objects that agree in most of what they say, then the rest in order.

Pure.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from typing import Any, Final

from restow.conversion.values import canonical, same

__all__ = ["align"]

#: Pairs to compare at most; beyond, what is left is paired in order.
_MOST_PAIRS: Final = 20_000


def align(old: Sequence[Any], new: Sequence[Any], *, taken: Collection[int] = ()) -> list[int | None]:
    """Return for each new item the index of its old one, None if there is none; each old one, but ``taken``, once."""
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

"""Pairs the items of the source with those of the target, in lists, maps and objects with inner rules.

Items of a list, or values of a map, correspond by the rules: every item becomes one item, in order, except those that
a rule hides from the target and those that the stash restores.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from restow.conversion.model.fieldpath import Steps, shown
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.sides import Direction, Side
from restow.conversion.stash.entries import Kept, kept_inside, kept_values
from restow.conversion.stash.items import kept_items, with_hidden
from restow.crds import Schema


@dataclass(frozen=True, slots=True)
class ItemPair:
    """One item: its step in the source and in the target, None where it is missing; empty for an object as a whole.

    ``plain`` is its step in the target of a conversion without a stash; ``kept`` and ``lost`` are its stash entries.
    """

    source: Steps | None
    target: Steps | None
    plain: Steps | None
    kept: Kept = None
    lost: Kept = None


@dataclass(frozen=True, slots=True)
class ContainerPair:
    """A container in both versions whose content rules apply to."""

    direction: Direction
    source: Any
    target: Any
    source_path: tuple[str, ...]
    target_path: tuple[str, ...]
    kept: Kept
    lost: Kept
    schema: Schema | None

    @property
    def kept_address(self) -> str:
        """The stash address of data that only the stash can give the target."""
        return shown(self.target_path)

    @property
    def lost_address(self) -> str:
        """The stash address of the source's losses."""
        return shown(self.source_path)

    def keys(self, rule: Rule, *, of_target: bool) -> tuple[str, ...]:
        """Return the fields that distinguish the items, by their names on that side."""
        upward = self.direction == "up"
        side: Side = "hub" if upward == of_target else "spoke"
        return rule.key_names(side)


def item_pairs(rule: Rule, sides: ContainerPair, hides: Callable[[Any], bool]) -> list[ItemPair]:
    """Return the items of the target in order, then the source's items that the target lacks."""
    if rule.container == "object":
        kept, lost = kept_inside(sides.kept, sides.kept_address), kept_inside(sides.lost, sides.lost_address)
        return [ItemPair((), (), (), kept, lost)]
    return _values(sides) if rule.container == "map" else _items(rule, sides, hides)


def _values(sides: ContainerPair) -> list[ItemPair]:
    kept = kept_values(sides.kept, sides.kept_address)
    lost = kept_values(sides.lost, sides.lost_address)
    return [ItemPair((key,), (key,), (key,), kept.get(key), lost.get(key)) for key in sides.target]


def _items(rule: Rule, sides: ContainerPair, hides: Callable[[Any], bool]) -> list[ItemPair]:
    hidden = [index for index, item in enumerate(sides.source) if isinstance(item, dict) and hides(item)]
    present = [index for index in range(len(sides.source)) if index not in hidden]
    order = _order(rule, sides, present)
    kept, _ = kept_items(sides.kept, sides.kept_address, sides.source, sides.keys(rule, of_target=False))
    own = [item for item, index in zip(sides.target, order, strict=True) if index is not None]
    lost, _ = kept_items(sides.lost, sides.lost_address, own, sides.keys(rule, of_target=True))
    number = {index: position for position, index in enumerate(present)}
    found = []
    for target, index in enumerate(order):
        if index is None:
            found.append(ItemPair(None, (target,), None))
        else:
            position = number[index]
            found.append(ItemPair((index,), (target,), (position,), kept[index], lost[position]))
    return found + [ItemPair((index,), None, None) for index in hidden]


def _order(rule: Rule, sides: ContainerPair, present: Sequence[int]) -> list[int | None]:
    """Return for each item of the target the index of its item in the source; None for one from the stash."""
    if len(sides.target) == len(present):
        return list(present)
    keys, new_keys = sides.keys(rule, of_target=False), sides.keys(rule, of_target=True)
    _, hidden = kept_items(sides.kept, sides.kept_address, sides.source, keys)
    inner = None if sides.schema is None else sides.schema.items
    stand_ins = [_stand_in(sides.source[index], keys, new_keys) for index in present]
    merged = with_hidden(stand_ins, hidden, new_keys, inner)
    by_identity = {id(item): index for item, index in zip(stand_ins, present, strict=True)}
    return [by_identity.get(id(item)) for item in merged]


def _stand_in(item: Any, keys: Sequence[str], new_keys: Sequence[str]) -> Any:
    """Return a separate object with the keys that the item has in the target."""
    if not isinstance(item, dict):
        return [item]
    return {new: item[old] for old, new in zip(keys, new_keys, strict=True) if old in item}

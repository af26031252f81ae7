"""Lists of keyed objects: one item as a field, and conditions.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from restow.conversion.model.values import ABSENT, Json, same
from restow.conversion.rules.known import Ends, Misfit, Shape, Standard
from restow.conversion.rules.lens import Lens
from restow.conversion.rules.move import rename
from restow.conversion.rules.onesided import default, stash
from restow.conversion.rules.protocol import Rule, declared
from restow.conversion.rules.scopes import each
from restow.conversion.rules.sides import Side, opposite
from restow.conversion.rules.standard.enums import enum
from restow.conversion.rules.standard.shapes import (
    ANY_SHAPE,
    AsEdited,
    choices,
    differs_in_type,
    losing,
    oriented,
)
from restow.crds.types import fits


@declared
def select(
    spoke: str,
    hub: str,
    *,
    where: Mapping[str, Any],
    field: str,
    fill: Mapping[str, Any] | None = None,
    items: Side = "hub",
    rest: str | None = None,
) -> Rule:
    """One item of a list that is a field in the other version: ``select("status.ready", "status.conditions",
    where={"type": "Ready"}, field="status")``.

    The field belongs to the first item that has the values of ``where``. The stash keeps the other items and the other
    fields, also when the field is edited or removed. Without a stash, the field becomes a list of one item.

    ``where`` are the fields that identify the item, with their values.

    ``field`` is the field of the item.

    ``fill`` are further fields that the schema requires, for an item that is made from the field alone.

    ``items`` is the side that has the list.

    ``rest`` is a list next to the field that shows the other items.
    """
    values = where if isinstance(where, Mapping) else {}
    make = _Make(spoke if items == "hub" else hub, rest, values, field, fill or {})
    find = _Find(make)
    side = opposite(items)
    ways = oriented(side, make, find)
    claims = (make.path, *(() if rest is None else (rest,)))
    item: Shape = {"type": "object", "properties": {**dict.fromkeys(values, ANY_SHAPE), field: ANY_SHAPE}}
    listed: Shape = {"type": "array", "items": item}
    rest_shapes: tuple[Shape, ...] = () if rest is None else ({"type": "array"},)
    return Lens(
        spoke=claims if side == "spoke" else (spoke,),
        hub=claims if side == "hub" else (hub,),
        up=ways["up"],
        down=ways["down"],
        spoke_packing="leaves" if side == "spoke" else "value",
        hub_packing="leaves" if side == "hub" else "value",
        loses=losing(up=side == "hub" or rest is not None, down=side == "spoke" or rest is not None),
        standard=Standard(
            shapes={side: (ANY_SHAPE, *rest_shapes), items: (listed,)},
            merge=oriented(side, _Replace(make), AsEdited(find)),
            check=_CheckItem(side, values, field, fill or {}),
            image=_SelectImage(side, values, field, rest is not None),
        ),
        defects=choices(items=(items, Side))
        + (() if values else (("has no values in where=", 'Say which item is meant: {"type": "Ready"}'),)),
    )


@dataclass(frozen=True, slots=True)
class _Make:
    """Converts the field (and the other items) to the list."""

    path: str
    rest: str | None
    where: Mapping[str, Any]
    field: str
    fill: Mapping[str, Any]

    def is_meant(self, item: Any) -> bool:
        """Return whether the item is the one that the field stands for."""
        return isinstance(item, dict) and all(same(item.get(name, ABSENT), value) for name, value in self.where.items())

    def __call__(self, leaves: Any) -> Any:
        others = [] if self.rest is None else leaves.get(self.rest, [])
        if not isinstance(others, list):
            return ABSENT
        if self.path not in leaves:
            return others
        return [*others, {**self.where, **self.fill, self.field: leaves[self.path]}]


@dataclass(frozen=True, slots=True)
class _Find:
    """Converts the list to the field (and the other items)."""

    make: _Make

    def __call__(self, value: Any) -> Any:
        make = self.make
        if not isinstance(value, list):
            return ABSENT
        leaves: Json = {}
        index = next((index for index, item in enumerate(value) if make.is_meant(item) and make.field in item), None)
        if index is not None:
            leaves[make.path] = value[index][make.field]
        if make.rest is not None:
            others = [item for place, item in enumerate(value) if place != index]
            if others or index is None:
                leaves[make.rest] = others
        return leaves or ABSENT


@dataclass(frozen=True, slots=True)
class _Replace:
    """Merges an edit of the field into the list, whose other items, other fields and order stay."""

    make: _Make

    def __call__(self, edited: Any, _shown: Any, kept: Any) -> Any:
        make = self.make
        if not isinstance(kept, list):
            return make(edited) or ABSENT
        index = next((index for index, item in enumerate(kept) if make.is_meant(item)), None)
        others = [item for place, item in enumerate(kept) if place != index]
        if make.rest is not None:
            others = edited.get(make.rest, [])
            if not isinstance(others, list):
                return make(edited)
        if make.path not in edited:
            return others or (ABSENT if make.rest is None else others)
        old = {**make.where, **make.fill} if index is None else kept[index]
        new = {**old, make.field: edited[make.path]}
        place = len(others) if index is None else min(index, len(others))
        return [*others[:place], new, *others[place:]]


@dataclass(frozen=True, slots=True)
class _CheckItem:
    """Checks for values that no item can have, and for items that the field alone cannot make."""

    side: Side
    where: Mapping[str, Any]
    field: str
    fill: Mapping[str, Any]

    def __call__(self, ends: Ends) -> Iterator[Misfit]:
        listed, single = ends[opposite(self.side)][0], ends[self.side][0]
        item = None if listed is None else listed.schema.items
        if item is None or item.kind == "any":
            return
        for name, value in {**self.where, **self.fill}.items():
            if not fits(value, item.field(name)):
                problem = f"has items whose field {name} is of another type than the value that the rule gives it"
                yield Misfit(opposite(self.side), 0, problem, "Give a value that the schema admits")
        known = {self.field, *self.where, *self.fill}
        for name in sorted(item.required - known):
            schema = item.field(name)
            if schema is not None and not schema.has_default:
                problem = f"has items that require {name}, which the field alone does not have"
                yield Misfit(opposite(self.side), 0, problem, "Give it a value in fill=")
        field = item.field(self.field)
        if single is not None and field is not None and "any" not in (single.schema.kind, field.kind):
            if differs_in_type(single.schema.node, field.node):
                problem = f"is of another type than the field {self.field} of the items"
                yield Misfit(self.side, 0, problem, "Let both have the same type")
            if single.required:
                problem = "is required, but a list need not have the item"
                yield Misfit(self.side, 0, problem, "Make it optional")


@dataclass(frozen=True, slots=True)
class _SelectImage:
    side: Side
    where: Mapping[str, Any]
    field: str
    has_rest: bool

    def __call__(self, sources: Sequence[Shape | None]) -> Sequence[Shape]:
        source = sources[0] or {}
        if self.side == "spoke":
            if self.has_rest and len(sources) > 1 and sources[1]:
                return (sources[1],)
            inner = {**{name: {"type": "string"} for name in self.where}, self.field: dict(source)}
            return ({"type": "array", "items": {"type": "object", "properties": inner}},)
        field = ((source.get("items") or {}).get("properties") or {}).get(self.field, {})
        return (field, source) if self.has_rest else (field,)


@declared
def conditions(
    spoke: str,
    hub: str | None = None,
    *,
    names: Mapping[str, str] | None = None,
    spoke_only: Sequence[str] = (),
    hub_only: Sequence[str] = (),
    status: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Rule:
    """A list of conditions in another place or shape: ``conditions("status.conditions",
    "status.deprecated.v1beta1.conditions")``, or with ``spoke_only=["severity"]``, ``hub_only=["observedGeneration"]``.

    The ``type`` identifies a condition, whatever the order.

    ``hub`` is the path of the list in the hub, if it differs.

    ``names`` maps the spoke's names of fields to the hub's: ``{"lastUpdateTime": "lastTransitionTime"}``.

    ``spoke_only`` are fields that the hub's conditions do not have; the stash keeps them.

    ``hub_only`` are fields that the spoke's conditions do not have; the stash keeps them.

    ``status`` maps the spoke's values of the status to the hub's.

    ``defaults`` are values of fields that the hub's conditions always have and the spoke's may omit:
    ``{"reason": "Unknown"}``.
    """
    inner = [rename(old, new) for old, new in (names or {}).items()]
    inner += [stash(name) for name in spoke_only]
    inner += [stash(hub=name) for name in hub_only]
    inner += [enum("status", status)] if status else []
    inner += [default(name, value) for name, value in (defaults or {}).items()]
    return each(spoke, inner, hub=hub, key="type")

"""Maps in another form: lists whose items have a key, single fields, and other keys.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from restow.conversion.model.values import ABSENT, Json
from restow.conversion.rules.known import Ends, Misfit, Shape, Standard
from restow.conversion.rules.lens import Lens
from restow.conversion.rules.protocol import Rule, declared
from restow.conversion.rules.sides import Side, opposite
from restow.conversion.rules.standard.shapes import (
    ANY_SHAPE,
    MAP,
    TEXT,
    AsEdited,
    choices,
    differs_in_type,
    losing,
    oriented,
    shortcuts,
)


@declared
def keyed(spoke: str, hub: str | None = None, *, key: str, value: str | None = None, items: Side = "spoke") -> Rule:
    """A list of objects with a key that became a map: ``keyed("spec.ports", key="name")`` turns ``[{name: web, port:
    80}]`` into ``{web: {port: 80}}``.

    A map has no order: going back, new items follow the others, sorted by key. The stash keeps the order of a list that
    is not sorted, and the items that no map can show: items without the key, and repeated items with the same key. An
    edit of the map changes only the items that it names.

    ``hub`` is the path in the hub, if it differs.

    ``key`` is the field of the items that becomes the key.

    ``value`` is the field that becomes the value, if items have no other: ``keyed("spec.env", key="name",
    value="value")`` turns ``[{name: A, value: x}]`` into ``{A: x}``. By default the value is the rest of the item.

    ``items`` is the side that has the list.
    """
    to_map, to_list = _ToMap(key, value), _ToList(key, value)
    ways = oriented(items, to_map, to_list)
    item: Shape = {"type": "object", "properties": {key: TEXT, **({value: ANY_SHAPE} if value else {})}}
    return Lens(
        spoke=(spoke,),
        hub=(hub or spoke,),
        up=ways["up"],
        down=ways["down"],
        loses=losing(up=items == "spoke", down=items == "hub"),
        standard=Standard(
            shapes={items: ({"type": "array", "items": item},), opposite(items): (MAP,)},
            quick=shortcuts(items, _QuickMap(key, value), _QuickList(key, value)),
            merge=oriented(items, _MergeMap(to_map, to_list), _MergeList(to_map, to_list)),
            check=_CheckKeyed(items, key, value),
            image=_KeyedImage(items, key, value),
        ),
        defects=choices(items=(items, Side)),
    )


@dataclass(frozen=True, slots=True)
class _ToMap:
    """Converts the list to the map; items that a map cannot show are left out."""

    key: str
    value: str | None

    def entry(self, item: Any) -> tuple[str, Any] | None:
        """Return the key and the value of an item, None if a map cannot show it."""
        if not isinstance(item, dict) or item.get(self.key).__class__ is not str:
            return None
        if self.value is None:
            return item[self.key], {name: each for name, each in item.items() if name != self.key}
        return (item[self.key], item[self.value]) if self.value in item and len(item) == 2 else None

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        found: Json = {}
        for item in value:
            entry = self.entry(item)
            if entry is not None:
                found.setdefault(*entry)
        return found if found or not value else ABSENT


@dataclass(frozen=True, slots=True)
class _ToList:
    """Converts the map to the list, sorted by key."""

    key: str
    value: str | None

    def item(self, key: str, value: Any) -> Json | None:
        """Return the item of an entry, None if no item can express it."""
        if self.value is not None:
            return {self.key: key, self.value: value}
        return {self.key: key, **value} if isinstance(value, dict) and self.key not in value else None

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        items = [self.item(key, value[key]) for key in sorted(value)]
        found = [item for item in items if item is not None]
        return found if found or not value else ABSENT


@dataclass(frozen=True, slots=True)
class _QuickMap(_ToMap):
    """Converts a sorted list without duplicates to a map."""

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, list):
            return ABSENT
        found: Json = {}
        last = None
        for item in value:
            entry = self.entry(item)
            if entry is None or (last is not None and entry[0] <= last):
                return ABSENT
            last = entry[0]
            found[last] = entry[1]
        return found


@dataclass(frozen=True, slots=True)
class _QuickList(_ToList):
    """Converts a map whose values items can express to a list, which comes back."""

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return ABSENT
        name = self.key
        if self.value is not None:
            inner = self.value
            return [{name: key, inner: value[key]} for key in sorted(value)]
        for each in value.values():
            if each.__class__ is not dict or name in each:
                return ABSENT
        return [{name: key, **value[key]} for key in sorted(value)]


@dataclass(frozen=True, slots=True)
class _MergeList:
    """Merges an edit of the map into the list, which keeps its order and the items that the map did not show."""

    to_map: _ToMap
    to_list: _ToList

    def __call__(self, edited: Any, _shown: Any, kept: Any) -> Any:
        if not isinstance(edited, dict) or not isinstance(kept, list):
            return self.to_list(edited)
        left = {key: self.to_list.item(key, value) for key, value in edited.items()}
        shown: set[str] = set()
        result = []
        for item in kept:
            entry = self.to_map.entry(item)
            name = item.get(self.to_map.key) if isinstance(item, dict) else None
            if entry is None:
                if name.__class__ is not str or name not in edited:
                    result.append(item)
            elif entry[0] not in shown:
                shown.add(entry[0])
                now = left.pop(entry[0], None)
                result += [] if now is None else [now]
            elif entry[0] in edited:
                result.append(item)
        result += [left[key] for key in sorted(left) if left[key] is not None]
        return result if result or not edited else ABSENT


@dataclass(frozen=True, slots=True)
class _MergeMap:
    """Merges an edit of the list into the map, which keeps the entries that the list did not show."""

    to_map: _ToMap
    to_list: _ToList

    def __call__(self, edited: Any, _shown: Any, kept: Any) -> Any:
        found = self.to_map(edited)
        if not isinstance(found, dict) or not isinstance(kept, dict):
            return found
        hidden = {key: value for key, value in kept.items() if self.to_list.item(key, value) is None}
        return {**hidden, **found}


@dataclass(frozen=True, slots=True)
class _CheckKeyed:
    """Checks for items and values with different schemas."""

    items: Side
    key: str
    value: str | None

    def __call__(self, ends: Ends) -> Iterator[Misfit]:
        listed, mapped = ends[self.items][0], ends[opposite(self.items)][0]
        item = None if listed is None else listed.schema.items
        values = None if mapped is None else mapped.schema.values
        if item is None or values is None or item.kind == "any" or values.kind == "any":
            return
        fields = {name: each for name, each in item.properties.items() if name != self.key}
        if self.value is not None:
            for name in (name for name in fields if name != self.value and name in item.required):
                problem = f"has items that require {name}, which is neither the key nor the value"
                yield Misfit(self.items, 0, problem, "Leave value= out, so that the whole item is the value")
            one = item.field(self.value)
            if one is not None and one.node.get("type") != values.node.get("type"):
                problem = f"has values of another type than the field {self.value} of the items"
                yield Misfit(opposite(self.items), 0, problem, "Let both have the same type")
            return
        if self.key in values.properties:
            problem = f"has values with the field {self.key}, which is the key"
            yield Misfit(opposite(self.items), 0, problem, "Remove the field there, or choose another key")
        for name in (*fields, *(name for name in values.properties if name not in fields)):
            ours, theirs = fields.get(name), values.properties.get(name)
            if name != self.key and (ours is None or theirs is None or differs(ours.node, theirs.node)):
                side = self.items if theirs is None or ours is not None else opposite(self.items)
                problem = f"has the field {name} inside, which the other version has not, or not alike"
                yield Misfit(side, 0, problem, "Let the items and the values have the same fields")


def differs(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Return whether two schema nodes constrain their values differently."""
    return bool(_plain(ours) != _plain(theirs))


def _plain(node: Any) -> Any:
    """Return a schema node without the parts that do not constrain its values."""
    if not isinstance(node, Mapping):
        return node
    said = {name: each for name, each in node.items() if name != "description" and (each or name != "required")}
    return {name: _plain(each) for name, each in said.items()}


@dataclass(frozen=True, slots=True)
class _KeyedImage:
    items: Side
    key: str
    value: str | None

    def __call__(self, sources: Sequence[Shape | None]) -> Sequence[Shape]:
        source = sources[0] or {}
        if self.items == "spoke":
            item = source.get("items") or {}
            if self.value is not None:
                return ({"type": "object", "additionalProperties": (item.get("properties") or {}).get(self.value, {})},)
            inner = {name: each for name, each in (item.get("properties") or {}).items() if name != self.key}
            required = [name for name in item.get("required") or () if name != self.key]
            return ({"type": "object", "additionalProperties": {**item, "properties": inner, "required": required}},)
        values = source.get("additionalProperties")
        values = dict(values) if isinstance(values, Mapping) else {}
        if self.value is not None:
            item = {"type": "object", "properties": {self.key: TEXT, self.value: values}, "required": [self.key]}
        else:
            inner = {self.key: TEXT, **(values.get("properties") or {})}
            item = {**values, "type": "object", "properties": inner}
            item["required"] = [self.key, *(values.get("required") or ())]
        return ({"type": "array", "items": item},)


#: A map's path, or the fields that replace it: paths by the keys of the map.
MapOrFields = str | Mapping[str, str]


@declared
def fields(spoke: MapOrFields, hub: MapOrFields, *, rest: str | None = None) -> Rule:
    """Several fields that became the entries of a map, or the other way round: ``fields({"cpu": "spec.cpuLimit",
    "memory": "spec.memoryLimit"}, "spec.limits")``.

    Other entries of the map are not shown; the stash keeps them, also when the fields are edited.

    ``spoke`` is the path of the spoke's map, or its fields by key.

    ``hub`` is the path of the hub's map, or its fields by key.

    ``rest`` is a map next to the fields that shows the other entries.
    """
    given = [each if isinstance(each, Mapping) else None for each in (spoke, hub)]
    paths = dict(next((each for each in given if each is not None), {}))
    side: Side = "spoke" if given[0] is not None else "hub"
    to_map, to_fields = _Gather(paths, rest), _Spread(paths, rest)
    ways = oriented(side, to_map, to_fields)
    claims = (*paths.values(), *(() if rest is None else (rest,)))
    shapes: tuple[Shape, ...] = (*(ANY_SHAPE for _ in paths), *(() if rest is None else (MAP,)))
    defects = (("has no map or no fields", "Give one path, and a mapping from keys to paths"),)
    return Lens(
        spoke=claims if side == "spoke" else (str(spoke),),
        hub=claims if side == "hub" else (str(hub),),
        up=ways["up"],
        down=ways["down"],
        spoke_packing="leaves" if side == "spoke" else "value",
        hub_packing="leaves" if side == "hub" else "value",
        loses=losing(up=side == "hub" or rest is not None, down=side == "spoke" or rest is not None),
        standard=Standard(
            shapes={side: shapes, opposite(side): (MAP,)},
            merge=oriented(side, _MergeEntries(to_map), AsEdited(to_fields)),
            check=_CheckFields(side, tuple(paths)),
            image=_FieldsImage(side, len(paths), rest is not None),
        ),
        defects=() if sum(each is None for each in given) == 1 and paths else defects,
    )


@dataclass(frozen=True, slots=True)
class _Gather:
    """Converts the fields to the map."""

    paths: Mapping[str, str]
    rest: str | None

    def __call__(self, leaves: Any) -> Any:
        rest = ABSENT if self.rest is None else leaves.get(self.rest, ABSENT)
        if rest is not ABSENT and not isinstance(rest, dict):
            return ABSENT
        found = {key: leaves[path] for key, path in self.paths.items() if path in leaves}
        return {**(rest or {}), **found}


@dataclass(frozen=True, slots=True)
class _Spread:
    """Converts the map to the fields."""

    paths: Mapping[str, str]
    rest: str | None

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return ABSENT
        leaves = {path: value[key] for key, path in self.paths.items() if key in value}
        if self.rest is not None:
            rest = {key: each for key, each in value.items() if key not in self.paths}
            if rest or not value:
                leaves[self.rest] = rest
        return leaves or ABSENT


@dataclass(frozen=True, slots=True)
class _MergeEntries:
    """Merges an edit of the fields into the map, which keeps its other entries."""

    to_map: _Gather

    def __call__(self, edited: Any, _shown: Any, kept: Any) -> Any:
        found = self.to_map(edited)
        if not isinstance(kept, dict) or found is ABSENT or self.to_map.rest is not None:
            return found or ABSENT
        others = {key: value for key, value in kept.items() if key not in self.to_map.paths}
        return {**others, **found} or ABSENT


@dataclass(frozen=True, slots=True)
class _CheckFields:
    """Checks for fields of another type than the values of the map."""

    side: Side
    keys: tuple[str, ...]

    def __call__(self, ends: Ends) -> Iterator[Misfit]:
        mapped = ends[opposite(self.side)][0]
        values = None if mapped is None else mapped.schema.values
        for index, key in enumerate(self.keys):
            end = ends[self.side][index]
            if end is None or values is None or "any" in (values.kind, end.schema.kind):
                continue
            if differs_in_type(end.schema.node, values.node):
                problem = f"is of another type than the values of the map that has it as {key}"
                yield Misfit(self.side, index, problem, "Let both have the same type")
            if end.required:
                problem = f"is required, but the map need not have the key {key}"
                yield Misfit(self.side, index, problem, "Make it optional")


@dataclass(frozen=True, slots=True)
class _FieldsImage:
    side: Side
    count: int
    has_rest: bool

    def __call__(self, sources: Sequence[Shape | None]) -> Sequence[Shape]:
        if self.side == "spoke":
            return ({"type": "object", "additionalProperties": dict(sources[0] or {})},)
        values = dict((sources[0] or {}).get("additionalProperties") or {})
        rest = ({"type": "object", "additionalProperties": values},) if self.has_rest else ()
        return (*(values for _ in range(self.count)), *rest)


@declared
def keys(spoke: str, names: Mapping[str, str], *, hub: str | None = None) -> Rule:
    """A map with other keys in the hub: ``keys("spec.selector", {"app": "application"})``. Other keys pass unchanged.

    If a map has both a key and its new name, the other version shows the renamed entry, and the stash keeps the other
    entry.

    ``names`` maps the spoke's keys to the hub's.

    ``hub`` is the path in the hub, if it differs.
    """
    named = dict(names) if isinstance(names, Mapping) else {}
    back = {new: old for old, new in named.items()}
    up, down = _Rename(named), _Rename(back)
    defects = []
    if len(back) < len(named) or not named:
        problem = "has two keys with one new name" if named else "has no names"
        defects.append((problem, "Give a mapping from the spoke's keys to the hub's, each once"))
    return Lens(
        spoke=(spoke,),
        hub=(hub or spoke,),
        up=up,
        down=down,
        loses="both",
        standard=Standard(
            shapes={"spoke": (MAP,), "hub": (MAP,)},
            quick={"up": _QuickRename.of(up, down), "down": _QuickRename.of(down, up)},
            merge={"up": _MergeKeys(up, down), "down": _MergeKeys(down, up)},
            check=_check_values,
            image=_same_node,
        ),
        defects=tuple(defects),
    )


def _same_node(sources: Sequence[Shape | None]) -> Sequence[Shape]:
    return (sources[0] or MAP,)


def _check_values(ends: Ends) -> Iterator[Misfit]:
    spoke, hub = ends["spoke"][0], ends["hub"][0]
    if spoke is None or hub is None or spoke.schema.values is None or hub.schema.values is None:
        return
    if differs(spoke.schema.values.node, hub.schema.values.node):
        yield Misfit("hub", 0, "has other values than the map in the other version", "Convert them with rules.pair")


@dataclass(frozen=True, slots=True)
class _Rename:
    """Renames the keys of a map; of two entries for one key, the renamed one counts."""

    names: Mapping[str, str]

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        names = self.names
        renamed = {names[key]: each for key, each in value.items() if key in names}
        return {**{key: each for key, each in value.items() if key not in names}, **renamed}


@dataclass(frozen=True, slots=True)
class _QuickRename:
    """Renames the keys of a map if none of its keys is a new name."""

    names: Mapping[str, str]
    ambiguous: frozenset[str]

    @classmethod
    def of(cls, forward: _Rename, back: _Rename) -> _QuickRename:
        """Return the shortcut of one direction."""
        return cls(forward.names, frozenset(back.names) - frozenset(forward.names))

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, dict) or not self.ambiguous.isdisjoint(value):
            return ABSENT
        names = self.names
        return {names.get(key, key): each for key, each in value.items()}


@dataclass(frozen=True, slots=True)
class _MergeKeys:
    """Merges an edit into a map that has both a key and its new name: each entry keeps its key."""

    forward: _Rename
    back: _Rename

    def __call__(self, edited: Any, _shown: Any, kept: Any) -> Any:
        if not isinstance(edited, dict) or not isinstance(kept, dict):
            return self.forward(edited)
        shown_as: dict[str, str] = {}
        hidden: Json = {}
        for key in sorted(kept, key=lambda key: key not in self.back.names):
            name = self.back.names.get(key, key)
            if name in shown_as:
                hidden[key] = name
            else:
                shown_as[name] = key
        result = {shown_as.get(name, self.forward.names.get(name, name)): each for name, each in edited.items()}
        return {**{key: kept[key] for key, name in hidden.items() if name in edited}, **result}

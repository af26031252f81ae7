"""Texts made of several values: lists with a separator, and fields in a pattern.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from restow.conversion.model.values import ABSENT
from restow.conversion.rules.known import Ends, Misfit, Remembered, Standard
from restow.conversion.rules.lens import Lens
from restow.conversion.rules.protocol import Rule, declared
from restow.conversion.rules.sides import Side, opposite
from restow.conversion.rules.standard.casts import SCALARS, Caster, ScalarType, caster
from restow.conversion.rules.standard.pattern import Pattern, parsed
from restow.conversion.rules.standard.shapes import TEXT, choices, has_template, losing, oriented, shortcuts


@declared
def join(spoke: str, hub: str | None = None, *, separator: str = ",", item_type: ScalarType = "string") -> Rule:
    """A list that became a text: ``join("spec.servers", "spec.serverList")`` turns ``[a, b]`` into ``a,b``.

    The empty list is the empty text. The stash restores a list whose text reads differently, because an item contains
    the separator.

    ``hub`` is the path in the hub, if it differs.

    ``separator`` stands between the items.

    ``item_type`` is the type of the items. If a part of a text is no such value, it is not shown, and the stash keeps
    the text.
    """
    return _joined(spoke, hub or spoke, separator, item_type, "spoke")


@declared
def split(spoke: str, hub: str | None = None, *, separator: str = ",", item_type: ScalarType = "string") -> Rule:
    """A text that became a list: ``split("spec.serverList", "spec.servers")``. The inverse of ``join``.

    ``hub`` is the path in the hub, if it differs.

    ``separator`` stands between the items.

    ``item_type`` is the type of the items.
    """
    return _joined(spoke, hub or spoke, separator, item_type, "hub")


def _joined(spoke: str, hub: str, separator: str, item_type: ScalarType, items: Side) -> Lens:
    to_text = _Join(separator, caster(item_type, "string"))
    to_list = _Split(separator or ",", caster("string", item_type))
    ways = oriented(items, to_text, to_list)
    is_text = item_type == "string"
    quick_split = Remembered(_QuickSplit(separator or ","), gives_list=True)
    quick = shortcuts(items, _QuickJoin(separator or ","), quick_split) if is_text else {}
    defects = choices(item_type=(item_type, ScalarType))
    if not isinstance(separator, str) or not separator:
        defects = (*defects, (f"has separator={separator!r}", "Give a text that is not empty"))
    return Lens(
        spoke=(spoke,),
        hub=(hub,),
        up=ways["up"],
        down=ways["down"],
        loses=losing(up=items == "spoke" or not is_text, down=items == "hub" or not is_text),
        standard=Standard(
            shapes={items: ({"type": "array", "items": SCALARS.get(item_type, {})},), opposite(items): (TEXT,)},
            quick=quick,
            check=_CheckItems(items),
        ),
        defects=defects,
    )


@dataclass(frozen=True, slots=True)
class _Join:
    separator: str
    text: Caster
    templates: bool = True

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        texts = [self.text(item) for item in value]
        if any(text.__class__ is not str or (self.templates and has_template(text)) for text in texts):
            return value
        return self.separator.join(texts)


@dataclass(frozen=True, slots=True)
class _Split:
    separator: str
    item: Caster
    templates: bool = True

    def __call__(self, value: Any) -> Any:
        if value.__class__ is not str or (self.templates and has_template(value)):
            return value
        items = [self.item(text) for text in value.split(self.separator)] if value else []
        return [item for item in items if item is not ABSENT]


@dataclass(frozen=True, slots=True)
class _QuickJoin:
    """Converts a list of texts to a text, if the list comes back."""

    separator: str

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, list):
            return ABSENT
        for item in value:
            if item.__class__ is not str:
                return ABSENT
        text = self.separator.join(value)
        return text if (text.split(self.separator) if text else []) == value and not has_template(text) else ABSENT


@dataclass(frozen=True, slots=True)
class _QuickSplit:
    """Converts a text without any sign of a template to a list: the text always comes back."""

    separator: str

    def __call__(self, value: Any) -> Any:
        is_plain = value.__class__ is str and value and "$" not in value and "{" not in value
        return value.split(self.separator) if is_plain else ABSENT


@dataclass(frozen=True, slots=True)
class _CheckItems:
    """Checks for a list without duplicates, which cannot show every text."""

    items: Side

    def __call__(self, ends: Ends) -> Iterator[Misfit]:
        end = ends[self.items][0]
        if end is not None and end.schema.list_type == "set":
            problem = "is a set, and a text may name an item twice"
            yield Misfit(self.items, 0, problem, "Make it an atomic list, or convert it with rules.pair")


#: A text's path, or the fields that replace it: paths by the names of the pattern's groups.
TextOrFields = str | Mapping[str, str]


@declared
def template(
    spoke: TextOrFields, hub: TextOrFields, *, pattern: str, types: Mapping[str, ScalarType] | None = None
) -> Rule:
    """One text and several fields: ``template("spec.address", {"host": "spec.host", "port": "spec.port"},
    pattern="(?P<host>[^:]+)(?::(?P<port>[0-9]+))?", types={"port": "integer"})`` turns ``db:5432`` into the host
    ``db`` and the port 5432.

    One side is the path of the text, the other one a mapping from the pattern's groups to the paths of the fields. A
    text that does not match is not shown, and the stash keeps it; the same holds for fields that make no text.

    ``spoke`` is the path of the spoke's text, or its fields by group.

    ``hub`` is the path of the hub's text, or its fields by group.

    ``pattern`` reads and writes the text. It consists of plain text, named groups ``(?P<name>…)`` and optional parts
    ``(?:…)?`` that are left out where their fields are absent. A group holds characters, classes and quantifiers, with
    alternatives, but no nested groups. The syntax is that of RE2.

    ``types`` are the types of fields that are no texts, by group.
    """
    given = [each if isinstance(each, Mapping) else None for each in (spoke, hub)]
    fields = next((each for each in given if each is not None), {})
    side: Side = "spoke" if given[0] is None else "hub"
    found = parsed(pattern)
    kinds = {name: (types or {}).get(name, "string") for name in fields}
    shape = _Template(found, dict(fields), {name: caster("string", kind) for name, kind in kinds.items()})
    writer = _Fill(found, dict(fields), {name: caster(kind, "string") for name, kind in kinds.items()})
    ways = oriented(side, shape, writer)
    paths = tuple(fields.values())
    return Lens(
        spoke=(spoke,) if isinstance(spoke, str) else paths,
        hub=(hub,) if isinstance(hub, str) else paths,
        up=ways["up"],
        down=ways["down"],
        spoke_packing="value" if side == "spoke" else "leaves",
        hub_packing="value" if side == "hub" else "leaves",
        loses="both",
        standard=Standard(
            shapes={side: (TEXT,), opposite(side): tuple(SCALARS.get(kind, {}) for kind in kinds.values())},
            quick=shortcuts(side, shape, _never) if not types else {},
            check=_CheckFields(side, found, tuple(fields)),
        ),
        defects=_template_defects(given, found, fields, types or {}),
    )


def _never(_value: Any) -> Any:
    return ABSENT


def _template_defects(
    given: list[Mapping[str, str] | None], found: Pattern, fields: Mapping[str, str], types: Mapping[str, Any]
) -> tuple[tuple[str, str], ...]:
    defects = [(f"has a pattern that {found.problem}", found.fix)] if found.problem else []
    if sum(each is None for each in given) != 1:
        defects.append(("has no text or no fields", "Give one path, and a mapping from groups to paths"))
    elif not found.problem and set(fields) != set(found.names):
        groups = ", ".join(found.names) or "none"
        defects.append(("has other fields than its pattern has groups", f"Name the groups of the pattern: {groups}"))
    defects += [(f"has a type for {name}, which is no field", "Remove it") for name in types if name not in fields]
    for name, kind in types.items():
        defects += choices(**{f"types.{name}": (kind, ScalarType)})
    return tuple(defects)


@dataclass(frozen=True, slots=True)
class _Template:
    """Converts the text to the fields."""

    pattern: Pattern
    paths: Mapping[str, str]
    casts: Mapping[str, Caster]

    def __call__(self, value: Any) -> Any:
        if value.__class__ is not str or has_template(value):
            return ABSENT
        groups = self.pattern.groups(value)
        if groups is None:
            return ABSENT
        leaves = {self.paths[name]: self.casts[name](text) for name, text in groups.items()}
        return ABSENT if any(leaf is ABSENT for leaf in leaves.values()) else leaves


@dataclass(frozen=True, slots=True)
class _Fill:
    """Converts the fields to the text."""

    pattern: Pattern
    paths: Mapping[str, str]
    casts: Mapping[str, Caster]

    def __call__(self, leaves: Any) -> Any:
        texts = {}
        for name, path in self.paths.items():
            if path in leaves:
                text = self.casts[name](leaves[path])
                if text.__class__ is not str or has_template(text):
                    return ABSENT
                texts[name] = text
        text = self.pattern.filled(texts)
        return ABSENT if text is None else text


@dataclass(frozen=True, slots=True)
class _CheckFields:
    """Checks for required fields that would lack a value for some texts, and the reverse."""

    text: Side
    pattern: Pattern
    names: tuple[str, ...]

    def __call__(self, ends: Ends) -> Iterator[Misfit]:
        text = ends[self.text][0]
        fields = dict(zip(self.names, ends[opposite(self.text)], strict=True))
        is_formed = text is not None and "pattern" in text.schema.node
        for index, name in enumerate(self.names):
            field = fields[name]
            if field is not None and field.required and (name in self.pattern.optional or not is_formed):
                problem = "is required, but a text need not have it"
                yield Misfit(opposite(self.text), index, problem, "Make it optional, or give the text the pattern too")
        needed = [name for name in self.names if name not in self.pattern.optional]
        if text is not None and text.required and not all(field.required for name in needed if (field := fields[name])):
            yield Misfit(self.text, 0, "is required, but the fields that make it are not", "Make it optional")

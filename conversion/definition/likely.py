"""Guesses the rule between two fields of two versions.

A guess is certain if the two names are equivalent, and the schemas allow only one interpretation. Everything else is a
doubt: the rule may be right, and only an author knows. A change of the unit, the range or the meaning is never a
rename.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from restow.conversion import rules
from restow.conversion.definition.advice import literal
from restow.conversion.definition.names import are_one_name, likeness, means_another, singular, without_unit
from restow.conversion.model.fieldpath import Path, shown
from restow.conversion.rules.protocol import Rule
from restow.crds import Schema


@dataclass(frozen=True, slots=True)
class Field:
    """A field of one version: its path in the scope, and its schema."""

    path: Path
    schema: Schema

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path[-1]

    @property
    def text(self) -> str:
        """The path as rules write it."""
        return shown(self.path).removeprefix(".")


@dataclass(frozen=True, slots=True)
class Likely:
    """A guess: the rule (None if unknown), the reason, and the objection to it if it is not certain.

    ``asks`` is a question about a part of the rule, whose other parts are certain.
    """

    rule: Rule | None
    why: str
    doubt: str = ""
    score: float = 1.0
    asks: str = ""

    @property
    def is_certain(self) -> bool:
        """Whether there is no objection."""
        return not self.doubt


#: Keywords that do not constrain a value.
_WORDS_ONLY: Final = frozenset({"description", "title", "example", "x-kubernetes-validations", "default"})
_NUMBERS: Final = frozenset({"integer", "number"})
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})
#: The likeness of two names from which a doubt is worth a question.
_ALIKE: Final = 0.5
_MOSTLY_ALIKE: Final = 0.8
#: Names that occur in many objects, so that the same name elsewhere is no hint of a move.
_COMMON: Final = frozenset(
    [
        *("annotations", "config", "count", "data", "description", "enabled", "host", "id", "image", "items", "key"),
        *("kind", "labels", "message", "metadata", "mode", "name", "namespace", "path", "port", "reason", "ref"),
        *("replicas", "selector", "size", "spec", "status", "tag", "timeout", "type", "url", "value", "version"),
    ]
)
_TIME_PATTERN: Final = re.compile(r"\(ns\|us\||ms\|s\|m\|h|\[smhd?\]|\(s\|m\|h")
_QUANTITY_PATTERN: Final = re.compile(r"KMGTPE|\[eE\]")


def bare(node: Any) -> Any:
    """Return a schema node without its descriptive keywords."""
    if isinstance(node, Mapping):
        named = {
            name: {each: bare(child) for each, child in value.items()} if name == "properties" else bare(value)
            for name, value in node.items()
            if name not in _WORDS_ONLY
        }
        return {**named, "required": sorted(named["required"])} if named.get("required") else named
    return [bare(each) for each in node] if isinstance(node, list) else node


def likely(spoke: Field, hub: Field) -> Likely | None:
    """Return the likely rule between the fields; None if nothing suggests one."""
    return next((found for find in _FINDERS if (found := find(spoke, hub)) is not None), None)


def _paths(spoke: Field, hub: Field) -> tuple[str, str | None]:
    return spoke.text, None if spoke.path == hub.path else hub.text


def _numbers(spoke: Field, hub: Field) -> Likely | None:
    """Guess a rule between two numbers, of which at least one names its unit."""
    if not {_type(spoke), _type(hub)} <= _NUMBERS:
        return None
    (ours, one), (theirs, other) = without_unit(spoke.name), without_unit(hub.name)
    if (one is None and other is None) or (one == other) or likeness(ours, theirs) < _ALIKE:
        return None
    score = likeness(ours, theirs)
    if one is None or other is None:
        named = one or other
        assert named is not None
        doubt = f"only one of {spoke.name} and {hub.name} names its unit ({named.measures})"
        fix = f"{doubt}: give the factor between them to rules.scale"
        return Likely(None, "a number in a unit", fix, score)
    if one.measures != other.measures:
        return None
    factor = one.size / other.size
    exact = int(factor) if factor.denominator == 1 else f"{factor.numerator}/{factor.denominator}"
    types = {"spoke_type": _type(spoke), "hub_type": _type(hub)}
    kinds: dict[str, Any] = {name: kind for name, kind in types.items() if kind != "integer"}
    rule = rules.scale(*_paths(spoke, hub), factor=exact, **kinds)
    why = f"{spoke.name} and {hub.name} are the same in another unit: times {exact}"
    vague = "one of the units may be decimal or binary" if one.is_vague or other.is_vague else ""
    return Likely(rule, why, vague or _doubt_of_names(ours, theirs) or _doubt_of_place(spoke, hub), score)


def _text_and_number(spoke: Field, hub: Field) -> Likely | None:
    """Guess a rule between a text with a duration or a quantity, and a number in a unit."""
    kinds = _type(spoke), _type(hub)
    if kinds[0] in ("string", "int-or-string") and kinds[1] in _NUMBERS:
        text, number, side = spoke, hub, "spoke"
    elif kinds[1] in ("string", "int-or-string") and kinds[0] in _NUMBERS:
        text, number, side = hub, spoke, "hub"
    else:
        return None
    base, unit = without_unit(number.name)
    score = likeness(without_unit(text.name)[0], base)
    if unit is None or score < _MOSTLY_ALIKE:
        return None
    more: dict[str, Any] = {} if side == "spoke" else {"text": side}
    more |= {} if _type(number) == "integer" else {"number": _type(number)}
    names = _doubt_of_names(text.name, base) or _doubt_of_place(spoke, hub)
    node = text.schema.node
    if unit.measures == "time" and unit.symbol and _type(text) == "string":
        says = node.get("format") == "duration" or _TIME_PATTERN.search(node.get("pattern") or "")
        doubt = "" if says else f"no format or pattern says that {text.name} is a duration"
        rule = rules.duration(*_paths(spoke, hub), unit=unit.symbol, **more)  # type: ignore[arg-type]
        return Likely(rule, f"{text.name} is a duration, {number.name} a number in a unit", names or doubt, score)
    if unit.measures in ("bytes", "cpu"):
        says = text.schema.int_or_string or _QUANTITY_PATTERN.search(node.get("pattern") or "")
        doubt = "" if says else f"no pattern says that {text.name} is a quantity"
        vague = "the unit may be decimal or binary" if unit.is_vague else ""
        rule = rules.quantity(*_paths(spoke, hub), unit=unit.symbol, **more)  # type: ignore[arg-type]
        return Likely(
            rule, f"{text.name} is a quantity, {number.name} a number in a unit", names or vague or doubt, score
        )
    return None


def _other_type(spoke: Field, hub: Field) -> Likely | None:
    """Guess a rule between scalars of different types."""
    one, other = _type(spoke), _type(hub)
    kinds = {"int-or-string", *_SCALARS}
    if one == other or {one, other} - kinds or not are_one_name(spoke.name, hub.name):
        return None
    rule = rules.cast(*_paths(spoke, hub), spoke_type=one, hub_type=other)  # type: ignore[arg-type]
    text = spoke if one == "string" else hub if other == "string" else None
    says = text is None or re.search(r"\\d|\[0-9\]", text.schema.node.get("pattern") or "")
    doubt = "" if says else f"no pattern says that the text {text.text if text else ''} is always such a value"
    return Likely(
        rule, f"the same value as {_articled(one)} and as {_articled(other)}", doubt, likeness(spoke.name, hub.name)
    )


def _articled(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _value_and_list(spoke: Field, hub: Field) -> Likely | None:
    """Guess a rule between a value and a list of such values, or between a text and a list."""
    kinds = _type(spoke), _type(hub)
    if "array" not in kinds or kinds[0] == kinds[1]:
        return None
    listed, single = (hub, spoke) if kinds[1] == "array" else (spoke, hub)
    items = listed.schema.items
    same_name = single.name == listed.name or singular(single.name) == singular(listed.name)
    if items is None or not same_name:
        return None
    doubt = _doubt_of_place(spoke, hub)
    if bare(items.node) == bare(single.schema.node):
        one = rules.wrap(spoke.text, f"{hub.text}[]") if listed is hub else rules.unwrap(f"{spoke.text}[]", hub.text)
        if _type(single) == "string" and single.name == listed.name:
            doubt = f"{single.name} may be one value, or several with a separator"
        return Likely(one, f"{single.text} is one of the values of {listed.text}", doubt, 0.9)
    entries = single.schema.values
    if entries is not None and _type(single) == "object":
        return _list_and_map(spoke, hub, listed, items, entries)
    return None


def _list_and_map(spoke: Field, hub: Field, listed: Field, items: Schema, entries: Schema) -> Likely | None:
    keys = listed.schema.list_keys or tuple(name for name in ("name", "key", "id") if name in items.required)[:1]
    keys = keys or tuple(name for name in ("name", "key", "id") if name in items.properties)[:1]
    if len(keys) != 1 or keys[0] not in items.properties:
        return None
    rest = {name: child for name, child in items.properties.items() if name != keys[0]}
    side: dict[str, Any] = {} if listed is spoke else {"items": "hub"}
    values = next(iter(rest), "")
    doubt = _doubt_of_place(spoke, hub)
    if not listed.schema.list_keys and keys[0] not in items.required:
        doubt = f"no schema says that {keys[0]} identifies an item of {listed.text}"
    if len(rest) == 1 and bare(rest[values].node) == bare(entries.node):
        rule = rules.keyed(*_paths(spoke, hub), key=keys[0], value=values, **side)
    elif rest.keys() == entries.properties.keys():
        rule = rules.keyed(*_paths(spoke, hub), key=keys[0], **side)
        same = all(bare(rest[name].node) == bare(child.node) for name, child in entries.properties.items())
        doubt = doubt or ("" if same else "the items and the values of the map do not have the same fields")
    else:
        return None
    return Likely(rule, f"a list with the key {keys[0]}, and a map", doubt, 0.9)


def _wrapped(spoke: Field, hub: Field) -> Likely | None:
    """Guess a rule between a scalar and a field of an object of the same name."""
    kinds = _type(spoke), _type(hub)
    if "object" not in kinds or not set(kinds) & _SCALARS or not are_one_name(spoke.name, hub.name):
        return None
    around, single = (hub, spoke) if kinds[1] == "object" else (spoke, hub)
    alike = [name for name, child in around.schema.properties.items() if bare(child.node) == bare(single.schema.node)]
    if not alike:
        return None
    usual = [name for name in alike if name in around.schema.required or name in ("name", "value")]
    name = (usual or alike)[0]
    inner = Field((*around.path, name), single.schema)
    rule = rules.move(single.text, inner.text) if around is hub else rules.move(inner.text, single.text)
    only = len(around.schema.properties) == 1
    doubt = "" if only else f"{around.text} has other fields as well, and {single.text} may be another one of them"
    return Likely(
        rule, f"{single.text} became the field {name} of an object", doubt or _doubt_of_place(spoke, hub), 0.8
    )


def _same_type(spoke: Field, hub: Field) -> Likely | None:
    """Guess a rule between values of one type: a rename, a move, other names of values, or other fields inside."""
    kind = _type(spoke)
    if kind != _type(hub) or not kind:
        return None
    score = likeness(spoke.name, hub.name)
    if score < _ALIKE:
        return None
    ours, theirs = bare(spoke.schema.node), bare(hub.schema.node)
    doubt = _doubt_of_names(spoke.name, hub.name) or _doubt_of_place(spoke, hub)
    if spoke.path != hub.path and ours == theirs:
        name = "rename" if spoke.path[:-1] == hub.path[:-1] else "move"
        rule = getattr(rules, name)(spoke.text, hub.text)
        defaults = _defaults(spoke.schema, hub.schema)
        where = "the same constraints" if name == "rename" else "the same constraints in another object"
        return Likely(rule, f"the names mean the same, with {where}", doubt or defaults, score)
    if kind in _SCALARS:
        return _other_values(spoke, hub, doubt, score)
    return None


def _other_values(spoke: Field, hub: Field, doubt: str, score: float) -> Likely | None:
    ours, theirs = (_values(each.schema) for each in (spoke, hub))
    if ours is None or theirs is None:
        return _open_values(spoke, hub, ours or theirs or (), doubt, score)
    if set(ours) == set(theirs):
        return None
    same = {value for value in ours if value in theirs}
    table = {
        value: other
        for value in ours
        for other in theirs
        if not same & {value, other} and _spelled(value) == _spelled(other)
    }
    named = {*same, *table, *table.values()}
    left = [[value for value in values if value not in named] for values in (ours, theirs)]
    is_one_to_one = len(table) == len(set(table.values()))
    path = None if spoke.path == hub.path else hub.text
    if is_one_to_one and not any(left):
        why = "the same values in another spelling"
        return Likely(rules.enum(spoke.text, _as_table(table), hub=path), why, doubt, score)
    if is_one_to_one and same:
        up, down = (
            {value: _stand_in(end, named) for value in rest} for rest, end in zip(left, (hub, spoke), strict=True)
        )
        tables = {name: _as_table(each) for name, each in (("up", up), ("down", down)) if each}
        rule = rules.enum(spoke.text, _as_table(table), hub=path, **tables)
        shown = [f"shows {literal(other)} for {literal(value)}" for value, other in (*up.items(), *down.items())]
        asks = f"the draft {' and '.join(shown)}, which one version alone has: choose another value if that is wrong"
        return Likely(rule, "the values that both versions have pass unchanged", doubt, score, asks)
    more = (
        f"no value of the other version is spelled like {', '.join(map(literal, dict.fromkeys([*left[0], *left[1]])))}"
    )
    return Likely(None, "the same values in another spelling", doubt or more, score)


def _open_values(spoke: Field, hub: Field, values: Sequence[Any], doubt: str, score: float) -> Likely | None:
    """Guess a rule between an enum and a field that takes any value."""
    if spoke.path == hub.path:
        if not values:
            return None
        table = _as_table({value: value for value in values})
        return Likely(rules.enum(spoke.text, table), "other values than these are kept, and not shown", "", score)
    name = "rename" if spoke.path[:-1] == hub.path[:-1] else "move"
    rule = getattr(rules, name)(spoke.text, hub.text)
    return Likely(rule, "the names are alike", doubt or "the fields admit different values", score)


def _stand_in(field: Field, named: AbstractSet[Any]) -> Any:
    """Return the value to show for one that an enum does not have: the default, else the first that both have."""
    values = [value for value in _values(field.schema) or () if value in named]
    default = field.schema.default if field.schema.has_default else None
    return default if default in values else values[0]


def _as_table(table: Mapping[Any, Any]) -> Any:
    """Return a table as a rule takes it: pairs, if its values cannot be names of fields."""
    return dict(table) if all(isinstance(value, str) for value in table) else [[*pair] for pair in table.items()]


def _values(schema: Schema) -> Sequence[Any] | None:
    found = schema.node.get("enum")
    return None if found is None else [value for value in found if value is not None]


def _spelled(value: Any) -> str:
    return re.sub(r"[^a-z0-9]", "", str(value).lower())


def _defaults(ours: Schema, theirs: Schema) -> str:
    if ours.has_default and theirs.has_default and ours.default != theirs.default:
        return "the defaults differ, so that a missing field means another value"
    return ""


def _doubt_of_names(left: str, right: str) -> str:
    if left == right or are_one_name(left, right):
        return ""
    if means_another(left, right):
        return f"{left} and {right} do not say the same"
    return f"{left} and {right} are alike, and may be two things"


def _doubt_of_place(spoke: Field, hub: Field) -> str:
    """Return the objection to a field in another object."""
    if spoke.path[:-1] == hub.path[:-1]:
        return ""
    if {spoke.name.lower(), hub.name.lower()} & _COMMON:
        return f"many objects have a field {hub.name}"
    return ""


def _type(field: Field) -> str:
    return "int-or-string" if field.schema.int_or_string else field.schema.node.get("type") or ""


_FINDERS: Final = (_numbers, _text_and_number, _other_type, _value_and_list, _wrapped, _same_type)

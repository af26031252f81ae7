"""Findings of the laws: the fields of objects, the fields that differ, and a broken law in about ten lines.

A finding shows the object, the rule, the fields that differ, and the remedy. The objects are generated or come from an
author's own tests, so their values may be shown. Fields have the names that managedFields use: items of list-maps are
named by their keys.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from restow.conversion.compile.graph import KindGraph
from restow.conversion.model.fieldpath import Steps, parse, pointer, value_at
from restow.conversion.model.values import ABSENT, Json, canonical, same
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.sides import Side
from restow.conversion.rules.unions import flattened
from restow.crds import ANY, Schema

#: How many differing fields a finding shows, and how long a shown value may be.
_MOST_FIELDS: Final = 3
_MOST_TEXT: Final = 400
_SHORT: Final = 120


@dataclass(frozen=True, slots=True)
class Difference:
    """A field in which two objects differ; ABSENT if one of them lacks it."""

    steps: Steps
    left: Any
    right: Any


@dataclass(frozen=True, slots=True)
class RulePlace:
    """A rule that is responsible for a field, and the fields on the other side that it ties to this field."""

    rule: Rule
    label: str
    others: tuple[Steps, ...]


def differences(left: Any, right: Any, steps: Steps = ()) -> Iterator[Difference]:
    """Yield the innermost places in which two JSON values differ; lists of different lengths differ as a whole."""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted({*left, *right}):
            yield from differences(left.get(name, ABSENT), right.get(name, ABSENT), (*steps, name))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (ours, theirs) in enumerate(zip(left, right, strict=True)):
            yield from differences(ours, theirs, (*steps, index))
    elif not _alike(left, right):
        yield Difference(steps, left, right)


def _alike(left: Any, right: Any) -> bool:
    return left is right if ABSENT in (left, right) else same(left, right)


def responsible(kind: KindGraph, source: str, target: str, steps: Steps) -> RulePlace | None:
    """Return the rule that converts a field of one version on the way to another, if any."""
    legs: tuple[tuple[str, Side], ...] = ((source, "spoke"), (target, "hub"))
    for version, side in legs:
        spoke = kind.spokes.get(version)
        found = None if spoke is None else _in_rules(spoke.rules, side, steps, ())
        if found is not None:
            return found
    return None


def _in_rules(rules: Sequence[Rule], side: Side, steps: Steps, around: Steps) -> RulePlace | None:
    other: Side = "hub" if side == "spoke" else "spoke"
    for rule in flattened(rules):
        for text in rule.claims(side):
            path = parse(text)
            if steps[: len(path)] != path and path[: len(steps)] != steps:
                continue
            ties = tuple((*around, *parse(each)) for each in rule.claims(other))
            rest = steps[len(path) :]
            if rule.contained and rest and ties:
                entry, inside = (rest[:1], rest[1:]) if rule.container in ("list", "map") else ((), rest)
                found = _in_rules(rule.contained, side, inside, (*ties[0], *entry)) if inside else None
                if found is not None:
                    return RulePlace(found.rule, f"{found.label} in {rule.label}", found.others)
            return RulePlace(rule, rule.label, ties)
    return None


def described(
    problem: str,
    obj: Json,
    *,
    rule: RulePlace | None = None,
    fields: Sequence[str] = (),
    fix: str = "",
) -> str:
    """Return the finding: the problem, the smallest object, the rule, the fields, and the remedy."""
    lines = [problem, f"  object:  {compact(_essence(obj), _MOST_TEXT)}"]
    if rule is not None:
        lines.append(f"  rule:    {rule.label}{_source(rule.rule)}")
    shown = [f"  field:   {each}" for each in fields[:_MOST_FIELDS]]
    if len(fields) > _MOST_FIELDS:
        shown.append(f"           and {len(fields) - _MOST_FIELDS} more")
    return "\n".join([*lines, *shown, *([f"  instead: {fix}"] if fix else [])])


def compact(value: Any, most: int = _SHORT) -> str:
    """Return a value as short JSON."""
    if value is ABSENT:
        return "nothing"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def travelled(difference: Difference, there: Json, versions: tuple[str, str], rule: RulePlace | None) -> str:
    """Return one field's way to another version and back: ``/spec/a: v1 1 -> v2 /spec/b 2 -> v1 0``."""
    ties = rule.others if rule is not None and rule.others else (difference.steps,)
    middle = ", ".join(f"{_moved(each, difference.steps)}{compact(value_at(there, each))}" for each in ties[:2])
    source, via = versions
    return (
        f"{pointer(difference.steps)}: {source} {compact(difference.left)} -> {via} {middle}"
        f" -> {source} {compact(difference.right)}"
    )


def _moved(steps: Steps, here: Steps) -> str:
    return "" if steps == here else f"{pointer(steps)} "


def _essence(obj: Json) -> Json:
    """Return the object without the metadata that every generated object has."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or metadata.keys() - {"name", "uid"}:
        return obj
    return {name: value for name, value in obj.items() if name != "metadata"}


def _source(rule: Rule) -> str:
    """Return the place of an author's function in the source code."""
    code = getattr(getattr(rule, "up", None), "__code__", None) if rule.is_made else None
    return "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"


#: The steps to a field: names, and for the items of a list-map their keys, as JSON in brackets.
FieldSteps = tuple[str, ...]


def support(obj: Json, schema: Schema | None) -> set[str]:
    """Return the paths of all fields of an object; an atomic list is one field."""
    return {shown_steps(steps) for steps in fields(obj, schema)}


def fields(obj: Json, schema: Schema | None) -> set[FieldSteps]:
    """Return the paths of all fields of an object as steps; an atomic list is one field."""
    return set(_fields(obj, schema or ANY, ()))


def shown_steps(steps: FieldSteps) -> str:
    """Return the readable form of a field's path: ``.spec.items[["a"]].name``."""
    return "".join(step if step.startswith("[") else f".{step}" for step in steps)


def empties(obj: Json, schema: Schema | None) -> Counter[str]:
    """Count the values of an object that are null, {} or [].

    An empty object does not count if it marks a place: as an item of a list or a map, or because it is required.
    """
    return Counter(kind for _, kind in empty_places(obj, schema))


def empty_places(value: Any, schema: Schema | None, steps: Steps = ()) -> Iterator[tuple[Steps, str]]:
    """Yield the places of null, {} and [] in an object, as ``empties`` counts them, with the values there."""
    if value is None or value in ({}, []):
        yield steps, "null" if value is None else "{}" if isinstance(value, dict) else "[]"
    elif isinstance(value, dict):
        for name, child in value.items():
            if child != {} or schema is None or (name not in schema.required and schema.is_declared(name)):
                yield from empty_places(child, None if schema is None else schema.field(name), (*steps, name))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            if child != {} or schema is None:
                yield from empty_places(child, None if schema is None else schema.items, (*steps, index))


def _fields(value: Any, schema: Schema, steps: FieldSteps) -> Iterator[FieldSteps]:
    if steps and not steps[-1].startswith("["):
        yield steps
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _fields(child, schema.field(name) or ANY, (*steps, name))
    elif isinstance(value, list) and schema.list_type == "map":
        for item in value:
            if isinstance(item, dict):
                key = canonical([item.get(name) for name in schema.list_keys]).decode()
                yield from _fields(item, schema.items or ANY, (*steps, f"[{key}]"))

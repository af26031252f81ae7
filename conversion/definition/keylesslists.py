"""Demands a key of lists whose items hide something from one of the versions.

The stash finds an item that has no key by what is shown of it, and an edited one by its place. Where several edits come
together, neither is enough: what the item hid is lost. So every rule inside of ``each`` that leaves something in the
stash, at any depth, needs ``key=``, or ``acknowledge=`` with the reason why such edits do no harm.

A key is proposed from the schemas: fields by which one version, or a CEL rule of the list, keeps items apart; else a
required field of a usual name, any other required one, or an optional one of a usual name. Both versions must declare
it, and no rule may change its value.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from restow.conversion.definition.diagnostics import DiagnosticCollector
from restow.conversion.definition.losses import Loss, judged
from restow.conversion.model.fieldpath import Path, parse
from restow.conversion.rules.branches import flattened
from restow.conversion.rules.model import Rule, ScopedRules
from restow.crds import Schema
from restow.crds.paths import items_path, values_path
from restow.crds.schema import schema_at

__all__ = ["check_keyless_lists", "proposed_keys"]


_USUAL: Final = ("name", "id", "key", "type")
_SCALARS: Final = ("string", "integer")
_MOST_NAMED: Final = 3

#: How CEL says that a field is unique: ``self.all(x, self.exists_one(y, x.name == y.name))``.
_UNIQUE: Final = re.compile(r"exists_one\(\s*(\w+)\s*,\s*(?:(\w+)\.(\w+)\s*==\s*(\w+)\.(\w+))\s*\)")


def check_keyless_lists(
    rules: Sequence[Rule], spoke: Schema | None, hub: Schema | None, findings: DiagnosticCollector
) -> None:
    """Report the lists without keys whose items have rules that leave something in the stash.

    The schemas are those of the objects that the rules apply to, None where they are unknown.
    """
    for rule in flattened(rules):
        if not isinstance(rule, ScopedRules):
            continue
        ours, theirs = parse(rule.spoke[0]), parse(rule.hub[0])
        from_schema, to_schema = schema_at(spoke, ours), schema_at(hub, theirs)
        places = (findings.place("spoke", ours), findings.place("hub", theirs))
        match rule.container:
            case "list":
                _check_list(rule, from_schema, to_schema, theirs, findings)
                below = (from_schema and from_schema.items, to_schema and to_schema.items)
                places = (items_path(places[0]), items_path(places[1]))
            case "map":
                below = (from_schema and from_schema.values, to_schema and to_schema.values)
                places = (values_path(places[0]), values_path(places[1]))
            case "object":
                below = (from_schema, to_schema)
        check_keyless_lists(rule.rules, *below, findings.below(*places))


def _check_list(
    rule: ScopedRules, spoke: Schema | None, hub: Schema | None, path: Path, findings: DiagnosticCollector
) -> None:
    is_map = hub is not None and hub.list_type == "map"  # whose keys another check asks for
    if rule.keys or rule.acknowledge is not None or is_map:
        return
    lossy = list(dict.fromkeys(_lossy(rule)))
    if not lossy:
        return
    named = ", ".join(lossy[:_MOST_NAMED]) + (", …" if len(lossy) > _MOST_NAMED else "")
    findings.add(
        "hub",
        path,
        f"is a list without keys, so edits of its items can lose what the stash keeps of them for {named}",
        _remedy(rule, proposed_keys(rule, spoke, hub), hub),
    )


def _lossy(rule: ScopedRules) -> Iterator[str]:
    """Yield the labels of the rules that leave something in the stash: its ``hide``, and what is inside."""
    if rule.hide is not None:
        yield "hide="
    for inner in flattened(rule.rules):
        if isinstance(inner, ScopedRules):
            yield from _lossy(inner)
        elif Loss.STASHED in judged(inner)[:2]:
            yield inner.label


def _remedy(rule: ScopedRules, keys: Sequence[str], hub: Schema | None) -> str:
    otherwise = f'or say with acknowledge="why" in {rule.name} why this does no harm'
    if not keys:
        return f"Name the fields that identify an item with key= in {rule.label}, {otherwise}"
    names = ", ".join(f'"{key}"' for key in keys)
    wanted = f"key={names}" if len(keys) == 1 else f"key=({names})"
    required = hub is not None and hub.items is not None and set(keys) <= set(hub.items.required)
    note = "" if required else ", which an item may lack,"
    return f"Identify the items with {wanted} in {rule.label}{note} if no two have the same, {otherwise}"


def proposed_keys(rule: ScopedRules, spoke: Schema | None, hub: Schema | None) -> tuple[str, ...]:
    """Return the hub's fields that may identify an item of a list, the schemas being those of the list; or none."""
    ours, theirs = spoke and spoke.items, hub and hub.items
    if theirs is None or ours is None:
        return ()
    always = tuple(flattened(rule.rules))
    renamed = {parse(inner.hub[0]): parse(inner.spoke[0]) for inner in rule.rules if inner.name == "rename"}
    claimed = {parse(text)[0] for inner in always for text in (*inner.hub, *inner.spoke)}
    names: dict[str, str] = {}
    for name in theirs.properties:
        other = renamed.get((name,), (name,))
        is_same = name not in claimed or ((name,) in renamed and len(other) == 1)
        if is_same and _is_scalar(theirs.field(name)) and _is_scalar(ours.field(other[0])):
            names[name] = other[0]
    return _chosen(names, spoke, hub)


def _chosen(names: dict[str, str], spoke: Schema | None, hub: Schema | None) -> tuple[str, ...]:
    """Choose among fields of the hub's items, each with its name in the spoke's."""
    assert spoke is not None
    assert hub is not None
    assert hub.items is not None
    known = {other: name for name, other in names.items()}
    if spoke.list_keys and set(spoke.list_keys) <= known.keys():
        return tuple(known[key] for key in spoke.list_keys)
    unique = [*_unique_by_rule(hub), *(known.get(name, "") for name in _unique_by_rule(spoke))]
    required = [name for name in names if name in hub.items.required]
    usual = [name for name in _USUAL if name in names]
    candidates = (*unique, *(name for name in usual if name in required), *required, *usual)
    return tuple(name for name in candidates if name in names)[:1]


def _unique_by_rule(schema: Schema) -> Iterator[str]:
    for validation in schema.node.get("x-kubernetes-validations") or ():
        for item, left, field, right, other in _UNIQUE.findall(str(validation.get("rule", ""))):
            if field == other and left != right and item in (left, right):
                yield field


def _is_scalar(schema: Schema | None) -> bool:
    return schema is not None and schema.node.get("type") in _SCALARS and "enum" not in schema.node

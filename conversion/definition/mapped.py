"""Whether the fields that one rule ties together fit each other, as far as the schemas say.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from restow.conversion.compile.stage import key_names
from restow.conversion.definition.compat import is_guaranteed
from restow.conversion.definition.findings import Findings
from restow.conversion.definition.keys import check_keys
from restow.conversion.path import Path, parse
from restow.conversion.rules.model import Constant, Default, Lens, Move, Private, Rule, Scope, Side
from restow.crds import Schema
from restow.crds.paths import items_path, values_path
from restow.crds.schema import schema_at
from restow.crds.types import fits

__all__ = ["check_mapped"]

Cover = Callable[[Sequence[Rule], Schema, Schema, Findings], None]


def check_mapped(rule: Rule, spoke: Schema, hub: Schema, findings: Findings, cover: Cover) -> None:
    """Report what does not fit in one rule; ``cover`` checks the fields of schemas that it compares or enters."""
    match rule:
        case Move():
            _check_same(rule, spoke, hub, findings, cover)
            _check_required(rule, spoke, hub, findings)
        case Default():
            _check_same(rule, spoke, hub, findings, cover)
            _check_value(rule.value, "hub", rule, hub, findings)
        case Constant():
            side: Side = "spoke" if rule.spoke else "hub"
            _check_value(rule.value, side, rule, spoke if rule.spoke else hub, findings)
        case Private():
            _check_dispensable(rule, spoke, hub, findings)
        case Lens() if rule.tables is not None:
            _check_table(rule, spoke, hub, findings)
        case Lens() if rule.singleton is not None:
            _check_singleton(rule, spoke, hub, findings, cover)
        case Scope():
            _check_scope(rule, spoke, hub, findings, cover)


def _ends(rule: Rule, spoke: Schema, hub: Schema) -> tuple[Path, Path, Schema | None, Schema | None]:
    ours, theirs = parse(rule.spoke[0]), parse(rule.hub[0])
    return ours, theirs, schema_at(spoke, ours), schema_at(hub, theirs)


def _check_same(rule: Rule, spoke: Schema, hub: Schema, findings: Findings, cover: Cover) -> None:
    ours, theirs, from_schema, to_schema = _ends(rule, spoke, hub)
    if from_schema is not None and to_schema is not None:
        places = (findings.place("spoke", ours), findings.place("hub", theirs))
        _compare(from_schema, to_schema, *places, findings, cover)


def _compare(spoke: Schema, hub: Schema, ours: str, theirs: str, findings: Findings, cover: Cover) -> None:
    if spoke.node != hub.node:
        cover((), spoke, hub, findings.below(ours, theirs))


def _check_required(rule: Rule, spoke: Schema, hub: Schema, findings: Findings) -> None:
    ours, theirs, from_schema, to_schema = _ends(rule, spoke, hub)
    around, beside = schema_at(spoke, ours[:-1]), schema_at(hub, theirs[:-1])
    if from_schema is not None and to_schema is not None and around is not None and beside is not None:
        is_guaranteed(around, beside, ours, theirs, findings)


def _check_value(value: Any, side: Side, rule: Rule, root: Schema, findings: Findings) -> None:
    path = parse(rule.claims(side)[0])
    if not fits(value, schema_at(root, path)):
        findings.add(side, path, f"the value of {rule.label} is of another type", "Give a value that the schema admits")


def _check_dispensable(rule: Private, spoke: Schema, hub: Schema, findings: Findings) -> None:
    side: Side = "spoke" if rule.spoke else "hub"
    path = parse(rule.claims(side)[0])
    root, other = (spoke, hub) if side == "spoke" else (hub, spoke)
    around, field = schema_at(root, path[:-1]), schema_at(root, path)
    if around is None or field is None or path[-1] not in around.required or field.has_default:
        return
    if schema_at(other, path[:-1]) is not None:
        findings.add(
            side,
            path,
            f"is required, but objects made at {findings.version('hub' if side == 'spoke' else 'spoke')} never have it",
            "Say what they mean with rules.constant",
        )


def _check_table(rule: Lens, spoke: Schema, hub: Schema, findings: Findings) -> None:
    assert rule.tables is not None
    ours, theirs, from_schema, to_schema = _ends(rule, spoke, hub)
    sides: tuple[tuple[Side, Path, Schema | None, Any, Schema | None], ...] = (
        ("spoke", ours, from_schema, rule.tables["up"], to_schema),
        ("hub", theirs, to_schema, rule.tables["down"], from_schema),
    )
    for side, path, schema, table, target in sides:
        allowed = None if schema is None else schema.node.get("enum")
        admitted = None if target is None else target.node.get("enum")
        for value in allowed or ():
            if value is not None and value not in table and (admitted is None or value not in admitted):
                keyword = "up" if side == "spoke" else "down"
                findings.add(
                    side,
                    path,
                    f"{rule.label} has no entry for {value!r}",
                    f"Add it to the table, or to {keyword}=",
                )
        for value in table.values():
            if admitted is not None and value not in admitted:
                other = findings.version("hub" if side == "spoke" else "spoke")
                findings.add(
                    side,
                    path,
                    f"{rule.label} gives {value!r}, which {other} does not admit",
                    "Correct the table",
                )


def _check_singleton(rule: Lens, spoke: Schema, hub: Schema, findings: Findings, cover: Cover) -> None:
    ours, theirs, from_schema, to_schema = _ends(rule, spoke, hub)
    side: Side = "hub" if rule.singleton == "hub" else "spoke"
    listed = to_schema if side == "hub" else from_schema
    if listed is None:
        return
    if listed.kind != "list" or listed.items is None:
        findings.add(side, theirs if side == "hub" else ours, f"{rule.label} needs a list", "Correct the path")
        return
    places = (findings.place("spoke", ours), findings.place("hub", theirs))
    if side == "hub" and from_schema is not None:
        _compare(from_schema, listed.items, places[0], items_path(places[1]), findings, cover)
    elif side == "spoke" and to_schema is not None:
        _compare(listed.items, to_schema, items_path(places[0]), places[1], findings, cover)


def _check_scope(rule: Scope, spoke: Schema, hub: Schema, findings: Findings, cover: Cover) -> None:
    ours, theirs, from_schema, to_schema = _ends(rule, spoke, hub)
    if from_schema is None or to_schema is None:
        return
    wanted = "list" if rule.container == "list" else "map"
    for side, path, schema in (("spoke", ours, from_schema), ("hub", theirs, to_schema)):
        if schema.kind != wanted:
            findings.add(side, path, f"{rule.label} needs a {wanted}", "Correct the path")  # type: ignore[arg-type]
            return
    _check_required(rule, spoke, hub, findings)
    places = (findings.place("spoke", ours), findings.place("hub", theirs))
    if rule.container == "object":
        cover(rule.rules, from_schema, to_schema, findings.below(*places))
        return
    below = (from_schema.items, to_schema.items) if wanted == "list" else (from_schema.values, to_schema.values)
    if wanted == "list":
        _check_keys(rule, from_schema, to_schema, findings, ours, theirs)
    if below[0] is not None and below[1] is not None:
        step = items_path if wanted == "list" else values_path
        cover(rule.rules, below[0], below[1], findings.below(*(step(place) for place in places)))


def _check_keys(rule: Scope, spoke: Schema, hub: Schema, findings: Findings, ours: Path, theirs: Path) -> None:
    check_keys(rule, findings)
    checks: tuple[tuple[Side, Schema, Path], ...] = (("spoke", spoke, ours), ("hub", hub, theirs))
    for side, schema, path in checks:
        keys = key_names(rule, side)
        if schema.list_type == "map" and set(keys) != set(schema.list_keys):
            findings.add(
                side,
                path,
                f"{rule.label} tells items apart by {', '.join(keys) or 'nothing'}, the schema by "
                f"{', '.join(schema.list_keys)}",
                "Give the list-map keys as key=, and rename them with rules.rename if the versions differ",
            )

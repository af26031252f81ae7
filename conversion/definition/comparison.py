"""Reports how two fields with the same value differ in their schemas: type, enum, kind of list, undeclared fields.

Each finding has the rule that converts the field, with what has to be written around it.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from restow.conversion.definition.advice import Spot, literal
from restow.conversion.definition.diagnostics import DiagnosticCollector
from restow.conversion.definition.likely import Field, likely
from restow.conversion.definition.suggestions import python_source
from restow.conversion.model.fieldpath import Path, argument
from restow.conversion.rules.known import End, Ends
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.sides import Side, opposite
from restow.crds import Schema


def compare_types(
    spoke: Schema,
    hub: Schema,
    spoke_path: Path,
    hub_path: Path,
    findings: DiagnosticCollector,
    *,
    required: frozenset[Side] = frozenset(),
) -> bool:
    """Report how two fields with the same value differ; return whether their inner fields should be compared.

    ``required``: the versions that require the field. Without a path, the step to here says it (``Around``).
    """
    ours, theirs = _type(spoke), _type(hub)
    if "untyped" in (ours, theirs) and ours != theirs:
        side: Side = "hub" if ours == "untyped" else "spoke"
        _refuse_opaque(side, spoke_path, hub_path, "keeps any value", findings, required)
        return False
    if ours != theirs:
        problem = f"is {ours}, but {findings.hub} {findings.place('hub', hub_path)} is {theirs}"
        spot = findings.spot(spoke_path, hub_path, required=required)
        findings.add("spoke", spoke_path, problem, _other_type(spoke, hub, spot))
        return False
    _compare_enums(spoke, hub, spoke_path, hub_path, findings)
    if spoke.kind == "list" and (spoke.list_type, set(spoke.list_keys)) != (
        hub.list_type,
        set(hub.list_keys),
    ):
        findings.add(
            "spoke",
            spoke_path,
            f"is a list of the type {_list(spoke)}, but in {findings.hub} of the type {_list(hub)}",
            _other_list(spoke, hub, spoke_path, hub_path, findings),
        )
    if (spoke.values is None) != (hub.values is None) and spoke.kind == "map":
        opened = spoke if hub.values is None else hub
        if opened.preserves_unknown_fields:
            described: Side = "spoke" if opened is hub else "hub"
            _refuse_opaque(described, spoke_path, hub_path, "keeps any field", findings, required)
            return bool(opened.properties)
        open_side: Side = "hub" if spoke.values is None else "spoke"
        closed = findings.version("spoke" if open_side == "hub" else "hub")
        findings.add(
            open_side,
            spoke_path if open_side == "spoke" else hub_path,
            f"keeps undeclared fields, which {closed} would prune",
            _other_map(spoke_path, hub_path, findings),
        )
    return True


_CASTS: Final = {
    "boolean": "boolean",
    "integer": "integer",
    "integer or string": "int-or-string",
    "number": "number",
    "string": "string",
}


def _other_type(spoke: Schema, hub: Schema, spot: Spot) -> str:
    """Return the rule that converts a field to another type."""
    ours, theirs = _type(spoke), _type(hub)
    if spot.is_whole:
        return spot.conversion_as_a_whole
    if ours in _CASTS and theirs in _CASTS:
        types = f'spoke_type="{_CASTS[ours]}"', f'hub_type="{_CASTS[theirs]}"'
        return f"Convert it with {spot.rule('cast', *spot.ends, *types)}{spot.note}"
    guess = likely(Field(spot.spoke, spoke), Field(spot.hub, hub))
    if guess is not None and guess.rule is not None and _suits(guess.rule, spoke, hub, spot.required):
        return f"Convert it with {spot.around(python_source(guess.rule))}, or with {spot.pair}{spot.note}"
    return f"Convert it with {spot.pair}{spot.note}"


def _suits(rule: Rule, spoke: Schema, hub: Schema, required: frozenset[Side]) -> bool:
    """Return whether a rule between two fields accepts their schemas."""
    ends: Ends = {"spoke": [End(spoke, "spoke" in required)], "hub": [End(hub, "hub" in required)]}
    return next(rule.misfits(ends), None) is None


def _other_list(spoke: Schema, hub: Schema, spoke_path: Path, hub_path: Path, findings: DiagnosticCollector) -> str:
    """Return the rule for a list of another type; no rule of items can change the keys of a list."""
    spot = findings.spot(spoke_path, hub_path)
    ends = argument(spot.spoke), "[]", spot.renamed
    known = [each.list_keys for each in (spoke, hub) if each.list_type == "map"]
    if spot.is_whole or len(known) > 1 or spoke.items is None or spoke.items.kind != "map":
        return f"Declare the change with {spot.pair}{spot.note}, or make the schemas agree"
    names = [literal(key) for key in known[0]] if known else []
    keys = "" if not names else f"key={names[0]}" if len(names) == 1 else f"key=[{', '.join(names)}]"
    return f"Declare the change with {spot.rule('each', *ends, keys)}{spot.note}, or make the schemas agree"


def _other_map(spoke_path: Path, hub_path: Path, findings: DiagnosticCollector) -> str:
    spot = findings.spot(spoke_path, hub_path)
    if not spot.spoke or not spot.hub:
        return "Let both versions keep them"
    stashes = (spot.rule("stash", spot.one(side)) for side in ("spoke", "hub"))
    return (
        f"Let both versions keep them, convert the field as a whole with {spot.pair}, or let each version keep its own "
        f"with {' and '.join(stashes)}{spot.note}"
    )


def _refuse_opaque(
    by: Side, spoke: Path, hub: Path, keeps: str, findings: DiagnosticCollector, required: frozenset[Side]
) -> None:
    """Report a field that one version keeps as it is, and that the other one, ``by``, describes."""
    other = opposite(by)
    path, place = (spoke, findings.place("hub", hub)) if other == "spoke" else (hub, findings.place("spoke", spoke))
    spot = findings.spot(spoke, hub, required=required)
    whole = spot.rule("described", *spot.ends, f'by="{by}"')
    fix = f"Pass what fits, and stash the rest, with {whole}{spot.note}; or describe it in both versions"
    if spot.is_whole and (spot.instead is None or spot.instead.container is None):
        fix = f"{spot.conversion_as_a_whole}; or describe it in both versions"
    elif by in spot.required:  # a rule that stashes what does not fit would leave the field out
        fix = f"Convert it with {spot.pair}{spot.note}, since {findings.version(by)} requires it"
        fix = f"{fix}; or describe it in both versions"
    findings.add(other, path, f"{keeps}, but {findings.version(by)} describes {place}", fix)


def _compare_enums(spoke: Schema, hub: Schema, spoke_path: Path, hub_path: Path, findings: DiagnosticCollector) -> None:
    ours, theirs = _enum(spoke), _enum(hub)
    for side, mine, yours, path in (("spoke", ours, theirs, spoke_path), ("hub", theirs, ours, hub_path)):
        if yours is None or mine == yours:
            continue
        other = findings.hub if side == "spoke" else findings.spoke
        if mine is None:
            problem = f"takes values that the enum of {other} does not"
        else:
            extra = [value for value in mine if value not in yours]
            if not extra:
                continue
            problem = f"takes {', '.join(map(repr, extra))}, which {other} does not"
        spot = findings.spot(spoke_path, hub_path)
        fix = spot.conversion_as_a_whole
        if not spot.is_whole:
            fix = f"Say what {other} shows for it, with {_enum_rule(spoke, hub, spot)}{spot.note}"
        findings.add(side, path, problem, fix)  # type: ignore[arg-type]


def _enum_rule(spoke: Schema, hub: Schema, spot: Spot) -> str:
    """Return the rule that names, for each value of one version alone, the value that the other one shows."""
    ours, theirs = _enum(spoke), _enum(hub)
    if spoke.kind in ("list", "map"):
        return spot.pair
    guess = likely(Field(spot.spoke, spoke), Field(spot.hub, hub))
    if guess is not None and guess.rule is not None and guess.rule.name == "enum" and not guess.asks:
        return spot.around(python_source(guess.rule))
    if ours is None or theirs is None:  # the other version takes any value: those of the enum stay as they are
        same = _table((value, literal(value)) for value in ours or theirs or ())
        return spot.rule("enum", argument(spot.spoke), same, spot.renamed)
    up = _table((value, "…") for value in ours if value not in theirs)
    down = _table((value, "…") for value in theirs if value not in ours)
    tables = [f"{name}={table}" for name, table in (("up", up), ("down", down)) if table != "{}"]
    return spot.rule("enum", argument(spot.spoke), "{}", spot.renamed, *tables)


def _table(entries: Iterable[tuple[Any, str]]) -> str:
    return f"{{{', '.join(f'{literal(value)}: {other}' for value, other in entries)}}}"


def _enum(schema: Schema) -> list[Any] | None:
    values = schema.node.get("enum")
    return None if values is None else [value for value in values if value is not None]


def _type(schema: Schema) -> str:
    return "integer or string" if schema.int_or_string else schema.node.get("type") or "untyped"


def _list(schema: Schema) -> str:
    return f"{schema.list_type}{list(schema.list_keys) if schema.list_keys else ''}"

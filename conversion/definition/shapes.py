"""Checks that the schemas of the fields that a standard rule claims suit the rule.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from restow.conversion.definition.advice import Spot
from restow.conversion.definition.diagnostics import DiagnosticCollector
from restow.conversion.model.fieldpath import Path, argument, parse
from restow.conversion.rules.known import End, Ends, Shape, Standard
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.sides import Side
from restow.crds import Schema
from restow.crds.schema import schema_at

_ARTICLED: Final = {
    "array": "a list",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


def check_scalar(rule: Rule, spoke: Schema, hub: Schema, findings: DiagnosticCollector) -> bool:
    """Report a table of values for a list or an object, which would pass unchanged; return whether there is none."""
    ours, theirs = parse(rule.spoke[0]), parse(rule.hub[0])
    ends = schema_at(spoke, ours), schema_at(hub, theirs)
    sides: tuple[tuple[Side, Path, Schema | None], ...] = (("spoke", ours, ends[0]), ("hub", theirs, ends[1]))
    for side, path, schema in sides:
        if schema is not None and schema.kind in ("list", "map"):
            spot = replace(findings.spot(ours, theirs), instead=rule)
            problem = f"{rule.label} converts one value, and this is {_ARTICLED[schema.node['type']]}"
            findings.add(side, path, problem, f"Convert it with {_for_content(spot, *ends)}{spot.note}")
            return False
    return True


def _for_content(spot: Spot, spoke: Schema | None, hub: Schema | None) -> str:
    """Return the rule that takes rules for the fields inside; a pair where there are none, or the ends differ."""
    ends, name = [each for each in (spoke, hub) if each is not None], ""
    if all(each.kind == "list" and each.items is not None and each.items.kind == "map" for each in ends):
        name = "each"
    elif all(each.kind == "map" and each.properties for each in ends):
        name = "inside"
    elif all(each.kind == "map" and each.values is not None and each.values.kind == "map" for each in ends):
        name = "each_value"
    return spot.rule(name, argument(spot.spoke), "[]", spot.renamed) if name else spot.pair


def check_standard(rule: Rule, standard: Standard, spoke: Schema, hub: Schema, findings: DiagnosticCollector) -> None:
    """Report the fields of a standard rule whose schemas have another type, or do not suit it for another reason.

    A field counts as optional if another rule says what it means that it is missing.
    """
    ends: Ends = {
        "spoke": [_end(spoke, text, "spoke", findings) for text in rule.spoke],
        "hub": [_end(hub, text, "hub", findings) for text in rule.hub],
    }
    is_sound = True
    for side, shapes in standard.shapes.items():
        for text, end, shape in zip(rule.claims(side), ends[side], shapes, strict=True):
            for problem in () if end is None else _misfits(shape, end.schema):
                is_sound = False
                findings.add(side, parse(text), f"{problem}, as {rule.label} needs it", "Correct the path or the rule")
    for misfit in rule.misfits(ends) if is_sound else ():
        path = parse(rule.claims(misfit.side)[misfit.index])
        findings.add(misfit.side, path, misfit.problem, misfit.fix)


def _end(root: Schema, text: str, side: Side, findings: DiagnosticCollector) -> End | None:
    path = parse(text)
    around, schema = schema_at(root, path[:-1]), schema_at(root, path)
    if around is None or schema is None:
        return None
    is_required = path[-1] in around.required and not schema.has_default
    return End(schema, is_required and not findings.is_answered(side, path))


def _misfits(shape: Shape, schema: Schema, inside: str = "") -> Iterator[str]:
    """Yield the differences of a schema from a rule's shape; a field of any type suits every rule."""
    if not shape or schema.kind == "any":
        return
    found, wanted = _type(schema), _type(Schema(shape))
    if found != wanted and not (wanted == "an integer or a string" and found == "a string"):
        yield f"{inside}is {found}, not {wanted}"
        return
    if "items" in shape and schema.items is not None:
        yield from _misfits(shape["items"], schema.items, "has items of which each ")
    if "additionalProperties" in shape:
        if schema.values is None:
            yield f"{inside}is an object with declared fields only, not a map"
        else:
            yield from _misfits(shape["additionalProperties"], schema.values, "is a map of which each value ")
    for name, node in (shape.get("properties") or {}).items():
        field = schema.field(name)
        if field is None:
            yield f"{inside}has no field {name}"
        else:
            yield from _misfits(node, field, f"{inside}has a field {name} that ")


def _type(schema: Schema) -> str:
    if schema.int_or_string:
        return "an integer or a string"
    return _ARTICLED.get(schema.node.get("type") or "", "untyped")

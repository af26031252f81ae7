"""Objects that one version requires and that only rules make there: is there always something to put into them?

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from restow.conversion.definition.findings import Findings
from restow.conversion.path import Path, parse, starts_with
from restow.conversion.rules.model import Lens, Move, Rule, Scope, Side
from restow.crds import Schema
from restow.crds.schema import schema_at

__all__ = ["check_made"]


def check_made(rules: Sequence[Rule], spoke: Schema, hub: Schema, findings: Findings) -> None:
    """Report required objects that an object of the other version may not fill."""
    sides: tuple[tuple[Side, Schema, Side, Schema], ...] = (("spoke", spoke, "hub", hub), ("hub", hub, "spoke", spoke))
    for side, schema, other, source in sides:
        claims = [parse(text) for rule in rules for text in rule.claims(side)]
        for made in dict.fromkeys(path[:length] for path in claims for length in range(1, len(path))):
            if schema_at(source, made) is None and _is_required(schema, made):
                fillers = [rule for rule in rules if any(starts_with(parse(text), made) for text in rule.claims(side))]
                if not any(_is_sure(rule, other, source, made[:-1]) for rule in fillers):
                    problem = f"is required, but an object of {findings.version(other)} may have nothing to put into it"
                    findings.add(side, made, problem, "Make it optional, or require there what is moved into it")


def _is_required(schema: Schema, path: Path) -> bool:
    around, field = schema_at(schema, path[:-1]), schema_at(schema, path)
    return around is not None and field is not None and path[-1] in around.required and not field.has_default


def _is_sure(rule: Rule, side: Side, schema: Schema, around: Path) -> bool:
    """Say whether a rule has something to give whenever the object at ``around`` is there."""
    if not isinstance(rule, Move | Lens | Scope):
        return False
    paths = [parse(text) for text in rule.claims(side)]
    return any(all(_is_always(schema, path[:length]) for length in _beyond(path, around)) for path in paths)


def _beyond(path: Path, around: Path) -> range:
    """Return the lengths of those beginnings of ``path`` that are no beginnings of ``around``."""
    common = 0
    while common < min(len(path) - 1, len(around)) and path[common] == around[common]:
        common += 1
    return range(common + 1, len(path) + 1)


def _is_always(schema: Schema, path: Path) -> bool:
    around, field = schema_at(schema, path[:-1]), schema_at(schema, path)
    return around is not None and (path[-1] in around.required or (field is not None and field.has_default))

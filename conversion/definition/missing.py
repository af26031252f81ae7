"""Notes about required fields that an object may lack after a conversion; and where schemas guarantee a field.

``missing_where_kept`` is about rules with ``on_error="keep"``. If one fails, the other version shows the default of its
schema. A required field without a default is missing: clients read an object without it, and an API server refuses the
next write of the object at that version. ``missing_where_made`` is about an object that a moved field makes, without
what both versions require in it.

These are notes, no defects (for those see ``restow.conversion.definition.required``). A failing rule must not fail
every list of its kind, and only the author knows whether there are objects that a moved field makes.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from restow.conversion.compile.graph import KindGraph
from restow.conversion.model.errors import Diagnostic
from restow.conversion.model.fieldpath import Path, argument, parse, shown, starts_with
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.sides import SIDES, Side, opposite
from restow.conversion.rules.unions import flattened
from restow.crds import Schema
from restow.crds.paths import ROOT
from restow.crds.schema import schema_at

_FIX_KEPT: Final = "Give the field a default in the schema, or let clients expect that it is missing"
_HIDDEN: Final = "is in both versions, and the stash keeps its value on both sides: neither shows that of the other"
_FIX_HIDDEN: Final = "Convert it if some values mean the same in both, with rules.enum, rules.cast or rules.pair"

#: The object that rules apply to, on both sides: its schema, and the text of its path.
_Scope = dict[Side, tuple[Schema | None, str]]


def missing_where_kept(kind: KindGraph) -> list[Diagnostic]:
    """Return a note for each required field that is missing if a rule of a kind fails; none without schemas."""
    problem = "is required, and missing where {rule} fails and keeps the value"
    return _notes(kind, _kept, problem, lambda _side, _path: _FIX_KEPT)


def missing_where_made(kind: KindGraph) -> list[Diagnostic]:
    """Return a note for each required field that is missing where a moved field alone makes the object around it.

    Both versions may require the field in the object. But an object of the other version may lack the object, and have
    the field that moves into it. None without schemas.
    """
    problem = "is required, and missing where {rule} alone makes the object around it"
    return _notes(kind, _made, problem, _advice_left_out)


def hidden_on_both_sides(kind: KindGraph) -> list[Diagnostic]:
    """Return a note for each field that both versions have under one name, and that each keeps from the other."""
    return _notes(kind, _hidden, _HIDDEN, lambda _side, _path: _FIX_HIDDEN)


def _hidden(rules: Sequence[Rule], _scope: _Scope, side: Side) -> Iterator[tuple[Path, Rule]]:
    stashed = {
        (each, parse(text)): rule
        for rule in rules
        if rule.is_private and not rule.drops
        for each in SIDES
        for text in rule.claims(each)
    }
    yield from (
        (path, rule) for (each, path), rule in stashed.items() if each == side == "spoke" and ("hub", path) in stashed
    )


#: Finds the fields that are missing in a scope, and the rule for each.
_Missing = Callable[[Sequence[Rule], _Scope, Side], Iterator[tuple[Path, Rule]]]


def _advice_left_out(side: Side, path: Path) -> str:
    field = argument(path)
    filled = 'omitted_in="hub", hides=False' if side == "spoke" else "hides=False"
    place = field if side == "spoke" else f"hub={field}"
    return (
        f"Say what it is there with rules.default({field}, …, {filled}), "
        f'or accept with rules.waive({place}, acknowledge="why") that it may be missing'
    )


def _notes(kind: KindGraph, missing: _Missing, problem: str, fix: Callable[[Side, Path], str]) -> list[Diagnostic]:
    title = f"{kind.kind}.{kind.group}"
    found = []
    for spoke in kind.spokes.values():
        versions: dict[Side, str] = {"spoke": spoke.version, "hub": kind.hub}
        root: _Scope = {"spoke": (spoke.schema, ROOT), "hub": (kind.hub_schema, ROOT)}
        for rules, scope in _scopes(spoke.rules, root):
            for side in SIDES if not kind.is_internal else SIDES[:1]:
                for path, rule in missing(rules, scope, side):
                    place, said = shown(path, scope[side][1]), problem.format(rule=rule.label)
                    found.append(Diagnostic(title, versions[side], place, said, fix(side, path)))
    return list(dict.fromkeys(found))


def _scopes(rules: Sequence[Rule], scope: _Scope) -> Iterator[tuple[Sequence[Rule], _Scope]]:
    yield rules, scope
    for rule in flattened(rules):
        inside = {
            side: (rule.inner_schema(side, scope[side][0]), rule.inner_place(side, scope[side][1])) for side in SIDES
        }
        yield from _scopes(rule.contained, inside) if rule.container is not None else ()


def _kept(rules: Sequence[Rule], scope: _Scope, side: Side) -> Iterator[tuple[Path, Rule]]:
    schema, _ = scope[side]
    for rule in flattened(rules):
        if schema is not None and rule.keeps and not rule.contained:
            yield from ((path, rule) for path in map(parse, rule.claims(side)) if is_required(schema, path))


def _made(rules: Sequence[Rule], scope: _Scope, side: Side) -> Iterator[tuple[Path, Rule]]:
    (schema, _), (source, _) = scope[side], scope[opposite(side)]
    if schema is not None and source is not None:
        answered = {rule.answers for rule in rules}
        yield from (
            (path, rule) for path, rule in left_out(rules, side, schema, source) if (side, path) not in answered
        )


def left_out(rules: Sequence[Rule], side: Side, schema: Schema, source: Schema) -> Iterator[tuple[Path, Rule]]:
    """Yield the required fields that an object lacks if a moved field alone makes it, each with the rule that moves."""
    claims = [(parse(text), rule) for rule in rules for text in rule.claims(side)]
    found: dict[Path, Rule] = {}
    for path, rule in claims:
        origins = [parse(text) for text in rule.claims(opposite(side))]
        for around in (path[:length] for length in range(1, len(path)) if origins):
            if schema_at(source, around) is None or any(_has_around(source, around, each) for each in origins):
                continue
            described = schema_at(schema, around)
            for name in sorted(described.required if described is not None else ()):
                required = (*around, name)
                if is_required(schema, required) and not any(starts_with(claim, required) for claim, _ in claims):
                    found.setdefault(required, rule)
    yield from found.items()


def _has_around(source: Schema, around: Path, path: Path) -> bool:
    """Return whether every object that has a value at a path also has an object at another path."""
    return starts_with(path, around) or all(is_always(source, around[:end]) for end in beyond(around, path[:-1]))


def is_required(schema: Schema, path: Path) -> bool:
    """Return whether the schema requires the field at a path, and has no default for it."""
    around, field = schema_at(schema, path[:-1]), schema_at(schema, path)
    return around is not None and field is not None and path[-1] in around.required and not field.has_default


def beyond(path: Path, around: Path) -> range:
    """Return the lengths of the prefixes of ``path`` that are no prefixes of ``around``."""
    common = 0
    while common < min(len(path) - 1, len(around)) and path[common] == around[common]:
        common += 1
    return range(common + 1, len(path) + 1)


def is_always(schema: Schema, path: Path) -> bool:
    """Return whether every stored object has a field: the object around it requires it, or the schema fills it in."""
    around, field = schema_at(schema, path[:-1]), schema_at(schema, path)
    return around is not None and (path[-1] in around.required or (field is not None and field.has_default))

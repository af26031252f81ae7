"""Checks that no conversion leaves out a field that the target's version requires.

A required field is guaranteed if the other version requires it too, or has a default for it. Otherwise a rule must
define the meaning of its absence (``rules.default``, ``rules.constant``), or allow it to be missing (``rules.waive``).
The laws test whether the functions of a pair over several fields return a required one.

``missing_where_kept`` checks rules with ``on_error="keep"``. If one fails, the other version shows the default of its
schema. A required field without a default is missing: clients read an object without it, and an API server refuses the
next write of the object at that version. These are notes, no defects: otherwise one such object would fail every list
of its kind. ``missing_where_made`` notes what is missing in an object that a moved field makes, since only the author
knows whether there are such objects.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from restow.conversion.compile.graph import KindGraph
from restow.conversion.definition.advice import Spot, argument, example
from restow.conversion.definition.diagnostics import DiagnosticCollector
from restow.conversion.model.errors import Diagnostic
from restow.conversion.model.fieldpath import Path, parse, shown, starts_with, value_at
from restow.conversion.model.values import ABSENT
from restow.conversion.rules.branches import When, flattened
from restow.conversion.rules.model import (
    Constant,
    Default,
    Lens,
    Move,
    Private,
    Rule,
    ScopedRules,
    Side,
    Waiver,
    opposite,
)
from restow.crds import Schema
from restow.crds.paths import ROOT, items_path, values_path
from restow.crds.schema import schema_at
from restow.crds.types import fits, violations

__all__ = [
    "check_dispensable",
    "check_implied",
    "check_made",
    "check_waivers",
    "is_guaranteed",
    "missing_where_kept",
    "missing_where_made",
    "one_sided",
    "requiring",
]


def is_guaranteed(spoke: Schema, hub: Schema, spoke_path: Path, hub_path: Path, findings: DiagnosticCollector) -> None:
    """Report a field that one version requires and the other may lack; the schemas are those of the objects around."""
    sides: tuple[tuple[Side, Schema, Path, Side, Schema, Path], ...] = (
        ("hub", hub, hub_path, "spoke", spoke, spoke_path),
        ("spoke", spoke, spoke_path, "hub", hub, hub_path),
    )
    for side, schema, path, other, around, its_path in sides:
        field, source = schema.field(path[-1]), around.field(its_path[-1])
        if field is None or path[-1] not in schema.required or field.has_default:
            continue
        if its_path[-1] in around.required or (source is not None and source.has_default):
            continue
        if not findings.is_answered(side, path):
            paths: dict[Side, Path] = {side: path, other: its_path}
            problem = f"is required, but {findings.version(other)} may leave it out"
            findings.add(side, path, problem, _advice(side, paths, field, findings))


def _advice(side: Side, paths: Mapping[Side, Path], field: Schema, findings: DiagnosticCollector) -> str:
    """Return the rules, as source text, that define the meaning of the absence."""
    spot = findings.spot(paths["spoke"], paths["hub"], next_to_move=True)
    if spot.is_key:
        inside = findings.spot(paths["spoke"], paths["hub"], next_to_move=True, keeps_key=True)
        return f"{spot.conversion_as_a_whole}; or {_accept(side, inside)}"
    if spot.is_whole:
        return spot.conversion_as_a_whole
    return f"Say what its absence means with {_default(side, spot, field)}, or {_accept(side, spot)}"


def _default(side: Side, spot: Spot, field: Schema | None, *more: str) -> str:
    """Return the rule for a field that may be missing on this side, with further arguments."""
    omitted = 'omitted_in="hub"' if side == "spoke" else ""
    return spot.rule("default", spot.one("spoke"), example(field), spot.renamed, omitted, *more)


def _accept(side: Side, spot: Spot) -> str:
    return f"accept with {_waiver(side, spot)} that it may be missing{spot.note}"


def _waiver(side: Side, spot: Spot) -> str:
    return spot.rule("waive", spot.one(side), 'acknowledge="why"')


def _constant(side: Side, spot: Spot, value: str) -> str:
    """Return the rule that gives a field of this side alone a value, which is source text."""
    return spot.rule("constant", spot.one(side), f"value={value}")


#: The rules that claim fields, by side.
_Claims = Mapping[Side, Mapping[Path, Rule]]


def one_sided(
    side: Side, path: Path, roots: Mapping[Side, Schema], claims: _Claims, findings: DiagnosticCollector
) -> str:
    """Return the rules for a field that only one version has; a required one needs a value in the other's objects."""
    spot, other = findings.spot(path, path, keeps_key=True), opposite(side)
    if spot.is_whole:
        return spot.conversion_as_a_whole
    keys = sorted(findings.around[-1].keys) if findings.around and len(path) == 1 else []
    if path[0] in keys:
        return _other_key(side, path[0], roots, claims, findings)
    for key in keys:
        is_open = roots[other].is_declared(key) and not roots[side].is_declared(key) and (key,) not in claims[other]
        if is_open and _identifying(other, key, roots, claims) == path[0]:
            return _other_key(other, key, roots, claims, findings)
    if _is_required(roots[side], path) and schema_at(roots[other], path[:-1]) is not None:
        constant = _constant(side, spot, example(schema_at(roots[side], path)))
        version = findings.version(other)
        return f"Map it with a rule, or say what it is in objects made at {version} with {constant}{spot.note}"
    stash, drop = spot.rule("stash", spot.one(side)), spot.rule("drop", spot.one(side), 'acknowledge="why"')
    return f"Map it with a rule, keep it with {stash}, or let it go with {drop}{spot.note}"


def _other_key(
    side: Side, key: str, roots: Mapping[Side, Schema], claims: _Claims, findings: DiagnosticCollector
) -> str:
    """Return the rule for a key of one version alone: no rule but a rename may say what identifies an item."""
    found, whole = _identifying(side, key, roots, claims), findings.spot((), ())
    if found is None:
        return f"Convert the list as a whole with {whole.pair}{whole.note}, or let both versions have the key"
    ends: tuple[Path, Path] = ((key,), (found,)) if side == "spoke" else ((found,), (key,))
    spot = findings.spot(*ends, keeps_key=True)
    spot = replace(spot, instead=claims[opposite(side)].get((found,), spot.instead))
    return f"Rename what identifies an item, with {spot.rule('rename', *spot.ends)}{spot.note}"


def _identifying(side: Side, key: str, roots: Mapping[Side, Schema], claims: _Claims) -> str | None:
    """Return the likely field of the other version for a key of one version; None if no field can be it."""
    here, there = roots[side], roots[opposite(side)]
    field, taken = here.field(key), claims[opposite(side)]
    alike = [
        name
        for name, other in there.properties.items()
        if not here.is_declared(name)
        and field is not None
        and other.node.get("type") == field.node.get("type")
        and isinstance(taken.get((name,)), Private | None)
    ]
    return min(alike, key=lambda name: name not in there.required, default=None)


def check_implied(
    rule: Constant | Default, rules: Sequence[Rule], spoke: Schema, hub: Schema, findings: DiagnosticCollector
) -> None:
    """Report a value that its side does not admit, and a default that removes a field that its side requires."""
    roots: dict[Side, Schema] = {"spoke": spoke, "hub": hub}
    path = parse(getattr(rule, rule.filled_in)[0])
    field = schema_at(roots[rule.filled_in], path)
    if not fits(rule.value, field):
        problem = f"the value of {rule.label} is of another type"
        findings.add(rule.filled_in, path, problem, "Give a value that the schema admits")
    elif field is not None and (lacking := next(violations(_completed(rule, path, rules), field, ""), None)):
        problem = f"the value of {rule.label} is not valid: {shown(path)}{lacking}"
        findings.add(rule.filled_in, path, problem, "Give a value that the schema admits")
    if isinstance(rule, Default) and rule.hides:
        _check_omittable(rule, path, roots, findings)


def _completed(rule: Constant | Default, path: Path, rules: Sequence[Rule]) -> Any:
    """Return the value with all implied values inside of it."""
    inner = [
        (parse(getattr(other, other.filled_in)[0])[len(path) :], other.value)
        for other in rules
        if isinstance(other, Constant | Default)
        and other.filled_in == rule.filled_in
        and other is not rule
        and starts_with(parse(getattr(other, other.filled_in)[0]), path)
    ]
    value = rule.value
    for below, filled in sorted(inner, key=lambda each: len(each[0])):
        value = _filled(value, below, filled) if below else value
    return value


def _filled(value: Any, path: Path, filled: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if len(path) == 1:
        return {path[0]: filled, **value}
    return {**value, path[0]: _filled(value[path[0]], path[1:], filled)} if path[0] in value else value


def _check_omittable(rule: Default, path: Path, roots: Mapping[Side, Schema], findings: DiagnosticCollector) -> None:
    omitted = parse(getattr(rule, rule.omitted_in)[0])
    if not _is_required(roots[rule.omitted_in], omitted):
        return
    problem = f"is required, but {rule.label} leaves it out where it is {rule.value!r}"
    fix = f'Say omitted_in="{rule.filled_in}", since {findings.version(rule.filled_in)} is what may leave it out'
    if _is_required(roots[rule.filled_in], path):
        fix = "Remove the rule: both versions always have the field"
        if rule.spoke != rule.hub:
            fix = f'Use rules.move("{rule.spoke[0]}", "{rule.hub[0]}"): both versions always have the field'
    findings.add(rule.omitted_in, omitted, problem, fix)


def check_dispensable(rule: Private, spoke: Schema, hub: Schema, findings: DiagnosticCollector) -> None:
    """Report a required field that only one version has: objects made at the other version never have it."""
    side: Side = "spoke" if rule.spoke else "hub"
    path = parse(rule.claims(side)[0])
    root, other = (spoke, hub) if side == "spoke" else (hub, spoke)
    if not _is_required(root, path) or schema_at(other, path[:-1]) is None or findings.is_answered(side, path):
        return
    spot = findings.spot(path, path)
    constant = _constant(side, spot, example(schema_at(root, path)))
    findings.add(
        side,
        path,
        f"is required, but objects made at {findings.version(opposite(side))} never have it",
        f"Say what they mean with {constant} instead of {rule.label}, or {_accept(side, spot)}",
    )


def check_made(rules: Sequence[Rule], spoke: Schema, hub: Schema, findings: DiagnosticCollector) -> None:
    """Report required objects that an object of the other version may not fill."""
    sides: tuple[tuple[Side, Schema, Side, Schema], ...] = (("spoke", spoke, "hub", hub), ("hub", hub, "spoke", spoke))
    for side, schema, other, source in sides:
        claims = [parse(text) for rule in rules for text in rule.claims(side)]
        for made in dict.fromkeys(path[:length] for path in claims for length in range(1, len(path))):
            if schema_at(source, made) is None and _is_required(schema, made):
                fillers = [rule for rule in rules if any(starts_with(parse(text), made) for text in rule.claims(side))]
                if any(_is_sure(rule, other, source, made[:-1]) for rule in fillers):
                    continue
                if not findings.is_answered(side, made):
                    problem = f"is required, but an object of {findings.version(other)} may have nothing to put into it"
                    findings.add(side, made, problem, _advice_made(side, made, schema, rules, findings))


def _advice_made(side: Side, made: Path, schema: Schema, rules: Sequence[Rule], findings: DiagnosticCollector) -> str:
    """Return the rules that make the object with all that is required in it."""
    spot = findings.spot(made, made, next_to_move=True)
    empty: Constant = Constant(**{side: (shown(made),)}, value={})  # type: ignore[arg-type]
    fillers = list(_fillers(side, made, _completed(empty, made, rules), schema, rules, findings))
    if "" in fillers:
        return f"Let a rule give it a value, or {_accept(side, spot)}"
    return f"Add {' and '.join((*fillers, _constant(side, spot, '{}')))}{spot.note}, or {_accept(side, spot)}"


def _fillers(
    side: Side, around: Path, value: Any, schema: Schema, rules: Sequence[Rule], findings: DiagnosticCollector
) -> Iterator[str]:
    """Yield the rules for what an object requires and lacks; an empty text where no single rule can give it."""
    claims = [(parse(text), rule) for rule in rules for text in rule.claims(side)]
    described = schema_at(schema, around)
    for name in sorted(described.required if described is not None else ()):
        path, given = (*around, name), value_at(value, (name,))
        claiming = next((rule for claim, rule in claims if claim == path), None)
        if given is ABSENT and findings.is_answered(side, path):
            continue
        if claiming is None and any(starts_with(claim, path) for claim, _ in claims):
            yield from _fillers(side, path, {} if given is ABSENT else given, schema, rules, findings)
            if given is ABSENT:
                yield _constant(side, findings.spot(path, path), "{}")
        elif given is ABSENT:
            yield _filler(side, path, claiming, schema, findings)


def _filler(side: Side, path: Path, claiming: Rule | None, schema: Schema, findings: DiagnosticCollector) -> str:
    """Return the rule that gives a field a value; empty if the rule that converts it does not allow for one."""
    field = schema_at(schema, path)
    if claiming is None or isinstance(claiming, Private):
        spot = findings.spot(path, path)
        instead = "" if claiming is None else f" instead of {claiming.label}"
        return f"{_constant(side, spot, example(field))}{instead}"
    if isinstance(claiming, Move | Lens | ScopedRules) and len(claiming.spoke) == len(claiming.hub) == 1:
        return _shown_default(side, claiming, field, findings)
    return ""


def _shown_default(side: Side, rule: Rule, field: Schema | None, findings: DiagnosticCollector) -> str:
    """Return a default of what another rule moves; it hides nothing, since the source may require the field."""
    spot = findings.spot(parse(rule.spoke[0]), parse(rule.hub[0]), next_to_move=True)
    return _default(side, spot, field, "hides=False")


def check_waivers(rules: Sequence[Rule], spoke: Schema, hub: Schema, findings: DiagnosticCollector) -> None:
    """Report waivers of fields that do not exist, or cannot be missing; called after all other checks."""
    roots: dict[Side, Schema] = {"spoke": spoke, "hub": hub}
    for (side, path), rule in findings.answered.items():
        other = opposite(side)
        if schema_at(roots[side], path) is None:
            problem = f"{rule.label} names a field that the schema does not declare"
            findings.add(side, path, problem, "Correct the path")
        elif isinstance(rule, Waiver) and not _is_required(roots[side], path):
            problem = f"is not required in {findings.version(side)}, so there is nothing to waive"
            findings.add(side, path, problem, f"Remove {rule.label}")
        elif isinstance(rule, Waiver) and rule in rules and _is_kept(rules, side, path, roots):
            problem = f"is never missing in {findings.version(other)}, so there is nothing to waive"
            findings.add(side, path, problem, f"Remove {rule.label}")


def _is_kept(rules: Sequence[Rule], side: Side, path: Path, roots: Mapping[Side, Schema]) -> bool:
    """Return whether a field is one that every object of the other version has, with the same value."""
    source, counterpart = roots[opposite(side)], _counterpart(rules, side, path)
    if not counterpart or not _is_always(source, counterpart):
        return False
    return all(path != missing for missing, _ in _left_out(rules, side, roots[side], source))


def _counterpart(rules: Sequence[Rule], side: Side, path: Path) -> Path:
    """Return the path in the other version of a field that keeps its value; empty if that is not known.

    A function may fail, and a branch of a union holds for some objects only.
    """
    other = opposite(side)
    if any(isinstance(rule, When) for rule in rules):
        return ()
    for rule in rules:
        around = next((claim for claim in map(parse, rule.claims(side)) if starts_with(path, claim)), None)
        if around is None:
            continue
        if not isinstance(rule, Move | ScopedRules) or (isinstance(rule, ScopedRules) and rule.on_error == "keep"):
            return ()
        inside = path[len(around) :]
        if isinstance(rule, ScopedRules) and inside:
            inside = _counterpart(rule.inner, side, inside)
            if not inside:
                return ()
        return parse(rule.claims(other)[0]) + inside
    taken = (parse(text) for rule in rules for text in rule.claims(other))
    return () if any(starts_with(path, claim) for claim in taken) else path


def requiring(spoke: Schema, hub: Schema, spoke_path: Path, hub_path: Path) -> frozenset[Side]:
    """Return the versions that require a field of these objects; neither requires the object itself."""
    ends: tuple[tuple[Side, Schema, Path], ...] = (("spoke", spoke, spoke_path), ("hub", hub, hub_path))
    return frozenset(side for side, schema, path in ends if path and _is_required(schema, path))


def _is_required(schema: Schema, path: Path) -> bool:
    around, field = schema_at(schema, path[:-1]), schema_at(schema, path)
    return around is not None and field is not None and path[-1] in around.required and not field.has_default


def _is_sure(rule: Rule, side: Side, schema: Schema, around: Path) -> bool:
    """Return whether a rule gives a value whenever the object at ``around`` is present."""
    if not isinstance(rule, Move | Lens | ScopedRules):
        return False
    paths = [parse(text) for text in rule.claims(side)]
    return any(all(_is_always(schema, path[:length]) for length in _beyond(path, around)) for path in paths)


def _beyond(path: Path, around: Path) -> range:
    """Return the lengths of the prefixes of ``path`` that are no prefixes of ``around``."""
    common = 0
    while common < min(len(path) - 1, len(around)) and path[common] == around[common]:
        common += 1
    return range(common + 1, len(path) + 1)


def _is_always(schema: Schema, path: Path) -> bool:
    around, field = schema_at(schema, path[:-1]), schema_at(schema, path)
    return around is not None and (path[-1] in around.required or (field is not None and field.has_default))


_SIDES: Final[tuple[Side, ...]] = ("spoke", "hub")
_FIX_KEPT: Final = "Give the field a default in the schema, or let clients expect that it is missing"

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
            for side in _SIDES if not kind.is_internal else _SIDES[:1]:
                for path, rule in missing(rules, scope, side):
                    place, said = shown(path, scope[side][1]), problem.format(rule=rule.label)
                    found.append(Diagnostic(title, versions[side], place, said, fix(side, path)))
    return list(dict.fromkeys(found))


def _scopes(rules: Sequence[Rule], scope: _Scope) -> Iterator[tuple[Sequence[Rule], _Scope]]:
    yield rules, scope
    for rule in flattened(rules):
        if isinstance(rule, ScopedRules):
            yield from _scopes(rule.rules, {side: _entered(rule, side, *scope[side]) for side in _SIDES})


def _kept(rules: Sequence[Rule], scope: _Scope, side: Side) -> Iterator[tuple[Path, Rule]]:
    schema, _ = scope[side]
    for rule in flattened(rules):
        if schema is not None and isinstance(rule, Lens) and rule.on_error == "keep":
            yield from ((path, rule) for path in map(parse, rule.claims(side)) if _is_required(schema, path))


def _made(rules: Sequence[Rule], scope: _Scope, side: Side) -> Iterator[tuple[Path, Rule]]:
    (schema, _), (source, _) = scope[side], scope[opposite(side)]
    if schema is not None and source is not None:
        answered = [parse(text) for rule in rules if isinstance(rule, Waiver) for text in getattr(rule, side)]
        yield from ((path, rule) for path, rule in _left_out(rules, side, schema, source) if path not in answered)


def _left_out(rules: Sequence[Rule], side: Side, schema: Schema, source: Schema) -> Iterator[tuple[Path, Rule]]:
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
                if _is_required(schema, required) and not any(starts_with(claim, required) for claim, _ in claims):
                    found.setdefault(required, rule)
    yield from found.items()


def _has_around(source: Schema, around: Path, path: Path) -> bool:
    """Return whether every object that has a value at a path also has an object at another path."""
    return starts_with(path, around) or all(_is_always(source, around[:end]) for end in _beyond(around, path[:-1]))


def _entered(rule: ScopedRules, side: Side, schema: Schema | None, around: str) -> tuple[Schema | None, str]:
    path = parse(rule.claims(side)[0])
    inner, place = schema_at(schema, path), shown(path, around)
    match rule.container:
        case "list":
            return inner and inner.items, items_path(place)
        case "map":
            return inner and inner.values, values_path(place)
        case _:
            return inner, place

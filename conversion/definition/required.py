"""Checks that no conversion leaves out a field that the target's version requires.

A required field is guaranteed if the other version requires it too, or has a default for it. Otherwise a rule must
define the meaning of its absence (``rules.default``, ``rules.constant``), or allow it to be missing (``rules.waive``).
The laws test whether the functions of a pair over several fields return a required one. Fields that may be missing
without a defect are in ``restow.conversion.definition.missing``.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from restow.conversion.definition.advice import Spot, example
from restow.conversion.definition.diagnostics import DiagnosticCollector
from restow.conversion.definition.missing import beyond, is_always, is_required, left_out
from restow.conversion.model.fieldpath import Path, parse, shown, starts_with, value_at
from restow.conversion.model.values import ABSENT
from restow.conversion.rules.protocol import Rule, claimed_paths, counterpart
from restow.conversion.rules.sides import Side, opposite
from restow.conversion.rules.unions import overlap
from restow.crds import Schema
from restow.crds.schema import schema_at
from restow.crds.types import fits, violations


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


def _advice(
    side: Side, paths: Mapping[Side, Path], field: Schema | None, findings: DiagnosticCollector, *more: str
) -> str:
    """Return the rules, as source text, that define the meaning of the absence."""
    spot = findings.spot(paths["spoke"], paths["hub"], next_to_move=True)
    if spot.is_key:
        inside = findings.spot(paths["spoke"], paths["hub"], next_to_move=True, keeps_key=True)
        return f"{spot.conversion_as_a_whole}; or {_accept(side, inside)}"
    if spot.is_whole:
        return spot.conversion_as_a_whole
    return f"Say what its absence means with {_default(side, spot, field, *more)}, or {_accept(side, spot)}"


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
    if is_required(roots[side], path) and schema_at(roots[other], path[:-1]) is not None:
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
        and ((rule := taken.get((name,))) is None or rule.is_private)
    ]
    return min(alike, key=lambda name: name not in there.required, default=None)


def check_implied(rule: Rule, rules: Sequence[Rule], spoke: Schema, hub: Schema, findings: DiagnosticCollector) -> None:
    """Report a value that its side does not admit, and a default that removes a field that its side requires."""
    roots: dict[Side, Schema] = {"spoke": spoke, "hub": hub}
    for side, root in roots.items():
        filled = rule.fills(side)
        if filled is None:
            continue
        path, value = filled
        field = schema_at(root, path)
        if not fits(value, field):
            problem = f"the value of {rule.label} is of another type"
            findings.add(side, path, problem, "Give a value that the schema admits")
        elif field is not None and (lacking := next(violations(_completed(filled, side, rules), field, ""), None)):
            problem = f"the value of {rule.label} is not valid: {shown(path)}{lacking}"
            findings.add(side, path, problem, "Give a value that the schema admits")
        if rule.omits is not None:
            _check_omittable(rule, rule.omits, filled, roots, findings)


def _completed(filled: tuple[Path, Any], side: Side, rules: Sequence[Rule]) -> Any:
    """Return the value of a field of that side with all implied values inside of it."""
    path, value = filled
    others = (other for rule in rules if (other := rule.fills(side)) is not None)
    inner = [(place[len(path) :], each) for place, each in others if starts_with(place, path) and place != path]
    for below, each in sorted(inner, key=lambda pair: len(pair[0])):
        value = _filled(value, below, each)
    return value


def _filled(value: Any, path: Path, filled: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if len(path) == 1:
        return {path[0]: filled, **value}
    return {**value, path[0]: _filled(value[path[0]], path[1:], filled)} if path[0] in value else value


def _check_omittable(
    rule: Rule, side: Side, filled: tuple[Path, Any], roots: Mapping[Side, Schema], findings: DiagnosticCollector
) -> None:
    """Report a field that its side requires, though a default leaves it out there."""
    omitted, other = parse(rule.named(side)[0]), opposite(side)
    if not is_required(roots[side], omitted):
        return
    problem = f"is required, but {rule.label} leaves it out where it is {filled[1]!r}"
    fix = f'Say omitted_in="{other}", since {findings.version(other)} is what may leave it out'
    if is_required(roots[other], filled[0]):
        fix = "Remove the rule: both versions always have the field"
        if rule.spoke != rule.hub:
            fix = f'Use rules.move("{rule.spoke[0]}", "{rule.hub[0]}"): both versions always have the field'
    findings.add(side, omitted, problem, fix)


def check_given(rule: Rule, rules: Sequence[Rule], roots: Mapping[Side, Schema], findings: DiagnosticCollector) -> None:
    """Report the required fields of a rule of several fields whose sources may all be missing: it is not called then.

    An object that the rule alone makes is missing, too.
    """
    for side in roots:
        other = opposite(side)
        claims = [parse(text) for each in rules if each is not rule for text in each.claims(side)]
        for path in claimed_paths(rule, side):
            around = path[:-1]
            is_made = schema_at(roots[other], around) is None and not overlap([around], claims)
            if is_made or _is_sure(rule, other, roots[other], around) or not _is_open(side, path, roots, findings):
                continue
            problem = f"is required, but {rule.label} gives no value where {findings.version(other)} has none of its"
            findings.add(side, path, f"{problem} fields", _otherwise(rule, side, path, roots, findings))


def check_shown(rule: Rule, roots: Mapping[Side, Schema], findings: DiagnosticCollector) -> None:
    """Report the required fields that show only the values which fit."""
    for side in roots:
        for path in claimed_paths(rule, side) if rule.shows_what_fits(side) else ():
            if _is_open(side, path, roots, findings):
                problem = f"is required, but {rule.label} shows only values that fit"
                findings.add(side, path, problem, _otherwise(rule, side, path, roots, findings))


def _is_open(side: Side, path: Path, roots: Mapping[Side, Schema], findings: DiagnosticCollector) -> bool:
    """Return whether a field is required, and no rule says what it means that it is missing."""
    return is_required(roots[side], path) and not findings.is_answered(side, path)


def _otherwise(rule: Rule, side: Side, path: Path, roots: Mapping[Side, Schema], findings: DiagnosticCollector) -> str:
    """Return the rules that say what a field is where the rule that converts it gives no value."""
    sources = claimed_paths(rule, opposite(side))
    source = sources[0] if len(sources) == 1 else next((each for each in sources if each[-1] == path[-1]), path)
    paths: dict[Side, Path] = {side: path, opposite(side): source}
    return _advice(side, paths, schema_at(roots[side], path), findings, "hides=False")


def check_dispensable(rule: Rule, spoke: Schema, hub: Schema, findings: DiagnosticCollector) -> None:
    """Report a required field that only one version has: objects made at the other version never have it."""
    side: Side = "spoke" if rule.spoke else "hub"
    path = parse(rule.claims(side)[0])
    root, other = (spoke, hub) if side == "spoke" else (hub, spoke)
    if not is_required(root, path) or schema_at(other, path[:-1]) is None or findings.is_answered(side, path):
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
            if schema_at(source, made) is None and is_required(schema, made):
                fillers = [rule for rule in rules if any(starts_with(parse(text), made) for text in rule.claims(side))]
                if any(_is_sure(rule, other, source, made[:-1]) for rule in fillers):
                    continue
                if not findings.is_answered(side, made):
                    problem = f"is required, but an object of {findings.version(other)} may have nothing to put into it"
                    findings.add(side, made, problem, _advice_made(side, made, schema, rules, findings))


def _advice_made(side: Side, made: Path, schema: Schema, rules: Sequence[Rule], findings: DiagnosticCollector) -> str:
    """Return the rules that make the object with all that is required in it."""
    spot = findings.spot(made, made, next_to_move=True)
    fillers = list(_fillers(side, made, _completed((made, {}), side, rules), schema, rules, findings))
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
    if claiming is None or claiming.is_private:
        spot = findings.spot(path, path)
        instead = "" if claiming is None else f" instead of {claiming.label}"
        return f"{_constant(side, spot, example(field))}{instead}"
    if claiming.converts and len(claiming.spoke) == len(claiming.hub) == 1:
        return _shown_default(side, claiming, field, findings)
    return ""


def _shown_default(side: Side, rule: Rule, field: Schema | None, findings: DiagnosticCollector) -> str:
    """Return a default of what another rule moves; it hides nothing, since the source may require the field."""
    spot = findings.spot(parse(rule.spoke[0]), parse(rule.hub[0]), next_to_move=True)
    return _default(side, spot, field, "hides=False")


def check_waivers(rules: Sequence[Rule], spoke: Schema, hub: Schema, findings: DiagnosticCollector) -> None:
    """Report waivers of fields that do not exist, or cannot be missing; called after all other checks."""
    roots: dict[Side, Schema] = {"spoke": spoke, "hub": hub}
    missing = {side: {path for path, _ in left_out(rules, side, roots[side], roots[opposite(side)])} for side in roots}
    for (side, path), rule in findings.answered.items():
        other, is_missing = opposite(side), path in missing[side]
        if schema_at(roots[side], path) is None:
            problem = f"{rule.label} names a field that the schema does not declare"
            findings.add(side, path, problem, "Correct the path")
        elif rule.filled_in is None and not is_required(roots[side], path):
            problem = f"is not required in {findings.version(side)}, so there is nothing to waive"
            findings.add(side, path, problem, f"Remove {rule.label}")
        elif rule.filled_in is None and rule in rules and not is_missing and _is_kept(rules, side, path, roots):
            problem = f"is never missing in {findings.version(other)}, so there is nothing to waive"
            findings.add(side, path, problem, f"Remove {rule.label}")


def _is_kept(rules: Sequence[Rule], side: Side, path: Path, roots: Mapping[Side, Schema]) -> bool:
    """Return whether a field is one that every object of the other version has, with the same value."""
    found = counterpart(rules, path, side)
    is_same = all(rule.moves or (rule.container is not None and not rule.keeps) for rule in found.rules)
    return bool(found.path) and is_same and is_always(roots[opposite(side)], found.path)


def requiring(spoke: Schema, hub: Schema, spoke_path: Path, hub_path: Path) -> frozenset[Side]:
    """Return the versions that require a field of these objects; neither requires the object itself."""
    ends: tuple[tuple[Side, Schema, Path], ...] = (("spoke", spoke, spoke_path), ("hub", hub, hub_path))
    return frozenset(side for side, schema, path in ends if path and is_required(schema, path))


def _is_sure(rule: Rule, side: Side, schema: Schema, around: Path) -> bool:
    """Return whether a rule gives a value whenever the object at ``around`` is present."""
    if not rule.converts:
        return False
    paths = [parse(text) for text in rule.claims(side)]
    return any(all(is_always(schema, path[:length]) for length in beyond(path, around)) for path in paths)

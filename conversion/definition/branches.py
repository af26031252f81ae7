"""Checks the unions of rules (``when``), and adds the hub's values and rules for fields that no branch converts.

Both directions must put an object into the same branch. So only a move, a table or a default may convert a
discriminator, and this rule determines the hub's values of a branch. A field whose presence decides about a branch
stays where it is, or moves as a whole.

An object may have fields that only other branches convert: nothing but validation keeps an API server from storing it.
The parts of them that the target version does not declare go to the stash. The rules for this are added here to each
branch, and to the rest of the objects.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from restow.conversion.definition.diagnostics import DiagnosticCollector
from restow.conversion.model.fieldpath import Path, parse, shown, starts_with
from restow.conversion.model.values import same
from restow.conversion.rules.onesided import Private
from restow.conversion.rules.protocol import Rule, claimed_paths, counterpart
from restow.conversion.rules.sides import Side
from restow.conversion.rules.unions import Branched, Union, When, branched, changed, flattened, ordered, overlap
from restow.crds import ANY, Schema
from restow.crds.schema import schema_at


def check_branches(
    rules: Sequence[Rule], spoke: Schema | None, hub: Schema | None, findings: DiagnosticCollector
) -> tuple[Rule, ...]:
    """Report the defects of the unions of a scope, at any depth; return rules that have the hub's values."""
    always = tuple(rule for rule in rules if not rule.is_branch)

    def branch(rule: When) -> Rule:
        check = _check_presence if rule.values is None else _check_discriminator
        rule = check(rule, always, findings)
        _check_declared(rule, spoke, hub, findings)
        return replace(rule, rules=check_branches(rule.rules, spoke, hub, findings))

    def other(rule: Rule) -> Rule:
        rule = rule.fitted(spoke, hub)
        if rule.container is None:
            return rule
        below = rule.inner_schema("spoke", spoke), rule.inner_schema("hub", hub)
        return rule.with_contained(check_branches(rule.contained, *below, findings.inside(rule)))

    found = changed(rules, branch, other)
    scope = branched(found)
    for union in scope.unions:
        _check_distinct(union, findings)
    if scope.unions and ordered(scope) is None:
        problem = "rules put fields where other rules of the scope take some, in a circle through a branch (rules.when)"
        findings.add("spoke", (), problem, "Repeat the rules that hold for every object in each branch")
    return found


def _check_distinct(union: Union, findings: DiagnosticCollector) -> None:
    sides: tuple[Side, Side] = ("spoke", "hub")
    for side in sides:
        place = parse(union.branches[0].place[side])
        if union.branches[0].values is None:
            continue
        counted = Counter(repr(value) for each in union.branches for value in (each.values or {}).get(side, ()))
        for value, count in counted.items():
            if count > 1:
                problem = f"two branches (rules.when) are for its value {value}"
                findings.add(side, place, problem, "Let each value belong to one branch")
    for name, count in Counter(each.branch for each in union.branches).items():
        if count > 1:
            place = parse(union.branches[0].place["spoke"])
            problem = f"two branches (rules.when) are for {name}, and only the first one would count"
            findings.add("spoke", place, problem, "Put their rules into one rules.when")


def _check_declared(rule: When, spoke: Schema | None, hub: Schema | None, findings: DiagnosticCollector) -> None:
    sides: tuple[tuple[Side, Schema | None], ...] = (("spoke", spoke), ("hub", hub))
    for side, root in sides:
        path = parse(rule.place[side])
        if root is None:
            continue
        schema = schema_at(root, path)
        if schema is None:
            problem = f"{rule.label} is decided by a field that the schema does not declare"
            findings.add(side, path, problem, "Correct the path; give hub= if it differs there")
            continue
        admitted = schema.node.get("enum")
        for value in (rule.values or {}).get(side, ()):
            if admitted is not None and value is not None and value not in admitted:
                problem = f"{rule.label} is for {value!r}, which the enum does not have"
                findings.add(side, path, problem, "Correct equals=, or the table of the rules.enum that converts it")


def _check_discriminator(rule: When, always: Sequence[Rule], findings: DiagnosticCollector) -> When:
    path, hub = parse(rule.place["spoke"]), parse(rule.place["hub"])
    own = next((each for each in flattened(rule.rules) if _touches(each, path, hub)), None)
    if own is not None:
        problem = f"decides the branch of {rule.label}, and {own.label} in this branch converts it"
        findings.add("spoke", path, problem, "Convert it by a rule that holds for all objects, outside of rules.when")
        return rule
    found = counterpart(always, path, "spoke")
    changer = None if found.path else found.rules[-1]
    changer = next((each for each in always if each.container and path in claimed_paths(each, "spoke")), changer)
    if changer is not None:
        _refuse(rule, path, changer, findings)
        return rule
    if found.path != hub:
        _refuse_path(rule, found.path, findings)
        return rule
    assert rule.values is not None
    values = _hub_values(rule, rule.values["spoke"], found.rules, path, findings)
    if any(_is_meant(each, values, path, hub) for each in always):
        values = {side: (*given, *(() if None in given else (None,))) for side, given in values.items()}
    return replace(rule, values=values)


def _is_meant(rule: Rule, values: Mapping[Side, tuple[Any, ...]], path: Path, hub: Path) -> bool:
    """Return whether a default gives a missing discriminator one of these values."""
    ends: tuple[tuple[Side, Path], ...] = (("spoke", path), ("hub", hub))
    filled = ((rule.fills(side), place, values[side]) for side, place in ends)
    return any(each is not None and each[0] == place and _is_in(each[1], given) for each, place, given in filled)


def _refuse(rule: When, path: Path, other: Rule, findings: DiagnosticCollector) -> None:
    findings.add(
        "spoke",
        path,
        f"decides the branch of {rule.label}, and {other.label} converts it in a way that may lose the branch",
        "Convert it with rules.enum, rules.rename or rules.default, or decide by the presence of a field (has=)",
    )


def _refuse_path(rule: When, found: Path, findings: DiagnosticCollector) -> None:
    path = shown(found).removeprefix(".")
    problem = f"{rule.label} is decided in {findings.hub} by {findings.place('hub', parse(rule.place['hub']))}"
    findings.add("hub", found, f"{problem}, but the field is here", f'Give hub="{path}"')


def _touches(rule: Rule, spoke: Path, hub: Path) -> bool:
    sides: tuple[tuple[Side, Path], ...] = (("spoke", spoke), ("hub", hub))
    return any(overlap(claimed_paths(rule, side), [path]) for side, path in sides)


def _hub_values(
    rule: When, values: tuple[Any, ...], converters: Sequence[Rule], path: Path, findings: DiagnosticCollector
) -> Mapping[Side, tuple[Any, ...]]:
    """Return the values of a branch on both sides, as the rule that converts the discriminator translates them."""
    tables = [(up, down) for each in converters if (up := each.table("up")) and (down := each.table("down"))]
    if not tables:
        return {"spoke": values, "hub": values}
    ((up, down),) = tables
    hub = [value for value in down if _is_in(down(value), values)]
    hub += [up(value) for value in values if not _is_in(up(value), hub)]
    for value in up:
        if _is_in(up(value), hub) and not _is_in(value, values):
            problem = f"{value!r} becomes {up(value)!r} like a value of {rule.label}, but is not in it"
            findings.add("spoke", path, problem, f"Add {value!r} to equals=")
    for value in hub:
        if not _is_in(down(value), values):
            problem = f"{value!r} becomes {down(value)!r}, which is not in {rule.label}"
            findings.add("hub", parse(rule.place["hub"]), problem, f"Add {down(value)!r} to equals=")
    return {"spoke": values, "hub": tuple(hub)}


def _is_in(value: Any, values: Sequence[Any]) -> bool:
    return any(same(value, each) for each in values)


def _check_presence(rule: When, always: Sequence[Rule], findings: DiagnosticCollector) -> When:
    """Report a field whose presence cannot be the same on both sides."""
    path, hub = parse(rule.place["spoke"]), parse(rule.place["hub"])
    for each in (*always, *flattened(rule.rules)):
        is_claimed = any(starts_with(path, claim) for claim in claimed_paths(each, "spoke"))
        found = each.counterpart(path, "spoke") if is_claimed else None
        if found is not None and found.path and all(passed.moves or passed.container for passed in found.rules):
            if found.path != hub:
                _refuse_path(rule, found.path, findings)
            return rule
    if path != hub:
        problem = f"{rule.label} is decided in {findings.hub} by another field, and no rule makes the one of the other"
        findings.add("hub", hub, problem, "Move it there with rules.rename, rules.move or rules.inside, or omit hub=")
    taker = next((each for each in (*always, *flattened(rule.rules)) if _takes(each, path, hub)), None)
    if taker is not None:
        _refuse(rule, path, taker, findings)
    maker = next((each for each in always if _makes(each, path, hub)), None)
    if maker is not None:
        problem = f"decides the branch of {rule.label} by its presence, and {maker.label} makes it for other objects"
        findings.add("hub", hub, problem, "Put that rule into the branch, or decide by a discriminator (field=)")
    return rule


def _takes(rule: Rule, spoke: Path, hub: Path) -> bool:
    sides: tuple[tuple[Side, Path], ...] = (("spoke", spoke), ("hub", hub))
    return any(starts_with(path, claim) for side, path in sides for claim in claimed_paths(rule, side))


def _makes(rule: Rule, spoke: Path, hub: Path) -> bool:
    """Return whether a rule can make the deciding field of one side without that of the other side."""
    if rule.is_private:
        return False
    ours = [starts_with(claim, spoke) for claim in claimed_paths(rule, "spoke")]
    theirs = [starts_with(claim, hub) for claim in claimed_paths(rule, "hub")]
    return any(ours) != any(theirs)


def with_leftovers(rules: Sequence[Rule], spoke: Schema | None, hub: Schema | None) -> tuple[Rule, ...]:
    """Add rules to each branch that keep the fields which only other branches convert."""
    found = changed(
        rules,
        lambda branch: replace(branch, rules=with_leftovers(branch.rules, spoke, hub)),
        lambda rule: _complete(rule, spoke, hub),
    )
    if spoke is None or hub is None:
        return found
    scope = branched(found)
    return (*scope.plain, *(each for union in scope.unions for each in _branches(union, scope, spoke, hub)))


def _complete(rule: Rule, spoke: Schema | None, hub: Schema | None) -> Rule:
    if rule.container is not None:
        below = rule.inner_schema("spoke", spoke), rule.inner_schema("hub", hub)
        return rule.with_contained(with_leftovers(rule.contained, *below))
    return rule


def _branches(union: Union, scope: Branched, spoke: Schema, hub: Schema) -> Iterator[When]:
    others = [*scope.plain, *(rule for other in scope.unions if other is not union for rule in _all_rules(other))]
    for branch in union.branches:
        yield replace(branch, rules=(*branch.rules, *_leftovers([*others, *branch.rules], union, spoke, hub)))
    rest = tuple(_leftovers(others, union, spoke, hub))
    if rest:
        yield replace(union.branches[0], rules=rest, is_rest=True)


def _all_rules(union: Union) -> Iterator[Rule]:
    for branch in union.branches:
        yield from branch.rules


def _leftovers(own: Sequence[Rule], union: Union, spoke: Schema, hub: Schema) -> list[Rule]:
    """Return rules for the fields that only other branches than that of ``own`` claim.

    Such a field is stashed if the other version does not declare it alike, together with all objects around it that the
    other version does not have either.
    """
    found: list[Rule] = []
    sides: tuple[tuple[Side, Schema, Schema], ...] = (("spoke", spoke, hub), ("hub", hub, spoke))
    for side, here, there in sides:
        claimed = [path for rule in flattened(own) for path in claimed_paths(rule, side)]
        claims = {path for rule in flattened([*_all_rules(union)]) for path in claimed_paths(rule, side)}
        places = (_foreign(path, claimed, here, there) for path in sorted(claims))
        for path in dict.fromkeys(place for place in places if place is not None):
            text = shown(path).removeprefix(".")
            ours, theirs = ((text,), ()) if side == "spoke" else ((), (text,))
            found.append(Private(name="stash", arguments={side: text}, spoke=ours, hub=theirs))
            claimed.append(path)
    return found


def _foreign(path: Path, claimed: Sequence[Path], here: Schema, there: Schema) -> Path | None:
    """Return the outermost field at or around ``path`` that the other version lacks and no rule claims."""
    for length in range(1, len(path) + 1):
        place = path[:length]
        if overlap([place], claimed):
            continue
        schema, other = schema_at(here, place), schema_at(there, place)
        if schema is None or schema is ANY:
            return None
        if other is None or (other is not ANY and schema.kind != other.kind):
            return place
        if length == len(path) and other is not ANY and schema.node != other.node:
            return place
    return None

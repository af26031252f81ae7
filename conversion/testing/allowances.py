"""Differences that a law must accept because a rule declares them.

These are dropped fields, declared losses, forgotten values, fields that a rule fills in, and edits whose result an
author's function decides. The laws also ignore fields that have a meaning only together: a projection may convert to
more leaves than the whole object did. Translating managedFields intersects with the live object, which drops these
leaves.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from restow.conversion.model.fieldpath import Path, dig, parse, shown
from restow.conversion.model.values import ABSENT, Json, same
from restow.conversion.rules.protocol import Rule, everywhere
from restow.conversion.rules.sides import Direction, Side
from restow.conversion.rules.unions import applied, branched, flattened, in_force
from restow.conversion.stash.entries import is_kept_failure
from restow.conversion.testing.findings import FieldSteps, RulePlace, empties


def forgiven(obj: Json, rules: Sequence[Rule], side: Side) -> Json:
    """Return the object without the fields that rules drop on that side, and without objects that become empty."""
    for rule in in_force(rules, obj, side):
        if _has_drops((rule,), side):
            for text in rule.claims(side):
                obj = _changed(obj, parse(text), partial(_without_drops, rule=rule, side=side))
    return obj


def _has_drops(rules: Sequence[Rule], side: Side) -> bool:
    return any(rule.drops and rule.claims(side) for rule in everywhere(rules))


def _without_drops(value: Any, rule: Rule, side: Side) -> Any:
    if rule.drops:
        return ABSENT
    found = rule.paired(
        value, value, lambda each, _: forgiven(each, rule.inner, side) if isinstance(each, dict) else each
    )
    return ABSENT if found == {} and rule.container not in ("list", "map") else found


def _changed(value: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """Return an object with the field at ``path`` changed; objects on the way that become empty are removed."""
    if not isinstance(value, dict) or path[0] not in value:
        return value
    child = value[path[0]]
    if len(path) == 1:
        child = change(child)
    elif isinstance(child, dict):
        child = _changed(child, path[1:], change) or ABSENT
    rest = {name: each for name, each in value.items() if name != path[0]}
    return rest if child is ABSENT else {**rest, path[0]: child}


def has_hub_drops(rules: Sequence[Rule]) -> bool:
    """Return whether some rule drops a field of the hub."""
    return _has_drops(rules, "hub")


def has_judgement(rules: Sequence[Rule]) -> bool:
    """Return whether an author's function decides the result of an edit."""
    return any(rule.functions.keys() & {"merge", "hide"} for rule in everywhere(rules))


def undeclared_losses(entries: Json, rules: Sequence[Rule], direction: Direction) -> Iterator[str]:
    """Yield the labels of lenses that have a stash entry although they declare no loss in that direction."""
    side: Side = "spoke" if direction == "up" else "hub"
    scope = branched(rules)
    for union in scope.unions:
        entry = entries.get(union.address(side), {})
        yield from undeclared_losses(entry.get("inside", {}), union.rules(entry.get("branch")), direction)
    for rule in scope.plain:
        entry = entries.get(shown(parse(rule.claims(side)[0]))) if rule.claims(side) else None
        if entry is not None and not rule.may_lose(direction) and not is_kept_failure(entry):
            yield rule.label
        if entry is not None and rule.contained:
            inner = [item.get("kept", {}) for item in entry.get("items", ())]
            for kept in (*inner, *entry.get("values", {}).values(), entry.get("inside", {})):
                yield from undeclared_losses(kept, rule.inner, direction)


def is_joint(steps: FieldSteps, rules: Sequence[Rule], side: Side) -> bool:
    """Return whether a field of that side is made of several others, or lies in a value that a function made.

    The claims of a branch's rules also depend on the discriminator, on either side; so do the objects around it.
    """
    scope = branched(rules)
    branches = [rule for union in scope.unions for each in union.branches for rule in flattened(each.rules)]
    paths = [parse(text) for rule in branches for text in (*rule.spoke, *rule.hub)]
    is_branched = any(steps[: len(path)] == path or path[: len(steps)] == steps for path in paths)
    return is_branched or any(_is_made(steps, rule, side) for rule in scope.plain)


def _is_made(steps: FieldSteps, rule: Rule, side: Side) -> bool:
    for text in rule.claims(side):
        path = parse(text)
        if path[: len(steps)] == steps and rule.shows_what_fits(side):
            return True
        if steps[: len(path)] == path:
            rest = steps[len(path) :]
            inside = rest[1:] if rule.container in ("list", "map") else rest
            return rule.ties or (rule.is_opaque and bool(rest)) or (bool(inside) and is_joint(inside, rule.inner, side))
    return False


def has_joint(rules: Sequence[Rule]) -> bool:
    """Return whether some field of the hub depends on several of the spoke, or on all of a value."""
    return any(rule.is_branch or rule.ties or rule.shows_what_fits("hub") for rule in everywhere(rules))


def made_rule(rule: RulePlace | None) -> bool:
    """Return whether an author's function made the value of a field."""
    return rule is not None and rule.rule.is_made


def emptied_lists(value: Any, rules: Sequence[Rule], side: Side) -> int:
    """Count the empty lists whose items may all be hidden: such a list stays (design, section 7)."""
    return sum(
        dig(obj, parse(rule.claims(side)[0])) == []
        for obj, rule in applied(value, rules, side)
        if "hide" in rule.functions
    )


def made_empties(value: Any, rules: Sequence[Rule], side: Side) -> Counter[str]:
    """Count the empty lists and objects that standard rules made of an empty value in another form, such as a text.

    Those in the further copies of a value count too.
    """
    counts: Counter[str] = Counter()
    for obj, rule in applied(value, rules, side):
        for each in rule.may_be_empty([dig(obj, parse(text)) for text in rule.claims(side)], side):
            counts += empties(each, None)
    return counts


def filled_empties(value: Any, rules: Sequence[Rule], side: Side) -> Counter[str]:
    """Count the nulls, {} and [] of an object that rules fill in where a field is missing."""
    counts: Counter[str] = Counter()
    for obj, rule in applied(value, rules, side):
        path, filled = rule.fills(side) or ((), ABSENT)
        if filled is not ABSENT and same(dig(obj, path), filled):
            counts += empties(filled, None)
    return counts


def has_forget(rules: Sequence[Rule]) -> bool:
    """Return whether some rule declares values of the spoke that need not be restored."""
    return any(rule.may_forget for rule in everywhere(rules))


def remembered(before: Json, after: Json, rules: Sequence[Rule]) -> Json:
    """Return ``after`` with the values of ``before`` that the rules forget; both are the whole object at the spoke."""
    found: Json = _remembered(before, after, rules, before)
    return found


def _remembered(before: Any, after: Any, rules: Sequence[Rule], root: Json) -> Any:
    if not isinstance(before, dict) or not isinstance(after, dict) or not has_forget(rules):
        return after
    for rule in in_force(rules, before, "spoke"):
        for path in map(parse, rule.spoke if rule.forgets(before, root) else ()):
            after = _with(after, path, dig(before, path))
        if has_forget(rule.contained):
            path = parse(rule.spoke[0])
            theirs = rule.paired(dig(before, path), dig(after, path), partial(_restored, rules=rule.inner, root=root))
            after = after if theirs is ABSENT else _with(after, path, theirs)
    return after


def _restored(before: Any, after: Any, rules: Sequence[Rule], root: Json) -> Any:
    """Return what ``_remembered`` does; an object that only forgotten values had comes back too."""
    return _remembered(before, {} if after is ABSENT else after, rules, root) or after


def _with(value: Json, path: Path, leaf: Any) -> Json:
    """Return an object with another value at ``path``; ABSENT removes the field."""
    rest = {name: child for name, child in value.items() if name != path[0]}
    if len(path) == 1:
        return rest if leaf is ABSENT else {**rest, path[0]: leaf}
    inner = value.get(path[0], {})
    if not isinstance(inner, dict):
        return value
    inner = _with(inner, path[1:], leaf)
    return {**rest, path[0]: inner} if inner or path[0] in value else value

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

from restow.conversion.compile.layers import filled_path
from restow.conversion.compile.lens import dig, forgets
from restow.conversion.model.fieldpath import Path, parse, shown
from restow.conversion.model.values import ABSENT, Json, same
from restow.conversion.rules.branches import branched, flattened
from restow.conversion.rules.model import Constant, Default, Direction, Lens, Private, Rule, ScopedRules, Side
from restow.conversion.stash.entries import is_kept_failure
from restow.conversion.testing.findings import FieldSteps, RulePlace, empties


def forgiven(obj: Json, rules: Sequence[Rule], side: Side) -> Json:
    """Return the object without the fields that rules drop on that side, and without objects that become empty."""
    for rule in _in_force(rules, obj, side):
        for text in rule.claims(side):
            if isinstance(rule, Private) and rule.acknowledge is not None:
                obj = _changed(obj, parse(text), lambda _: ABSENT)
            elif isinstance(rule, ScopedRules) and _has_drops(rule.rules, side):
                obj = _changed(obj, parse(text), partial(_forgiven_inside, rule=rule, side=side))
    return obj


def _in_force(rules: Sequence[Rule], obj: Json, side: Side) -> Sequence[Rule]:
    """Return the rules that apply to an object: from each union, those of its branch."""
    scope = branched(rules)
    if not scope.unions:
        return rules
    chosen = (union.rules(union.decider(side)(obj)) for union in scope.unions)
    return [*scope.plain, *(rule for each in chosen for rule in _in_force(each, obj, side))]


def _has_drops(rules: Sequence[Rule], side: Side) -> bool:
    return any(
        bool(rule.claims(side))
        and (
            (isinstance(rule, Private) and rule.acknowledge is not None)
            or (isinstance(rule, ScopedRules) and _has_drops(rule.rules, side))
        )
        for rule in flattened(rules)
    )


def _forgiven_inside(value: Any, rule: ScopedRules, side: Side) -> Any:
    if rule.container == "list" and isinstance(value, list):
        return [forgiven(item, rule.inner, side) if isinstance(item, dict) else item for item in value]
    if rule.container == "map" and isinstance(value, dict):
        return {
            key: forgiven(item, rule.inner, side) if isinstance(item, dict) else item for key, item in value.items()
        }
    if rule.container == "object" and isinstance(value, dict):
        return forgiven(value, rule.inner, side) or ABSENT
    return value


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
    return any(
        (isinstance(rule, Lens) and rule.merge is not None and not rule.is_known)
        or (isinstance(rule, ScopedRules) and (rule.hide is not None or has_judgement(rule.rules)))
        for rule in flattened(rules)
    )


def undeclared_losses(entries: Json, rules: Sequence[Rule], direction: Direction) -> Iterator[str]:
    """Yield the labels of lenses that have a stash entry although they declare no loss in that direction."""
    side: Side = "spoke" if direction == "up" else "hub"
    scope = branched(rules)
    for union in scope.unions:
        entry = entries.get(union.address(side), {})
        yield from undeclared_losses(entry.get("inside", {}), union.rules(entry.get("branch")), direction)
    for rule in scope.plain:
        if not isinstance(rule, Lens | ScopedRules):
            continue
        entry = entries.get(shown(parse(rule.claims(side)[0])))
        if isinstance(rule, Lens):
            if entry is not None and not is_kept_failure(entry) and not rule.may_lose(direction):
                yield rule.label
        elif entry is not None:
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


def has_joint(rules: Sequence[Rule]) -> bool:
    """Return whether some field of the hub depends on several of the spoke, or on all of a value."""
    scope = branched(rules)
    ties = (rule.ties or rule.shows_what_fits("hub") or has_joint(rule.contained) for rule in scope.plain)
    return bool(scope.unions) or any(ties)


def made_rule(rule: RulePlace | None) -> bool:
    """Return whether an author's function made the value of a field."""
    return rule is not None and isinstance(rule.rule, Lens) and rule.rule.tables is None and rule.rule.singleton is None


def emptied_lists(value: Any, rules: Sequence[Rule], side: Side) -> int:
    """Count the empty lists whose items may all be hidden: such a list stays (design, section 7)."""
    count = 0
    for rule in flattened(rules):
        if isinstance(rule, ScopedRules):
            found = dig(value, parse(rule.claims(side)[0]))
            count += rule.hide is not None and found == []
            inner = found if isinstance(found, list) else found.values() if isinstance(found, dict) else ()
            for each in (found,) if rule.container == "object" else inner:
                count += emptied_lists(each, rule.inner, side)
    return count


def made_empties(value: Any, rules: Sequence[Rule], side: Side) -> Counter[str]:
    """Count the empty lists and objects that standard rules made of an empty value in another form, such as a text.

    Those in the further copies of a value count too.
    """
    counts: Counter[str] = Counter()
    for rule in rules:
        found = [dig(value, parse(text)) for text in rule.claims(side)]
        if isinstance(rule, Lens) and rule.standard is not None and rule.standard.repeats == side:
            for each in found[1:]:
                counts += empties(each, None) if each is not ABSENT else Counter()
        elif isinstance(rule, Lens) and rule.standard is not None:
            counts.update("{}" if each == {} else "[]" for each in found if each in ({}, []))
        elif isinstance(rule, ScopedRules):
            (place,) = found
            inner = place if isinstance(place, list) else place.values() if isinstance(place, dict) else ()
            for each in (place,) if rule.container == "object" else inner:
                counts += made_empties(each, rule.rules, side)
    return counts


def _is_made(steps: FieldSteps, rule: Rule, side: Side) -> bool:
    for text in rule.claims(side):
        path = parse(text)
        if path[: len(steps)] == steps and rule.shows_what_fits(side):
            return True
        if steps[: len(path)] != path:
            continue
        rest = steps[len(path) :]
        if isinstance(rule, Lens):
            return rule.ties or bool(rest)
        if isinstance(rule, ScopedRules):
            inside = rest if rule.container == "object" else rest[1:]
            return rule.ties or (bool(inside) and is_joint(inside, rule.inner, side))
    return False


def has_forget(rules: Sequence[Rule]) -> bool:
    """Return whether some rule declares values of the spoke that need not be restored."""
    return any(
        (isinstance(rule, Lens) and rule.forget is not None)
        or (isinstance(rule, ScopedRules) and has_forget(rule.rules))
        for rule in rules
    )


def remembered(before: Json, after: Json, rules: Sequence[Rule]) -> Json:
    """Return ``after`` with the values of ``before`` that the rules forget; both are the whole object at the spoke."""
    return _remembered(before, after, rules, before) if has_forget(rules) else after


def _remembered(before: Any, after: Any, rules: Sequence[Rule], root: Json) -> Any:
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    for rule in rules:
        if isinstance(rule, Lens) and rule.forget is not None and forgets(rule, before, root):
            for path in map(parse, rule.spoke):
                after = _with(after, path, dig(before, path))
        elif isinstance(rule, ScopedRules) and has_forget(rule.rules):
            path = parse(rule.spoke[0])
            theirs = _remembered_inside(dig(before, path), dig(after, path), rule, root)
            after = after if theirs is ABSENT else _with(after, path, theirs)
    return after


def _remembered_inside(before: Any, after: Any, rule: ScopedRules, root: Json) -> Any:
    if rule.container == "object":
        return _remembered(before, {} if after is ABSENT else after, rule.rules, root) or after
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = zip(before, after, strict=True)
        return [_remembered(one, other, rule.rules, root) for one, other in pairs]
    if isinstance(before, dict) and isinstance(after, dict):
        return {key: _remembered(before.get(key), value, rule.rules, root) for key, value in after.items()}
    return after


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


def filled_empties(value: Any, rules: Sequence[Rule], side: Side) -> Counter[str]:
    """Count the nulls, {} and [] of an object that rules fill in where a field is missing."""
    counts: Counter[str] = Counter()
    for rule in rules:
        if isinstance(rule, Constant | Default) and rule.filled_in == side:
            counts += _within(dig(value, filled_path(rule)), rule.value)
        elif isinstance(rule, ScopedRules):
            found = dig(value, parse(rule.claims(side)[0]))
            inner = found if isinstance(found, list) else found.values() if isinstance(found, dict) else ()
            for each in (found,) if rule.container == "object" else inner:
                counts += filled_empties(each, rule.rules, side)
    return counts


def _within(found: Any, value: Any) -> Counter[str]:
    return empties(found, None) if same(found, value) else Counter()

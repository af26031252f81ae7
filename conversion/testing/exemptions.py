"""What the laws have to know of the rules: knowingly dropped fields, declared losses, edits that an author judges.

Also fields that have a meaning only together: a projection may convert to more leaves than the whole did where fields
have a joint meaning. Translating managedFields intersects with the live object, which drops them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from restow.conversion.compile.lens import dig
from restow.conversion.fieldpath import Path, parse, shown
from restow.conversion.rules.model import Direction, Lens, Private, Rule, ScopedRules, Side
from restow.conversion.testing.fieldsets import Steps
from restow.conversion.values import ABSENT, Json

__all__ = [
    "emptied_lists",
    "forgiven",
    "has_hub_drops",
    "has_joint",
    "has_judgement",
    "is_joint",
    "undeclared_losses",
]


def forgiven(obj: Json, rules: Sequence[Rule], side: Side) -> Json:
    """Return the object without what the rules drop on that side, nor the objects around it that hold nothing else."""
    for rule in rules:
        for text in rule.claims(side):
            if isinstance(rule, Private) and rule.acknowledge is not None:
                obj = _changed(obj, parse(text), lambda _: ABSENT)
            elif isinstance(rule, ScopedRules) and _has_drops(rule.rules, side):
                obj = _changed(obj, parse(text), partial(_forgiven_inside, rule=rule, side=side))
    return obj


def _has_drops(rules: Sequence[Rule], side: Side) -> bool:
    return any(
        bool(rule.claims(side))
        and (
            (isinstance(rule, Private) and rule.acknowledge is not None)
            or (isinstance(rule, ScopedRules) and _has_drops(rule.rules, side))
        )
        for rule in rules
    )


def _forgiven_inside(value: Any, rule: ScopedRules, side: Side) -> Any:
    if rule.container == "list" and isinstance(value, list):
        return [forgiven(item, rule.rules, side) if isinstance(item, dict) else item for item in value]
    if rule.container == "map" and isinstance(value, dict):
        return {
            key: forgiven(item, rule.rules, side) if isinstance(item, dict) else item for key, item in value.items()
        }
    if rule.container == "object" and isinstance(value, dict):
        return forgiven(value, rule.rules, side) or ABSENT
    return value


def _changed(value: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """Return an object with the field at ``path`` changed; objects on the way that hold nothing go."""
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
    """Say whether some rule lets a field of the hub go."""
    return _has_drops(rules, "hub")


def has_judgement(rules: Sequence[Rule]) -> bool:
    """Say whether what an edit means is up to a function of the author."""
    return any(
        (isinstance(rule, Lens) and rule.merge is not None and rule.singleton is None)
        or (isinstance(rule, ScopedRules) and (rule.hide is not None or has_judgement(rule.rules)))
        for rule in rules
    )


def undeclared_losses(entries: Json, rules: Sequence[Rule], direction: Direction) -> Iterator[str]:
    """Yield the labels of lenses that have a stash entry although they declare no loss in that direction."""
    side: Side = "spoke" if direction == "up" else "hub"
    for rule in rules:
        if not isinstance(rule, Lens | ScopedRules):
            continue
        entry = entries.get(shown(parse(rule.claims(side)[0])))
        if isinstance(rule, Lens):
            if entry is not None and not rule.may_lose(direction):
                yield rule.label
        elif entry is not None:
            inner = [item.get("kept", {}) for item in entry.get("items", ())]
            for kept in (*inner, *entry.get("values", {}).values(), entry.get("inside", {})):
                yield from undeclared_losses(kept, rule.rules, direction)


def is_joint(steps: Steps, rules: Sequence[Rule], side: Side) -> bool:
    """Say whether a field of that side is made of several others, or is in what a function made as a whole."""
    return any(_is_made(steps, rule, side) for rule in rules)


def has_joint(rules: Sequence[Rule]) -> bool:
    """Say whether some rule ties fields together."""
    return any(_ties(rule) or (isinstance(rule, ScopedRules) and has_joint(rule.rules)) for rule in rules)


def emptied_lists(value: Any, rules: Sequence[Rule], side: Side) -> int:
    """Count the empty lists whose items may all be hidden: such a list stays (design, section 7)."""
    count = 0
    for rule in rules:
        if isinstance(rule, ScopedRules):
            found = dig(value, parse(rule.claims(side)[0]))
            count += rule.hide is not None and found == []
            inner = found if isinstance(found, list) else found.values() if isinstance(found, dict) else ()
            for each in (found,) if rule.container == "object" else inner:
                count += emptied_lists(each, rule.rules, side)
    return count


def _is_made(steps: Steps, rule: Rule, side: Side) -> bool:
    for text in rule.claims(side):
        path = parse(text)
        if steps[: len(path)] != path:
            continue
        rest = steps[len(path) :]
        if isinstance(rule, Lens):
            return _ties(rule) or bool(rest)
        if isinstance(rule, ScopedRules):
            inside = rest if rule.container == "object" else rest[1:]
            return _ties(rule) or (bool(inside) and is_joint(inside, rule.rules, side))
    return False


def _ties(rule: Rule) -> bool:
    """Say whether one field that the rule writes depends on several that it reads."""
    if isinstance(rule, ScopedRules):
        return rule.hide is not None
    return isinstance(rule, Lens) and (len(rule.spoke) > 1 or len(rule.hub) > 1 or bool(rule.reads))

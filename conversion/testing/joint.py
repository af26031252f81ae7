"""Fields that have a meaning only together: where a part of an object may say what the whole does not.

The design allows that (section 6): a projection may convert to more leaves than the whole did where fields have a joint
meaning. Translating managedFields intersects with the live object, which drops them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from restow.conversion.compile.lens import dig
from restow.conversion.path import parse
from restow.conversion.rules.model import Lens, Rule, Scope, Side
from restow.conversion.testing.support import Steps

__all__ = ["emptied_lists", "has_joint", "is_joint"]


def is_joint(steps: Steps, rules: Sequence[Rule], side: Side) -> bool:
    """Say whether a field of that side is made of several others, or is in what a function made as a whole."""
    return any(_is_made(steps, rule, side) for rule in rules)


def has_joint(rules: Sequence[Rule]) -> bool:
    """Say whether some rule ties fields together."""
    return any(_ties(rule) or (isinstance(rule, Scope) and has_joint(rule.rules)) for rule in rules)


def emptied_lists(value: Any, rules: Sequence[Rule], side: Side) -> int:
    """Count the empty lists whose items may all be hidden: such a list stays (design, section 7)."""
    count = 0
    for rule in rules:
        if isinstance(rule, Scope):
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
        if isinstance(rule, Scope):
            inside = rest if rule.container == "object" else rest[1:]
            return _ties(rule) or (bool(inside) and is_joint(inside, rule.rules, side))
    return False


def _ties(rule: Rule) -> bool:
    """Say whether one field that the rule writes depends on several that it reads."""
    if isinstance(rule, Scope):
        return rule.hide is not None
    return isinstance(rule, Lens) and (len(rule.spoke) > 1 or len(rule.hub) > 1 or bool(rule.reads))

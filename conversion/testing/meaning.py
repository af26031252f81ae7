"""What laws must not hold against a conversion because a rule says so: forgotten values, and fields that it fills in.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from restow.conversion.compile.layers import filled_path
from restow.conversion.compile.lens import dig, forgets
from restow.conversion.model.fieldpath import Path, parse
from restow.conversion.model.values import ABSENT, Json, same
from restow.conversion.rules.model import Constant, Default, Lens, Rule, ScopedRules, Side
from restow.conversion.testing.fieldsets import empties

__all__ = ["filled_empties", "has_forget", "remembered"]


def has_forget(rules: Sequence[Rule]) -> bool:
    """Say whether some rule declares values of the spoke that need not be restored."""
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
    """Return an object with another value at ``path``; ABSENT takes away what is there."""
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

"""What the laws have to know of the rules: knowingly dropped fields, edits that an author judges, declared losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from restow.conversion.path import Path, parse, shown
from restow.conversion.rules.model import Direction, Lens, Private, Rule, Scope, Side
from restow.conversion.values import ABSENT, Json

__all__ = ["forgiven", "has_hub_drops", "has_judgement", "undeclared_losses"]


def forgiven(obj: Json, rules: Sequence[Rule], side: Side) -> Json:
    """Return the object without what the rules drop on that side, nor the objects around it that hold nothing else."""
    for rule in rules:
        for text in rule.claims(side):
            if isinstance(rule, Private) and rule.acknowledge is not None:
                obj = _changed(obj, parse(text), lambda _: ABSENT)
            elif isinstance(rule, Scope) and _has_drops(rule.rules, side):
                obj = _changed(obj, parse(text), partial(_forgiven_inside, rule=rule, side=side))
    return obj


def _has_drops(rules: Sequence[Rule], side: Side) -> bool:
    return any(
        bool(rule.claims(side))
        and (
            (isinstance(rule, Private) and rule.acknowledge is not None)
            or (isinstance(rule, Scope) and _has_drops(rule.rules, side))
        )
        for rule in rules
    )


def _forgiven_inside(value: Any, rule: Scope, side: Side) -> Any:
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
        or (isinstance(rule, Scope) and (rule.hide is not None or has_judgement(rule.rules)))
        for rule in rules
    )


def undeclared_losses(entries: Json, rules: Sequence[Rule], direction: Direction) -> Iterator[str]:
    """Yield the labels of lenses that have a stash entry although they declare no loss in that direction."""
    side: Side = "spoke" if direction == "up" else "hub"
    for rule in rules:
        if not isinstance(rule, Lens | Scope):
            continue
        entry = entries.get(shown(parse(rule.claims(side)[0])))
        if isinstance(rule, Lens):
            if entry is not None and not rule.may_lose(direction):
                yield rule.label
        elif entry is not None:
            inner = [item.get("kept", {}) for item in entry.get("items", ())]
            for kept in (*inner, *entry.get("values", {}).values(), entry.get("inside", {})):
                yield from undeclared_losses(kept, rule.rules, direction)

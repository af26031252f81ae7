"""The schema of a hub that is no version of the CRD: what the spokes' schemas become by their own rules.

It has every field that some spoke brings, so that the coverage of every other spoke can be checked against it. What
an author's function returns has no known type and accepts anything.

Pure: builds new nodes, never changes those of the CRD.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Final

from restow.conversion.fieldpath import Path, parse
from restow.conversion.rules.model import Constant, Default, Lens, Move, Private, Rule, ScopedRules

__all__ = ["derived_hub"]

Node = dict[str, Any]

_ANY: Final[Node] = {"x-kubernetes-preserve-unknown-fields": True}


def derived_hub(spokes: Iterable[tuple[Sequence[Rule], Node]]) -> Node:
    """Return the hub's schema node, from every spoke's rules and schema node."""
    hub: Node = {}
    for rules, node in spokes:
        hub = _merged(hub, _lifted(node, rules))
    return hub


def _lifted(node: Node, rules: Sequence[Rule]) -> Node:
    node = copy.deepcopy(node)
    taken = {text: _take(node, parse(text)) for rule in rules for text in rule.spoke}
    for rule in rules:
        for index, text in enumerate(rule.hub):
            place = rule.spoke[index] if index < len(rule.spoke) else ""
            source, required = taken.get(place, (None, False))
            kept = required and _always_says(rule) and parse(place)[:-1] == parse(text)[:-1]
            _put(node, parse(text), _image(rule, source), required=kept)
    return node


def _always_says(rule: Rule) -> bool:
    """Say whether a rule gives the hub a value whenever the spoke has one."""
    return isinstance(rule, Move | Default | ScopedRules) or (
        isinstance(rule, Lens) and (rule.tables is not None or rule.singleton == "hub")
    )


def _image(rule: Rule, source: Node | None) -> Node:
    if source is None or isinstance(rule, Constant | Private):
        return dict(_ANY)
    match rule:
        case Move() | Default():
            return source
        case Lens() if rule.tables is not None:
            enum = source.get("enum")
            known = dict.fromkeys((*rule.tables["up"].values(), *rule.tables["down"]))
            return source if enum is None else {**source, "enum": [*known]}
        case Lens() if rule.singleton == "hub":
            return {"type": "array", "items": source}
        case Lens() if rule.singleton == "spoke":
            return dict(source.get("items") or _ANY)
        case ScopedRules():
            return _scope_image(rule, source)
        case _:
            return dict(_ANY)


def _scope_image(rule: ScopedRules, source: Node) -> Node:
    if rule.container == "object":
        return _lifted(source, rule.rules)
    below = "items" if rule.container == "list" else "additionalProperties"
    image = {**source, below: _lifted(source.get(below) or _ANY, rule.rules)}
    keys = "x-kubernetes-list-map-keys"
    if keys in source:
        renamed = {inner.spoke[0]: inner.hub[0] for inner in rule.rules if isinstance(inner, Move)}
        image[keys] = [renamed.get(key, key) for key in source[keys]]
    return image


def _take(node: Node, path: Path) -> tuple[Node | None, bool]:
    """Remove a field; return its node, and whether it was required."""
    for name in path[:-1]:
        node = (node.get("properties") or {}).get(name) or {}
    taken: Node | None = (node.get("properties") or {}).pop(path[-1], None)
    required = node.get("required") or []
    if path[-1] in required:
        node["required"] = [name for name in required if name != path[-1]]
    return taken, path[-1] in required


def _put(node: Node, path: Path, image: Node, *, required: bool) -> None:
    for name in path[:-1]:
        node = node.setdefault("properties", {}).setdefault(name, {"type": "object"})
    node.setdefault("properties", {})[path[-1]] = image
    if required:
        node["required"] = [*(node.get("required") or []), path[-1]]


def _merged(left: Node, right: Node) -> Node:
    """Return a node that has the fields of both, and requires what both do; what one leaves open the other one says."""
    if not left or left == _ANY:
        return right
    if not right or right == _ANY:
        return left
    merged = {**right, **left}
    merged.pop("enum", None)
    if "enum" in left and "enum" in right:
        merged["enum"] = [*left["enum"], *(value for value in right["enum"] if value not in left["enum"])]
    ours, theirs = left.get("properties") or {}, right.get("properties") or {}
    if ours or theirs:
        merged["properties"] = {
            field: _merged(ours.get(field, {}), theirs.get(field, {})) for field in {**ours, **theirs}
        }
    for name in ("items", "additionalProperties"):
        if isinstance(left.get(name), dict) and isinstance(right.get(name), dict):
            merged[name] = _merged(left[name], right[name])
    merged["required"] = [name for name in left.get("required") or () if name in (right.get("required") or ())]
    return merged

"""What ``oneOf``, ``anyOf``, ``allOf`` and ``not`` demand of a value, as an API server checks it.

In a structural schema they hold value validations only: required fields, enums, bounds, patterns and the like. What
cannot be checked here (a pattern without a counterpart in Python, CEL) counts as met.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from restow.conversion.model.values import same
from restow.conversion.testing.fieldsets import Place
from restow.conversion.testing.re2 import NotTranslatable, translate
from restow.crds import Schema
from restow.crds.ownedpaths import children

__all__ = ["bound_problems", "is_admitted", "out_of_bounds"]


def is_admitted(value: Any, node: Mapping[str, Any]) -> bool:
    """Say whether a value meets the validations of a node and of what its unions name."""
    return next(_problems(value, node), None) is None


def bound_problems(value: Any, node: Mapping[str, Any]) -> Iterator[str]:
    """Yield what bounds of the node itself the value is beyond: the keywords, such as ``maximum``."""
    match value:
        case bool() | None:
            return
        case int() | float():
            yield from _number(value, node)
        case str():
            yield from _sizes(len(value), node, "Length")
            if not _matches(value, node.get("pattern")):
                yield "pattern"
        case list():
            yield from _sizes(len(value), node, "Items")
        case dict():
            yield from _sizes(len(value), node, "Properties")


def out_of_bounds(value: Any, schema: Schema, place: Place = ()) -> Iterator[tuple[Place, Any, str]]:
    """Yield (place, value, keyword) for each value of an object that is beyond a bound of its schema."""
    for keyword in bound_problems(value, schema.node):
        yield place, value, keyword
    for step, child, below in children(value, schema):
        if below is not None and child is not None:
            yield from out_of_bounds(child, below, (*place, step))


def _problems(value: Any, node: Mapping[str, Any]) -> Iterator[str]:
    yield from bound_problems(value, node)
    if "enum" in node and not any(same(value, each) for each in node["enum"]):
        yield "enum"
    if isinstance(value, dict):
        yield from (name for name in node.get("required") or () if name not in value)
        for name, below in (node.get("properties") or {}).items():
            if name in value and value[name] is not None:
                yield from _problems(value[name], below)
    if isinstance(value, list) and isinstance(node.get("items"), Mapping):
        for item in value:
            yield from _problems(item, node["items"])
    yield from _union_problems(value, node)


def _union_problems(value: Any, node: Mapping[str, Any]) -> Iterator[str]:
    if "not" in node and is_admitted(value, node["not"]):
        yield "not"
    if not all(is_admitted(value, each) for each in node.get("allOf") or ()):
        yield "allOf"
    if node.get("anyOf") and not any(is_admitted(value, each) for each in node["anyOf"]):
        yield "anyOf"
    if node.get("oneOf") and sum(is_admitted(value, each) for each in node["oneOf"]) != 1:
        yield "oneOf"


def _number(value: float, node: Mapping[str, Any]) -> Iterator[str]:
    low, high, step = node.get("minimum"), node.get("maximum"), node.get("multipleOf")
    if low is not None and (value < low or (value == low and node.get("exclusiveMinimum"))):
        yield "minimum"
    if high is not None and (value > high or (value == high and node.get("exclusiveMaximum"))):
        yield "maximum"
    if step and not float(value / step).is_integer():
        yield "multipleOf"


def _sizes(size: int, node: Mapping[str, Any], what: str) -> Iterator[str]:
    if size < node.get(f"min{what}", 0):
        yield f"min{what}"
    if size > node.get(f"max{what}", size):
        yield f"max{what}"


def _matches(text: str, pattern: str | None) -> bool:
    if pattern is None:
        return True
    try:
        return re.search(translate(pattern), text) is not None
    except NotTranslatable:
        return True

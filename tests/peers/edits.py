"""Edits as a client makes them: one value changed, one field removed, or one item of a list removed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from restow.conversion.model.fieldpath import parse
from restow.conversion.model.values import ABSENT, Json
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.scopes import ScopedRules
from restow.crds import Schema
from restow.crds.paths import ROOT, field_path, items_path, values_path
from tests.peers.objects import Generator

__all__ = ["Step", "edit_of", "item_keys", "replaced"]

Step = str | int


@dataclass(frozen=True)
class _Place:
    """Where an object can be edited: the steps to a field or an item, its schema, its path, if it is required."""

    steps: tuple[Step, ...]
    schema: Schema
    path: str
    required: bool = False
    is_item: bool = False


def edit_of(
    random: Random, go: Json, restow: Json, generator: Generator, item_keys: Container[str]
) -> Callable[[Json], Json] | None:
    """Return an edit of one place that both objects have, None if there is none at the place that was drawn.

    Fields that identify an item are left alone (an item with another key is another item), and so is the inside of
    fields whose values are drawn as a whole.
    """
    whole = generator.choices
    place = _place(random, go, restow, generator.schema, ROOT, (), whole)
    if place is None or place.path in item_keys:
        return None
    value: Any = ABSENT
    if (
        not place.is_item
        and (place.path in whole or _is_scalar(place.schema))
        and (place.required or random.random() < 0.8)
    ):
        value = generator.value(random, place.schema, place.path)
    elif place.required:
        return None
    return lambda obj: replaced(obj, place.steps, value)


def item_keys(rules: Sequence[Rule], scope: str = ROOT) -> Iterator[str]:
    """Yield the paths of the fields by which rules find the items of lists, in both versions."""
    for rule in rules:
        if isinstance(rule, ScopedRules):
            for side in ("spoke", "hub"):
                path = scope
                for name in parse(rule.claims(side)[0]):
                    path = field_path(path, name)
                inner = path if rule.container == "object" else items_path(path)
                yield from (field_path(inner, key) for key in rule.keys or ())
                yield from item_keys(rule.rules, inner)


def replaced(obj: Json, steps: tuple[Step, ...], value: Any) -> Json:
    """Return a copy of an object with another value at a place, without the place if the value is ABSENT."""
    obj = copy.deepcopy(obj)
    inner: Any = obj
    for step in steps[:-1]:
        inner = inner[step]
    if value is ABSENT:
        del inner[steps[-1]]
    else:
        inner[steps[-1]] = value
    return obj


def _place(
    random: Random, go: Any, restow: Any, schema: Schema, path: str, steps: tuple[Step, ...], whole: Container[str]
) -> _Place | None:
    """Return a random place that both values have and the schema describes."""
    places: list[tuple[Step, Schema, str]] = []
    if isinstance(go, dict) and isinstance(restow, dict):
        is_map = schema.values is not None and not schema.properties
        for name in sorted(go.keys() & restow.keys()):
            inner, below = schema.field(name), values_path(path) if is_map else field_path(path, name)
            is_head = schema.is_root and name in ("apiVersion", "kind", "metadata")
            if inner is not None and (_is_described(inner) or below in whole) and not is_head:
                places.append((name, inner, below))
    elif isinstance(go, list) and isinstance(restow, list) and len(go) == len(restow) and schema.items is not None:
        if schema.list_type == "set" or not _is_described(schema.items):
            return None
        places = [(index, schema.items, items_path(path)) for index in range(len(go))]
    if not places:
        return None
    step, inner, below = random.choice(places)
    if isinstance(step, int) and random.random() < 0.15:
        return _Place((*steps, step), inner, below, is_item=True)
    if below not in whole and (isinstance(step, int) or random.random() < 0.9 or len(steps) < 1):
        deeper = _place(random, go[step], restow[step], inner, below, (*steps, step), whole)
        if deeper is not None and not _is_key(schema, deeper.steps[len(steps) :]):
            return deeper
    # A whole item of a list is not replaced: that is what edits of its fields do, and it could double a key.
    return None if isinstance(step, int) or not steps else _Place((*steps, step), inner, below, step in schema.required)


def _is_described(schema: Schema) -> bool:
    return "type" in schema.node or schema.int_or_string


def _is_scalar(schema: Schema) -> bool:
    """Say whether a field has a value without objects inside, which an edit can replace as a whole."""
    inner = schema.items or schema.values
    return not schema.properties and (
        inner is None or (inner.items or inner.values or inner.properties or None) is None
    )


def _is_key(schema: Schema, steps: tuple[Step, ...]) -> bool:
    return len(steps) == 2 and schema.list_type == "map" and steps[1] in schema.list_keys

"""Splits the rules of one object into layers, if implied fields contain fields that other rules convert.

A default for an object, or for a field that another rule converts, claims the same field as that rule. So the way
between two versions has several stations, with one layer of rules between each two:

    spoke - implied on the spoke's side - base - implied on the hub's side - hub

Going up, values that the spoke writes out are omitted, the base converts the rest, and values that the hub always has
are filled in; going down, the reverse. Each layer except the base has one rule, is lossless by itself, and has its own
part of the stash. A field that is implied inside of a layered object belongs to a layer further out than the object: it
is filled in after the object, and omitted before it.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from restow.conversion.model.fieldpath import Path, parse, shown, starts_with
from restow.conversion.rules.move import Move
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.sides import Direction, Side
from restow.crds import Schema


@dataclass(frozen=True, slots=True)
class ImpliedLayer:
    """One implied field as a layer: ``rule`` has the same path on both sides, which is the path of ``side``."""

    side: Side
    path: Path
    rule: Rule

    @property
    def address(self) -> str:
        """The address of this layer's entries in the stash of the scope."""
        return f"{self.side} {shown(self.path)}"


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers on the way from the spoke to the hub. The layers of each side are in the order of going up."""

    spoke: tuple[ImpliedLayer, ...]
    base: tuple[Rule, ...]
    hub: tuple[ImpliedLayer, ...]

    def around(self, direction: Direction) -> tuple[tuple[ImpliedLayer, ...], tuple[ImpliedLayer, ...]]:
        """Return the layers before the base, and those after it, in the order of that direction."""
        return (self.spoke, self.hub) if direction == "up" else (self.hub[::-1], self.spoke[::-1])

    def schema(self, schema: Schema | None, side: Side) -> Schema | None:
        """Return the schema of that side for the base, in which fields that are filled in later are not required."""
        layers = self.hub if side == "hub" else self.spoke
        for layer in layers:
            if schema is None:
                return None
            schema = replace(schema, node=_optional(schema.node, layer.path))
        return schema


def layers_of(rules: Sequence[Rule]) -> Layers:
    """Return the layers of the rules of one object."""
    rules = [rule for rule in rules if rule.filled_in is not None or rule.answers is None]  # a waiver converts nothing
    filled = [rule.answers for rule in rules if rule.answers is not None]
    if not filled:
        return Layers((), tuple(rules), ())
    base: list[Rule] = []
    found: list[ImpliedLayer] = []
    for rule in rules:
        layer = _layer(rule, filled)
        if layer is None:
            base.append(rule)
            continue
        found.append(layer)
        if rule.claims("spoke") and rule.claims("hub") and rule.spoke != rule.hub:
            base.append(Move(name="move", spoke=rule.spoke, hub=rule.hub))
    found.sort(key=lambda layer: len(layer.path))
    return Layers(
        tuple(layer for layer in reversed(found) if layer.side == "spoke"),
        tuple(base),
        tuple(layer for layer in found if layer.side == "hub"),
    )


def _layer(rule: Rule, filled: Sequence[tuple[Side, Path]]) -> ImpliedLayer | None:
    """Return the layer of a rule that is filled in around other rules, or inside of such a field."""
    side = rule.filled_in
    if side is None:
        return None
    path = parse(rule.named(side)[0])
    if any(side == other and starts_with(path, around) for other, around in filled):
        return ImpliedLayer(side, path, rule.as_layer())
    return None


def _optional(node: Any, path: Path) -> dict[str, Any]:
    """Return a schema node that does not require the field at ``path``; nothing is mutated."""
    name = path[0]
    if len(path) == 1:
        return {**node, "required": [each for each in node.get("required") or () if each != name]}
    properties = node.get("properties") or {}
    if name not in properties:
        return dict(node)
    return {**node, "properties": {**properties, name: _optional(properties[name], path[1:])}}

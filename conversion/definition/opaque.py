"""Finds opaque fields that no rule enters: their content passes unchanged, whatever its fields are called.

No schema describes what is below ``x-kubernetes-preserve-unknown-fields``, so no check can find that a field in there
has another name in the other version. If an object embeds a part of its own API (such as a template of itself), that
part is converted outside of such a field and not inside of it. This may be right; only the author knows.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from restow.conversion.compile.graph import KindGraph
from restow.conversion.model.fieldpath import Path, parse, starts_with
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.unions import flattened
from restow.crds import ANY, Schema
from restow.crds.paths import ROOT, field_path, items_path, values_path


@dataclass(frozen=True, slots=True)
class OpaqueField:
    """An opaque field of a version: its path there and in the hub, and its description by either schema."""

    kind: str
    version: str
    hub: str
    path: str
    hub_path: str
    says: str
    hub_says: str


def opaque_fields(kind: KindGraph) -> list[OpaqueField]:
    """Return the opaque fields of a kind that no rule enters; none for versions without a schema."""
    title, found = f"{kind.kind}.{kind.group}", []
    for name, spoke in kind.spokes.items():
        if spoke.schema is not None and kind.hub_schema is not None:
            pair = _Pair(spoke.schema, kind.hub_schema, ROOT, ROOT)
            found += [
                OpaqueField(title, name, kind.hub, each.path, each.hub_path, _said(each.spoke), _said(each.hub))
                for each in _in_scope(spoke.rules, pair)
            ]
    return found


@dataclass(frozen=True, slots=True)
class _Pair:
    """One field in both versions: its schemas and its whole paths."""

    spoke: Schema
    hub: Schema
    path: str
    hub_path: str

    def at(self, path: Path, hub_path: Path) -> _Pair | None:
        """Return the pair of fields below, None if a version does not have it."""
        spoke: Schema | None = self.spoke
        hub: Schema | None = self.hub
        at, hub_at = self.path, self.hub_path
        for name in path:
            spoke, at = spoke and spoke.field(name), field_path(at, name)
        for name in hub_path:
            hub, hub_at = hub and hub.field(name), field_path(hub_at, name)
        return None if spoke is None or hub is None else _Pair(spoke, hub, at, hub_at)

    @property
    def items(self) -> _Pair | None:
        """The items of two lists."""
        spoke, hub = self.spoke.items, self.hub.items
        if spoke is None or hub is None:
            return None
        return _Pair(spoke, hub, items_path(self.path), items_path(self.hub_path))

    @property
    def values(self) -> _Pair | None:
        """The values of two maps."""
        spoke, hub = self.spoke.values, self.hub.values
        if spoke is None or hub is None:
            return None
        return _Pair(spoke, hub, values_path(self.path), values_path(self.hub_path))

    @property
    def is_opaque(self) -> bool:
        """Whether one of the versions keeps values here that no schema describes."""
        return self.spoke.preserves_unknown_fields or self.hub.preserves_unknown_fields


def _in_scope(rules: Sequence[Rule], pair: _Pair) -> Iterator[_Pair]:
    """Yield the opaque fields below a pair of objects with rules between them."""
    every = tuple(flattened(rules))
    yield from _unclaimed(every, pair, ())
    for rule in every:
        if not rule.passes and rule.container is None:
            continue
        below = pair.at(parse(rule.spoke[0]), parse(rule.hub[0]))
        if below is None or ANY in (below.spoke, below.hub):  # inside of an opaque field that a rule enters
            continue
        spoke, hub = rule.inner_schema("spoke", pair.spoke), rule.inner_schema("hub", pair.hub)
        if rule.passes:
            yield from _whole(below)
        elif spoke is not None and hub is not None:
            places = rule.inner_place("spoke", pair.path), rule.inner_place("hub", pair.hub_path)
            yield from _in_scope(rule.contained, _Pair(spoke, hub, *places))


def _unclaimed(rules: Sequence[Rule], pair: _Pair, path: Path) -> Iterator[_Pair]:
    """Yield the opaque fields that keep their place and have no claims at or below them."""
    names = {*pair.spoke.properties, *pair.hub.properties}
    claims = [parse(text) for rule in rules for text in (*rule.spoke, *rule.hub)]
    skipped = {"apiVersion", "kind", "metadata"} if pair.spoke.is_root or pair.spoke.embedded_resource else set()
    for name in sorted(names - skipped):
        here = (*path, name)
        below = pair.at((name,), (name,))
        if below is None or here in claims:
            continue
        if any(starts_with(claim, here) for claim in claims):
            yield from _unclaimed(rules, below, here)
        else:
            yield from _whole(below)


def _whole(pair: _Pair) -> Iterator[_Pair]:
    """Yield a field that passes unchanged if it is opaque, else the opaque fields in it."""
    if pair.is_opaque:
        yield pair
        return
    yield from _unclaimed((), pair, ())
    for below in (pair.items, pair.values):
        if below is not None:
            yield from _whole(below)


def _said(schema: Schema) -> str:
    """Return how a schema describes the values of a field."""
    node = schema.node
    if schema.embedded_resource:
        return "an embedded object of any kind"
    if not schema.preserves_unknown_fields:
        return {"array": "a list", "object": "a described object"}.get(node.get("type") or "", "a value")
    if node.get("type") == "object":
        declared = len(schema.properties)
        return f"an object with {declared} described fields and any others" if declared else "an object of any fields"
    return "a list of anything" if node.get("type") == "array" else "anything"

"""Finds bounds that differ between versions: values that one version admits and another refuses.

Conversion passes such a value on, and clients can read it. But the API server validates every write: an object with a
value out of a version's bounds cannot be changed there in that field, and before Kubernetes 1.30 not at all. These are
notes, no defects: an API may tighten its bounds, and then has to correct the stored objects.

Only fields whose value passes unchanged are compared; the laws check the results of functions. Differing patterns are
reported in both directions, because it is unknown which one admits more.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from restow.conversion.compile.graph import KindGraph
from restow.conversion.model.errors import Diagnostic
from restow.conversion.model.fieldpath import Path, parse
from restow.conversion.rules.protocol import Rule
from restow.crds import Schema
from restow.crds.paths import ROOT, field_path
from restow.crds.schema import schema_at
from restow.crds.schemadiff import common, shared

#: Keywords for the smallest or largest admitted value or size, each with the keyword that excludes the bound itself.
_LEAST: Final = ("minimum", "minLength", "minItems", "minProperties")
_MOST: Final = ("maximum", "maxLength", "maxItems", "maxProperties")
_EXCLUSIVE: Final = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}
_EXACT: Final = ("pattern", "format", "multipleOf")
_FIX: Final = "Correct stored objects before the version is used, make the bounds agree, or convert it with rules.pair"
_IMPLICIT: Final = frozenset({"apiVersion", "kind", "metadata"})


def narrowed_bounds(kind: KindGraph) -> list[Diagnostic]:
    """Return a note for each bound by which a version refuses values of another one; none without schemas."""
    title = f"{kind.kind}.{kind.group}"
    found = []
    for spoke in kind.spokes.values():
        if spoke.schema is None or kind.hub_schema is None or kind.is_internal:
            continue
        for ours, theirs, places in _same(spoke.rules, spoke.schema, kind.hub_schema, (ROOT, ROOT)):
            for side, version, other, mine, yours in (
                (0, spoke.version, kind.hub, ours.node, theirs.node),
                (1, kind.hub, spoke.version, theirs.node, ours.node),
            ):
                for keyword, bound in _refused(mine, yours):
                    problem = f"admits values that {other} refuses: {keyword} is {bound} there"
                    found.append(Diagnostic(title, version, places[side], problem, _FIX))
    return list(dict.fromkeys(found))


def _refused(mine: Mapping[str, Any], yours: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the keywords by which the second node refuses a value that the first admits."""
    for keyword in (*_LEAST, *_MOST):
        theirs, ours = yours.get(keyword), mine.get(keyword)
        if theirs is None or (theirs == 0 and keyword.startswith("min") and keyword != "minimum"):
            continue
        sign = 1 if keyword in _LEAST else -1
        border = _EXCLUSIVE.get(keyword, "")
        stricter = bool(yours.get(border)) and not mine.get(border)
        if ours is None or sign * theirs > sign * ours or (theirs == ours and stricter):
            yield keyword, theirs
    for keyword in _EXACT:
        if keyword in yours and yours[keyword] != mine.get(keyword) and not _is_size(keyword, yours[keyword]):
            yield keyword, yours[keyword]


def _is_size(keyword: str, value: Any) -> bool:
    """Return whether a format is one that the API server does not check."""
    return keyword == "format" and value in ("int64", "double", "password")


Pair = tuple[Schema, Schema, tuple[str, str]]


def _same(rules: Sequence[Rule], spoke: Schema, hub: Schema, places: tuple[str, str]) -> Iterator[Pair]:
    """Yield the pairs of fields, with their places, between which values pass unchanged."""
    claimed = {parse(text) for rule in rules for text in (*rule.spoke, *rule.hub)}
    for name in sorted(spoke.properties.keys() & hub.properties.keys()):
        if not (spoke.is_root and name in _IMPLICIT):
            below = (field_path(places[0], name), field_path(places[1], name))
            yield from _below((name,), claimed, spoke.properties[name], hub.properties[name], below)
    for rule in rules:
        ends = _ends(rule, spoke, hub)
        if ends is None:
            continue
        inside = (_place(places[0], rule.spoke[0]), _place(places[1], rule.hub[0]))
        if rule.moves:
            yield from _whole(*ends, inside)
        elif rule.container is not None:
            yield *ends, inside
            inner = rule.inner_schema("spoke", spoke), rule.inner_schema("hub", hub)
            if inner[0] is not None and inner[1] is not None:
                below = rule.inner_place("spoke", places[0]), rule.inner_place("hub", places[1])
                yield from _same(rule.contained, inner[0], inner[1], below)


def _ends(rule: Rule, spoke: Schema, hub: Schema) -> tuple[Schema, Schema] | None:
    if not rule.spoke or not rule.hub:
        return None
    ours, theirs = schema_at(spoke, parse(rule.spoke[0])), schema_at(hub, parse(rule.hub[0]))
    return None if ours is None or theirs is None else (ours, theirs)


def _below(path: Path, claimed: set[Path], ours: Schema, theirs: Schema, places: tuple[str, str]) -> Iterator[Pair]:
    """Yield the fields at and below a path that no rule claims."""
    if path in claimed:
        return
    if not any(claim[: len(path)] == path for claim in claimed):
        yield from _whole(ours, theirs, places)
        return
    for name in sorted(ours.properties.keys() & theirs.properties.keys()):
        below = (field_path(places[0], name), field_path(places[1], name))
        yield from _below((*path, name), claimed, ours.properties[name], theirs.properties[name], below)


def _whole(ours: Schema, theirs: Schema, places: tuple[str, str]) -> Iterator[Pair]:
    """Yield the places at and below a field that is the same in both versions."""
    if ours.node != theirs.node:
        for place in shared(ours, theirs, common, path=""):
            yield place.old, place.new, (places[0] + place.path, places[1] + place.path)


def _place(parent: str, text: str) -> str:
    for name in parse(text):
        parent = field_path(parent, name)
    return parent

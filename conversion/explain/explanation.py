"""Explains a whole conversion: both legs over the hub as one, and the defaults that the API server adds on a write.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from restow.conversion.compile.graph import Graph, KindGraph
from restow.conversion.compile.route import Leg
from restow.conversion.explain.model import (
    DefaultedField,
    DoubtfulEntry,
    Explanation,
    FieldLink,
    FieldLinks,
    LeafEnding,
    LeafOrigin,
    OriginKind,
    ResultLeaf,
    SourceLeaf,
    WaivedField,
    leaves,
)
from restow.conversion.explain.trace import Trace, trace
from restow.conversion.model.errors import ObjectError, kept_values
from restow.conversion.model.fieldpath import Steps, value_at
from restow.conversion.model.values import Json, same
from restow.conversion.rules.sides import Direction
from restow.conversion.stash.annotation import Stash, annotations_of, parse_stash, unseal
from restow.conversion.stash.items import doubtful
from restow.crds import Schema, pruned_paths
from restow.crds.paths import ROOT, field_path, items_path, values_path


def defaulted(value: Any, schema: Schema | None, path: str = ROOT) -> Iterator[DefaultedField]:
    """Yield the fields that get a default, each place once; of nested fields only the outermost one."""
    if schema is None:
        return
    if isinstance(value, list):
        for item in value:
            yield from defaulted(item, schema.items, items_path(path))
    elif isinstance(value, dict):
        declared = schema.properties
        for name, inner in declared.items():
            if inner.has_default and (name not in value or (value[name] is None and not inner.nullable)):
                yield DefaultedField(field_path(path, name), inner.default)
        for name, child in value.items():
            if name in declared:
                yield from defaulted(child, declared[name], field_path(path, name))
            else:
                yield from defaulted(child, schema.values, values_path(path))


#: The endings of leaves that are in the stash.
_STASHED: Final = frozenset({LeafEnding.STASHED, LeafEnding.KEPT})

#: The objects that may exist only for the stash annotation, and are restored when the annotation is removed.
_ROOM: Final[tuple[Steps, ...]] = (("metadata",), ("metadata", "annotations"))


def explain(graph: Graph, obj: Json, api_version: str) -> Explanation:
    """Explain the conversion of an object to another version (``group/version``).

    Raises:
        ObjectError: as ``Graph.convert`` does, and if the object already has that version.
    """
    with kept_values() as failed:
        result = graph.convert(obj, api_version)
    if result is obj:
        reason = f"the object is at {api_version} already: there is nothing to explain"
        raise ObjectError(reason, version=api_version)
    group, _, source = obj["apiVersion"].rpartition("/")
    kind, target = graph.kind(group, obj["kind"]), api_version.rpartition("/")[2]
    obj = kind.adopted(obj)
    route = tuple(dict.fromkeys((source, kind.hub, target)))
    found, now = Trace(), obj
    lost: list[DoubtfulEntry] = []
    legs: list[dict[Steps, FieldLink]] = []
    for leg in _legs(kind, route):
        step = _walk(kind, leg, now)
        found = step.trace if leg.source == source else _after(found, step.trace, FieldLinks(tuple(legs)))
        legs.append(step.trace.links)
        lost += step.doubtful
        now = step.result
    schema = kind.schema(target)
    return Explanation(
        route=route,
        source=obj,
        result=result,
        leaves=tuple(_leaves(kind, obj, result, found)),
        source_leaves=tuple(dict.fromkeys(found.source_leaves)),
        stash_before=_decoded(obj, kind.stash_key),
        stash_after=_decoded(result, kind.stash_key),
        doubtful=tuple(lost),
        pruned=() if schema is None else pruned_paths(result, schema),
        defaulted=tuple({each.path: each for each in defaulted(result, schema)}.values()),
        waived=tuple(WaivedField(problem, reason) for problem, reason in kind.missing(result, source) if reason),
        links=FieldLinks(tuple(legs)),
        kept=tuple(each.with_line for each in failed),
    )


def _legs(kind: KindGraph, route: tuple[str, ...]) -> Iterator[Leg]:
    for source, target in pairwise(route):
        direction: Direction = "up" if target == kind.hub else "down"
        spoke = kind.spokes[source if direction == "up" else target]
        yield Leg(direction, spoke.rules, source, target, kind.schema(source), kind.schema(target))


@dataclass(frozen=True, slots=True)
class _Walked:
    trace: Trace
    result: Json
    doubtful: tuple[DoubtfulEntry, ...]


def _walk(kind: KindGraph, leg: Leg, obj: Json) -> _Walked:
    """Convert along one leg, with and without the stash, and trace it."""
    convert, key = kind.routes[leg.source, leg.target].function, kind.stash_key
    result = convert(obj)
    source, before = _opened(obj, key)
    target, after = _opened(result, key)
    plain = _opened(convert(source), key)[0]
    kept, lost = before.kept.get(leg.target), after.kept.get(leg.source)
    traced = trace(leg, source, target, plain, kept=kept, lost=lost)
    marked = (DoubtfulEntry(path, tuple(entries)) for path, entries in doubtful(kept))
    return _Walked(traced, result, tuple(marked))


def _opened(obj: Json, key: str) -> tuple[Json, Stash]:
    text = annotations_of(obj).get(key)
    if text is None:
        return obj, Stash()
    opened, stash = unseal(obj, key)
    return opened, stash or Stash()


def _decoded(obj: Json, key: str) -> Json | None:
    parsed = parse_stash(annotations_of(obj).get(key))
    if parsed is None:
        return None
    stash = parsed[0]
    return {"kept": stash.kept} | ({"dropped": stash.dropped} if stash.dropped else {})


def _leaves(kind: KindGraph, obj: Json, result: Json, found: Trace) -> Iterator[ResultLeaf]:
    """Yield the leaves of the real result, with the annotation that was sealed after all legs."""
    for place, value in leaves(result):
        if place == ("apiVersion",):
            origin = LeafOrigin(OriginKind.VERSION)
        elif place == ("metadata", "annotations", kind.stash_key) and not same(
            annotations_of(obj).get(kind.stash_key), value
        ):
            origin = LeafOrigin(
                OriginKind.ANNOTATION,
                tuple(leaf.place for leaf in found.source_leaves if leaf.ending in _STASHED),
            )
        else:
            # The trace also seals the stash at the hub, where it may run out of room. A leaf without an origin
            # therefore comes from the stash of the real conversion.
            origin = found.origins.get(place, LeafOrigin(OriginKind.STASH))
            if place in _ROOM and value != value_at(obj, place):
                origin = LeafOrigin(OriginKind.EMPTIED, (place,))
        yield ResultLeaf(place, value, origin)


def _after(first: Trace, second: Trace, before: FieldLinks) -> Trace:
    """Return two legs as one: the second leg's statements about the hub, in terms of the source."""
    origins = {place: _behind(origin, first, before, place) for place, origin in second.origins.items()}
    leaves_of_source = [*first.source_leaves]
    for leaf in second.source_leaves:
        behind = first.origins.get(leaf.place, LeafOrigin(OriginKind.STASH))
        leaves_of_source += [
            SourceLeaf(place, leaf.ending, leaf.rule, leaf.where, leaf.reason) for place in behind.sources
        ]
    return Trace(origins, second.links, leaves_of_source)


def _behind(origin: LeafOrigin, first: Trace, before: FieldLinks, place: Steps) -> LeafOrigin:
    sources: list[Steps] = []
    deciders: list[Steps] = []
    rules: list[str] = []
    hows: list[OriginKind] = []
    for source in origin.sources:
        for behind in _origins_at(source, first, before):
            sources += behind.sources
            rules += behind.rules
            hows.append(behind.how)
            deciders += behind.deciders
    for decider in origin.deciders:
        for behind in _origins_at(decider, first, before):
            deciders += (*behind.sources, *behind.deciders)
    unique = tuple(dict.fromkeys(sources))
    return LeafOrigin(
        _combined(origin.how, hows, unique, place),
        unique,
        tuple(dict.fromkeys((*rules, *origin.rules))),
        tuple(dict.fromkeys(deciders)),
    )


def _origins_at(source: Steps, first: Trace, before: FieldLinks) -> Iterator[LeafOrigin]:
    """Yield the origins of a hub field, or of the leaves in it; a field that passed as a whole has one origin."""
    if source in first.origins:
        yield first.origins[source]
        return
    inner = [origin for place, origin in first.origins.items() if place[: len(source)] == source]
    if inner and all(origin.how in (OriginKind.COPIED, OriginKind.MOVED) for origin in inner):
        came_from = before.source(source)
        if came_from is not None:
            how = OriginKind.COPIED if came_from == source else OriginKind.MOVED
            deciders = dict.fromkeys(decider for origin in inner for decider in origin.deciders)
            yield LeafOrigin(how, (came_from,), inner[0].rules, tuple(deciders))
            return
    yield from inner


_WEIGHT = (
    OriginKind.COPIED,
    OriginKind.MOVED,
    OriginKind.EMPTIED,
    OriginKind.CONSTANT,
    OriginKind.DEFAULT,
    OriginKind.COMPUTED,
    OriginKind.STASH,
)


def _combined(how: OriginKind, behind: list[OriginKind], sources: tuple[Steps, ...], place: Steps) -> OriginKind:
    if not behind:
        return how
    if how in (OriginKind.COPIED, OriginKind.MOVED) and set(behind) <= {OriginKind.COPIED, OriginKind.MOVED}:
        return OriginKind.COPIED if sources == (place,) else OriginKind.MOVED
    return max((how, *behind), key=_WEIGHT.index)

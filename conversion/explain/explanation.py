"""Explains a whole conversion: the legs over the hub one after the other, told as one.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from restow.conversion.compile.route import Leg
from restow.conversion.errors import ObjectError
from restow.conversion.explain.model import (
    Ending,
    Explanation,
    Fate,
    How,
    Leaf,
    Link,
    Links,
    Origin,
    Steps,
    leaves,
    value_at,
)
from restow.conversion.explain.server import defaulted
from restow.conversion.explain.trace import Trace, trace
from restow.conversion.graph import Graph, KindGraph
from restow.conversion.rules.model import Direction
from restow.conversion.stash import Stash, parse_stash, unseal
from restow.conversion.values import Json, same
from restow.crds import pruned_paths

__all__ = ["explain"]

#: The objects that may have been made for the stash annotation alone, and are as they were before when it goes.
_ROOM: Final[tuple[Steps, ...]] = (("metadata",), ("metadata", "annotations"))


def explain(graph: Graph, obj: Json, api_version: str) -> Explanation:
    """Explain how an object becomes one of another version (``group/version``).

    Raises:
        ObjectError: as ``Graph.convert`` does, and if the object is of that version already.
    """
    result = graph.convert(obj, api_version)
    if result is obj:
        reason = f"the object is at {api_version} already: there is nothing to explain"
        raise ObjectError(reason, version=api_version)
    group, _, source = obj["apiVersion"].rpartition("/")
    kind, target = graph.kind(group, obj["kind"]), api_version.rpartition("/")[2]
    route = tuple(dict.fromkeys((source, kind.hub, target)))
    found, now = Trace(), obj
    legs: list[dict[Steps, Link]] = []
    for leg in _legs(kind, route):
        step = _walk(kind, leg, now)
        found = step.trace if leg.source == source else _after(found, step.trace, Links(tuple(legs)))
        legs.append(step.trace.links)
        now = step.result
    schema = kind.schema(target)
    return Explanation(
        route=route,
        source=obj,
        result=result,
        leaves=tuple(_leaves(kind, obj, result, found)),
        fates=tuple(dict.fromkeys(found.fates)),
        stash_before=_decoded(obj, kind.stash_key),
        stash_after=_decoded(result, kind.stash_key),
        pruned=() if schema is None else pruned_paths(result, schema),
        defaulted=tuple({each.path: each for each in defaulted(result, schema)}.values()),
        links=Links(tuple(legs)),
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


def _walk(kind: KindGraph, leg: Leg, obj: Json) -> _Walked:
    """Convert along one leg, with the stash and without, and trace it."""
    convert, key = kind.routes[leg.source, leg.target].function, kind.stash_key
    result = convert(obj)
    source, before = _opened(obj, key)
    target, after = _opened(result, key)
    plain = _opened(convert(source), key)[0]
    kept, lost = before.kept.get(leg.target), after.kept.get(leg.source)
    return _Walked(trace(leg, source, target, plain, kept=kept, lost=lost), result)


def _opened(obj: Json, key: str) -> tuple[Json, Stash]:
    text = _annotation(obj, key)
    if text is None:
        return obj, Stash()
    opened, stash = unseal(obj, key)
    return opened, stash or Stash()


def _annotation(obj: Json, key: str) -> Any:
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations.get(key) if isinstance(annotations, dict) else None


def _decoded(obj: Json, key: str) -> Json | None:
    parsed = parse_stash(_annotation(obj, key))
    if parsed is None:
        return None
    stash = parsed[0]
    return {"kept": stash.kept} | ({"dropped": stash.dropped} if stash.dropped else {})


def _leaves(kind: KindGraph, obj: Json, result: Json, found: Trace) -> Iterator[Leaf]:
    """Yield the leaves of the real result, with the annotation that was sealed after all legs."""
    for place, value in leaves(result):
        if place == ("apiVersion",):
            origin = Origin(How.VERSION)
        elif place == ("metadata", "annotations", kind.stash_key) and not same(_annotation(obj, kind.stash_key), value):
            origin = Origin(How.ANNOTATION, tuple(fate.place for fate in found.fates if fate.ending is Ending.STASHED))
        else:
            # Step by step the stash is sealed at the hub too, where it may run out of room: only it can bring more.
            origin = found.origins.get(place, Origin(How.STASH))
            if place in _ROOM and value != value_at(obj, place):
                origin = Origin(How.EMPTIED, (place,))
        yield Leaf(place, value, origin)


def _after(first: Trace, second: Trace, before: Links) -> Trace:
    """Return two legs as one: what the second one says of the hub, in terms of the source."""
    origins = {place: _behind(origin, first, before, place) for place, origin in second.origins.items()}
    fates = [*first.fates]
    for fate in second.fates:
        behind = first.origins.get(fate.place, Origin(How.STASH))
        fates += [Fate(place, fate.ending, fate.rule, fate.where, fate.reason) for place in behind.sources]
    return Trace(origins, second.links, fates)


def _behind(origin: Origin, first: Trace, before: Links, place: Steps) -> Origin:
    sources: list[Steps] = []
    rules: list[str] = []
    hows: list[How] = []
    for source in origin.sources:
        for behind in _origins_at(source, first, before):
            sources += behind.sources
            rules += behind.rules
            hows.append(behind.how)
    unique = tuple(dict.fromkeys(sources))
    return Origin(_combined(origin.how, hows, unique, place), unique, tuple(dict.fromkeys((*rules, *origin.rules))))


def _origins_at(source: Steps, first: Trace, before: Links) -> Iterator[Origin]:
    """Yield the origins of a field of the hub, or of the leaves in it; a field carried as a whole stays one."""
    if source in first.origins:
        yield first.origins[source]
        return
    inner = [origin for place, origin in first.origins.items() if place[: len(source)] == source]
    if inner and all(origin.how in (How.COPIED, How.MOVED) for origin in inner):
        came_from = before.source(source)
        if came_from is not None:
            yield Origin(How.COPIED if came_from == source else How.MOVED, (came_from,), inner[0].rules)
            return
    yield from inner


_WEIGHT = (How.COPIED, How.MOVED, How.EMPTIED, How.CONSTANT, How.DEFAULT, How.COMPUTED, How.STASH)


def _combined(how: How, behind: list[How], sources: tuple[Steps, ...], place: Steps) -> How:
    if not behind:
        return how
    if how in (How.COPIED, How.MOVED) and set(behind) <= {How.COPIED, How.MOVED}:
        return How.COPIED if sources == (place,) else How.MOVED
    return max((how, *behind), key=_WEIGHT.index)

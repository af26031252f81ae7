"""Tests the laws on a real object: conversion over every pair of versions and back, on any way, within its schemas.

The laws are those of ``restow.conversion.testing``, which tries generated objects; this module tries existing objects.
A field that a rule drops on purpose is no loss. Nothing slow happens while the laws hold.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import permutations
from typing import Any

from restow.conversion.compile.graph import Graph, KindGraph
from restow.conversion.explain import LeafEnding, Steps, explain, leaves
from restow.conversion.model.errors import ObjectError
from restow.conversion.model.values import Json, same
from restow.crds import pruned_paths
from restow.crds.decoding import with_defaults
from restow.crds.types import violations


class RoundTripLaw(StrEnum):
    """A law that an object may break."""

    CONVERSION = "conversion"
    """Every object converts to every version."""
    ROUND_TRIP = "round trip"
    """Conversion to another version and back is the identity."""
    PATH = "path independence"
    """A detour over a third version gives the same result as the direct way."""
    SCHEMA = "schema"
    """A valid object of one version is valid in the other, with no field that the API server would drop."""


@dataclass(frozen=True, slots=True)
class BrokenLaw:
    """A law that an object breaks on a way through versions.

    ``before`` and ``after`` should be the same, except for the places in ``forgiven``, but are not. ``message`` holds
    further information, without values.
    """

    law: RoundTripLaw
    way: tuple[str, ...]
    message: str = ""
    before: Json | None = field(default=None, repr=False)
    after: Json | None = field(default=None, repr=False)
    forgiven: frozenset[Steps] = frozenset()


@dataclass(slots=True)
class RoundTrips:
    """The result for an object: the number of its conversions, and the laws that it broke."""

    conversions: int = 0
    broken: list[BrokenLaw] = field(default_factory=list)


def round_trips(graph: Graph, obj: Json) -> RoundTrips:
    """Convert an object over every pair of its kind's versions.

    Raises:
        ObjectError: the object has no apiVersion or kind, or the graph does not have that kind or version.
    """
    api_version, kind_name = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind_name, str):
        reason = "the object has no apiVersion or no kind"
        raise ObjectError(reason)
    graph.route(kind_name, api_version, api_version, visible=True)
    group, _, source = api_version.rpartition("/")
    walk = _Walk(graph, graph.kind(group, kind_name), obj, source)
    walk.run()
    return walk.found


@dataclass(slots=True)
class _Walk:
    graph: Graph
    kind: KindGraph
    obj: Json
    source: str
    found: RoundTrips = field(default_factory=RoundTrips)

    def run(self) -> None:
        """Test every law."""
        at = {self.source: self.obj}
        for version in self.kind.visible_versions:
            if version != self.source:
                converted = self._convert(self.obj, (self.source, version))
                if converted is not None:
                    at[version] = converted
        self._judge_schemas(at)
        for here, via in permutations(at, 2):
            self._judge_ways(at, here, via)

    def _judge_schemas(self, at: dict[str, Json]) -> None:
        """Test the law of schemas on what the API server makes of the object: it first fills in the defaults."""
        schema = self.kind.schema(self.source)
        stored = self.obj if schema is None else with_defaults(self.obj, schema)
        if any(_misfits(self.kind, self.source, stored, self.source)):
            return
        for version, obj in at.items():
            if version != self.source:
                converted = obj if stored is self.obj else self._convert(stored, (self.source, version))
                if converted is not None:
                    self._judge_schema(version, converted)

    def _judge_ways(self, at: dict[str, Json], here: str, via: str) -> None:
        there = at[via]
        if here != self.source:
            detour = self._convert(at[here], (self.source, here, via))
            if detour is None:
                return
            if via != self.source and not same(detour, there) and not self._drops(self.obj, here):
                self._differs(RoundTripLaw.PATH, (self.source, here, via), there, detour, frozenset())
            there = detour
        back = self._convert(there, (here, via, here))
        if back is not None and not same(at[here], back):
            self._differs(RoundTripLaw.ROUND_TRIP, (here, via, here), at[here], back, self._drops(at[here], via))

    def _judge_schema(self, version: str, obj: Json) -> None:
        problem = next(_misfits(self.kind, version, obj, self.source), None)
        if problem is not None:
            self.found.broken.append(BrokenLaw(RoundTripLaw.SCHEMA, (self.source, version), problem))

    def _convert(self, obj: Json, way: tuple[str, ...]) -> Json | None:
        self.found.conversions += 1
        try:
            return self.graph.convert(obj, f"{self.kind.group}/{way[-1]}")
        except ObjectError as error:
            self.found.broken.append(BrokenLaw(RoundTripLaw.CONVERSION, way, error.with_line))
            return None

    def _drops(self, obj: Json, version: str) -> frozenset[Steps]:
        """Return the leaves that rules drop on purpose on the way to a version."""
        if obj["apiVersion"] == f"{self.kind.group}/{version}":
            return frozenset()
        explanation = explain(self.graph, obj, f"{self.kind.group}/{version}")
        return frozenset(leaf.place for leaf in explanation.source_leaves if leaf.ending is LeafEnding.DROPPED)

    def _differs(
        self, law: RoundTripLaw, way: tuple[str, ...], before: Json, after: Json, forgiven: frozenset[Steps]
    ) -> None:
        if any(place not in forgiven for place in _differing(before, after, forgiven)):
            self.found.broken.append(BrokenLaw(law, way, "", before, after, forgiven))


def _differing(before: Json, after: Json, forgiven: frozenset[Steps]) -> Iterator[Steps]:
    """Yield the differing leaves, except objects that are only empty because their content was dropped."""
    left, right = dict(leaves(before)), dict(leaves(after))
    for place, value in left.items():
        if place not in right or not same(value, right[place]):
            yield place
    for place, value in right.items():
        if place not in left and not (value == {} and any(each[: len(place)] == place for each in forgiven)):
            yield place


def _misfits(kind: KindGraph, version: str, obj: Json, source: str) -> Iterator[str]:
    schema = kind.schema(version)
    if schema is None:
        return
    missing = kind.missing(obj, source) if source != version else ((each, "") for each in violations(obj, schema))
    yield from (violation for violation, waived in missing if not waived)
    for path in pruned_paths(obj, schema):
        yield f"{path} is not declared, so the API server would drop it"


def is_forgiven(place: Steps, forgiven: frozenset[Steps], before: Any) -> bool:
    """Return whether rules declare the difference at a place: everything there was dropped."""
    gone = [(*place, *leaf) for leaf, _ in leaves(before)]
    return bool(gone) and all(each in forgiven for each in gone)

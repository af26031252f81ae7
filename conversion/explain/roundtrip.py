"""Tests the laws on a real object: conversion over every pair of versions and back, on any way, within its schemas.

The laws are those of ``restow.conversion.testing``, which tries generated objects; this module tries existing objects.
A field that a rule drops on purpose is no loss. Nothing slow happens while the laws hold.

A stash is no field: it counts by what it gives to other versions. An entry that an edit made void may go, and the
annotation of another tool may become a stash that gives the same.

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
from restow.conversion.stash.annotation import annotations_of, parse_stash, unseal
from restow.crds import pruned_paths
from restow.crds.decoding import with_defaults
from restow.crds.types import violations


class RoundTripLaw(StrEnum):
    """A law that an object may break."""

    CONVERSION = "conversion"
    """Every object converts to every version."""
    ROUND_TRIP = "round trip"
    """Conversion to another version and back is the identity, and every version shows the same afterwards."""
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
    kind = graph.kind(group, kind_name)
    walk = _Walk(graph, kind, obj, source)
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
        self._judge_adoption()
        at = {self.source: self.obj}
        for version in self.kind.visible_versions:
            if version != self.source:
                converted = self._convert(self.obj, (self.source, version))
                if converted is not None:
                    at[version] = converted
        self._judge_schemas(at)
        for here, via in permutations(at, 2):
            self._judge_ways(at, here, via)

    def _judge_adoption(self) -> None:
        """Let a stash replace the annotations of other tools, as every conversion does first; all of it must fit."""
        adopted = self.kind.adopted(self.obj)
        if self._dropped(adopted) > self._dropped(self.obj):
            message = f"the data to adopt exceeds the stash's budget of {self.kind.stash_budget} bytes: raise it"
            self.found.broken.append(BrokenLaw(RoundTripLaw.CONVERSION, (self.source,), message))
        self.obj = adopted

    def _dropped(self, obj: Json) -> int:
        parsed = parse_stash(annotations_of(obj).get(self.kind.stash_key))
        return 0 if parsed is None else parsed[0].dropped

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

    def _bare(self, obj: Json) -> Json:
        """Return an object without its stash."""
        return unseal(obj, self.kind.stash_key)[0] if self.kind.stash_key in annotations_of(obj) else obj

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
        fields, fields_after = self._bare(before), self._bare(after)
        if any(place not in forgiven for place in _differing(fields, fields_after, forgiven)):
            self.found.broken.append(BrokenLaw(law, way, "", fields, fields_after, forgiven))
        elif not self._gives_the_same(before, after):
            self.found.broken.append(BrokenLaw(law, way, "", before, after, forgiven))

    def _gives_the_same(self, before: Json, after: Json) -> bool:
        """Return whether the stashes of two objects of one version give the same to every version."""
        stashes = (annotations_of(obj).get(self.kind.stash_key) for obj in (before, after))
        if same(*stashes):
            return True
        here = before["apiVersion"]
        others = (f"{self.kind.group}/{version}" for version in self.kind.visible_versions)
        return all(
            same(*(self._bare(self.graph.convert(obj, other)) for obj in (before, after)))
            for other in others
            if other != here
        )


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

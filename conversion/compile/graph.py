"""A frozen set of conversions: checked, compiled and immutable. To compile takes most of the time.

``Graph.convert`` is a pure function of the object: no clock, no cluster, no configuration; the same object gives the
same bytes. It never changes its input; the result shares all parts with it that no rule touches.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from types import MappingProxyType

from restow.conversion.compile.adoption import Adopted, Adoption
from restow.conversion.compile.route import Leg, Route, compile_leg, join_route
from restow.conversion.model.errors import ObjectError, UnknownKind, UnknownVersion
from restow.conversion.model.fieldpath import parse, shown
from restow.conversion.model.values import Json
from restow.conversion.rules.functions import keeping
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.scopes import Keyless
from restow.conversion.rules.sides import Side
from restow.crds import Schema
from restow.crds.paths import ROOT
from restow.crds.types import violations


@dataclass(frozen=True, slots=True)
class Spoke:
    """A version and the rules between it and the hub; ``schema`` is None if no CRD was given."""

    version: str
    rules: tuple[Rule, ...]
    schema: Schema | None


class Routes(Mapping[tuple[str, str], Route]):
    """The routes by source and target, compiled by ``compile``, or else when one of them is first asked for."""

    def __init__(self, write: Callable[[], dict[tuple[str, str], Route]]) -> None:
        self._write = write
        self._routes: dict[tuple[str, str], Route] | None = None

    def compile(self) -> dict[tuple[str, str], Route]:
        """Compile the routes unless they are compiled."""
        if self._routes is None:
            self._routes = self._write()
        return self._routes

    def __getitem__(self, versions: tuple[str, str]) -> Route:
        """Return a route."""
        return self.compile()[versions]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield the versions of each route."""
        return iter(self.compile())

    def __len__(self) -> int:
        """Return the number of routes."""
        return len(self.compile())


@dataclass(frozen=True, slots=True, eq=False)
class KindGraph:
    """The conversions of one kind. ``routes`` has every ordered pair of different versions, including the hub's.

    ``is_internal``: the hub is no version of the CRD, and no client ever sees it. ``leaves`` are versions of the CRD
    that have no conversions, because they are not served. ``keyless`` names the lists that need no keys.
    """

    group: str
    kind: str
    hub: str
    hub_schema: Schema | None = field(repr=False)
    is_internal: bool
    spokes: Mapping[str, Spoke] = field(repr=False)
    stash_key: str
    stash_budget: int
    routes: Routes = field(repr=False)
    adopts: tuple[Adopted, ...] = ()
    leaves: tuple[str, ...] = ()
    keyless: tuple[Keyless, ...] = ()

    @classmethod
    def of(
        cls,
        group: str,
        kind: str,
        *,
        hub: str,
        hub_schema: Schema | None,
        is_internal: bool,
        spokes: Mapping[str, Spoke],
        stash_key: str,
        stash_budget: int,
        adopts: tuple[Adopted, ...] = (),
        leaves: tuple[str, ...] = (),
        keyless: tuple[Keyless, ...] = (),
    ) -> KindGraph:
        """Return the conversions of a kind; its routes are not compiled yet."""

        def write() -> dict[tuple[str, str], Route]:
            ups, downs = {}, {}
            for name, spoke in spokes.items():
                ups[name] = compile_leg(Leg("up", spoke.rules, name, hub, spoke.schema, hub_schema))
                downs[name] = compile_leg(Leg("down", spoke.rules, hub, name, hub_schema, spoke.schema))
            routes = {}
            for source, target in permutations((*spokes, hub), 2):
                legs = [*([ups[source]] if source != hub else []), *([downs[target]] if target != hub else [])]
                routes[source, target] = join_route(legs, f"{group}/{target}", stash_key=stash_key, budget=stash_budget)
            return _adopting(routes, adopts, group, kind, stash_key=stash_key, budget=stash_budget)

        return cls(
            group,
            kind,
            hub,
            hub_schema,
            is_internal,
            MappingProxyType(dict(spokes)),
            stash_key,
            stash_budget,
            Routes(write),
            adopts,
            leaves,
            keyless,
        )

    @property
    def versions(self) -> tuple[str, ...]:
        """Every version, the hub last."""
        return (*self.spokes, self.hub)

    @property
    def visible_versions(self) -> tuple[str, ...]:
        """The versions that clients can see: all except an internal hub."""
        return tuple(self.spokes) if self.is_internal else self.versions

    @property
    def keeps(self) -> bool:
        """Whether some rule keeps values that it cannot convert, so that they do not fail their object."""
        return any(next(keeping(spoke.rules), None) for spoke in self.spokes.values())

    def adopted(self, obj: Json) -> Json:
        """Return an object in which a stash of restow's own replaces the stashes of other tools."""
        source = str(obj["apiVersion"]).rpartition("/")[2]
        adopts = self.adopts
        return _adoption(self.routes, adopts, self.group, self.kind, source, self.stash_key, self.stash_budget).take(
            obj
        )

    def schema(self, version: str) -> Schema | None:
        """Return the schema of a version, None if no CRD was given."""
        return self.hub_schema if version == self.hub else self.spokes[version].schema

    def missing(self, obj: Json, source: str) -> Iterator[tuple[str, str]]:
        """Yield the violations of an object against its version's schema; ``source`` is its original version.

        Each is a sentence with the reason of the rule that waives it, empty if none does.
        """
        target = str(obj["apiVersion"]).rpartition("/")[2]
        schema = self.schema(target)
        if schema is None:
            return
        waived = list(self._waived(source, target))
        for violation in violations(obj, schema):
            yield violation, next((reason for pattern, reason in waived if pattern.fullmatch(violation)), "")

    def _waived(self, source: str, target: str) -> Iterator[tuple[re.Pattern[str], str]]:
        """Yield the violations that rules waive. A field that the hub may lack may be missing in every other spoke."""
        if source in self.spokes:
            others = self.spokes[target].rules if target in self.spokes else ()
            moves = (rule for rule in others if rule.moves)
            moved = {shown(parse(rule.hub[0])): shown(parse(rule.spoke[0])) for rule in moves}
            for place, reason in _waivers(self.spokes[source].rules, "hub"):
                yield _required(moved.get(place, place)), reason
        if target in self.spokes:
            for place, reason in _waivers(self.spokes[target].rules, "spoke"):
                yield _required(place), reason


def _adoption(
    routes: Mapping[tuple[str, str], Route],
    adopts: Sequence[Adopted],
    group: str,
    kind: str,
    source: str,
    stash_key: str,
    budget: int,
) -> Adoption:
    def back(version: str) -> Callable[[Json], Json]:
        return routes[version, source].function

    return Adoption(adopts, group=group, kind=kind, source=source, back=back, stash_key=stash_key, budget=budget)


def _adopting(
    routes: Mapping[tuple[str, str], Route],
    adopts: Sequence[Adopted],
    group: str,
    kind: str,
    *,
    stash_key: str,
    budget: int,
) -> dict[tuple[str, str], Route]:
    """Return the routes with the adoption of other tools' stashes as their first step."""
    if not adopts:
        return dict(routes)
    at = {source: _adoption(routes, adopts, group, kind, source, stash_key, budget) for source, _ in routes}
    return {
        (source, target): replace(route, function=_adopted(at[source], route.function, at[target]))
        for (source, target), route in routes.items()
    }


def _adopted(before: Adoption, convert: Callable[[Json], Json], after: Adoption) -> Callable[[Json], Json]:
    return lambda obj: after.arrive(convert(before.take(obj)))


def _waivers(rules: Sequence[Rule], side: Side, around: str = ROOT) -> Iterator[tuple[str, str]]:
    """Yield the places that one side requires and the other may lack, with the reasons."""
    for rule in rules:
        if rule.answers is not None and rule.filled_in is None and rule.answers[0] == side:
            yield shown(rule.answers[1], around), rule.reason
        yield from _waivers(rule.contained, side, rule.inner_place(side, around))


def _required(place: str) -> re.Pattern[str]:
    """Return the pattern of the sentences about a missing field (``crds.types.violations``)."""
    any_key = r"(\.[^.\[]+|\[.*?\])"
    return re.compile(any_key.join(map(re.escape, place.split("{}"))) + " is required")


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """The conversions of a provider, by (group, kind)."""

    kinds: Mapping[tuple[str, str], KindGraph]

    def compile(self) -> Graph:
        """Compile every route that is not compiled, and return this graph."""
        for kind in self.kinds.values():
            kind.routes.compile()
        return self

    def kind(self, group: str, kind: str) -> KindGraph:
        """Return the conversions of one kind.

        Raises:
            UnknownKind: the graph has no such kind in this group.
        """
        try:
            return self.kinds[group, kind]
        except KeyError:
            known = ", ".join(f"{name}.{its_group}" for its_group, name in self.kinds)
            reason = f"no conversion is registered for {kind[:100]}.{group[:100]}, only for {known or 'nothing'}"
            raise UnknownKind(reason) from None

    def route(self, kind: str, source: str, target: str, *, visible: bool = False) -> Route | None:
        """Return the route of a kind between two apiVersions (``group/version``); None if they are the same.

        With ``visible``, an internal hub counts as unknown, because no client knows it.

        Raises:
            UnknownKind: the graph has no such kind in this group.
            UnknownVersion: the kind has no such version.
        """
        group, _, version = source.rpartition("/")
        wanted_group, _, wanted = target.rpartition("/")
        conversions = self.kind(group, kind)
        if group != wanted_group:
            reason = f"{kind[:100]} is of the group {group[:100]} and cannot become one of {wanted_group[:100]}"
            raise UnknownVersion(reason, version=source)
        known = conversions.visible_versions if visible else conversions.versions
        for name in (version, wanted):
            if name in conversions.leaves:
                reason = f"{kind}.{group} {name} is left alone by its rules: it is not served, so nothing converts it"
                raise UnknownVersion(reason, version=source)
            if name not in known:
                reason = f"{kind[:100]}.{group[:100]} has no version {name[:100]}, only {', '.join(known)}"
                raise UnknownVersion(reason, version=source)
        return None if version == wanted else conversions.routes[version, wanted]

    def convert(self, obj: Json, api_version: str) -> Json:
        """Return the object at another version (``group/version``); the object itself if it already has this version.

        Raises:
            ObjectError: the object has no apiVersion or kind, the graph does not have them (``UnknownKind``,
                ``UnknownVersion``), or a rule fails on the object (``RuleFailed``).
        """
        source, kind = obj.get("apiVersion"), obj.get("kind")
        if not isinstance(source, str) or not isinstance(kind, str):
            reason = "the object has no apiVersion or no kind"
            raise ObjectError(reason)
        route = self.route(kind, source, api_version)
        if route is None:
            return obj
        try:
            return route.function(obj)
        except ObjectError as error:
            error.version = error.version or source
            raise

"""Traces one leg of a conversion (spoke to hub, or hub to spoke) rule by rule, based on the real conversion.

The rules show which field a value comes from. The real results, once with and once without the stash, show whether the
value came from the stash instead. The trace computes only two things again: which items of a list a function hides, and
which values a rule forgets.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from restow.conversion.compile.lens import placed
from restow.conversion.compile.route import Leg
from restow.conversion.explain.itempairs import ContainerPair, ItemPair, item_pairs
from restow.conversion.explain.model import (
    FieldLink,
    LeafEnding,
    LeafOrigin,
    OriginKind,
    SourceLeaf,
    leaves,
)
from restow.conversion.model.errors import ValueBeyondLimits
from restow.conversion.model.fieldpath import Path, Steps, dig, parse, shown, starts_with, value_at
from restow.conversion.model.values import ABSENT, Json, same
from restow.conversion.rules.functions import FROM_ROOT, read_steps
from restow.conversion.rules.protocol import Rule, claimed_paths
from restow.conversion.rules.sides import SIDES, Direction, Side
from restow.conversion.rules.unions import Union, branched, flattened
from restow.conversion.stash.entries import Kept, is_kept_failure, kept_branch, kept_inside
from restow.crds import Schema
from restow.crds.schema import schema_at

#: The list items around a place, outermost first, with their key fields.
Items = tuple[tuple[Any, tuple[str, ...]], ...]

_MARKS: Final = {"list": "[]", "map": "{}", "object": ""}


@dataclass(slots=True)
class Trace:
    """The trace of one leg: origins by leaf of the result, links by field, and the ends of the source's leaves."""

    origins: dict[Steps, LeafOrigin] = field(default_factory=dict)
    links: dict[Steps, FieldLink] = field(default_factory=dict)
    source_leaves: list[SourceLeaf] = field(default_factory=list)


def trace(leg: Leg, source: Json, target: Json, plain: Json, *, kept: Kept, lost: Kept) -> Trace:
    """Explain one leg. The objects are without their stash annotations.

    ``target`` is the result for ``source``, ``plain`` the result without a stash; ``kept`` are the entries of the stash
    that the leg found for its target, ``lost`` those that it left for its source.
    """
    tracer = _Tracer(leg.source, source)
    tracer.scope(_Scope(leg.rules, leg.direction, source, target, plain, kept, lost, leg.target_schema))
    return tracer.found


@dataclass(slots=True)
class _Scope:
    """One object in both versions (the root, a list item, a map value) and the rules between them.

    ``at`` and ``to`` are its places in the source and in the target; ``around`` names the rules around it, ``kept_at``
    the stash place of its entries. ``sections`` maps entries to their section of a union. ``decided`` has the source
    fields that decide about branches, each with the paths that its branches convert.
    """

    rules: Sequence[Rule]
    direction: Direction
    source: Json
    target: Json
    plain: Any
    kept: Kept
    lost: Kept
    schema: Schema | None
    at: Steps = ()
    to: Steps = ()
    around: str = ""
    kept_at: str = ""
    items: Items = ()
    around_decided: tuple[Steps, ...] = ()
    sections: dict[str, str] = field(default_factory=dict)
    decided: list[tuple[Steps, tuple[Path, ...]]] = field(default_factory=list)
    takes: dict[Path, Rule] = field(init=False)
    puts: dict[Path, Rule] = field(init=False)

    def __post_init__(self) -> None:
        sides: tuple[Side, Side] = ("spoke", "hub") if self.direction == "up" else ("hub", "spoke")
        self._choose(self.rules, self.kept, self.lost, "", *sides)
        self.takes, self.puts = (
            {path: rule for rule in self.rules for path in claimed_paths(rule, side)} for side in sides
        )

    def _choose(
        self, rules: Sequence[Rule], kept: Kept, lost: Kept, section_at: str, source: Side, target: Side
    ) -> None:
        """Replace unions by the rules of the object's branch, and merge in their part of the stash."""
        scope = branched(rules)
        if not scope.unions:
            return
        found = [*scope.plain]
        self.kept, self.lost = {**(self.kept or {}), **(kept or {})}, {**(self.lost or {}), **(lost or {})}
        for union in scope.unions:
            shown_branch = union.decider(source)(self.source)
            branch, section = kept_branch(kept, union.address(target), shown_branch, union.names)
            inner, at = kept_inside(lost, union.address(source)), section_at + union.address(source)
            self.sections |= dict.fromkeys(inner or (), at)
            self.kept, self.lost = {**self.kept, **(section or {})}, {**self.lost, **(inner or {})}
            self.rules = union.rules(branch)
            self._decide(union, source)
            self._choose(self.rules, section, inner, at, source, target)
            found += self.rules
        self.rules = found

    def _decide(self, union: Union, source: Side) -> None:
        """Record the field of the source that decides about the branch of a union, if there is one."""
        places = (parse(each.place[source]) for each in union.branches)
        decider = next((path for path in places if dig(self.source, path) not in (ABSENT, None)), None)
        if decider is not None:
            self.decided.append((self.at + decider, tuple(_converted_paths(union))))

    def deciders(self, place: Steps) -> tuple[Steps, ...]:
        """Return the fields of the source that decide about the branches which convert a field of the target."""
        path = place[len(self.to) :]
        own = (decider for decider, paths in self.decided if any(_meet(path, each) for each in paths))
        return tuple(dict.fromkeys((*self.around_decided, *own)))

    def address(self, entry: str) -> str:
        """Return the stash place of an entry of the scope."""
        return f"{self.kept_at}{self.sections.get(entry, '')}{entry}"

    def label(self, rule: Rule) -> str:
        """Return the name of a rule, and of the rules around it."""
        return f"{rule.label} in {self.around}" if self.around else rule.label

    def filler(self, path: Path, value: Any) -> Rule | None:
        """Return the layered rule that filled in a field of the target, if any."""
        return self._layered(self.target_side, path, value) if same(dig(self.plain, path), value) else None

    def omitter(self, path: Path, value: Any) -> Rule | None:
        """Return the layered rule that may have left a field of the source out of the target, if any."""
        return self._layered("hub" if self.target_side == "spoke" else "spoke", path, value)

    def _layered(self, side: Side, path: Path, value: Any) -> Rule | None:
        for rule in self.rules:
            _, filled = rule.fills(side) or ((), ABSENT)
            if filled is not ABSENT and rule.answers == (side, path) and same(filled, value):
                return rule
        return None

    @property
    def target_side(self) -> Side:
        """The side that is written."""
        return "hub" if self.direction == "up" else "spoke"

    def is_on_the_way(self, path: Path) -> bool:
        """Return whether a rule claims something inside of ``path``."""
        return any(starts_with(claim, path) and claim != path for claim in (*self.takes, *self.puts))

    def is_taken(self, path: Path) -> bool:
        """Return whether a rule takes ``path``, or something around it, out of the source."""
        return any(starts_with(path, claim) for claim in self.takes)

    def taken(self, rule: Rule) -> tuple[Path, ...]:
        """Return the fields that a rule takes and that are present."""
        return tuple(
            path for path, owner in self.takes.items() if owner is rule and dig(self.source, path) is not ABSENT
        )

    def given(self, rule: Rule) -> bool:
        """Return whether a rule gave the target a value."""
        return any(dig(self.target, path) is not ABSENT for path, owner in self.puts.items() if owner is rule)

    def entry(self, path: Path) -> str | None:
        """Return the address of the stash entry that the leg left for a field of the source, or for one around it."""
        addresses = (shown(path[:size]) for size in range(1, len(path) + 1))
        return next((address for address in addresses if self.lost and address in self.lost), None)

    def sides(self, rule: Rule) -> ContainerPair:
        """Return the container that a rule enters, in both versions."""
        (take,), (put,) = (
            tuple(path for path, owner in claims.items() if owner is rule) for claims in (self.takes, self.puts)
        )
        source, target = dig(self.source, take), dig(self.target, put)
        return ContainerPair(
            self.direction, source, target, take, put, self.kept, self.lost, schema_at(self.schema, put)
        )


@dataclass(slots=True)
class _Tracer:
    version: str
    root: Json
    found: Trace = field(default_factory=Trace)

    def scope(self, scope: _Scope) -> None:
        """Explain one object."""
        for name, value in scope.target.items():
            self._field(scope, (name,), value)
        for name, value in scope.source.items():
            self._ending(scope, (name,), value)

    # The origin of each leaf of the target

    def _field(self, scope: _Scope, path: Path, value: Any) -> None:
        rule = scope.puts.get(path)
        if rule is not None:
            self._put(scope, rule, path, value)
        elif isinstance(value, dict) and value and scope.is_on_the_way(path):
            for name, child in value.items():
                self._field(scope, (*path, name), child)
        else:
            self._unclaimed(scope, path, value)

    def _unclaimed(self, scope: _Scope, path: Path, value: Any) -> None:
        source = ABSENT if scope.is_taken(path) else dig(scope.source, path)
        filler = scope.filler(path, value)
        if source is not ABSENT and same(source, value):
            self._carried(scope, scope.to + path, value, scope.at + path, scope.around)
        elif filler is not None:
            self._made(scope, scope.to + path, value, LeafOrigin(OriginKind.DEFAULT, (), (scope.label(filler),)))
        elif value == {} and isinstance(source, dict):
            self._made(scope, scope.to + path, value, LeafOrigin(OriginKind.EMPTIED, (scope.at + path,)))
        else:
            self._made(scope, scope.to + path, value, LeafOrigin(OriginKind.STASH))

    def _put(self, scope: _Scope, rule: Rule, path: Path, value: Any) -> None:
        filler = scope.filler(path, value)
        if filler is not None and not scope.taken(rule):
            self.found.links[scope.to + path] = FieldLink(None, opaque=rule.is_opaque)
            self._made(scope, scope.to + path, value, LeafOrigin(OriginKind.DEFAULT, (), (scope.label(filler),)))
            return
        label, sources = scope.label(rule), tuple(scope.at + each for each in scope.taken(rule))
        place, source = scope.to + path, sources[0] if sources else None
        self.found.links[place] = FieldLink(source, opaque=rule.is_opaque)
        without_stash = same(dig(scope.plain, path), value)
        if rule.container is not None:
            self._repeated(scope, rule, place, value)
        elif rule.is_opaque:
            how = OriginKind.COMPUTED if without_stash else OriginKind.STASH
            found = dict.fromkeys((*sources, *_reads(scope, rule, self.root)))
            self._made(scope, place, value, LeafOrigin(how, tuple(found), (label,)))
        elif without_stash and rule.passes and source is not None:
            self._carried(scope, place, value, source, label)
        elif without_stash and rule.filled_in is not None:
            how = OriginKind.DEFAULT if rule.passes else OriginKind.CONSTANT
            self._made(scope, place, value, LeafOrigin(how, (), (label,)))
        else:
            self._made(scope, place, value, LeafOrigin(OriginKind.STASH, sources, (label,)))

    def _repeated(self, scope: _Scope, rule: Rule, place: Steps, value: Any) -> None:
        label, sides = scope.label(rule), scope.sides(rule)
        came_from = scope.at + sides.source_path
        if sides.source is ABSENT:
            self._made(scope, place, value, LeafOrigin(OriginKind.STASH, (), (label,)))
        elif not isinstance(sides.source, list if rule.container == "list" else dict):
            self._carried(scope, place, value, came_from, label)
        else:
            if not value:
                self._made(scope, place, value, _left(sides.source, place, came_from, label))
            for part in item_pairs(rule, sides, lambda item: _hides(scope, rule, item, self.root)):
                self._part(scope, rule, sides, part)

    def _part(self, scope: _Scope, rule: Rule, sides: ContainerPair, part: ItemPair) -> None:
        label = scope.label(rule)
        at_part, to_part = scope.at + sides.source_path, scope.to + sides.target_path
        if part.target is None:
            assert part.source is not None
            path = sides.source_path + part.source
            self._stashed(scope, path, value_at(sides.source, part.source), label, shown(sides.source_path))
            return
        to_part += part.target
        value = value_at(sides.target, part.target)
        if part.source is None:
            self.found.links[to_part] = FieldLink(None)
            self._made(scope, to_part, value, LeafOrigin(OriginKind.STASH, (), (label,)))
            return
        at_part += part.source
        source = value_at(sides.source, part.source)
        self.found.links[to_part] = FieldLink(at_part)
        if not isinstance(source, dict) or not isinstance(value, dict):
            self._carried(scope, to_part, value, at_part, label)
            return
        if not value and part.target:
            self._made(scope, to_part, value, _left(source, to_part, at_part, label))
        plain = dig(scope.plain, sides.target_path)
        schema = sides.schema if rule.container == "object" else None
        if sides.schema is not None and rule.container != "object":
            schema = sides.schema.items if rule.container == "list" else sides.schema.values
        self.scope(
            _Scope(
                rule.inner,
                scope.direction,
                source,
                value,
                ABSENT if part.plain is None else value_at(plain, part.plain),
                part.kept,
                part.lost,
                schema,
                at_part,
                to_part,
                label,
                scope.address(sides.lost_address) + _MARKS[rule.container or "object"],
                _standing_in(scope, rule, source),
                scope.deciders(to_part),
            )
        )

    def _carried(self, scope: _Scope, place: Steps, value: Any, source: Steps, label: str) -> None:
        """Record that a value is the same as in the source, at the same or another place."""
        how = OriginKind.COPIED if place == source else OriginKind.MOVED
        for leaf, _ in leaves(value):
            rules = (label,) if label and how is OriginKind.MOVED else ()
            self.found.origins[place + leaf] = LeafOrigin(how, (source + leaf,), rules, scope.deciders(place + leaf))

    def _made(self, scope: _Scope, place: Steps, value: Any, origin: LeafOrigin) -> None:
        """Record one origin for all leaves of a value."""
        for leaf, _ in leaves(value, place):
            self.found.origins[leaf] = replace(origin, deciders=scope.deciders(leaf))

    # The end of each leaf of the source

    def _ending(self, scope: _Scope, path: Path, value: Any) -> None:
        rule = scope.takes.get(path)
        if rule is not None:
            self._taken(scope, rule, path, value)
        elif isinstance(value, dict) and value and scope.is_on_the_way(path):
            for name, child in value.items():
                self._ending(scope, (*path, name), child)
        elif not same(dig(scope.target, path), value):
            around = next((owner for claim, owner in scope.puts.items() if starts_with(path, claim)), None)
            address = scope.entry(path)
            omitter = scope.omitter(path, value)
            if address is None and omitter is not None and dig(scope.target, path) is ABSENT:
                self._ends(scope.at + path, value, LeafEnding.IMPLIED, scope.label(omitter))
            elif address is not None:
                self._stashed(scope, path, value, "" if around is None else scope.label(around), address)

    def _taken(self, scope: _Scope, rule: Rule, path: Path, value: Any) -> None:
        label, address = scope.label(rule), shown(path)
        place = scope.at + path
        omitter = scope.omitter(path, value)
        if omitter is not None and address not in (scope.lost or ()) and not scope.given(rule):
            self._ends(place, value, LeafEnding.IMPLIED, scope.label(omitter))
            return
        if rule.container is not None or rule.moves:
            return
        if rule.drops or self._is_forgotten(scope, rule):
            self._ends(place, value, LeafEnding.DROPPED, label, reason=rule.reason)
        elif rule.is_opaque:
            first = next(claim for claim, owner in scope.takes.items() if owner is rule)
            if scope.lost and shown(first) in scope.lost:
                self._stashed(scope, path, value, label, shown(first))
        elif rule.filled_in is None or (scope.lost and address in scope.lost):
            self._stashed(scope, path, value, label, address)
        elif not scope.given(rule):
            self._ends(place, value, LeafEnding.IMPLIED, label)

    def _is_forgotten(self, scope: _Scope, rule: Rule) -> bool:
        """Return whether a rule drops a value of the spoke; only this check calls the author's functions again."""
        if not rule.may_forget or scope.direction == "down":
            return False
        first = next(claim for claim, owner in scope.takes.items() if owner is rule)
        if scope.lost and shown(first) in scope.lost:
            return False
        return rule.forgets(scope.source, self.root)

    def _stashed(self, scope: _Scope, path: Steps, value: Any, label: str, address: str) -> None:
        where = f"{self.version} {scope.address(address)}"
        entry = ABSENT if scope.lost is None else scope.lost.get(address, ABSENT)
        ending = LeafEnding.LOST if entry is ABSENT else LeafEnding.STASHED
        if isinstance(entry, dict) and is_kept_failure(entry):
            ending = LeafEnding.KEPT
        self._ends(scope.at + path, value, ending, label, where=where)

    def _ends(
        self, place: Steps, value: Any, ending: LeafEnding, label: str, *, where: str = "", reason: str = ""
    ) -> None:
        for leaf, _ in leaves(value, place):
            self.found.source_leaves.append(SourceLeaf(leaf, ending, label, where, reason))


def _left(source: Any, place: Steps, came_from: Steps, label: str) -> LeafOrigin:
    """Return the origin of an empty container."""
    if source:
        return LeafOrigin(OriginKind.EMPTIED, (came_from,), (label,))
    return LeafOrigin(
        OriginKind.COPIED if place == came_from else OriginKind.MOVED,
        (came_from,),
        () if place == came_from else (label,),
    )


def _meet(one: Steps, other: Steps) -> bool:
    """Return whether one of two paths is at or above the other."""
    size = min(len(one), len(other))
    return one[:size] == other[:size]


def _converted_paths(union: Union) -> Iterator[Path]:
    """Yield the paths, of either version, at which the branches of a union convert something."""
    for rule in flattened((*union.branches, *union.rest)):
        yield from (*claimed_paths(rule, "spoke"), *claimed_paths(rule, "hub"))
        yield from (filled[0] for side in SIDES if (filled := rule.fills(side)) is not None)


def _hides(scope: _Scope, rule: Rule, item: Any, root: Json) -> bool:
    hide = rule.functions.get("hide")
    if hide is None or scope.direction == "up":
        return False
    items = _standing_in(scope, rule, item)
    reads = (
        value_at(root, place) if text.startswith(FROM_ROOT) else dig(item, parse(text))
        for text, place in _places(rule.reads, (), items, root)
    )
    try:
        return bool(hide(item, *reads))
    except (Exception, SystemExit) as error:
        if rule.keeps or isinstance(error, ValueBeyondLimits):
            return True
        raise


def _standing_in(scope: _Scope, rule: Rule, item: Any) -> Items:
    return (*scope.items, (item, rule.key_names("hub"))) if rule.container == "list" else scope.items


def _places(reads: Sequence[str], at_scope: Steps, items: Items, root: Json) -> Iterator[tuple[str, Steps]]:
    """Yield each read with its place; a read that finds nothing gets a place without a value."""
    for text in reads:
        if text.startswith(FROM_ROOT):
            yield text, placed(root, read_steps(text), items) or ("",)
        else:
            yield text, at_scope + parse(text)


def _reads(scope: _Scope, rule: Rule, root: Json) -> tuple[Steps, ...]:
    """Return the further fields that the function of a lens received."""
    places = _places(rule.reads_going(scope.direction), scope.at, scope.items, root)
    return tuple(place for _, place in places if value_at(root, place) is not ABSENT)

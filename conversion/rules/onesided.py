"""Fields that one version has, or requires, and the other version lacks or may lack.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from restow.conversion.model.fieldpath import Path, PathError, parse, starts_with
from restow.conversion.model.values import is_json
from restow.conversion.rules.protocol import (
    Counterpart,
    Defect,
    Loss,
    Rule,
    RuleGroup,
    SchemaQuestions,
    Surroundings,
    check_reason,
    claimed_paths,
    declared,
    paths_of,
)
from restow.conversion.rules.sides import SIDES, Direction, Side, opposite


@dataclass(frozen=True, slots=True, kw_only=True)
class Implied(Rule):
    """A field that one side always has, with the value that stands for its absence in the other.

    ``is_layered``: other rules convert the field or its content; this one only fills it in where they write nothing. It
    then claims nothing (``compile.layers``).
    """

    value: Any = None
    is_layered: bool = False

    def claims(self, side: Side) -> tuple[str, ...]:
        """Return the path on that side; nothing if other rules convert the field."""
        return () if self.is_layered else self.named(side)

    def fills(self, side: Side) -> tuple[Path, Any] | None:
        """Return the field and its value on the side that always has it."""
        return (parse(self.named(side)[0]), self.value) if side == self.filled_in else None

    @property
    def answers(self) -> tuple[Side, Path] | None:
        """The field, if other rules convert it."""
        if not self.is_layered or self.filled_in is None:
            return None
        return self.filled_in, parse(self.named(self.filled_in)[0])

    def layered(self, rules: Sequence[Rule]) -> Rule:
        """Return the rule, marked as layered if other rules convert the field or its content."""
        others = (other for rule in rules for other in rule.obeyed() if other is not self)
        return replace(self, is_layered=True) if any(map(self._is_around, others)) else self

    def _is_around(self, other: Rule) -> bool:
        """Return whether the rule may surround another one: it fills in what the other leaves empty.

        The other rule converts the field's content, or the field itself on the side that always has it.
        """
        converts = other.filled_in is None and bool(other.spoke and other.hub)
        for side in SIDES:
            path = _one_path(self.named(side))
            claims = [claim for text in other.claims(side) if (claim := _one_path((text,))) is not None]
            if path is None:
                continue
            if any(starts_with(claim, path) and claim != path for claim in claims):
                return True
            if converts and side == self.filled_in and any(starts_with(path, claim) for claim in claims):
                return True
        return False

    def _check_value(self) -> Iterator[Defect]:
        if not is_json(self.value):
            side: Side = "hub" if self.hub else "spoke"
            problem = f"{self.label} has a value that is no JSON"
            yield Defect(problem, "Give a JSON value", side, parse(self.named(side)[0]))


def _one_path(texts: Sequence[str]) -> Path | None:
    try:
        return parse(texts[0]) if len(texts) == 1 else None
    except PathError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Implied):
    """A field that only one side has, with its value for objects of the other side."""

    @property
    def filled_in(self) -> Side:
        """The side that always has the field."""
        return "hub" if self.hub else "spoke"

    def loss(self, direction: Direction) -> Loss:
        """Return the loss of other values than the constant, on the way from the side that has the field."""
        return Loss.STASHED if (direction == "up") == bool(self.spoke) else Loss.LOSSLESS

    def layered(self, rules: Sequence[Rule]) -> Rule:
        """Return the rule, marked as layered if it is an empty object, whose content other rules convert."""
        return Implied.layered(self, rules) if self.value == {} else self

    def as_layer(self) -> Rule:
        """Return a default, if other rules convert the content."""
        if not self.is_layered:
            return self
        text, side = self.named(self.filled_in), opposite(self.filled_in)
        return Default(name=self.name, spoke=text, hub=text, value=self.value, omitted_in=side)

    def check(self, around: Surroundings) -> Iterator[Defect]:  # noqa: ARG002
        """Yield that both sides are named, or that the value is no JSON."""
        yield from _check_one_side(self) or self._check_value()

    def ask(self, schemas: SchemaQuestions) -> None:
        """Ask for the value."""
        schemas.implied(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Default(Implied):
    """A field that one side may omit (``omitted_in``): its absence means ``value``, which the other side writes out.

    ``hides``: the field is omitted if the other side has this value.
    """

    omitted_in: Side = "spoke"
    hides: bool = True

    def as_layer(self) -> Rule:
        """Return the default at the path of the side that always has the field."""
        text = self.named(self.filled_in)
        return replace(self, spoke=text, hub=text, is_layered=False)

    def counterpart(self, path: Path, side: Side) -> Counterpart | None:
        """Return the other end of the default; of its content nothing is known."""
        (here,), (there,) = claimed_paths(self, side), claimed_paths(self, opposite(side))
        return Counterpart(there, (self,)) if path == here else None

    @property
    def omits(self) -> Side | None:
        """The side that omits the field, if the default hides its value."""
        return self.omitted_in if self.hides else None

    @property
    def passes(self) -> bool:
        """Whether a value that both versions have is the same in both: always."""
        return True

    @property
    def filled_in(self) -> Side:
        """The side that always has the field."""
        return opposite(self.omitted_in)

    def loss(self, direction: Direction) -> Loss:  # noqa: ARG002 each side has a form of its own
        """Return that the stash keeps whether the field was written, in both directions."""
        return Loss.STASHED

    def check(self, around: Surroundings) -> Iterator[Defect]:  # noqa: ARG002
        """Yield that the value is no JSON, or the side is none."""
        yield from self._check_value()
        if self.omitted_in not in get_args(Side):
            fix = 'Say omitted_in="spoke" or omitted_in="hub"'
            yield Defect(f"{self.label} has omitted_in={self.omitted_in!r}", fix, is_fatal=True)

    def ask(self, schemas: SchemaQuestions) -> None:
        """Ask for one schema, and for the value."""
        if not self.is_layered:
            schemas.same(self)
        schemas.implied(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver(Rule):
    """A field that one side requires, and that objects of the other side may lack. It claims nothing.

    ``acknowledge`` says why this is no defect.
    """

    acknowledge: str = ""

    def claims(self, side: Side) -> tuple[str, ...]:  # noqa: ARG002 a waiver leaves all fields to other rules
        """Return nothing."""
        return ()

    @property
    def answers(self) -> tuple[Side, Path]:
        """The field that may be missing."""
        side: Side = "spoke" if self.spoke else "hub"
        return side, parse(self.named(side)[0])

    def check(self, around: Surroundings) -> Iterator[Defect]:  # noqa: ARG002
        """Yield that both sides are named, or that the reason is missing."""
        found = _check_one_side(self)
        if not found and not self.acknowledge.strip():
            found = [Defect(f"{self.label} does not say why the field may be missing", "Fill in acknowledge=")]
        yield from found

    @property
    def reason(self) -> str:
        """Why the field may be missing."""
        return self.acknowledge

    def loss(self, direction: Direction) -> Loss:
        """Return that the side which requires the field may lack it."""
        return Loss.WAIVED if (direction == "down") == bool(self.spoke) else Loss.LOSSLESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Private(Rule):
    """A field that only one side has: kept in the stash, or dropped if ``acknowledge`` says why that is no loss."""

    acknowledge: str | None = None

    def check(self, around: Surroundings) -> Iterator[Defect]:  # noqa: ARG002
        """Yield that both sides are named, or that the reason is missing."""
        yield from _check_one_side(self) or check_reason(self, self.acknowledge)

    @property
    def is_private(self) -> bool:
        """Whether the field is one that one version alone has: always."""
        return True

    @property
    def reason(self) -> str:
        """Why the field is dropped."""
        return self.acknowledge or ""

    def ask(self, schemas: SchemaQuestions) -> None:
        """Ask whether the field is optional."""
        schemas.dispensable(self)

    def loss(self, direction: Direction) -> Loss:
        """Return what becomes of the field on the way to the side that lacks it."""
        if (direction == "up") != bool(self.spoke):
            return Loss.LOSSLESS
        return Loss.STASHED if self.acknowledge is None else Loss.DROPPED


@declared
def constant(spoke: str | None = None, value: Any = None, *, hub: str | None = None) -> Rule:
    """A field that only one version has, with a known value for objects of the other: ``constant(hub="spec.tier",
    value=1)``.

    The field is written if its parent object is present, and removed on the way back. Any other value is stashed.

    For an object that only one version has, and always has, use ``constant(hub="spec.box", value={})`` and separate
    rules for the fields inside the object.
    """
    return Constant(spoke=_side(spoke), hub=_side(hub), value=value)


@declared
def default(spoke: str, value: Any, *, hub: str | None = None, omitted_in: Side = "spoke", hides: bool = True) -> Rule:
    """A field that the hub always has and the spoke may omit: ``default("spec.replicas", 1)``.

    Going up, a missing field becomes ``value`` if its parent object is present; going down, ``value`` becomes a missing
    field. If an object had the other form, the stash keeps that form. ``omitted_in="hub"`` swaps the sides: the hub may
    omit a field that the spoke always has.

    With ``hides=False`` the default value is always shown when it is written. The stash then keeps the fact that a
    field was missing.

    Other rules may convert the field or its content: ``default("spec", {})`` works with ``rename("spec.a",
    "spec.b")``, with ``inside("spec", …)``, and with defaults inside of ``spec``; ``default("spec.mode", "Full")``
    works with an ``enum`` of the same field. ``value`` is the value in the version that always has the field.
    """
    return Default(spoke=(spoke,), hub=(hub or spoke,), value=value, omitted_in=omitted_in, hides=hides)


@declared
def stash(spoke: str | Sequence[str] | None = None, *, hub: str | Sequence[str] | None = None) -> Rule:
    """A field that the other version lacks; objects of that version keep it in the stash annotation.
    ``stash(hub="spec.weight")``.

    A list of paths declares one rule for each path: ``stash(hub=["spec.weight", "spec.zone"])``.
    """
    return _private("stash", spoke, hub, None)


@declared
def drop(spoke: str | Sequence[str] | None = None, *, hub: str | Sequence[str] | None = None, acknowledge: str) -> Rule:
    """A field that conversion drops; ``acknowledge`` is the reason why this loses nothing.

    A list of paths declares one rule for each path, all with the same reason.
    """
    return _private("drop", spoke, hub, acknowledge)


def _private(
    name: str, spoke: str | Sequence[str] | None, hub: str | Sequence[str] | None, acknowledge: str | None
) -> Rule:
    """Return the rule of one field, or of one field on each side; or the rules of a list of fields."""
    if not isinstance(spoke, str | None) or not isinstance(hub, str | None):
        ours, theirs = (() if each is None else paths_of(each) for each in (spoke, hub))
        each_of = (*((path, None) for path in ours), *((None, path) for path in theirs))
        rules = (Private(name=name, spoke=_side(a), hub=_side(b), acknowledge=acknowledge) for a, b in each_of)
        return RuleGroup(spoke=ours, hub=theirs, rules=tuple(rules))
    return Private(spoke=_side(spoke), hub=_side(hub), acknowledge=acknowledge)


@declared
def waive(spoke: str | None = None, *, hub: str | None = None, acknowledge: str) -> Rule:
    """A field that one version requires and objects of the other may lack: ``waive(hub="spec", acknowledge="why")``.

    Name the side that requires the field. Nothing is filled in: the converted object lacks the field, and an API server
    refuses the next write of this object at that version. ``acknowledge`` says why this is correct.
    """
    return Waiver(spoke=_side(spoke), hub=_side(hub), acknowledge=acknowledge)


def _check_one_side(rule: Rule) -> list[Defect]:
    if len(rule.spoke) + len(rule.hub) == 1:
        return []
    fix = "Give the spoke's path, or hub="
    return [Defect(f"{rule.label} must name one field of one side", fix, is_fatal=True)]


def _side(path: str | None) -> tuple[str, ...]:
    return () if path is None else (path,)

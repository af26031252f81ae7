"""Unions: rules that hold for one branch only, and the selection of an object's branch.

The branches of one union exclude each other: ``when`` rules that name the same discriminator, or ``when`` rules on the
presence of fields that claim some field in common. An object is in the branch that its discriminator names, in the
first of the branches whose field it has, or in none.

A scope with unions converts in steps: its plain rules are one step, and each union is another. A step must take the
fields that it claims before another step writes to these places; ``ordered`` finds an order in which this holds. The
conversion down takes the steps in the reverse order.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from restow.conversion.model.fieldpath import Path, parse, shown, starts_with
from restow.conversion.model.values import Json
from restow.conversion.rules.protocol import Defect, Rule, Surroundings, claimed_paths, declared, ungrouped
from restow.conversion.rules.sides import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class When(Rule):
    """Rules that hold for the objects of one branch of a union.

    ``place`` is the path of the discriminator on either side. ``values`` are its values in this branch; null also
    stands for an absent discriminator. Without ``values``, the presence of a value other than null decides. ``is_rest``
    marks the rules of the objects that are in no branch; freezing adds them. ``has_both`` marks a mistake of the
    author: a rule with both a discriminator and a presence.
    """

    place: Mapping[Side, str]
    values: Mapping[Side, tuple[Any, ...]] | None
    rules: tuple[Rule, ...]
    is_rest: bool = False
    has_both: bool = False

    @property
    def label(self) -> str:
        """The name of the branch in messages: its discriminator and values."""
        if self.is_rest:
            return f"{self.name}({self.place['spoke']} is none of these)"
        if self.values is None:
            return f"{self.name}(has {self.place['spoke']})"
        return f"{self.name}({self.place['spoke']} is {' or '.join(map(str, self.values['spoke']))})"

    @property
    def branch(self) -> str:
        """The name of the branch in the stash: the first of its values, or the field whose presence decides.

        It stays the same when an author adds values.
        """
        return self.place["spoke"] if self.values is None else str(self.values["spoke"][0])

    def named(self, side: Side) -> tuple[str, ...]:
        """Return the path of the discriminator."""
        return tuple(filter(None, (self.place[side],)))

    @property
    def contained(self) -> tuple[Rule, ...]:
        """The rules of the branch."""
        return self.rules

    def with_contained(self, rules: tuple[Rule, ...]) -> Rule:
        """Return the branch with other rules."""
        return replace(self, rules=rules)

    @property
    def is_branch(self) -> bool:
        """Whether the rules inside apply to the same object: always."""
        return True

    def obeyed(self) -> Iterator[Rule]:
        """Yield the rules of the branch."""
        return flattened(ungrouped(self.rules))

    def inside(self, around: Surroundings, number: int) -> Surroundings:
        """Return the surroundings of the branch's rules."""
        union = None if self.values is None else self.place["spoke"]
        return replace(around, branches={**around.branches, (len(around.branches), union): number})

    def check(self, around: Surroundings) -> Iterator[Defect]:  # noqa: ARG002
        """Yield why the branch of an object cannot be decided."""
        values = (self.values or {}).get("spoke")
        problem, fix = "", 'Give field= and equals=, or has=: when([…], field="spec.type", equals="S3")'
        if self.has_both:
            problem = "has field= and has=, so that two conditions decide one branch"
        elif not self.place["spoke"]:
            problem = "has neither field= nor has=, so that nothing decides the branch"
        elif values == ():
            problem = "has no value in equals="
        elif not all(isinstance(each, str | int | float | None) for each in values or ()):
            problem, fix = "has a value in equals= that is no scalar", "Give texts, numbers, booleans or null"
        if problem:
            yield Defect(f"{self.label} {problem}", fix, is_fatal=True)


#: A value of a discriminator; in a list, null also stands for an absent discriminator.
Value = str | int | float | bool

Scalar = Value | None


@declared
def when(
    rules: Sequence[Rule],
    *,
    field: str | None = None,
    equals: Value | Sequence[Scalar] = (),
    has: str | None = None,
    hub: str | None = None,
) -> Rule:
    """Apply rules to the objects of one branch of a union: ``when([…], field="spec.type", equals="S3")``.

    ``field`` is the discriminator, ``equals`` its value or values in this branch, as the spoke spells them. The hub's
    values follow from the ``enum`` or ``default`` that converts the discriminator. A null in a list of values also
    stands for an absent discriminator. ``has="spec.s3"`` decides by presence instead: it selects the objects with a
    value other than null there. Give ``hub`` if the path differs there.

    The paths of ``rules`` start at the scope of ``when``: the object, or the item inside of ``each``. Branches exclude
    each other if they name the same discriminator; branches by presence exclude each other if they claim some field in
    common, and the first one counts. Both directions decide alike. The other rules of the scope convert an object of no
    branch or of another branch. The stash keeps a field that only other branches convert and that the target version
    does not have. A value that one branch lost never returns in another branch.
    """
    texts = tuple(equals) if isinstance(equals, Sequence) and not isinstance(equals, str) else (equals,)
    place = field or has or ""
    return When(
        place={"spoke": place, "hub": hub or place},
        values={"spoke": texts, "hub": texts} if field is not None else None,
        rules=tuple(rules),
        has_both=field is not None and has is not None,
    )


@dataclass(frozen=True, slots=True)
class Union:
    """The branches of one union, in the order in which they are tried, and the rules of objects in none of them."""

    branches: tuple[When, ...]
    rest: tuple[Rule, ...] = ()

    def address(self, side: Side) -> str:
        """Return the stash address of what the branch lost in that side's version; no field has such an address."""
        return f"?{shown(parse(self.branches[0].place[side]))}"

    @property
    def names(self) -> frozenset[str]:
        """The names of the branches."""
        return frozenset(each.branch for each in self.branches)

    def rules(self, branch: str | None) -> tuple[Rule, ...]:
        """Return the rules of a branch; None stands for no branch."""
        return next((each.rules for each in self.branches if each.branch == branch), self.rest)

    def decider(self, side: Side) -> Callable[[Json], str | None]:
        """Return a function from an object of that side to the name of its branch, or None if it is in none."""
        if self.branches[0].values is None:
            return _first_present([(parse(each.place[side]), each.branch) for each in self.branches])
        path = parse(self.branches[0].place[side])
        named = {_key(value): each.branch for each in self.branches for value in (each.values or {}).get(side, ())}
        return _by_value(path, named)


def _by_value(path: Path, named: Mapping[Any, str]) -> Callable[[Json], str | None]:
    def branch(obj: Json) -> str | None:
        value: Any = obj
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value.__class__ is str:
            return named.get(value)
        return None if isinstance(value, dict | list) else named.get(_key(value))

    return branch


def _key(value: Any) -> Any:
    """Return the lookup key of a value: 1 and 1.0 are one number, and true is not a number."""
    return (bool, value) if isinstance(value, bool) else value


def _first_present(places: Sequence[tuple[Path, str]]) -> Callable[[Json], str | None]:
    def branch(obj: Json) -> str | None:
        for path, name in places:
            value: Any = obj
            for step in path:
                value = value.get(step) if isinstance(value, dict) else None
            if value is not None:
                return name
        return None

    return branch


@dataclass(frozen=True, slots=True)
class Branched:
    """The rules of one scope: those that always hold, and the unions."""

    plain: tuple[Rule, ...]
    unions: tuple[Union, ...]


def branched(rules: Sequence[Rule]) -> Branched:
    """Sort the rules of a scope into those that always hold and the branches of unions."""
    plain = tuple(rule for rule in rules if not isinstance(rule, When))
    groups: list[list[When]] = []
    for rule in rules:
        if isinstance(rule, When) and not rule.is_rest:
            same = [group for group in groups if any(_is_one_union(rule, other) for other in group)]
            groups = [group for group in groups if group not in same]
            groups.append([*(other for group in same for other in group), rule])
    rest = {_union_key(rule): rule.rules for rule in rules if isinstance(rule, When) and rule.is_rest}
    return Branched(plain, tuple(Union(tuple(group), rest.get(_union_key(group[0]), ())) for group in groups))


def _union_key(rule: When) -> tuple[str, bool]:
    return rule.place["spoke"], rule.values is None


def _is_one_union(left: When, right: When) -> bool:
    if left.values is not None or right.values is not None:
        return _union_key(left) == _union_key(right)
    sides: tuple[Side, Side] = ("spoke", "hub")
    share = any(overlap(_paths(left.rules, side), _paths(right.rules, side)) for side in sides)
    return left.place == right.place or share


def changed(rules: Sequence[Rule], branch: Callable[[When], Rule], other: Callable[[Rule], Rule]) -> tuple[Rule, ...]:
    """Return the rules of a scope with each branch changed by one function, and each other rule by another."""
    return tuple(branch(rule) if isinstance(rule, When) else other(rule) for rule in rules)


def flattened(rules: Sequence[Rule]) -> Iterator[Rule]:
    """Yield every rule that some object of the scope has to obey; the rules of all branches replace ``when``."""
    for rule in rules:
        yield from rule.obeyed()


def in_force(rules: Sequence[Rule], obj: Any, side: Side) -> Sequence[Rule]:
    """Return the rules that apply to an object of that side: from each union, those of its branch."""
    scope = branched(rules)
    chosen = (union.rules(union.decider(side)(obj)) for union in scope.unions)
    return [*scope.plain, *(rule for each in chosen for rule in in_force(each, obj, side))]


def applied(obj: Any, rules: Sequence[Rule], side: Side) -> Iterator[tuple[Any, Rule]]:
    """Yield the rules that apply to an object of that side or to a part of it, each with the object or part."""
    for rule in in_force(rules, obj, side):
        yield obj, rule
        for each in rule.contents(obj, side):
            yield from applied(each, rule.inner, side)


def discriminators(rules: Sequence[Rule]) -> Iterator[str]:
    """Yield the paths, on both sides, of the fields by which ``when`` chooses the branches of a scope."""
    for rule in rules:
        if isinstance(rule, When):
            yield from rule.place.values()
            yield from discriminators(rule.rules)


#: A step of a scope's conversion: its plain rules, or one of its unions.
Step = tuple[Rule, ...] | Union


def ordered(scope: Branched) -> list[Step] | None:
    """Return the steps of a scope in the order of conversion up; None if in every order a step overwrites a field.

    The plain rules come first where several orders are possible.
    """
    steps: list[Step] = [scope.plain, *scope.unions]
    claims = [(_step_paths(step, "spoke"), _step_paths(step, "hub")) for step in steps]
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for later, (_, puts) in enumerate(claims):
        sorter.add(later)
        for sooner, (takes, _) in enumerate(claims):
            if later != sooner and overlap(puts, takes):
                sorter.add(later, sooner)
    try:
        return [steps[index] for index in sorter.static_order()]
    except CycleError:
        return None


def _step_paths(step: Step, side: Side) -> list[Path]:
    if isinstance(step, Union):
        parts = [*(branch.rules for branch in step.branches), step.rest]
        return [path for part in parts for path in _paths(part, side)]
    return _paths(step, side)


def _paths(rules: Sequence[Rule], side: Side) -> list[Path]:
    return [path for rule in flattened(rules) for path in claimed_paths(rule, side)]


def overlap(left: Sequence[Path], right: Sequence[Path]) -> bool:
    """Return whether a path of one list equals, contains or lies inside a path of the other list."""
    return any(starts_with(one, other) or starts_with(other, one) for one in left for other in right)

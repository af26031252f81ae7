"""Rules as data: the author's declarations, before any check, and what the walkers ask of every rule.

A rule is a lens: it claims fields of the spoke and fields of the hub, and defines how each becomes the other. A field
that no rule claims is the same in both versions and passes unchanged, unknown fields included.

Constructing a rule never fails, so that ``Registry.freeze`` can report every defect at once. Each kind of rule is one
module: a class with what differs from ``Rule``, and its constructors.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import wraps
from inspect import signature
from typing import Any, Final, Literal, ParamSpec, Protocol

from restow.conversion.model.fieldpath import Path, parse, starts_with
from restow.conversion.rules.known import Ends, Function, Misfit, Names, Standard
from restow.conversion.rules.sides import Direction, Side, opposite
from restow.crds import Schema
from restow.crds.paths import items_path, values_path

#: What happens to a value whose conversion fails: it fails its object, or the stash keeps it as it is.
OnError = Literal["fail", "keep"]

#: The container that scoped rules apply to: each item of a list, each value of a map, or one object.
Container = Literal["list", "map", "object"]

#: A node of a schema. One that describes nothing is ``ANY_NODE``.
Node = dict[str, Any]

ANY_NODE: Final[Node] = {"x-kubernetes-preserve-unknown-fields": True}


class Loss(StrEnum):
    """What a rule does with information in one direction."""

    LOSSLESS = "lossless"
    STASHED = "stashed"
    """The stash keeps data that the other version does not have."""
    DROPPED = "dropped"
    """The data is dropped on purpose."""
    WAIVED = "waived"
    """Nothing is lost; the result may lack a required field, on purpose."""


@dataclass(frozen=True, slots=True)
class Defect:
    """What is wrong with a rule by itself: the problem, the remedy, and the field at which it is reported.

    ``is_inside``: the place is the content of the container at ``path``. ``is_fatal``: no other check can use the rule.
    """

    problem: str
    fix: str
    side: Side = "spoke"
    path: Path = ()
    is_inside: bool = False
    is_fatal: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is around a rule: its spoke, the number of lists, whether rules apply again, each union with its branch."""

    spoke: str
    lists: int = 0
    is_again: bool = False
    branches: Mapping[Any, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A declaration; ``name`` is its constructor, ``arguments`` are the author's arguments by name.

    A rule is printed from these two, and two rules of the same arguments are equal.
    """

    name: str = ""
    spoke: tuple[str, ...] = ()
    hub: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)

    @property
    def label(self) -> str:
        """The name of the rule in messages: its constructor and its paths."""
        paths = [", ".join(side) for side in (self.spoke, self.hub) if side]
        return f"{self.name}({' <-> '.join(paths)})"

    def claims(self, side: Side) -> tuple[str, ...]:
        """Return the paths of that side which the rule reads and writes."""
        return self.spoke if side == "spoke" else self.hub

    def named(self, side: Side) -> tuple[str, ...]:
        """Return the paths of that side that the author gave."""
        return self.spoke if side == "spoke" else self.hub

    @property
    def contained(self) -> tuple[Rule, ...]:
        """The rules that this rule applies to an object, an item, a value or a branch."""
        return ()

    def with_contained(self, rules: tuple[Rule, ...]) -> Rule:  # noqa: ARG002 most rules contain none
        """Return the rule with other rules inside."""
        return self

    @property
    def recursions(self) -> tuple[Rule, ...]:
        """This rule at the places where it applies again, one level further in."""
        return ()

    @property
    def inner(self) -> tuple[Rule, ...]:
        """All rules that apply inside. With recursion they have no end: use them only to walk over data."""
        return (*self.contained, *self.recursions)

    def without_recursion(self) -> Rule:
        """Return the rule for one level."""
        return self

    def contents(self, obj: Any, side: Side) -> Iterable[Any]:  # noqa: ARG002 see ``contained``
        """Return what the rules inside apply to, in an object of that side."""
        return ()

    def paired(self, one: Any, other: Any, change: Callable[[Any, Any], Any]) -> Any:  # noqa: ARG002
        """Return ``other``, a value of the field, with what the rules inside apply to changed pair by pair."""
        return other

    @property
    def container(self) -> Container | None:
        """What the rules inside apply to: each item of a list, each value of a map, or one object."""
        return None

    @property
    def is_again(self) -> bool:
        """Whether the rule only stands for rules that apply again: they are written where they apply first."""
        return False

    @property
    def is_branch(self) -> bool:
        """Whether the rules inside apply to the same object, if it is in a branch."""
        return False

    def obeyed(self) -> Iterator[Rule]:
        """Yield what some object of the scope has to obey: this rule, or the rules of a branch."""
        yield self

    def inside(self, around: Surroundings, number: int) -> Surroundings:  # noqa: ARG002 see ``contained``
        """Return the surroundings of the rules inside; ``number`` distinguishes the rules of a scope."""
        return around

    def inner_place(self, side: Side, around: str) -> str:  # noqa: ARG002 see ``contained``
        """Return the path, as ``restow.crds`` writes it, that the rules inside apply to."""
        return around

    def inner_schema(self, side: Side, schema: Schema | None) -> Schema | None:  # noqa: ARG002 see ``contained``
        """Return the schema of what the rules inside apply to; ``schema`` is that of the object around."""
        return schema

    def counterpart(self, path: Path, side: Side) -> Counterpart | None:  # noqa: ARG002 most rules change the value
        """Return where the other version has a field at or inside of a claim; None if the rule changes it otherwise."""
        return None

    def image(self, index: int, sources: Sequence[Node | None], lift: Lift) -> Node:  # noqa: ARG002
        """Return the node of a field of the hub, by its index, from the nodes of the spoke's fields.

        ``lift`` returns the node that rules make of the node of an object.
        """
        source = sources[index] if self.passes else None
        return dict(ANY_NODE) if source is None else source

    def check(self, around: Surroundings) -> Iterator[Defect]:  # noqa: ARG002 its paths are all that can be wrong
        """Yield the defects that the rule has whatever the schemas are; all its paths are parsed by then."""
        yield from ()

    def advice_inside(self, other: Rule, rest: Path) -> str:  # noqa: ARG002 only some rules share a field
        """Return how another rule can convert the part ``rest`` of a field of this rule; empty if it cannot."""
        return ""

    def layered(self, rules: Sequence[Rule]) -> Rule:  # noqa: ARG002 only an implied field has layers
        """Return the rule as it applies among all rules of its scope."""
        return self

    def decided(self, on_error: OnError) -> Rule:  # noqa: ARG002 most rules cannot fail
        """Return the rule with ``on_error`` filled in where its author left it open; ``keep`` only if it can fail."""
        return self

    @property
    def failing(self) -> tuple[str, ...]:
        """The names of the rule in failures."""
        return (self.label,)

    @property
    def is_keyless(self) -> bool:
        """Whether the rules inside apply to the items of a list without keys."""
        return self.container == "list" and not self.key_names("hub")

    def key_names(self, side: Side) -> tuple[str, ...]:  # noqa: ARG002 only items have keys
        """Return the fields that identify an item, by their names on that side: only a rename may convert them."""
        return ()

    def check_keys(self) -> Iterator[Defect]:
        """Yield the rules inside that change the keys of the items."""
        yield from ()

    def entered(self, spoke: Schema, hub: Schema) -> tuple[Rule, ...]:  # noqa: ARG002 see ``recursions``
        """Return the rules inside for two schemas of what they apply to: those that apply again while it has an end."""
        return self.contained

    @property
    def answers(self) -> tuple[Side, Path] | None:
        """The field of which the rule only says what it means that it is missing."""
        return None

    @property
    def filled_in(self) -> Side | None:
        """The side on which the rule fills in a missing field."""
        return None

    def as_layer(self) -> Rule:
        """Return the rule that alone fills in and omits the field; both sides have it at one path."""
        return self

    @property
    def omits(self) -> Side | None:
        """The side on which the rule leaves out a field that has the value which the other side fills in."""
        return None

    def fills(self, side: Side) -> tuple[Path, Any] | None:  # noqa: ARG002 see ``filled_in``
        """Return the field of that side that the rule fills in where it is missing, and the value; None if none."""
        return None

    @property
    def moves(self) -> bool:
        """Whether the value is the same in both versions, at another path."""
        return False

    @property
    def converts(self) -> bool:
        """Whether the rule makes fields of one version of those of the other one."""
        return self.filled_in is None and bool(self.spoke and self.hub)

    @property
    def is_private(self) -> bool:
        """Whether the rule only says what becomes of a field that one version alone has."""
        return False

    @property
    def passes(self) -> bool:
        """Whether a value that both versions have is the same in both."""
        return self.moves

    @property
    def drops(self) -> bool:
        """Whether the field of one version is dropped on purpose."""
        return self.is_private and bool(self.reason)

    @property
    def may_forget(self) -> bool:
        """Whether values of the spoke need not be restored."""
        return False

    def forgets(self, source: Any, root: Any) -> bool:  # noqa: ARG002 see ``may_forget``
        """Return whether the rule drops a value of the spoke that it would not restore.

        ``source`` is the object of the spoke that contains the fields of the rule, ``root`` the whole object.

        Raises:
            Exception: whatever the author's functions raise.
        """
        return False

    def may_lose(self, direction: Direction) -> bool:  # noqa: ARG002 only functions may lose something unexpected
        """Return whether the stash may have an entry of the rule in that direction."""
        return True

    @property
    def reads(self) -> tuple[str, ...]:
        """The further fields that the author names."""
        return ()

    def reads_going(self, direction: Direction) -> tuple[str, ...]:  # noqa: ARG002 only functions read
        """Return the further fields that the functions get in that direction."""
        return ()

    @property
    def is_opaque(self) -> bool:
        """Whether functions make the value, so that no part of it corresponds to a part of another value."""
        return False

    @property
    def is_made(self) -> bool:
        """Whether functions make the value, and neither a table nor the list of one."""
        return False

    def may_be_empty(self, values: Sequence[Any], side: Side) -> Sequence[Any]:  # noqa: ARG002 most rules make none
        """Return those of the rule's values on that side of which null, {} and [] may stand for another form."""
        return ()

    @property
    def reason(self) -> str:
        """The author's reason why something is dropped or missing, or why a list needs no keys."""
        return ""

    @property
    def functions(self) -> Mapping[str, Function]:
        """The author's functions, by the names of the arguments."""
        return {}

    @property
    def can_fail(self) -> bool:
        """Whether the rule has functions of its author, or applies again inside of itself."""
        return bool(self.functions or self.recursions)

    @property
    def keeps(self) -> bool:
        """Whether the stash keeps values that the rule cannot convert."""
        return False

    @property
    def always_gives(self) -> bool:
        """Whether the rule gives the hub a value whenever the spoke has one."""
        return self.moves or self.container is not None

    @property
    def ties(self) -> bool:
        """Whether one field that the rule writes depends on several that it reads."""
        return False

    def table(self, direction: Direction) -> Names | None:  # noqa: ARG002 only an enum has tables
        """Return the table of values in that direction."""
        return None

    def misfits(self, ends: Ends) -> Iterator[Misfit]:  # noqa: ARG002 only standard rules need types
        """Yield why the schemas of the fields, which have the types that the rule needs, do not suit it."""
        yield from ()

    def ask(self, schemas: SchemaQuestions) -> None:
        """Ask whether the schemas of the fields suit the rule."""

    def fitted(self, spoke: Schema | None, hub: Schema | None) -> Rule:  # noqa: ARG002 most rules need no schema
        """Return the rule with what it takes from the schemas of the objects that it applies to."""
        return self

    def loss(self, direction: Direction) -> Loss:  # noqa: ARG002 a rule loses nothing unless its kind says so
        """Return what the rule does with information in that direction."""
        return Loss.LOSSLESS

    def shows_what_fits(self, side: Side) -> bool:  # noqa: ARG002 most rules show every value
        """Return whether a field of that side, or an object that has only this field, is there for some values only.

        A part of a value may fit (``described``) where the whole value does not.
        """
        return False


#: Returns the node that rules make of the node of an object.
Lift = Callable[[Node, Sequence[Rule]], Node]


@dataclass(frozen=True, slots=True)
class Counterpart:
    """Where the other version has a field, with the rules on the way; without a path, the last one changes it."""

    path: Path
    rules: tuple[Rule, ...] = ()


class SchemaQuestions(Protocol):
    """What a rule may ask about the schemas of the fields that it claims; every defect is reported."""

    def same(self, rule: Rule) -> None:
        """Whether both fields have the same schema."""

    def wrapped(self, rule: Rule, listed: Side) -> None:
        """Whether the field of one side has the schema of the items on the other one."""

    def inside(self, rule: Rule, container: Container) -> None:
        """Whether the rules inside of a list, a map or an object suit its content."""

    def named(self, rule: Rule, tables: Mapping[Direction, Names]) -> None:
        """Whether tables name the values of both enums."""

    def suited(self, rule: Rule, standard: Standard) -> None:
        """Whether the types of the fields are those that a standard rule needs."""

    def guaranteed(self, rule: Rule) -> None:
        """Whether every object of the other version has a required field."""

    def given(self, rule: Rule) -> None:
        """Whether every object of the other version has one of the fields that make a required one."""

    def shown(self, rule: Rule) -> None:
        """Whether a required field is shown with every value."""

    def implied(self, rule: Rule) -> None:
        """Whether the implied value suits its field."""

    def dispensable(self, rule: Rule) -> None:
        """Whether a field of one version alone is optional."""


_Parameters = ParamSpec("_Parameters")


def declared(constructor: Callable[_Parameters, Rule]) -> Callable[_Parameters, Rule]:
    """Make a constructor of rules record its arguments in the rule; every public constructor has this decorator.

    The rule's name is the constructor's own. Arguments that the author leaves out are not recorded.
    """
    parameters = signature(constructor)

    @wraps(constructor)
    def construct(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> Rule:
        rule = constructor(*args, **kwargs)
        return replace(rule, name=constructor.__name__, arguments=parameters.bind(*args, **kwargs).arguments)

    return construct


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleGroup(Rule):
    """Several rules that an author declares as one; freezing replaces the group by its rules."""

    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRule(Rule):
    """What an author declared in the place of a rule; ``type_name`` is its Python type."""

    type_name: str

    def check(self, around: Surroundings) -> Iterator[Defect]:  # noqa: ARG002
        """Yield that it is no rule."""
        fix = "Use the constructors of restow.conversion.rules"
        yield Defect(f"a {self.type_name} is no rule", fix, is_fatal=True)


def ungrouped(rules: Iterable[Any]) -> tuple[Rule, ...]:
    """Return the rules that an author declared for a scope; the rules of a group replace the group."""
    found: list[Rule] = []
    for rule in rules:
        if isinstance(rule, Rule):
            found += rule.rules if isinstance(rule, RuleGroup) else (rule,)
        else:
            found.append(NoRule(type_name=type(rule).__name__))
    return tuple(found)


def everywhere(rules: Iterable[Rule]) -> Iterator[Rule]:
    """Yield the rules, and those that they contain, to any depth."""
    for rule in rules:
        yield rule
        yield from everywhere(rule.contained)


def claimed_paths(rule: Rule, side: Side) -> tuple[Path, ...]:
    """Return the parsed claims of a rule."""
    return tuple(parse(text) for text in rule.claims(side))


_INSIDE: Final[Mapping[Container, Callable[[str], str]]] = {"list": items_path, "map": values_path, "object": str}


def inside_path(container: Container, path: str) -> str:
    """Return the path, as ``restow.crds`` writes it, that scoped rules apply to: a list's items, a map's values."""
    return _INSIDE[container](path)


def check_reason(rule: Rule, reason: Any) -> Iterator[Defect]:
    """Yield that the reason of a loss is no text, or an empty one; None stands for no reason."""
    if reason is not None and not (isinstance(reason, str) and reason.strip()):
        yield Defect(f"{rule.label} does not say why the loss is none", "Fill in acknowledge=")


def paths_of(texts: str | Sequence[str]) -> tuple[str, ...]:
    """Return the paths of an argument that is one path or several."""
    return (texts,) if isinstance(texts, str) else tuple(texts)


def counterpart(rules: Sequence[Rule], path: Path, side: Side) -> Counterpart:
    """Return where the other version has a field of that side; a branch of a union holds for some objects only."""
    obeyed = [(each, rule) for rule in rules for each in rule.obeyed()]
    for each, rule in obeyed:
        if any(starts_with(path, claim) for claim in claimed_paths(each, side)):
            found = None if rule.is_branch else each.counterpart(path, side)
            return found or Counterpart((), (each,))
    for each, _ in obeyed:
        if any(starts_with(path, claim) for claim in claimed_paths(each, opposite(side))):
            return Counterpart((), (each,))
    return Counterpart(path)

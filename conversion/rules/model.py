"""Rules as data: the author's declarations, before any check.

A rule is a lens: it claims fields of the spoke and fields of the hub, and defines how each becomes the other. A field
that no rule claims is the same in both versions and passes unchanged, unknown fields included.

Constructing a rule never fails, so that ``Registry.freeze`` can report every defect at once.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import wraps
from inspect import signature
from typing import Any, Final, Literal, ParamSpec, Protocol

from restow.conversion.model.fieldpath import Path, PathError, parse, shown
from restow.conversion.model.values import ABSENT
from restow.crds import Schema
from restow.crds.paths import items_path, values_path
from restow.crds.schema import schema_at

Side = Literal["spoke", "hub"]
Direction = Literal["up", "down"]
#: In which directions a lens may lose something, which the stash then has to keep.
Loses = Literal["nothing", "up", "down", "both"]
#: What happens to a value whose conversion fails: it fails its object, or the stash keeps it as it is.
OnError = Literal["fail", "keep"]
#: The form in which functions get the values of a side: one value, a dict by leaf path, or an object tree with these
#: leaves only.
Packing = Literal["value", "leaves", "tree"]
#: The container that scoped rules apply to: each item of a list, each value of a map, or one object.
Container = Literal["list", "map", "object"]

Function = Callable[..., Any]


def opposite(side: Side) -> Side:
    """Return the other side."""
    return "hub" if side == "spoke" else "spoke"


class Loss(StrEnum):
    """What a rule does with information in one direction."""

    LOSSLESS = "lossless"
    STASHED = "stashed"
    """The stash keeps data that the other version does not have."""
    DROPPED = "dropped"
    """The data is dropped on purpose."""
    WAIVED = "waived"
    """Nothing is lost; the result may lack a required field, on purpose."""


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

    @property
    def contained(self) -> tuple[Rule, ...]:
        """The rules that this rule applies to an object, an item, a value or a branch."""
        return ()

    @property
    def reason(self) -> str:
        """The author's reason why something is dropped or missing, or why a list needs no keys."""
        return ""

    @property
    def can_fail(self) -> bool:
        """Whether the rule has functions of its author, or applies again inside of itself."""
        return False

    @property
    def keeps(self) -> bool:
        """Whether the stash keeps values that the rule cannot convert."""
        return False

    @property
    def always_gives(self) -> bool:
        """Whether the rule gives the hub a value whenever the spoke has one."""
        return False

    @property
    def ties(self) -> bool:
        """Whether one field that the rule writes depends on several that it reads."""
        return False

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


class SchemaQuestions(Protocol):
    """What a rule may ask about the schemas of the fields that it claims; every defect is reported."""

    def same(self, rule: Rule) -> None:
        """Whether both fields have the same schema."""

    def wrapped(self, rule: Rule, listed: Side) -> None:
        """Whether the field of one side has the schema of the items on the other one."""

    def inside(self, rule: ScopedRules) -> None:
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

    def implied(self, rule: Constant | Default) -> None:
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
class Move(Rule):
    """The same value at another path."""

    @property
    def always_gives(self) -> bool:
        """Whether the hub gets the value: always."""
        return True

    def ask(self, schemas: SchemaQuestions) -> None:
        """Ask for one schema."""
        schemas.same(self)
        schemas.guaranteed(self)


#: A schema node with only what a rule needs of a field: its ``type``, and the content of a list or map.
Shape = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class End:
    """A field that a rule claims: its schema, and whether an object with its parent must also have the field."""

    schema: Schema
    required: bool


#: The fields that a rule claims, by side, with their schemas; None for a field that the schema does not declare.
Ends = Mapping[Side, Sequence[End | None]]


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a field's schema does not suit a rule: ``index`` is the field's index among the side's claims."""

    side: Side
    index: int
    problem: str
    fix: str


@dataclass(frozen=True, slots=True)
class Inline:
    """Expressions that the compiler writes instead of a call; ``VALUE`` stands for the argument.

    ``when`` is true for the arguments for which ``code`` gives the target.
    """

    when: str
    code: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """A function of texts that caches its latest results: the same ports, sizes and timeouts recur in a cluster.

    The function depends on the text alone. It returns ABSENT or an immutable value; with ``gives_list``, a list of such
    values, which is copied. The cache is bounded, and holds no long texts.
    """

    function: Function
    gives_list: bool = False
    known: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, value: Any) -> Any:
        found = self.function(value)
        if found is not ABSENT and value.__class__ is str and len(value) <= _LONGEST_REMEMBERED:
            if len(self.known) >= _MOST_REMEMBERED:
                self.known.clear()
            self.known[value] = [*found] if self.gives_list else found
        return found


_LONGEST_REMEMBERED: Final = 32
_MOST_REMEMBERED: Final = 1024

#: Finds a target without the inverse: see ``Standard.quick``.
Shortcut = Function | Inline | Remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """What restow knows about its own lenses, and cannot know about an author's functions.

    ``shapes`` are the required schemas of the claimed fields, per side; a derived hub gets those of the hub. ``image``
    returns the hub's nodes if they depend on the spoke's. ``check`` yields all other misfits.

    ``quick`` has, per direction, a function that returns the target if the inverse is known to restore the argument,
    and ABSENT otherwise. The compiler calls it first, and after a result needs no inverse. ``merge`` has, per
    direction, a function like ``merge`` of ``rules.pair``: an edit of the source side keeps the target's stashed values
    where possible. ``must_fit`` is a side that shows only values that its schema can hold as a whole; with ``passes``
    this also applies to values that the rule leaves unchanged. ``repeats`` is a side that has the other side's value
    at several places.
    """

    shapes: Mapping[Side, tuple[Shape, ...]]
    quick: Mapping[Direction, Shortcut] = field(default_factory=dict)
    merge: Mapping[Direction, Function] = field(default_factory=dict)
    must_fit: Side | None = None
    passes: bool = False
    repeats: Side | None = None
    check: Callable[[Ends], Iterator[Misfit]] | None = None
    image: Callable[[Sequence[Shape | None]], Sequence[Shape]] | None = None


class Names(Protocol):
    """An enum's table in one direction."""

    def __contains__(self, value: object) -> bool: ...

    def __iter__(self) -> Iterator[Any]: ...

    def beyond(self, source: Schema, target: Schema) -> bool:
        """Return whether a value of the source passes that the enum of the target does not have."""
        ...

    def values(self) -> Iterable[Any]:
        """Return the values of the other version."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lens(Rule):
    """Values computed from values, both ways. See ``rules.pair`` for the contract of the functions.

    ``nulls``: the functions are also called with null; otherwise null stays null. ``on_error`` is None where the author
    leaves it to the kind; freezing fills it in.

    ``exact`` holds, per direction, the values known to come back unchanged (an enum's table); ``singleton`` is the side
    that holds a list of one. Both only let the compiler leave out a check. ``admitted`` has the enum of a side that
    shows no other values: the other side may have values that are in neither the table nor this enum. ``standard``
    holds further knowledge about a rule with restow's own functions. ``defects`` are arguments that are wrong by
    themselves, each with the remedy.
    """

    up: Function
    down: Function
    spoke_packing: Packing = "value"
    hub_packing: Packing = "value"
    loses: Loses = "nothing"
    merge: Function | None = None
    forget: Function | None = None
    acknowledge: str | None = None
    reads: tuple[str, ...] = ()
    nulls: bool = False
    on_error: OnError | None = None
    exact: Mapping[Direction, Mapping[str, Any]] | None = None
    tables: Mapping[Direction, Names] | None = None
    admitted: Mapping[Side, Sequence[Any]] = field(default_factory=dict)
    singleton: Side | None = None
    standard: Standard | None = None
    defects: tuple[tuple[str, str], ...] = ()

    def packing(self, side: Side) -> Packing:
        """Return the form in which the functions take and return the values of that side."""
        return self.spoke_packing if side == "spoke" else self.hub_packing

    @property
    def constant_reads(self) -> tuple[str, ...]:
        """The reads that all functions get: fields of metadata that are the same in both versions."""
        return tuple(text for text in self.reads if is_constant_read(text))

    @property
    def reads_hub(self) -> bool:
        """Whether ``down`` reads fields of the hub, which ``up`` cannot read."""
        return len(self.constant_reads) < len(self.reads)

    def may_lose(self, direction: Direction) -> bool:
        """Return whether a loss in that direction was declared, or follows from an enum."""
        return self.loses in ("both", direction) or ("hub" if direction == "up" else "spoke") in self.admitted

    def fitted(self, spoke: Schema | None, hub: Schema | None) -> Rule:
        """Return the rule with the enums that its table does not cover."""
        if self.tables is None:
            return self
        ours, theirs = schema_at(spoke, parse(self.spoke[0])), schema_at(hub, parse(self.hub[0]))
        if ours is None or theirs is None:
            return self
        found: dict[Side, Sequence[Any]] = {}
        if self.tables["up"].beyond(ours, theirs):
            found["hub"] = theirs.node["enum"]
        if self.tables["down"].beyond(theirs, ours):
            found["spoke"] = ours.node["enum"]
        return replace(self, admitted=found) if found else self

    @property
    def is_known(self) -> bool:
        """Whether the functions are restow's own."""
        return self.tables is not None or self.singleton is not None or self.standard is not None

    @property
    def reason(self) -> str:
        """The author's reason why values are forgotten; other losses need none."""
        return self.acknowledge or "" if self.forget is not None else ""

    @property
    def can_fail(self) -> bool:
        """Whether an author's function may raise: restow's own never do."""
        return not self.is_known

    @property
    def keeps(self) -> bool:
        """Whether the stash keeps values for which a function raises."""
        return self.on_error == "keep"

    @property
    def always_gives(self) -> bool:
        """Whether the hub gets a value: from a table, and where the hub has a list of one."""
        return self.tables is not None or self.singleton == "hub"

    @property
    def ties(self) -> bool:
        """Whether the functions get several values or return several."""
        return len(self.spoke) > 1 or len(self.hub) > 1 or bool(self.reads)

    def loss(self, direction: Direction) -> Loss:
        """Return the declared loss; forgotten values are dropped going up."""
        if direction == "up" and self.forget is not None:
            return Loss.DROPPED
        return Loss.STASHED if self.may_lose(direction) else Loss.LOSSLESS

    def ask(self, schemas: SchemaQuestions) -> None:
        """Ask for the types and enums, and whether a required field may be missing."""
        if self.tables is not None:
            schemas.named(self, self.tables)
        elif self.singleton is not None:
            schemas.wrapped(self, self.singleton)
        elif self.standard is not None:
            schemas.suited(self, self.standard)
        if self.spoke_packing == self.hub_packing == "value":
            schemas.guaranteed(self)
        elif self.standard is None:
            schemas.given(self)
        schemas.shown(self)

    def shows_what_fits(self, side: Side) -> bool:
        """Return whether that side shows only values that its schema can hold."""
        return side in self.admitted or (self.standard is not None and self.standard.must_fit == side)

    def is_checked(self, direction: Direction) -> bool:
        """Return whether the inverse verifies a conversion in that direction.

        An author's lens that declares a loss in the other direction only is not verified in this one: its reverse
        function may depend on more than its argument (``reads``).
        """
        return self.is_known or self.loses in ("nothing", "both", direction)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Rule):
    """A field that only one side has, with its value for objects of the other side.

    ``is_layered``: other rules convert the field or its content; this one only fills it in where they write nothing. It
    then claims nothing (``compile.layers``).
    """

    value: Any = None
    is_layered: bool = False

    @property
    def filled_in(self) -> Side:
        """The side that always has the field."""
        return "hub" if self.hub else "spoke"

    def loss(self, direction: Direction) -> Loss:
        """Return the loss of other values than the constant, on the way from the side that has the field."""
        return Loss.STASHED if (direction == "up") == bool(self.spoke) else Loss.LOSSLESS

    def ask(self, schemas: SchemaQuestions) -> None:
        """Ask for the value."""
        schemas.implied(self)

    def claims(self, side: Side) -> tuple[str, ...]:
        """Return the path on the side that has the field; nothing if other rules convert it."""
        return () if self.is_layered else Rule.claims(self, side)


@dataclass(frozen=True, slots=True, kw_only=True)
class Default(Rule):
    """A field that one side may omit (``omitted_in``): its absence means ``value``, which the other side writes out.

    ``hides``: the field is omitted if the other side has this value. ``is_layered`` as in ``Constant``.
    """

    value: Any = None
    omitted_in: Side = "spoke"
    hides: bool = True
    is_layered: bool = False

    @property
    def filled_in(self) -> Side:
        """The side that always has the field."""
        return opposite(self.omitted_in)

    @property
    def always_gives(self) -> bool:
        """Whether the hub always has the field."""
        return self.omitted_in == "spoke"

    def loss(self, direction: Direction) -> Loss:  # noqa: ARG002 each side has a form of its own
        """Return that the stash keeps whether the field was written, in both directions."""
        return Loss.STASHED

    def ask(self, schemas: SchemaQuestions) -> None:
        """Ask for one schema, and for the value."""
        if not self.is_layered:
            schemas.same(self)
        schemas.implied(self)

    def claims(self, side: Side) -> tuple[str, ...]:
        """Return the path on that side; nothing if other rules convert the field."""
        return () if self.is_layered else Rule.claims(self, side)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A place inside of a scope where its rules apply again: the path on either side, and the container there."""

    spoke: str
    hub: str
    container: Container


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedRules(Rule):
    """Rules inside of every item of a list, every value of a map, or one object.

    ``acknowledge`` is the reason why the items of a list need no ``keys``. ``recurse`` names the places inside where
    the same rules apply again, to any depth.
    """

    container: Container
    rules: tuple[Rule, ...] = field(default=())
    keys: tuple[str, ...] | None = None
    hide: Function | None = None
    merge: Function | None = None
    reads: tuple[str, ...] = ()
    acknowledge: str | None = None
    on_error: OnError | None = None
    recurse: tuple[Again, ...] = ()
    is_again: bool = False

    @property
    def recursions(self) -> tuple[ScopedRules, ...]:
        """This rule at the places where it applies again, one level further in."""
        return tuple(
            replace(
                self,
                spoke=(place.spoke,),
                hub=(place.hub,),
                container=place.container,
                is_again=True,
            )
            for place in self.recurse
        )

    @property
    def inner(self) -> tuple[Rule, ...]:
        """All rules that apply inside. With ``recurse`` they have no end: use them only to walk over data."""
        return (*self.rules, *self.recursions) if self.recurse else self.rules

    @property
    def contained(self) -> tuple[Rule, ...]:
        """The rules inside, without those that apply again."""
        return self.rules

    def content(self, side: Side, around: Schema | None) -> Schema | None:
        """Return the schema of what the rules inside apply to, given that of the object around; None if unknown."""
        found = schema_at(around, parse(self.claims(side)[0]))
        if found is None or self.container == "object":
            return found
        return found.items if self.container == "list" else found.values

    def place(self, side: Side, around: str) -> str:
        """Return the path of what the rules inside apply to, as ``restow.crds`` writes it, below another one."""
        return inside_path(self.container, shown(parse(self.claims(side)[0]), around))

    @property
    def reason(self) -> str:
        """Why the items of a list need no keys."""
        return self.acknowledge or ""

    @property
    def can_fail(self) -> bool:
        """Whether the rule itself has functions of its author, or applies again inside of itself."""
        return bool(self.hide is not None or self.merge is not None or self.recurse)

    @property
    def keeps(self) -> bool:
        """Whether the stash keeps items for which a function of this rule raises."""
        return self.on_error == "keep"

    @property
    def always_gives(self) -> bool:
        """Whether the hub gets the container: always."""
        return True

    @property
    def ties(self) -> bool:
        """Whether a function decides by a whole item if the spoke shows it."""
        return self.hide is not None

    def ask(self, schemas: SchemaQuestions) -> None:
        """Ask for the content."""
        schemas.inside(self)

    def loss(self, direction: Direction) -> Loss:
        """Return that the stash keeps hidden items; the rules inside have losses of their own."""
        return Loss.STASHED if direction == "down" and self.hide is not None else Loss.LOSSLESS

    def shows_what_fits(self, side: Side) -> bool:
        """Return whether a rule inside of one object shows only some values."""
        return self.container == "object" and any(each.shows_what_fits(side) for each in self.rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleGroup(Rule):
    """Several rules that an author declares as one; freezing replaces the group by its rules."""

    rules: tuple[Rule, ...]


def ungrouped(rules: Sequence[Any]) -> Iterator[Any]:
    """Yield the rules of a scope; the rules of a group replace the group."""
    for rule in rules:
        if isinstance(rule, RuleGroup):
            yield from rule.rules
        else:
            yield rule


_INSIDE: Final[Mapping[Container, Callable[[str], str]]] = {"list": items_path, "map": values_path, "object": str}


def inside_path(container: Container, path: str) -> str:
    """Return the path, as ``restow.crds`` writes it, that scoped rules apply to: a list's items, a map's values."""
    return _INSIDE[container](path)


#: The start of a read from the root of the object, not of the scope.
FROM_ROOT: Final = "$."


#: The metadata that is the same at every version; the API server owns the rest, or it may change.
_CONSTANT_METADATA: Final = frozenset({"name", "namespace", "uid", "labels", "annotations"})


#: In such a read: the item with the same keys as the item that contains the rule.
_SAME_KEYS: Final = "[]"


def claimed_paths(rule: Rule, side: Side) -> tuple[Path, ...]:
    """Return the parsed claims of a rule."""
    return tuple(parse(text) for text in rule.claims(side))


def read_steps(text: str) -> tuple[Path, ...]:
    """Return the paths of a read from the root: the path to a list, the path inside its item, and so on.

    Raises:
        PathError: a part of the text between two ``[]`` is no path.
    """
    first, *others = text.removeprefix(FROM_ROOT).split(_SAME_KEYS)
    return (parse(first), *(parse(other) if other else () for other in others))


def is_constant_read(text: str) -> bool:
    """Return whether a read names metadata that is the same in both versions; False for a text that is no path."""
    if not text.startswith(FROM_ROOT) or _SAME_KEYS in text:
        return False
    try:
        path = parse(text.removeprefix(FROM_ROOT))
    except PathError:
        return False
    return len(path) > 1 and path[0] == "metadata" and path[1] in _CONSTANT_METADATA


def key_names(scope: ScopedRules, side: Side) -> tuple[str, ...]:
    """Return the fields that identify an item, by their names on that side: only a rename may convert them."""
    keys = scope.keys or ()
    if side == "hub":
        return keys
    renamed = {parse(rule.hub[0])[-1]: parse(rule.spoke[0])[-1] for rule in scope.rules if rule.name == "rename"}
    return tuple(renamed.get(key, key) for key in keys)

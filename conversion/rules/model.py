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
from typing import Any, Final, Literal, ParamSpec, Protocol, get_args

from restow.conversion.model.fieldpath import Path, PathError, argument, dig, parse, shown, starts_with
from restow.conversion.model.values import ABSENT, is_json, same
from restow.conversion.rules.cel import CelFunction
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

#: A node of a schema. One that describes nothing is ``ANY_NODE``.
Node = dict[str, Any]
ANY_NODE: Final[Node] = {"x-kubernetes-preserve-unknown-fields": True}

SIDES: Final[tuple[Side, ...]] = ("spoke", "hub")


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
    def is_repeated(self) -> bool:
        """Whether the rules inside apply to several objects: the items of a list, or the values of a map."""
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

    def image(self, index: int, sources: Sequence[Node | None], lift: Lift) -> Node:  # noqa: ARG002
        """Return the node of a field of the hub, by its index, from the nodes of the spoke's fields.

        ``lift`` returns the node that rules make of the node of an object.
        """
        return dict(ANY_NODE)

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
        return False

    def with_keys(self, hub: Schema | None) -> Rule:  # noqa: ARG002 only items have keys
        """Return the rule with the list-map keys of the hub where its author left them out."""
        return self

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

    def fills(self, side: Side) -> tuple[Path, Any] | None:  # noqa: ARG002 see ``filled_in``
        """Return the field of that side that the rule fills in where it is missing, and the value; None if none."""
        return None

    @property
    def moves(self) -> bool:
        """Whether the value is the same in both versions, at another path."""
        return False

    @property
    def passes(self) -> bool:
        """Whether a value that both versions have is the same in both."""
        return self.moves

    @property
    def is_scope(self) -> bool:
        """Whether the rule applies others to the content of a field."""
        return False

    @property
    def drops(self) -> bool:
        """Whether the field of one version is dropped on purpose."""
        return False

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
    def judges(self) -> bool:
        """Whether an author's function decides the result of an edit."""
        return False

    @property
    def hides_items(self) -> bool:
        """Whether an author's function hides items."""
        return False

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

    def image(self, index: int, sources: Sequence[Node | None], lift: Lift) -> Node:  # noqa: ARG002
        """Return the node of the spoke's field."""
        source = sources[index]
        return dict(ANY_NODE) if source is None else source

    @property
    def moves(self) -> bool:
        """Whether the value is the same in both versions: always."""
        return True

    def check(self, around: Surroundings) -> Iterator[Defect]:  # noqa: ARG002
        """Yield that a new name is in another object."""
        spoke, hub = parse(self.spoke[0]), parse(self.hub[0])
        if self.name == "rename" and spoke[:-1] != hub[:-1]:
            fix = f"Use rules.move({argument(spoke)}, {argument(hub)})"
            yield Defect(f"{self.label} names another object", fix, path=spoke)

    def advice_inside(self, other: Rule, rest: Path) -> str:
        """Return a default with both paths, or the rule that moves the object and takes rules for its fields."""
        if not rest:
            return ""
        spoke, hub = parse(self.spoke[0]), parse(self.hub[0])
        if other.name == "default":
            paths = [argument((*path, *rest)) for path in (spoke, hub)]
            return f"Write rules.default({paths[0]}, …, hub={paths[1]}), since {self.label} moves the field"
        moved_as = f"rules.inside({argument(spoke)}, […], hub={argument(hub)})"
        return f"Write {moved_as} instead of {self.label}, and in it {other.label} with paths from there on"

    @property
    def always_gives(self) -> bool:
        """Whether the hub gets the value: always."""
        return True

    def ask(self, schemas: SchemaQuestions) -> None:
        """Ask for one schema."""
        schemas.same(self)
        schemas.guaranteed(self)


#: Returns the node that rules make of the node of an object.
Lift = Callable[[Node, Sequence[Rule]], Node]

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

    def image(self, index: int, sources: Sequence[Node | None], lift: Lift) -> Node:  # noqa: ARG002
        """Return the node that restow's own functions make; an author's may return anything."""
        if self.standard is not None:
            images = self.standard.shapes["hub"] if self.standard.image is None else self.standard.image(sources)
            return dict(images[index]) or dict(ANY_NODE)
        source = sources[index] if index < len(sources) else None
        if source is None:
            return dict(ANY_NODE)
        if self.tables is not None:
            return _table_image([*self.tables["up"].values(), *self.tables["down"]], source)
        if self.singleton == "hub":
            return {"type": "array", "items": source}
        return dict((source.get("items") if self.singleton else None) or ANY_NODE)

    def decided(self, on_error: OnError) -> Rule:
        """Return the rule with ``on_error`` filled in; restow's own functions never fail."""
        return replace(self, on_error=(self.on_error or on_error) if self.can_fail else "fail")

    @property
    def may_forget(self) -> bool:
        """Whether the author says which values need not be restored."""
        return self.forget is not None

    def forgets(self, source: Any, root: Any) -> bool:
        """Return whether the author's function says so, and the value would not come back."""
        if self.forget is None:
            return False
        value = self._packed(source)
        reads = [dig(root, read_steps(text)[0]) for text in self.constant_reads]
        if value is ABSENT or not self.forget(value, *reads):
            return False
        target = self.up(value, *reads)
        back = ABSENT if target is ABSENT or target == {} else self.inverse_of_up(target, *reads)
        return not same(ABSENT if self.spoke_packing != "value" and back == {} else back, value)

    def _packed(self, source: Any) -> Any:
        """Return the argument of ``forget``, which is a value or a group: ``rules.functions`` takes none."""
        values = [dig(source, parse(text)) for text in self.spoke]
        if self.spoke_packing == "value":
            return values[0]
        present = zip(self.spoke, values, strict=True)
        return {text: value for text, value in present if value is not ABSENT} or ABSENT

    @property
    def inverse_of_up(self) -> Function:
        """The function going down with the reads of going up, for an object without anything else to read."""
        return self._down_with_nothing if self.reads_hub else self.down

    def _down_with_nothing(self, value: Any, *metadata: Any) -> Any:
        known = dict(zip(self.constant_reads, metadata, strict=True))
        return self.down(value, *(known.get(text, ABSENT) for text in self.reads))

    @property
    def judges(self) -> bool:
        """Whether an author's function decides edits: restow's own keep what is shown as edited."""
        return self.merge is not None and not self.is_known

    def reads_going(self, direction: Direction) -> tuple[str, ...]:
        """Return the reads; going up only those of metadata."""
        return self.reads if direction == "down" else self.constant_reads

    @property
    def is_opaque(self) -> bool:
        """Whether functions make the value: always."""
        return True

    @property
    def is_made(self) -> bool:
        """Whether the functions do more than to look up a table, or to make a list of one."""
        return self.tables is None and self.singleton is None

    def may_be_empty(self, values: Sequence[Any], side: Side) -> Sequence[Any]:
        """Return the empty values that restow's own functions made, such as of a text, and all further copies."""
        if self.standard is None:
            return ()
        if self.standard.repeats == side:
            return [each for each in values[1:] if each is not ABSENT]
        return [each for each in values if each in ({}, [])]

    def packing(self, side: Side) -> Packing:
        """Return the form in which the functions take and return the values of that side."""
        return self.spoke_packing if side == "spoke" else self.hub_packing

    @property
    def constant_reads(self) -> tuple[str, ...]:
        """The reads that all functions get: fields of metadata that are the same in both versions."""
        return tuple(text for text in self.reads if is_constant_read(text))

    def check(self, around: Surroundings) -> Iterator[Defect]:
        """Yield the defects of the functions, the paths, the declared losses and the reads."""
        yield from _check_functions(self, up=self.up, down=self.down, merge=self.merge, forget=self.forget)
        if self.loses not in get_args(Loses):
            fix = f"Say one of {', '.join(map(repr, get_args(Loses)))}"
            yield Defect(f"{self.label} has loses={self.loses!r}", fix)
        for problem, fix in self.defects:
            yield Defect(f"{self.label} {problem}", fix, is_fatal=True)
        if self.defects:
            return
        if not self.spoke or not self.hub:
            fix = "Use rules.stash or rules.drop"
            yield Defect(f"{self.label} claims nothing on one side", fix, is_fatal=True)
            return
        if self.reads_hub and self.loses not in ("down", "both"):
            problem = f"{self.label} reads other fields, so its inverse cannot check it going up"
            yield Defect(problem, 'Say loses="down"')
        yield from _check_reads(self, self.reads, around)
        yield from self._check_forget(around.spoke)

    def _check_forget(self, spoke: str) -> Iterator[Defect]:
        if self.forget is None:
            if self.acknowledge is not None:
                fix = "Remove acknowledge=, or give the function as forget="
                yield Defect(f"{self.label} acknowledges a loss, but has no forget=", fix)
        elif self.acknowledge is None or not self.acknowledge.strip():
            problem = f"{self.label} forgets values of {spoke}, and does not say why that is no loss"
            yield Defect(problem, 'Add acknowledge="why"')
        elif self.loses == "down":
            problem = f'{self.label} forgets nothing: with loses="down" nothing is kept going up'
            yield Defect(problem, 'Say loses="both", or remove forget= and acknowledge=')

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


_JSON_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _table_image(values: Sequence[Any], source: Node) -> Node:
    """Return the node of a field with the values of a table."""
    types = {_JSON_TYPES.get(type(value)) for value in values}
    kind, enum = types.pop() if len(types) == 1 else None, list(dict.fromkeys(values))
    if source.get("type") != kind:
        return dict(ANY_NODE) if kind is None else {"type": kind, "enum": enum}
    return source if source.get("enum") is None else {**source, "enum": enum}


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

    @property
    def passes(self) -> bool:
        """Whether a value that both versions have is the same in both: always."""
        return True

    def image(self, index: int, sources: Sequence[Node | None], lift: Lift) -> Node:  # noqa: ARG002
        """Return the node of the spoke's field."""
        source = sources[index]
        return dict(ANY_NODE) if source is None else source

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
        yield from _check_one_side(self) or _check_reason(self, self.acknowledge)

    @property
    def drops(self) -> bool:
        """Whether the author says why the field is dropped."""
        return self.acknowledge is not None

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

    def without_recursion(self) -> Rule:
        """Return the rule for one level."""
        return replace(self, recurse=())

    def with_contained(self, rules: tuple[Rule, ...]) -> Rule:
        """Return the rule with other rules inside."""
        return self if rules == self.rules else replace(self, rules=rules)

    def inside(self, around: Surroundings, number: int) -> Surroundings:  # noqa: ARG002
        """Return the surroundings of the rules inside: one more list, and no branches."""
        lists = around.lists + (self.container == "list")
        return Surroundings(around.spoke, lists, around.is_again or bool(self.recurse))

    def inner_place(self, side: Side, around: str) -> str:
        """Return the path that the rules inside apply to: a list's items, a map's values."""
        return inside_path(self.container, shown(parse(self.named(side)[0]), around))

    def inner_schema(self, side: Side, schema: Schema | None) -> Schema | None:
        """Return the schema of what the rules inside apply to."""
        schema = schema_at(schema, parse(self.named(side)[0]))
        if schema is None or self.container == "object":
            return schema
        return schema.items if self.container == "list" else schema.values

    def decided(self, on_error: OnError) -> Rule:
        """Return the rule with ``on_error`` filled in, for its own functions and its recursion."""
        return replace(self, on_error=(self.on_error or on_error) if self.can_fail else "fail")

    @property
    def failing(self) -> tuple[str, ...]:
        """The names of the rule in failures: its label, or the function that raised."""
        functions = [name for name in ("hide", "merge") if getattr(self, name) is not None]
        return (*((self.label,) if self.recurse else ()), *(f"{self.label} {name}" for name in functions))

    @property
    def is_keyless(self) -> bool:
        """Whether the list has no keys."""
        return self.container == "list" and not self.keys

    def with_keys(self, hub: Schema | None) -> Rule:
        """Return the rule with the list-map keys of the hub where its author left them out; none without a schema."""
        if self.keys is not None or self.container != "list":
            return self
        schema = schema_at(hub, parse(self.hub[0]))
        return replace(self, keys=() if schema is None else schema.list_keys)

    def check(self, around: Surroundings) -> Iterator[Defect]:
        """Yield the defects of the functions, the reads, the keys, the reason and the places of recursion."""
        yield from _check_functions(self, hide=self.hide, merge=self.merge)
        yield from _check_reads(self, self.reads, self.inside(around, 0))
        yield from self.check_keys()
        yield from _check_reason(self, self.acknowledge)

    def check_keys(self) -> Iterator[Defect]:
        """Yield the rules inside that change the keys of the items."""
        rules = ungrouped(self.rules)
        moves = [rule for rule in rules if rule.moves]
        for inner in (each for rule in rules for each in rule.obeyed() if each not in moves):
            for key in self.keys or ():
                if key in inner.claims("hub"):
                    problem = f"{inner.label} changes the key {key} that identifies the items"
                    fix = "A key can be renamed, nothing else"
                    yield Defect(problem, fix, "hub", parse(self.hub[0]), is_inside=True)

    def advice_inside(self, other: Rule, rest: Path) -> str:
        """Return that the other rule, or its rules, belong into this one."""
        if other.label == self.label:
            return f"Write the rules of both into one rules.{self.name}"
        return f"Write {other.label} in the rules of {self.label}, with paths from there on" if rest else ""

    @property
    def is_scope(self) -> bool:
        """Whether the rule applies others to the content of a field: always."""
        return True

    def image(self, index: int, sources: Sequence[Node | None], lift: Lift) -> Node:  # noqa: ARG002
        """Return the node of the spoke's field, with what the rules make of its content."""
        (source,) = sources
        if source is None:
            return dict(ANY_NODE)
        if not self.is_repeated:
            return lift(source, self._described(source))
        below = "items" if self.container == "list" else "additionalProperties"
        inner = source.get(below) or ANY_NODE
        image = {**source, below: lift(inner, self._described(inner))}
        keys = "x-kubernetes-list-map-keys"
        if keys in source:
            renamed = {rule.spoke[0]: rule.hub[0] for rule in self.rules if rule.moves}
            image[keys] = [renamed.get(key, key) for key in source[keys]]
        return image

    def _described(self, node: Node) -> tuple[Rule, ...]:
        """Return the rules inside, and those that apply again where the node describes something."""
        return (*self.rules, *(each for each in self.recursions if _is_described(node, parse(each.spoke[0]))))

    def contents(self, obj: Any, side: Side) -> Iterable[Any]:
        """Return the items of the list, the values of the map, or the object."""
        found = dig(obj, parse(self.named(side)[0]))
        if not self.is_repeated:
            return () if found is ABSENT else (found,)
        return found if isinstance(found, list) else found.values() if isinstance(found, dict) else ()

    def paired(self, one: Any, other: Any, change: Callable[[Any, Any], Any]) -> Any:
        """Return a list, map or object with its items, values or itself changed; unlike lists stay as they are."""
        if not self.is_repeated:
            return change(one, other)
        if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            return [change(*pair) for pair in zip(one, other, strict=True)]
        if isinstance(one, dict) and isinstance(other, dict):
            return {key: change(one.get(key), value) for key, value in other.items()}
        return other

    @property
    def is_repeated(self) -> bool:
        """Whether the rules apply to items or values, not to one object."""
        return self.container != "object"

    @property
    def judges(self) -> bool:
        """Whether a function hides items."""
        return self.hides_items

    @property
    def hides_items(self) -> bool:
        """Whether a function hides items."""
        return self.hide is not None

    @property
    def contained(self) -> tuple[Rule, ...]:
        """The rules inside, without those that apply again."""
        return self.rules

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


def _is_described(node: Node, path: Path) -> bool:
    for name in path:
        node = (node.get("properties") or {}).get(name) or {}
    return bool(node)


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


def _check_one_side(rule: Rule) -> list[Defect]:
    if len(rule.spoke) + len(rule.hub) == 1:
        return []
    fix = "Give the spoke's path, or hub="
    return [Defect(f"{rule.label} must name one field of one side", fix, is_fatal=True)]


def _check_reason(rule: Rule, reason: Any) -> Iterator[Defect]:
    if reason is not None and not (isinstance(reason, str) and reason.strip()):
        yield Defect(f"{rule.label} does not say why the loss is none", "Fill in acknowledge=")


def _check_functions(rule: Rule, **functions: Any) -> Iterator[Defect]:
    for name, function in functions.items():
        if isinstance(function, CelFunction) and (problem := function.problem()):
            yield Defect(f"the CEL expression {name}= of {rule.label} {problem}", "Correct the expression")
        if not (function is None and name in ("merge", "hide", "forget")) and not callable(function):
            yield Defect(f"{rule.label} has a {type(function).__name__} for {name}=", "Give a function")


def _check_reads(rule: Rule, reads: Sequence[str], around: Surroundings) -> Iterator[Defect]:
    for text in reads:
        try:
            steps = read_steps(text) if text.startswith(FROM_ROOT) else (parse(text),)
        except PathError as error:
            yield Defect(f"{rule.label}: {error}", "Name the field to be read", "hub")
            continue
        if len(steps) > 1 and around.is_again:
            problem = f"{rule.label} reads {text} by keys of items, and stands in rules that apply again (recurse=)"
            yield Defect(problem, "Read a field of the scope, or one from the root", "hub")
        elif len(steps) > around.lists + 1:
            problem = f"{rule.label} reads {text}, and stands in {around.lists} lists only"
            yield Defect(problem, "Write as many [] as there are each(…) around it", "hub")


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

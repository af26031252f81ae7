"""Rules as data: the author's declarations, before any check.

A rule is a lens: it claims fields of the spoke and fields of the hub, and defines how each becomes the other. A field
that no rule claims is the same in both versions and passes unchanged, unknown fields included.

Constructing a rule never fails, so that ``Registry.freeze`` can report every defect at once.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from inspect import signature
from typing import Any, Final, Literal, ParamSpec, Protocol

from restow.conversion.model.fieldpath import Path, PathError, parse
from restow.conversion.model.values import ABSENT
from restow.crds import Schema
from restow.crds.paths import items_path, values_path

__all__ = [
    "FROM_ROOT",
    "Again",
    "Constant",
    "Container",
    "Default",
    "Direction",
    "End",
    "Ends",
    "Inline",
    "Lens",
    "Loses",
    "Misfit",
    "Move",
    "OnError",
    "Packing",
    "Private",
    "Remembered",
    "Rule",
    "RuleGroup",
    "ScopedRules",
    "Shape",
    "Shortcut",
    "Side",
    "Standard",
    "Waiver",
    "claimed_paths",
    "declared",
    "inside_path",
    "is_constant_read",
    "key_names",
    "read_steps",
    "ungrouped",
]


Side = Literal["spoke", "hub"]
Direction = Literal["up", "down"]
#: In which directions a lens may lose something that the stash then has to keep.
Loses = Literal["nothing", "up", "down", "both"]
#: What becomes of a value whose conversion fails: it fails its object, or the stash keeps it as it is.
OnError = Literal["fail", "keep"]
#: How functions get the values of a side: one value, a dict by leaf path, or an object tree with these leaves only.
Packing = Literal["value", "leaves", "tree"]
#: What scoped rules apply inside of: each item of a list, each value of a map, or one object.
Container = Literal["list", "map", "object"]

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A declaration; ``name`` is the constructor it came from, ``arguments`` are what the author gave it, by name.

    A rule is printed from these two, and two rules of the same arguments are equal.
    """

    name: str = ""
    spoke: tuple[str, ...] = ()
    hub: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)

    @property
    def label(self) -> str:
        """How messages name the rule: its constructor and its paths."""
        paths = [", ".join(side) for side in (self.spoke, self.hub) if side]
        return f"{self.name}({' <-> '.join(paths)})"

    def claims(self, side: Side) -> tuple[str, ...]:
        """Return the paths of that side which the rule reads and writes."""
        return self.spoke if side == "spoke" else self.hub


_Parameters = ParamSpec("_Parameters")


def declared(constructor: Callable[_Parameters, Rule]) -> Callable[_Parameters, Rule]:
    """Make a constructor of rules record its arguments in the rule; every public constructor is decorated by this.

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


#: A schema node that says only what a rule needs of a field: its ``type``, and what is inside of a list or map.
Shape = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class End:
    """A field that a rule claims: its schema, and whether an object that has its parent must have it too."""

    schema: Schema
    required: bool


#: The fields that a rule claims, by side, as the schemas declare them; None for one that they do not declare.
Ends = Mapping[Side, Sequence[End | None]]


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a field's schema does not suit a rule: ``index`` is that of the field among those that the side claims."""

    side: Side
    index: int
    problem: str
    fix: str


@dataclass(frozen=True, slots=True)
class Inline:
    """Expressions that the compiler writes instead of a call; ``VALUE`` stands for the argument.

    ``when`` holds for the arguments whose target ``code`` is.
    """

    when: str
    code: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """A function of texts whose last results are remembered: the same ports, sizes and timeouts recur in a cluster.

    The function depends on the text alone, and returns ABSENT or what cannot be changed; with ``gives_list`` a list of
    such values, which is copied. The memory is bounded, and holds no long texts.
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

#: How a target is found without the inverse: see ``Standard.quick``.
Shortcut = Function | Inline | Remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """What restow knows of a lens of its own, and cannot know of an author's functions.

    ``shapes`` are what the schemas of the claimed fields have to be, per side; a derived hub gets those of the hub.
    ``image`` gives the hub's nodes where they depend on the spoke's. ``check`` yields what else does not fit.

    ``quick`` has, per direction, a function that returns the target if the inverse gives its argument back, and ABSENT
    where that is not known. The compiler calls it first, and then needs no inverse. ``merge`` has, per direction, what
    ``merge`` of ``rules.pair`` is: an edit of the source side keeps what the stash has of the target, where it can.
    ``must_fit`` is a side that shows only values that its schema can hold as a whole; with ``passes`` also those that
    the rule leaves as they are.
    """

    shapes: Mapping[Side, tuple[Shape, ...]]
    quick: Mapping[Direction, Shortcut] = field(default_factory=dict)
    merge: Mapping[Direction, Function] = field(default_factory=dict)
    must_fit: Side | None = None
    passes: bool = False
    check: Callable[[Ends], Iterator[Misfit]] | None = None
    image: Callable[[Sequence[Shape | None]], Sequence[Shape]] | None = None


class Names(Protocol):
    """An enum's table in one direction."""

    def __contains__(self, value: object) -> bool: ...

    def __iter__(self) -> Iterator[Any]: ...

    def values(self) -> Iterable[Any]:
        """Return what the other version has instead."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lens(Rule):
    """Values computed from values, both ways. See ``rules.pair`` for the contract of the functions.

    ``nulls``: the functions are also called with null; else null stays null. ``on_error`` is None where the author
    leaves it to the kind; freezing fills it in.

    ``exact`` holds, per direction, the values known to come back unchanged (an enum's table); ``singleton`` is the side
    that holds a list of one. Both only let the compiler leave out a check. ``standard`` is what else is known of a
    rule whose functions are restow's own, ``defects`` are its arguments that are wrong by themselves, each with the
    remedy.
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
    singleton: Side | None = None
    standard: Standard | None = None
    defects: tuple[tuple[str, str], ...] = ()

    def packing(self, side: Side) -> Packing:
        """Return how the functions get and give the values of that side."""
        return self.spoke_packing if side == "spoke" else self.hub_packing

    @property
    def constant_reads(self) -> tuple[str, ...]:
        """The reads that all functions get: those of metadata that is the same in both versions."""
        return tuple(text for text in self.reads if is_constant_read(text))

    @property
    def reads_hub(self) -> bool:
        """Whether ``down`` reads what ``up`` cannot: fields of the hub."""
        return len(self.constant_reads) < len(self.reads)

    def may_lose(self, direction: Direction) -> bool:
        """Say whether losing something in that direction was declared."""
        return self.loses in ("both", direction)

    @property
    def is_known(self) -> bool:
        """Whether the functions are restow's own."""
        return self.tables is not None or self.singleton is not None or self.standard is not None

    def is_checked(self, direction: Direction) -> bool:
        """Say whether a conversion in that direction is verified by its inverse.

        An author's lens that declares a loss in the other direction only is left alone in this one: its reverse
        function may depend on more than its argument (``reads``).
        """
        return self.is_known or self.loses in ("nothing", "both", direction)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Rule):
    """A field that one side alone has, with the value that objects of the other side mean.

    ``is_layered``: other rules convert the field, or what is in it; this one only fills it in where they leave nothing.
    It then claims nothing (``compile.layers``).
    """

    value: Any = None
    is_layered: bool = False

    @property
    def filled_in(self) -> Side:
        """The side that always has the field."""
        return "hub" if self.hub else "spoke"

    def claims(self, side: Side) -> tuple[str, ...]:
        """Return the path on the side that has the field; nothing if other rules convert it."""
        return () if self.is_layered else Rule.claims(self, side)


@dataclass(frozen=True, slots=True, kw_only=True)
class Default(Rule):
    """A field that one side may omit (``omitted_in``): its absence means ``value``, which the other side spells out.

    ``hides``: where the other side has this value, the field is omitted. ``is_layered`` as in ``Constant``.
    """

    value: Any = None
    omitted_in: Side = "spoke"
    hides: bool = True
    is_layered: bool = False

    @property
    def filled_in(self) -> Side:
        """The side that always has the field."""
        return "hub" if self.omitted_in == "spoke" else "spoke"

    def claims(self, side: Side) -> tuple[str, ...]:
        """Return the path on that side; nothing if other rules convert the field."""
        return () if self.is_layered else Rule.claims(self, side)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver(Rule):
    """A field that one side requires, and that objects of the other side may lack: ``acknowledge`` says why that is no
    defect. It claims nothing.
    """

    acknowledge: str = ""

    def claims(self, side: Side) -> tuple[str, ...]:  # noqa: ARG002 a waiver leaves all fields to other rules
        """Return nothing."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Private(Rule):
    """A field that one side alone has: kept in the stash, or dropped if ``acknowledge`` says why that is no loss."""

    acknowledge: str | None = None


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
        """All rules that apply to what is inside. With ``recurse`` it has no end: only walks over data may use it."""
        return (*self.rules, *self.recursions) if self.recurse else self.rules


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleGroup(Rule):
    """Several rules that an author declares as one; freezing puts them in its place."""

    rules: tuple[Rule, ...]


def ungrouped(rules: Sequence[Any]) -> Iterator[Any]:
    """Yield the rules of a scope, with those of groups in their places."""
    for rule in rules:
        if isinstance(rule, RuleGroup):
            yield from rule.rules
        else:
            yield rule


_INSIDE: Final[Mapping[Container, Callable[[str], str]]] = {"list": items_path, "map": values_path, "object": str}


def inside_path(container: Container, path: str) -> str:
    """Return the path, as ``restow.crds`` writes it, of what scoped rules apply to: a list's items, a map's values."""
    return _INSIDE[container](path)


#: How a read from the root of the object, not of the scope, begins.
FROM_ROOT: Final = "$."


#: What of metadata is the same whatever version an object is read at; the rest is the API server's, or may change.
_CONSTANT_METADATA: Final = frozenset({"name", "namespace", "uid", "labels", "annotations"})


#: In such a read: the item that has the keys of the item that the rule stands in.
_SAME_KEYS: Final = "[]"


def claimed_paths(rule: Rule, side: Side) -> tuple[Path, ...]:
    """Return the parsed claims of a rule."""
    return tuple(parse(text) for text in rule.claims(side))


def read_steps(text: str) -> tuple[Path, ...]:
    """Return the paths of a read from the root: to a list, from its item on, and so on.

    Raises:
        PathError: a part of the text between two ``[]`` is no path.
    """
    first, *others = text.removeprefix(FROM_ROOT).split(_SAME_KEYS)
    return (parse(first), *(parse(other) if other else () for other in others))


def is_constant_read(text: str) -> bool:
    """Say whether a read is of metadata that both versions have alike; False for a text that is no path."""
    if not text.startswith(FROM_ROOT) or _SAME_KEYS in text:
        return False
    try:
        path = parse(text.removeprefix(FROM_ROOT))
    except PathError:
        return False
    return len(path) > 1 and path[0] == "metadata" and path[1] in _CONSTANT_METADATA


def key_names(scope: ScopedRules, side: Side) -> tuple[str, ...]:
    """Return the fields that identify an item, by their names on that side: only a rename may touch them."""
    keys = scope.keys or ()
    if side == "hub":
        return keys
    renamed = {parse(rule.hub[0])[-1]: parse(rule.spoke[0])[-1] for rule in scope.rules if rule.name == "rename"}
    return tuple(renamed.get(key, key) for key in keys)

"""Rules as data: the author's declarations, before any check.

A rule is a lens: it claims fields of the spoke and fields of the hub, and defines how each becomes the other. A field
that no rule claims is the same in both versions and passes unchanged, unknown fields included.

Constructing a rule never fails, so that ``Registry.freeze`` can report every defect at once.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from inspect import signature
from typing import Any, Final, Literal, ParamSpec

from restow.conversion.model.fieldpath import Path, parse

__all__ = [
    "FROM_ROOT",
    "Constant",
    "Default",
    "Direction",
    "Lens",
    "Loses",
    "Move",
    "Packing",
    "Private",
    "Rule",
    "ScopedRules",
    "Side",
    "claimed_paths",
    "declared",
    "key_names",
    "read_steps",
]


Side = Literal["spoke", "hub"]
Direction = Literal["up", "down"]
#: In which directions a lens may lose something that the stash then has to keep.
Loses = Literal["nothing", "up", "down", "both"]
#: How functions get the values of a side: one value, a dict by leaf path, or an object tree with these leaves only.
Packing = Literal["value", "leaves", "tree"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lens(Rule):
    """Values computed from values, both ways. See ``rules.pair`` for the contract of the functions.

    ``exact`` holds, per direction, the values known to come back unchanged (an enum's table); ``singleton`` is the side
    that holds a list of one. Both only let the compiler leave out a check.
    """

    up: Function
    down: Function
    spoke_packing: Packing = "value"
    hub_packing: Packing = "value"
    loses: Loses = "nothing"
    merge: Function | None = None
    forget: Function | None = None
    reads: tuple[str, ...] = ()
    exact: Mapping[Direction, Mapping[str, Any]] | None = None
    tables: Mapping[Direction, Mapping[Any, Any]] | None = None
    singleton: Side | None = None

    def packing(self, side: Side) -> Packing:
        """Return how the functions get and give the values of that side."""
        return self.spoke_packing if side == "spoke" else self.hub_packing

    def may_lose(self, direction: Direction) -> bool:
        """Say whether losing something in that direction was declared."""
        return self.loses in ("both", direction)

    def is_checked(self, direction: Direction) -> bool:
        """Say whether a conversion in that direction is verified by its inverse.

        An author's lens that declares a loss in the other direction only is left alone in this one: its reverse
        function may depend on more than its argument (``reads``).
        """
        own = self.tables is None and self.singleton is None
        return not own or self.loses in ("nothing", "both", direction)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Rule):
    """A field that one side alone has, with the value that objects of the other side mean."""

    value: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Default(Rule):
    """A field that the hub always has and whose absence in the spoke means ``value``."""

    value: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Private(Rule):
    """A field that one side alone has: kept in the stash, or dropped if ``acknowledge`` says why that is no loss."""

    acknowledge: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedRules(Rule):
    """Rules inside of every item of a list, every value of a map, or one object."""

    container: Literal["list", "map", "object"]
    rules: tuple[Rule, ...] = field(default=())
    keys: tuple[str, ...] | None = None
    hide: Function | None = None
    merge: Function | None = None
    reads: tuple[str, ...] = ()


#: How a read from the root of the object, not of the scope, begins.
FROM_ROOT: Final = "$."


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


def key_names(scope: ScopedRules, side: Side) -> tuple[str, ...]:
    """Return the fields that identify an item, by their names on that side: only a rename may touch them."""
    keys = scope.keys or ()
    if side == "hub":
        return keys
    renamed = {parse(rule.hub[0])[-1]: parse(rule.spoke[0])[-1] for rule in scope.rules if rule.name == "rename"}
    return tuple(renamed.get(key, key) for key in keys)

"""What restow knows about the functions of its own lenses: shapes of schemas, shortcuts, tables of values.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from restow.conversion.model.values import ABSENT
from restow.conversion.rules.sides import Direction, Side
from restow.crds import Schema

Function = Callable[..., Any]

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
    at several places. ``by_schema`` returns the functions, and ``merge``, for the schema of ``must_fit``.
    """

    shapes: Mapping[Side, tuple[Shape, ...]]
    quick: Mapping[Direction, Shortcut] = field(default_factory=dict)
    merge: Mapping[Direction, Function] = field(default_factory=dict)
    must_fit: Side | None = None
    passes: bool = False
    repeats: Side | None = None
    check: Callable[[Ends], Iterator[Misfit]] | None = None
    image: Callable[[Sequence[Shape | None]], Sequence[Shape]] | None = None
    by_schema: Callable[[Schema], tuple[Function, Function, Mapping[Direction, Function]]] | None = None


class Names(Protocol):
    """An enum's table in one direction."""

    def __contains__(self, value: object) -> bool: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __call__(self, value: Any) -> Any:
        """Return the value of the other version; one that is not in the table is the same there."""
        ...

    def beyond(self, source: Schema, target: Schema) -> bool:
        """Return whether a value of the source passes that the enum of the target does not have."""
        ...

    def values(self) -> Iterable[Any]:
        """Return the values of the other version."""
        ...

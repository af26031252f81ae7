"""Values with other names: a table of scalars, both ways.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from restow.conversion.model.values import ABSENT, same
from restow.conversion.rules.known import Function
from restow.conversion.rules.lens import Lens
from restow.conversion.rules.protocol import Rule, declared
from restow.conversion.rules.sides import Direction
from restow.conversion.rules.standard.shapes import losing
from restow.crds import Schema

#: A table as its author writes it: a mapping, or pairs if the values cannot be keys of a JSON object.
Values = Mapping[Any, Any] | Sequence[Sequence[Any]]


@declared
def enum(
    spoke: str,
    values: Values,
    *,
    hub: str | None = None,
    up: Values | None = None,
    down: Values | None = None,
) -> Rule:
    """A field whose values have other names in the hub: ``enum("spec.mode", {"a": "Alpha", "b": "Beta"})``.

    The values are scalars of any type, and may be of another type in the hub: ``enum("spec.public", [[True, "Public"],
    [False, "Private"]])``. Values in no table pass unchanged. A value that the other version's enum does not have is
    not shown there, and the stash keeps it.

    ``values`` is the table: a mapping from the spoke's values to the hub's, or a list of such pairs.

    ``hub`` is the path in the hub, if it differs.

    ``up`` adds values that only the spoke knows, each with the value that the hub shows instead. They lose information,
    like a table in which two values become one; the stash keeps it.

    ``down`` adds values that only the hub knows: ``down={"Gamma": "b"}``.
    """
    table, more_up, more_down = _pairs(values), _pairs(up or ()), _pairs(down or ())
    upward = ValueTable.of([*table, *more_up])
    downward = ValueTable.of([*[(there, here) for here, there in reversed(table)], *more_down])
    defects = [
        (
            f"has {name}= with an entry that is no pair",
            "Give a mapping, or a list of pairs [spoke's value, hub's value]",
        )
        for name, given in (("values", values), ("up", up), ("down", down))
        if given is not None and not _is_table(given)
    ]
    tables: dict[Direction, ValueTable] = {"up": upward, "down": downward}
    return Lens(
        spoke=(spoke,),
        hub=(hub or spoke,),
        up=upward,
        down=downward,
        loses=losing(up=upward.loses(downward), down=downward.loses(upward)),
        exact={"up": upward.exact(downward), "down": downward.exact(upward)},
        tables=tables,
        defects=tuple(defects),
    )


def _is_table(given: Any) -> bool:
    if isinstance(given, Mapping):
        return True
    return isinstance(given, list | tuple) and all(isinstance(each, list | tuple) and len(each) == 2 for each in given)


def _pairs(given: Values) -> list[tuple[Any, Any]]:
    if not _is_table(given):
        return []
    pairs = given.items() if isinstance(given, Mapping) else given
    return [(pair[0], pair[1]) for pair in pairs]


@dataclass(frozen=True, slots=True)
class ValueTable:
    """A function by table; values that are not in the table pass unchanged. ``True``, 1 and 1.0 are three values."""

    entries: Mapping[tuple[type, Any], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, pairs: Iterable[tuple[Any, Any]]) -> ValueTable:
        """Return the table; if two entries have the same value, the later one counts."""
        return cls({_identity(key): value for key, value in pairs})

    def __call__(self, value: Any) -> Any:
        """Return the other name of ``value``."""
        return value if isinstance(value, dict | list) else self.entries.get((value.__class__, value), value)

    def __contains__(self, value: object) -> bool:
        return _identity(value) in self.entries

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self.entries)

    def beyond(self, source: Schema, target: Schema) -> bool:
        """Return whether a value of the source passes that the enum of the target does not have."""
        ours, theirs = source.node.get("enum"), target.node.get("enum")
        if source.node.get("type") == "boolean":
            ours = (True, False)
        return theirs is not None and (ours is None or any(_is_refused(self(value), theirs) for value in ours))

    def values(self) -> Iterable[Any]:
        """Return the names in the table."""
        return self.entries.values()

    def loses(self, back: ValueTable) -> bool:
        """Return whether some entry comes back as another value."""
        return any(not same(back(value), key) for (_, key), value in self.entries.items())

    def exact(self, back: ValueTable) -> dict[str, Any]:
        """Return the texts that come back unchanged, with their names."""
        return {key: value for (kind, key), value in self.entries.items() if kind is str and same(back(value), key)}


@dataclass(frozen=True, slots=True)
class Admitted:
    """A function by table for a version that shows only the values of its enum, and null."""

    table: Function
    enum: Sequence[Any]

    def __call__(self, value: Any) -> Any:
        found = self.table(value)
        return ABSENT if _is_refused(found, self.enum) else found


def _is_refused(value: Any, enum: Sequence[Any]) -> bool:
    return value is not None and not any(same(value, each) for each in enum)


def _identity(value: Any) -> tuple[type, Any]:
    return value.__class__, None if isinstance(value, dict | list) else value

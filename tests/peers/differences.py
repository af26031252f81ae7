"""What differs between restow's result and the oracle's, and the table of the differences that are explained.

Both are compared by what they say: null, zero values of Go (an empty text, 0, false), and objects and lists that hold
nothing else count as absent, as do the annotations in which either side keeps what the target cannot say. All else is
a difference, and a difference that no entry of the table explains fails the test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from restow.conversion.model.values import ABSENT, Json, same
from restow.crds import Schema
from restow.crds.paths import ROOT, field_path, items_path, values_path

__all__ = ["Difference", "Entry", "Table", "differences", "significant"]

Phase = Literal["conversion", "edit", "elsewhere"]
Who = Literal["go", "restow", "both"]


@dataclass(frozen=True)
class Difference:
    """One place in which two results differ.

    Attributes:
        kind: of the object.
        phase: whether a generated object was converted, or what an edit made of its conversion was converted back;
            ``elsewhere`` is what restow itself changed in the stored object besides what the edit touched.
        target: the version of the results.
        at: the place, as restow.crds writes paths; for an oracle that failed, the whole object.
        who: which side has a value there.
        go: the oracle's value; its error or its panic if it gave no object.
        restow: restow's value.
        lost: whether the oracle changes this place of the object there and back, without any edit.
        quantity: whether the schema says that the value is a quantity, or an integer or a text.
    """

    kind: str
    phase: Phase
    target: str
    at: str
    who: Who
    go: Any
    restow: Any
    lost: bool = False
    quantity: bool = False

    @property
    def label(self) -> str:
        """One line: what differs where, without the values."""
        who = {"go": "only Go has a value", "restow": "only restow has a value", "both": "the values differ"}[self.who]
        return f"{self.kind} {self.phase} to {self.target}, {self.at}: {who}"


@dataclass(frozen=True, eq=False)
class Entry:
    """A row of the table: which differences it explains, and how.

    Attributes:
        why: the explanation.
        at: the places; ``**`` stands for anything.
        kinds: the kinds, all if empty.
        target: the version of the results, any if empty.
        phase: in which comparison, any if empty.
        who: which side has a value, any if empty.
        spelling: whether both values mean the same.
        values: what must hold of the two values (``go``, ``restow``: the literal value; ``same``: they say the same as
            quantities, durations, …; ``lost``, ``quantity``; ``fails``: a text in the oracle's error or panic).
    """

    why: str
    at: tuple[str, ...] = ("**",)
    kinds: tuple[str, ...] = ()
    target: str = ""
    phase: str = ""
    who: str = ""
    spelling: bool = False
    values: Mapping[str, Any] | None = None

    @cached_property
    def _place(self) -> re.Pattern[str]:
        places = (".*".join(re.escape(part) for part in place.split("**")) for place in self.at)
        return re.compile("|".join(places))

    def explains(self, found: Difference) -> bool:
        """Say whether the difference is of this class."""
        if self.kinds and found.kind not in self.kinds:
            return False
        if any(own not in ("", other) for own, other in ((self.target, found.target), (self.phase, found.phase))):
            return False
        if self.who not in ("", found.who) or self._place.fullmatch(found.at) is None:
            return False
        return all(_holds(name, value, found) for name, value in (self.values or {}).items())


def _holds(name: str, value: Any, found: Difference) -> bool:
    match name:
        case "go":
            return same(found.go, value)
        case "restow":
            return same(found.restow, value)
        case "same":
            return _SAME[value](found.go) == _SAME[value](found.restow) is not None
        case "lost":
            return found.lost is value
        case "quantity":
            return found.quantity is value
        case "fails":
            return isinstance(found.go, str) and found.at == ROOT and value in found.go
        case _:
            message = f"The table of differences knows no condition {name!r}."
            raise AssertionError(message)


class Table:
    """The explained differences of one project, ``differences/<project>.yaml``, and those that all have in common."""

    def __init__(self, *files: Path) -> None:
        known = {"why", "at", "kinds", "target", "phase", "who", "spelling"}
        self.entries = []
        for row in (row for file in files for row in yaml.safe_load(file.read_text(encoding="utf-8"))):
            values = {name: value for name, value in row.items() if name not in known}
            own = {name: row[name] for name in row if name in known}
            lists = {"at": _all(row.get("at", "**")), "kinds": _all(row.get("kinds", ()))}
            self.entries.append(Entry(**{**own, **lists}, values=values))

    def entry(self, found: Difference) -> Entry | None:
        """Return the first row that explains a difference."""
        return next((entry for entry in self.entries if entry.explains(found)), None)


def _all(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def differences(
    go: Any, restow: Any, schema: Schema | None, path: str = ROOT
) -> Iterator[tuple[str, Who, Any, Any, bool]]:
    """Yield the places in which two significant values differ: place, which side has a value, both values,
    and whether the schema lets an integer or a text stand there.
    """
    if _is_object(go) and _is_object(restow) and go is not restow:
        go, restow = go or {}, restow or {}
        for name in sorted({*go, *restow}):
            inner = None if schema is None else schema.field(name)
            is_map = schema is not None and schema.values is not None and not schema.properties
            place = values_path(path) if is_map else field_path(path, name)
            yield from differences(go.get(name, ABSENT), restow.get(name, ABSENT), inner, place)
    elif isinstance(go, list) and isinstance(restow, list) and len(go) == len(restow):
        for left, right in zip(go, restow, strict=True):
            yield from differences(left, right, None if schema is None else schema.items, items_path(path))
    elif not same(go, restow):
        who: Who = "go" if restow is ABSENT else "restow" if go is ABSENT else "both"
        yield path, who, go, restow, schema is not None and schema.int_or_string


def _is_object(value: Any) -> bool:
    """Say whether a value is an object, or absent, which counts as an empty one: its fields are compared one by one."""
    return isinstance(value, dict) or value is ABSENT


def significant(obj: Json, stashes: Sequence[str]) -> Json:
    """Return what an object says: without what counts as absent, and without these annotations."""
    metadata = obj.get("metadata") or {}
    annotations = {name: text for name, text in (metadata.get("annotations") or {}).items() if name not in stashes}
    found = _significant({**obj, "metadata": {**metadata, "annotations": annotations}})
    assert isinstance(found, dict)
    return found


def _significant(value: Any) -> Any:
    if isinstance(value, dict):
        inner = {name: _significant(child) for name, child in value.items()}
        return {name: child for name, child in inner.items() if child is not ABSENT} or ABSENT
    if isinstance(value, list):
        # Items keep their places, so one that holds nothing stays.
        return [{} if (found := _significant(item)) is ABSENT else found for item in value] or ABSENT
    return value or ABSENT


_SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
_UNITS: Final = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}


def _quantity(value: Any) -> Fraction | None:
    found = re.fullmatch(r"([+-]?[0-9.]+)([a-zA-Z]*)", "0" if value is ABSENT else str(value))
    return None if found is None or found[2] not in _SUFFIXES else Fraction(found[1]) * _SUFFIXES[found[2]]


def _duration(value: Any) -> Fraction | None:
    text = "0s" if value is ABSENT else str(value)
    if not re.fullmatch(r"([0-9.]+[a-zµ]+)+", text):
        return None
    return sum(
        (Fraction(number) * _UNITS[unit] for number, unit in re.findall(r"([0-9.]+)([a-zµ]+)", text)), Fraction()
    )


_SAME: Final = {"quantity": _quantity, "duration": _duration}

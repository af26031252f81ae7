"""Shared parts of the standard rules: shapes of schemas, templates, and the conversion of scalars.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isfinite
from typing import Any, Final, Literal, get_args

from restow.conversion.model.values import is_int64
from restow.conversion.rules.known import Function, Shape, Shortcut
from restow.conversion.rules.lens import Loses
from restow.conversion.rules.sides import Direction, Side, opposite

#: The type of a stored number: ``integer``, or ``number`` with a fraction.
NumberType = Literal["integer", "number"]
#: How to round a number that the other version cannot hold: to the nearest one (a half to the even one), away from
#: zero, or towards zero.
Rounding = Literal["nearest", "up", "down"]

TEXT: Final[Shape] = {"type": "string"}
MAP: Final[Shape] = {"type": "object", "additionalProperties": {}}
OBJECT: Final[Shape] = {"type": "object"}
#: A field whose type does not matter.
ANY_SHAPE: Final[Shape] = {}

_TEMPLATES: Final = ("{{", "${", "$(")


def has_template(text: str) -> bool:
    """Return whether a text has an expression of Helm, Flux, Kustomize or a shell: its value is not known yet."""
    return ("{" in text or "$" in text) and any(mark in text for mark in _TEMPLATES)


def choices(**arguments: tuple[Any, Any]) -> tuple[tuple[str, str], ...]:
    """Return the defects of arguments outside the literals of their type, given as ``name=(value, type)``."""
    return tuple(
        (f"has {name}={value!r}", f"Say one of {', '.join(map(repr, get_args(kind)))}")
        for name, (value, kind) in arguments.items()
        if not isinstance(value, str) or value not in get_args(kind)
    )


@dataclass(frozen=True, slots=True)
class AsEdited:
    """The ``merge`` of a side whose edits are converted as they are, whatever the stash has."""

    function: Function

    def __call__(self, edited: Any, _shown: Any, _kept: Any) -> Any:
        return self.function(edited)


def differs_in_type(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Return whether two schema nodes declare values of different types."""
    return any(ours.get(word) != theirs.get(word) for word in ("type", "x-kubernetes-int-or-string"))


def direction_from(side: Side) -> Direction:
    """Return the direction that reads that side."""
    return "up" if side == "spoke" else "down"


def oriented(side: Side, forward: Function, back: Function) -> dict[Direction, Function]:
    """Return two functions by direction; ``forward`` reads ``side``."""
    return {direction_from(side): forward, direction_from(opposite(side)): back}


def shortcuts(side: Side, forward: Shortcut, back: Shortcut) -> dict[Direction, Shortcut]:
    """Return two shortcuts (``Standard.quick``) by direction; ``forward`` reads ``side``."""
    return {direction_from(side): forward, direction_from(opposite(side)): back}


def losing(*, up: bool, down: bool) -> Loses:
    """Return the declaration of the directions that may lose something."""
    return "both" if up and down else "up" if up else "down" if down else "nothing"


def number_of(value: Any) -> Fraction | None:
    """Return the exact value of a JSON number, None for any other value: a decimal fraction has its written value."""
    if value.__class__ is int:
        return Fraction(value)
    if value.__class__ is float and isfinite(value):
        return Fraction(repr(value))
    return None


def rounded(value: Fraction, rounding: Rounding) -> int:
    """Return the integer that stands for a fraction."""
    if value.denominator == 1:
        return value.numerator
    if rounding == "nearest":
        return round(value)
    towards_zero = abs(value.numerator) // value.denominator
    size = towards_zero + (rounding == "up")
    return size if value > 0 else -size


def whole(value: Fraction, number: NumberType, rounding: Rounding) -> int | float | None:
    """Return the JSON number for an exact value, None if it is too large for one: an integer has 64 bits."""
    if value.denominator == 1 or number == "integer":
        found = rounded(value, rounding)
        if is_int64(found):
            return found
        if number == "integer":
            return None
    try:
        return float(value)
    except OverflowError:
        return None


def computing(function: Function) -> Function:
    """Return a function of a standard rule that treats a text with a template like any other text."""
    return replace(function, templates=False) if getattr(function, "templates", False) else function  # type: ignore[type-var]

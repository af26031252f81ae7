"""Scalars of another type: texts, integers, numbers, booleans.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from restow.conversion.model.values import ABSENT, is_int64
from restow.conversion.rules.known import Ends, Inline, Misfit, Remembered, Shape, Shortcut, Standard
from restow.conversion.rules.lens import Lens
from restow.conversion.rules.protocol import Rule, declared
from restow.conversion.rules.sides import Direction, Side
from restow.conversion.rules.standard.shapes import choices, has_template, losing, number_of, whole

#: ``int-or-string`` is Kubernetes' type: an integer, or a text that is not an integer.
ScalarType = Literal["string", "integer", "number", "boolean", "int-or-string"]

SCALARS: Final[Mapping[ScalarType, Shape]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "int-or-string": {"x-kubernetes-int-or-string": True},
}
#: Longer texts are not realistic numbers.
_LONGEST: Final = 100
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_PLAIN_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
#: Source: Go's ``strconv.ParseBool``.
_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


@declared
def cast(
    spoke: str,
    hub: str | None = None,
    *,
    spoke_type: ScalarType,
    hub_type: ScalarType,
    otherwise: str | int | float | bool | None = None,  # noqa: PYI041 an integer stays one when it is read from data
) -> Rule:
    """A scalar of another type: ``cast("spec.port", spoke_type="string", hub_type="integer")`` turns ``"80"`` into 80.

    The stash restores another spelling of the same value (``"080"``, ``"True"``). A text that is no value of the other
    type is not shown, and the stash keeps it. An integer shows the whole part of a number with a fraction. A number
    shows a boolean as 1 or 0; a boolean shows every number except 0 as true. As ``int-or-string``, a text of digits
    becomes an integer.

    ``hub`` is the path in the hub, if it differs.

    ``spoke_type`` is the type of the spoke's field.

    ``hub_type`` is the type of the hub's field.

    ``otherwise`` is shown for a text that is no value of the other type, where a value is required.
    """
    up, down = caster(spoke_type, hub_type, otherwise), caster(hub_type, spoke_type, otherwise)
    defects = choices(spoke_type=(spoke_type, ScalarType), hub_type=(hub_type, ScalarType))
    if not defects and spoke_type == hub_type:
        defects = ((f"has the type {spoke_type} on both sides", "Use rules.rename or rules.move"),)
    return Lens(
        spoke=(spoke,),
        hub=(hub or spoke,),
        up=up,
        down=down,
        loses=losing(up=(spoke_type, hub_type) not in _LOSSLESS, down=(hub_type, spoke_type) not in _LOSSLESS),
        standard=Standard(
            shapes={"spoke": (SCALARS.get(spoke_type, {}),), "hub": (SCALARS.get(hub_type, {}),)},
            quick=_quick(spoke_type, hub_type),
            check=_Check(spoke_type, hub_type, otherwise),
        ),
        defects=defects,
    )


#: Pairs of source and target type whose values always come back. All other casts depend on the value.
_LOSSLESS: Final = frozenset(
    {
        ("integer", "string"),
        ("integer", "number"),
        ("integer", "int-or-string"),
        ("boolean", "string"),
        ("boolean", "integer"),
        ("boolean", "number"),
        ("boolean", "int-or-string"),
        ("string", "int-or-string"),
    }
)

Caster = Callable[[Any], Any]


def caster(of: str, to: str, otherwise: str | float | bool | None = None) -> Caster:
    """Return the function from one scalar type to another; ABSENT or ``otherwise`` for a value that does not convert.

    Values of other types than ``of``, and texts with templates, pass unchanged.
    """
    if of == to:
        return _unchanged
    if to == "string":
        return _Printed(_TYPES.get(of, ()))
    return _Cast(_TYPES.get(of, ()), _TO.get(to, _unchanged), ABSENT if otherwise is None else otherwise)


def _unchanged(value: Any) -> Any:
    return value


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "int-or-string": (int, str),
}


@dataclass(frozen=True, slots=True)
class _Cast:
    """Converts to a number, a boolean or an int-or-string."""

    classes: tuple[type, ...]
    to: Caster
    otherwise: Any
    templates: bool = True

    def __call__(self, value: Any) -> Any:
        if value.__class__ not in self.classes or (self.templates and value.__class__ is str and has_template(value)):
            return value
        found = self.to(value)
        return self.otherwise if found is None else found


@dataclass(frozen=True, slots=True)
class _Printed:
    """Converts to a text: an integer in digits, a number as JSON prints it, a boolean as ``true`` or ``false``."""

    classes: tuple[type, ...]

    def __call__(self, value: Any) -> Any:
        kind = value.__class__
        if kind is str or kind not in self.classes:
            return value
        if kind is bool:
            return "true" if value else "false"
        if kind is int:
            return str(value) if -(10**_LONGEST) < value < 10**_LONGEST else ABSENT
        return str(int(value)) if value.is_integer() and abs(value) < _EXACT else repr(value)


#: The largest float that is printed in digits if it is an integer.
_EXACT: Final = 2.0**53


def _integer(value: Any) -> int | None:
    if value.__class__ is str:
        number = int(value) if len(value) <= _LONGEST and _INTEGER.fullmatch(value) else None
        return number if number is not None and is_int64(number) else None
    exact = number_of(value)
    return int(value) if exact is None else whole(exact, "integer", "down")  # type: ignore[return-value]


def _number(value: Any) -> int | float | None:
    if value.__class__ is str:
        if len(value) > _LONGEST or not _NUMBER.fullmatch(value):
            return None
        number = int(value) if _INTEGER.fullmatch(value) else float(value)
        number = number if is_int64(number) else float(number)
        return None if number in (float("inf"), float("-inf")) else number
    return int(value) if value.__class__ is bool else value


def _boolean(value: Any) -> bool | None:
    return _BOOLEANS.get(value) if value.__class__ is str else value != 0


def _int_or_string(value: Any) -> int | str | None:
    if value.__class__ is str:
        return int(value) if _PLAIN_INTEGER.fullmatch(value) else value
    return _integer(value)


_TO: Final[Mapping[str, Caster]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "int-or-string": _int_or_string,
}


def _quick(of: str, to: str) -> dict[Direction, Shortcut]:
    """Return shortcuts for the usual values of both types, which come back."""
    ways: dict[Direction, tuple[str, str]] = {"up": (of, to), "down": (to, of)}
    found: dict[Direction, Shortcut] = {direction: _QUICK[way] for direction, way in ways.items() if way in _QUICK}
    # Each rule has a cache of its own.
    return {
        direction: replace(each, known={}) if isinstance(each, Remembered) else each
        for direction, each in found.items()
    }


def _digits_of(value: Any) -> Any:
    return str(value) if value.__class__ is int and -_SMALL < value < _SMALL else ABSENT


def _integer_in(value: Any) -> Any:
    """Return a natural number in canonical digits."""
    is_number = value.__class__ is str and len(value) < 18 and value.isdecimal() and value.isascii()
    return int(value) if is_number and (value[0] != "0" or value == "0") else ABSENT


def _text_in(value: Any) -> Any:
    """Return a text that is not an integer, for a field that takes both."""
    return value if value.__class__ is str and not _PLAIN_INTEGER.fullmatch(value) else ABSENT


def _text_or_digits(value: Any) -> Any:
    return _text_in(value) if value.__class__ is str else _digits_of(value)


def _number_or_text(value: Any) -> Any:
    if value.__class__ is not str:
        return ABSENT
    return int(value) if _PLAIN_INTEGER.fullmatch(value) else value


_SMALL: Final = 10**18
_DIGITS: Final = Inline(f"VALUE.__class__ is int and {-_SMALL} < VALUE < {_SMALL}", "str(VALUE)")
_QUICK: Final[Mapping[tuple[str, str], Shortcut]] = {
    ("integer", "string"): _DIGITS,
    ("number", "string"): _DIGITS,
    ("string", "integer"): Remembered(_integer_in),
    ("string", "number"): Remembered(_integer_in),
    ("boolean", "string"): Inline("VALUE is True or VALUE is False", "'true' if VALUE else 'false'"),
    ("string", "boolean"): Inline("VALUE == 'true' or VALUE == 'false'", "VALUE == 'true'"),
    ("int-or-string", "string"): _text_or_digits,
    ("string", "int-or-string"): Remembered(_number_or_text),
}


@dataclass(frozen=True, slots=True)
class _Check:
    """Checks required fields that would lack a value for some texts."""

    spoke_type: str
    hub_type: str
    otherwise: Any

    def __call__(self, ends: Ends) -> Iterator[Misfit]:
        sides: tuple[tuple[Side, str, Side, str], ...] = (
            ("hub", self.hub_type, "spoke", self.spoke_type),
            ("spoke", self.spoke_type, "hub", self.hub_type),
        )
        for side, kind, other, of in sides:
            target, source = ends[side][0], ends[other][0]
            if self.otherwise is not None or target is None or not target.required or kind in _TAKES_TEXT:
                continue
            if of in _TAKES_TEXT and not (source is not None and _FORMED & source.schema.node.keys()):
                problem = f"is required, but the text that it is made of may be no {kind}"
                yield Misfit(side, 0, problem, "Say with otherwise= what is shown then")


_TAKES_TEXT: Final = frozenset({"string", "int-or-string"})
_FORMED: Final = frozenset({"pattern", "enum"})

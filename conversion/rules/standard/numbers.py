"""Numbers in another form: durations and quantities as texts, other units, other types.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from restow.conversion.model.values import ABSENT, INTEGERS, is_int64
from restow.conversion.rules.known import Ends, Inline, Misfit, Remembered, Shape, Standard
from restow.conversion.rules.lens import Lens
from restow.conversion.rules.protocol import Rule, declared
from restow.conversion.rules.sides import Side, opposite
from restow.conversion.rules.standard.numbertexts import (
    BILLIONTHS,
    NANOSECONDS,
    DurationUnit,
    QuantityFormat,
    QuantityUnit,
    canonical_seconds,
    canonical_suffixes,
    parse_duration,
    parse_quantity,
    print_duration,
    print_quantity,
)
from restow.conversion.rules.standard.shapes import (
    TEXT,
    NumberType,
    Rounding,
    choices,
    has_template,
    losing,
    number_of,
    oriented,
    rounded,
    shortcuts,
    whole,
)

#: The schema that Kubernetes' own types declare for quantities; a plain string is also accepted.
_QUANTITY: Final[Shape] = {"x-kubernetes-int-or-string": True}
_BINARY_UNITS: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
#: Larger numbers, in the smallest unit, are not converted to a text.
_LARGEST: Final = 10**60
#: Longer numbers take the slow path.
_MOST_DIGITS: Final = 16
#: A float represents every integer up to this one.
_EXACT_FLOAT: Final = 2**53


@declared
def duration(
    spoke: str,
    hub: str | None = None,
    *,
    unit: DurationUnit,
    text: Side = "spoke",
    number: NumberType = "integer",
    rounding: Rounding = "down",
    otherwise: int | float | None = None,  # noqa: PYI041 an integer stays one when it is read from data
    acknowledge: str | None = None,
) -> Rule:
    """A duration as a text and as a number: ``duration("spec.timeout", "spec.timeoutSeconds", unit="s")`` turns
    ``1m30s`` into 90.

    The texts are Go's and those of Kubernetes' ``metav1.Duration``. Going back, the number is printed as Go prints it;
    the stash restores another spelling (``90s``). A text that is no duration is not shown, and the stash keeps it.

    ``hub`` is the path in the hub, if it differs.

    ``unit`` is the unit of the number.

    ``text`` is the side that has the text.

    ``number`` is the type of the number's field.

    ``rounding`` decides which integer stands for a duration that is no multiple of the unit; the stash keeps the
    duration.

    ``otherwise`` is the number shown for a text that is no duration, where the number is required.

    ``acknowledge`` is the reason why another spelling is no loss. Then the stash does not keep it, and the duration
    comes back as Go prints it. It is for a text of the spoke.
    """
    size = NANOSECONDS.get(unit, 1)
    read = _Read(parse_duration, size, number, rounding, otherwise, numbers_are_texts=False)
    write = _Write(print_duration, size)
    ways = oriented(text, read, write)
    is_total = unit == "ns" and number == "integer"
    return Lens(
        spoke=(spoke,),
        hub=(hub or spoke,),
        up=ways["up"],
        down=ways["down"],
        loses=losing(up=text == "spoke" or not is_total, down=text == "hub" or not is_total),
        forget=None if acknowledge is None else _IsExact(read),
        acknowledge=acknowledge,
        standard=Standard(
            shapes={text: (TEXT,), opposite(text): ({"type": number},)},
            quick=shortcuts(text, Remembered(_QuickDuration(size)), _QuickText(write)),
            check=_Check(text, unit, otherwise, "duration"),
        ),
        defects=(
            *choices(
                unit=(unit, DurationUnit), text=(text, Side), number=(number, NumberType), rounding=(rounding, Rounding)
            ),
            *_without_spelling(text, acknowledge),
        ),
    )


@declared
def quantity(
    spoke: str,
    hub: str | None = None,
    *,
    unit: QuantityUnit = "",
    text: Side = "spoke",
    number: NumberType = "integer",
    rounding: Rounding = "up",
    format: QuantityFormat | None = None,  # noqa: A002 the field's term
    otherwise: int | float | None = None,  # noqa: PYI041 an integer stays one when it is read from data
    acknowledge: str | None = None,
) -> Rule:
    """A quantity as a text and as a number: ``quantity("spec.memory", "spec.memoryMiB", unit="Mi")`` turns ``1Gi``
    into 1024.

    The texts are those of Kubernetes' ``resource.Quantity``; a field of the type integer-or-string is also accepted.
    Going back, the number is printed as Kubernetes prints it; the stash restores another spelling (``1024Mi``). A text
    that is no quantity is not shown, and the stash keeps it.

    ``hub`` is the path in the hub, if it differs.

    ``unit`` is the unit of the number, a suffix of quantities: ``m`` for thousandths, ``Mi`` for 2^20; empty for one.

    ``text`` is the side that has the text.

    ``number`` is the type of the number's field.

    ``rounding`` decides which integer stands for a quantity that is no multiple of the unit; the stash keeps the
    quantity.

    ``format`` is the form of printed texts. The default is binary for a binary unit, and decimal for other units.

    ``otherwise`` is the number shown for a text that is no quantity, where the number is required.

    ``acknowledge`` is the reason why another spelling is no loss. Then the stash does not keep it, and the quantity
    comes back as Kubernetes prints it. It is for a text of the spoke.
    """
    size = BILLIONTHS.get(unit, 10**9)
    form: QuantityFormat = format or ("binary" if unit in _BINARY_UNITS else "decimal")
    read = _Read(parse_quantity, size, number, rounding, otherwise, numbers_are_texts=True)
    write = _Write(_PrintQuantity(form), size)
    ways = oriented(text, read, write)
    is_total = number == "integer" and size <= BILLIONTHS[""]
    return Lens(
        spoke=(spoke,),
        hub=(hub or spoke,),
        up=ways["up"],
        down=ways["down"],
        loses=losing(up=text == "spoke" or not is_total, down=text == "hub" or not is_total),
        forget=None if acknowledge is None else _IsExact(read),
        acknowledge=acknowledge,
        standard=Standard(
            shapes={text: (_QUANTITY,), opposite(text): ({"type": number},)},
            quick=shortcuts(
                text, Remembered(_QuickQuantity(size, canonical_suffixes(form))), _quick_text(write, unit, form)
            ),
            check=_Check(text, unit, otherwise, "quantity"),
            image=_quantity_text if text == "hub" else None,
        ),
        defects=(
            *choices(
                unit=(unit, QuantityUnit),
                text=(text, Side),
                number=(number, NumberType),
                rounding=(rounding, Rounding),
                format=(form, QuantityFormat),
            ),
            *_without_spelling(text, acknowledge),
        ),
    )


def _quantity_text(_sources: Sequence[Shape | None]) -> Sequence[Shape]:
    return (TEXT,)


@dataclass(frozen=True, slots=True)
class _Read:
    """Converts the text to the number. ``size`` is the size of the unit, in the results of ``parse``."""

    parse: Callable[[str], int | None]
    size: int
    number: NumberType
    rounding: Rounding
    otherwise: int | float | None
    numbers_are_texts: bool
    templates: bool = True

    def __call__(self, value: Any) -> Any:
        amount = self.amount(value)
        if amount is None and (value.__class__ is not str or (self.templates and has_template(value))):
            return value
        found = None if amount is None else whole(amount, self.number, self.rounding)
        return found if found is not None else ABSENT if self.otherwise is None else self.otherwise

    def amount(self, value: Any) -> Fraction | None:
        """Return how many units a text or number stands for; None if it stands for none."""
        amount: int | Fraction | None
        if value.__class__ is str:
            amount = self.parse(value)
        else:
            amount = number_of(value) if self.numbers_are_texts else None
            amount = None if amount is None else amount * BILLIONTHS[""]
        return None if amount is None else Fraction(amount, self.size)


@dataclass(frozen=True, slots=True)
class _IsExact:
    """Whether the number has the whole meaning of a text, so that nothing but its spelling is lost."""

    read: _Read

    def __call__(self, value: Any) -> bool:
        amount = self.read.amount(value)
        return amount is not None and amount == number_of(self.read(value))


def _without_spelling(text: Side, acknowledge: str | None) -> tuple[tuple[str, str], ...]:
    if acknowledge is None or text == "spoke":
        return ()
    remedy = "Remove acknowledge=: the stash keeps each spelling of the hub"
    return (("has acknowledge= for a text of the hub", remedy),)


@dataclass(frozen=True, slots=True)
class _Write:
    """Converts the number to the text."""

    text: Callable[[int], str | None]
    size: int

    def __call__(self, value: Any) -> Any:
        if value.__class__ is not int:
            exact = number_of(value)
            if exact is None:
                return value
            amount = rounded(exact * self.size, "nearest")
        else:
            amount = value * self.size
        text = self.text(amount) if -_LARGEST < amount < _LARGEST else None
        return ABSENT if text is None else text


@dataclass(frozen=True, slots=True)
class _PrintQuantity:
    form: QuantityFormat

    def __call__(self, billionths: int) -> str | None:
        return print_quantity(billionths, self.form)


@dataclass(frozen=True, slots=True)
class _QuickDuration:
    """Returns the number for a canonical text of whole seconds."""

    size: int

    def __call__(self, value: Any) -> Any:
        seconds = canonical_seconds(value) if value.__class__ is str else None
        if seconds is None:
            return ABSENT
        amount, rest = divmod(seconds * 1_000_000_000, self.size)
        return amount if not rest and amount < INTEGERS else ABSENT


@dataclass(frozen=True, slots=True)
class _QuickQuantity:
    """Returns the number for a canonical text; ``suffixes`` is ``canonical_suffixes`` of the format."""

    size: int
    suffixes: Mapping[str, tuple[int, int, int]]

    def __call__(self, value: Any) -> Any:
        if value.__class__ is not str:
            return ABSENT
        known, digits = self.suffixes.get(value[-2:]), value[:-2]
        if known is None:
            known, digits = self.suffixes.get(value[-1:]), value[:-1]
        if known is None or not digits.isdecimal() or not digits.isascii() or digits[0] == "0":
            return ABSENT
        size, step, limit = known
        amount = int(digits) if len(digits) < _MOST_DIGITS else limit
        if amount >= limit or not amount % step or size * amount % self.size:
            return ABSENT
        found = size * amount // self.size
        return found if found < INTEGERS else ABSENT


@dataclass(frozen=True, slots=True)
class _QuickBinary:
    """Returns the text of a positive number of a binary unit; ``suffixes`` are those from the unit on."""

    suffixes: tuple[str, ...]
    limit: int

    def __call__(self, value: Any) -> Any:
        if value.__class__ is not int or not 0 < value < self.limit:
            return ABSENT
        index = 0
        while not value & 1023:
            value >>= 10
            index += 1
        return f"{value}{self.suffixes[index]}"


def _quick_text(write: _Write, unit: str, form: QuantityFormat) -> Callable[[Any], Any]:
    if form != "binary" or unit not in _BINARY_UNITS:
        return _QuickText(write)
    place = _BINARY_UNITS.index(unit)
    return _QuickBinary(_BINARY_UNITS[place:], (1 << 63) >> (10 * (place + 1)))


@dataclass(frozen=True, slots=True)
class _QuickText:
    """Returns the text of an integer of 64 bits: a canonical text of a multiple of the unit, which comes back."""

    write: _Write

    def __call__(self, value: Any) -> Any:
        return self.write(value) if value.__class__ is int and is_int64(value) else ABSENT


@dataclass(frozen=True, slots=True)
class _Check:
    """Checks for units that are too small for a field, and for texts that leave a required number without a value."""

    text: Side
    unit: str
    otherwise: int | float | None
    what: str

    def __call__(self, ends: Ends) -> Iterator[Misfit]:
        number, text = ends[opposite(self.text)][0], ends[self.text][0]
        if number is None:
            return
        if self.what == "duration" and number.schema.node.get("format") == "int32" and self.unit in _TOO_SMALL:
            problem = f"is an int32, which holds no more than {_TOO_SMALL[self.unit]} in the unit {self.unit}"
            yield Misfit(opposite(self.text), 0, problem, "Choose a larger unit, or format: int64")
        if self.otherwise is None and number.required and not (text is not None and _FORMED & text.schema.node.keys()):
            problem = f"is required, but the text that it is made of may be no {self.what}"
            yield Misfit(opposite(self.text), 0, problem, "Say with otherwise= what is shown then")


#: The longest duration that an int32 can hold, by unit.
_TOO_SMALL: Final[Mapping[str, str]] = {"ns": "2.1s", "us": "36m"}
#: Keywords of a text's schema that may ensure that all values are durations or quantities.
_FORMED: Final = frozenset({"pattern", "format", "enum"})


@declared
def scale(
    spoke: str,
    hub: str | None = None,
    *,
    factor: int | float | str,  # noqa: PYI041 as above
    spoke_type: NumberType = "integer",
    hub_type: NumberType = "integer",
    rounding: Rounding = "nearest",
) -> Rule:
    """A number in another unit: ``scale("spec.sizeGB", "spec.sizeMB", factor=1024)``. The hub's number is ``factor``
    times the spoke's.

    The arithmetic is exact: 0.1 means a tenth. If an integer cannot hold the result, it shows a rounded one, or
    nothing if the result needs more than 64 bits; the stash keeps the number.

    ``hub`` is the path in the hub, if it differs.

    ``factor`` is a number, or a text with a fraction such as ``"1/3"``; not zero.

    ``spoke_type`` is the type of the spoke's field.

    ``hub_type`` is the type of the hub's field.

    ``rounding`` decides which integer stands for a result with a fraction.
    """
    ratio = _ratio(factor)
    exact = ratio or Fraction(1)
    up, down = _Times(exact, hub_type, rounding), _Times(1 / exact, spoke_type, rounding)
    is_total = spoke_type == hub_type == "integer" and exact == 1
    defects = choices(
        spoke_type=(spoke_type, NumberType), hub_type=(hub_type, NumberType), rounding=(rounding, Rounding)
    )
    if not ratio:
        defects = (*defects, (f"has factor={factor!r}", 'Give a number that is not zero, or a fraction such as "1/3"'))
    return Lens(
        spoke=(spoke,),
        hub=(hub or spoke,),
        up=up,
        down=down,
        loses=losing(up=not is_total, down=not is_total),
        standard=Standard(
            shapes={"spoke": ({"type": spoke_type},), "hub": ({"type": hub_type},)},
            quick={"up": _times(exact), "down": _times(1 / exact)},
        ),
        defects=defects,
    )


def _ratio(factor: Any) -> Fraction | None:
    try:
        return Fraction(factor) if isinstance(factor, str) else number_of(factor)
    except (ValueError, ZeroDivisionError):
        return None


def _times(factor: Fraction) -> Inline:
    """Return a shortcut that multiplies an integer by the factor if both have 64 bits: the number comes back."""
    most = min(INTEGERS - 1, int((INTEGERS - 1) / abs(factor)))
    is_whole = f"VALUE.__class__ is int and {-most} <= VALUE <= {most}"
    times = "VALUE" if factor.numerator == 1 else f"VALUE * {factor.numerator}"
    if factor.denominator == 1:
        return Inline(is_whole, times)
    return Inline(f"{is_whole} and not {times} % {factor.denominator}", f"{times} // {factor.denominator}")


@dataclass(frozen=True, slots=True)
class _Times:
    """Multiplies a number by a factor."""

    factor: Fraction
    number: NumberType
    rounding: Rounding

    def __call__(self, value: Any) -> Any:
        exact = number_of(value)
        if exact is None:
            return value
        result = whole(exact * self.factor, self.number, self.rounding)
        if result is None:
            return ABSENT
        keeps = value.__class__ is float and value.is_integer() and abs(result) <= _EXACT_FLOAT
        return float(result) if keeps else result

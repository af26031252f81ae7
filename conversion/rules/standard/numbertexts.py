"""Durations and quantities as texts: parsed and printed exactly as Go and Kubernetes do.

Durations (``1h30m``, ``1.5s``, ``100µs``) are counted in nanoseconds. Source: Go's ``time.ParseDuration`` and
``time.Duration.String``, which Kubernetes' ``metav1.Duration`` uses, down to the rounding of long fractions.

Quantities (``500m``, ``1Gi``, ``1.5e3``) are counted in billionths. Source: apimachinery ``pkg/api/resource``
(``ParseQuantity``, ``CanonicalizeBytes``). A value finer than a billionth is rounded up there, and a binary one ends at
2^63-1.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

#: The suffixes of quantities; the empty text is one of them.
QuantityUnit = Literal["n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
#: The printed form of a quantity: ``2k``, ``2Ki`` (if it is an integer of at least 1024) or ``2e3``.
QuantityFormat = Literal["decimal", "binary", "exponent"]

_ONE: Final = 10**9
BILLIONTHS: Final[Mapping[QuantityUnit, int]] = {
    "n": 1,
    "u": 10**3,
    "m": 10**6,
    "": _ONE,
    "k": 10**12,
    "M": 10**15,
    "G": 10**18,
    "T": 10**21,
    "P": 10**24,
    "E": 10**27,
    "Ki": _ONE << 10,
    "Mi": _ONE << 20,
    "Gi": _ONE << 30,
    "Ti": _ONE << 40,
    "Pi": _ONE << 50,
    "Ei": _ONE << 60,
}
_DECIMAL: Final[Mapping[int, str]] = {
    -9: "n",
    -6: "u",
    -3: "m",
    0: "",
    3: "k",
    6: "M",
    9: "G",
    12: "T",
    15: "P",
    18: "E",
}
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_FORM: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?")
_LARGEST_BINARY: Final = (2**63 - 1) * _ONE
#: Longer texts and larger exponents are not realistic quantities: an exponent alone could fill the memory.
_LONGEST: Final = 200
_LARGEST_EXPONENT: Final = 200
_SMALLEST_BINARY: Final = 1024
_STEP: Final = 1000


def parse_quantity(text: str) -> int | None:
    """Return the billionths of a quantity, None if Kubernetes would refuse the text."""
    match = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    sign, digits, decimals, suffix = match[1], match[2], match[3] or "", match[4] or ""
    if not digits and not decimals:
        return None
    amount, shift = int(digits + decimals), -len(decimals)
    is_binary = suffix.endswith("i")
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and not is_binary:
        exponent = int(suffix[1:])
        if abs(exponent) > _LARGEST_EXPONENT:
            return None
        size = _scaled(amount * _ONE, exponent + shift)
    else:
        size = _scaled(amount * BILLIONTHS[suffix], shift)  # type: ignore[index]
    if is_binary:
        size = min(size, _LARGEST_BINARY)
    return -size if sign == "-" else size


def _scaled(amount: int, exponent: int) -> int:
    """Return an amount times a power of ten, rounded up."""
    return amount * int(10**exponent) if exponent >= 0 else -(-amount // int(10**-exponent))


def print_quantity(billionths: int, form: QuantityFormat) -> str | None:
    """Return the canonical text, None if no suffix can express it."""
    if not billionths:
        return "0"
    sign, size = ("-", -billionths) if billionths < 0 else ("", billionths)
    if form == "binary" and size >= _SMALLEST_BINARY * _ONE and size % _ONE == 0:
        if size > _LARGEST_BINARY:
            return None
        amount, index = size // _ONE, 0
        while amount % _SMALLEST_BINARY == 0:
            amount, index = amount // _SMALLEST_BINARY, index + 1
        return f"{sign}{amount}{_BINARY[index]}"
    exponent = -9
    while size % _STEP == 0:
        size, exponent = size // _STEP, exponent + 3
    if form == "exponent":
        return f"{sign}{size}e{exponent}" if exponent else f"{sign}{size}"
    suffix = _DECIMAL.get(exponent)
    return None if suffix is None else f"{sign}{size}{suffix}"


def canonical_suffixes(form: QuantityFormat) -> Mapping[str, tuple[int, int, int]]:
    """Return the suffixes of canonical texts, each with three numbers.

    These are the suffix's billionths, a number whose multiples never have the suffix, and the smallest amount that is
    too large for it.
    """
    if form == "exponent":
        return {}
    step, most = (_STEP, 10**18) if form == "decimal" else (_SMALLEST_BINARY, _LARGEST_BINARY)
    units = {unit: size for unit, size in BILLIONTHS.items() if unit and unit.endswith("i") == (form == "binary")}
    return {unit: (size, step, most if form == "decimal" else most // size) for unit, size in units.items()}


#: ``d`` is a day of 24 hours; Go's texts have no days.
DurationUnit = Literal["ns", "us", "ms", "s", "m", "h", "d"]

NANOSECONDS: Final[Mapping[DurationUnit, int]] = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_UNITS: Final[Mapping[str, int]] = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART: Final = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]+)")
_LIMIT: Final = 1 << 63
#: Longer texts are not realistic durations.
_LONGEST_DURATION: Final = 200

#: The canonical text of a duration of whole seconds.
_CANONICAL: Final = re.compile(r"(?:(?:([1-9][0-9]{0,5})h)?([1-5]?[0-9])m)?([1-5]?[0-9])s")


def parse_duration(text: str) -> int | None:
    """Return the nanoseconds of a duration, None if Go would refuse the text."""
    if len(text) > _LONGEST_DURATION:
        return None
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text[1:] if text[:1] == "+" else text)
    if rest == "0":
        return 0
    position = total = 0
    while position < len(rest):
        part = _PART.match(rest, position)
        unit = None if part is None else _UNITS.get(part[3])
        if part is None or unit is None or not (part[1] or len(part[2] or "") > 1):
            return None
        amount = int(part[1] or 0)
        if amount > _LIMIT // unit:
            return None
        amount *= unit
        if part[2] and len(part[2]) > 1:
            amount += _fraction(part[2][1:], unit)
        total += amount
        if amount > _LIMIT or total > _LIMIT:
            return None
        position = part.end()
    if not position or (total == _LIMIT and sign > 0):
        return None
    return sign * total


def _fraction(digits: str, unit: int) -> int:
    """Return a fraction of a unit as Go computes it, in floating point and without digits beyond 63 bits."""
    value, scale = 0, 1.0
    for digit in digits:
        if value > (_LIMIT - 1) // 10 or value * 10 + int(digit) > _LIMIT:
            break
        value = value * 10 + int(digit)
        scale *= 10
    return int(float(value) * (float(unit) / scale)) if value else 0


def print_duration(nanoseconds: int) -> str | None:
    """Return the canonical text, None if Go cannot hold the duration (about 292 years)."""
    if not -_LIMIT <= nanoseconds < _LIMIT:
        return None
    sign, size = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if size < NANOSECONDS["s"]:
        return sign + _below_a_second(size)
    minutes, rest = divmod(size, NANOSECONDS["m"])
    seconds = _decimal(rest, NANOSECONDS["s"])
    if not minutes:
        return f"{sign}{seconds}s"
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}h{minutes}m{seconds}s" if hours else f"{sign}{minutes}m{seconds}s"


def _below_a_second(size: int) -> str:
    if not size:
        return "0s"
    if size < NANOSECONDS["us"]:
        return f"{size}ns"
    if size < NANOSECONDS["ms"]:
        return f"{_decimal(size, NANOSECONDS['us'])}µs"
    return f"{_decimal(size, NANOSECONDS['ms'])}ms"


def _decimal(size: int, unit: int) -> str:
    whole, rest = divmod(size, unit)
    if not rest:
        return str(whole)
    fraction = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0")
    return f"{whole}.{fraction}"


def canonical_seconds(text: str) -> int | None:
    """Return the seconds of a canonical text of whole seconds, None if it is another text."""
    match = _CANONICAL.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = match.groups()
    if minutes is None:
        return int(seconds)
    if hours is None:
        return None if minutes == "0" else int(minutes) * 60 + int(seconds)
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds)

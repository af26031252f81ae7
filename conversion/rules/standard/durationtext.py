"""Durations as Go writes them: ``1h30m``, ``1.5s``, ``100µs``, in nanoseconds.

Source: Go's ``time.ParseDuration`` and ``time.Duration.String``, which Kubernetes' ``metav1.Duration`` uses. The
arithmetic is theirs, down to the rounding of long fractions.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

__all__ = ["NANOSECONDS", "DurationUnit", "canonical_seconds", "parse_duration", "print_duration"]


#: ``d`` is a day of 24 hours; Go's texts know no days.
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
#: Longer texts are no durations that anybody wrote.
_LONGEST: Final = 200

#: The canonical text of a duration of whole seconds.
_CANONICAL: Final = re.compile(r"(?:(?:([1-9][0-9]{0,5})h)?([1-5]?[0-9])m)?([1-5]?[0-9])s")


def parse_duration(text: str) -> int | None:
    """Return the nanoseconds of a duration, None if Go would refuse the text."""
    if len(text) > _LONGEST:
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

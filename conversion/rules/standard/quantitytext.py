"""Kubernetes' quantities: ``500m``, ``1Gi``, ``1.5e3``, in billionths.

Source: apimachinery ``pkg/api/resource`` (``ParseQuantity``, ``CanonicalizeBytes``). A value finer than a billionth is
rounded up there, and a binary one ends at 2^63-1.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

__all__ = ["BILLIONTHS", "QuantityFormat", "QuantityUnit", "canonical_suffixes", "parse_quantity", "print_quantity"]


#: The suffixes of quantities; the empty text is one.
QuantityUnit = Literal["n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
#: How a quantity is printed: ``2k``, ``2Ki`` (if it is a whole number from 1024 on) or ``2e3``.
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
#: Beyond these, a text is no quantity that anybody wrote: an exponent alone could fill the memory.
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
    """Return the canonical text, None if there is no suffix for it."""
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
    """Return the suffixes of canonical texts: their billionths, a number no multiple of which has the suffix, and the
    least amount that is too large for it.
    """
    if form == "exponent":
        return {}
    step, most = (_STEP, 10**18) if form == "decimal" else (_SMALLEST_BINARY, _LARGEST_BINARY)
    units = {unit: size for unit, size in BILLIONTHS.items() if unit and unit.endswith("i") == (form == "binary")}
    return {unit: (size, step, most if form == "decimal" else most // size) for unit, size in units.items()}

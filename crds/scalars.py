"""YAML scalars as kubectl reads them, resolved to JSON values.

kubectl follows neither YAML 1.1 nor 1.2: ``y`` is true, a date stays a string, ``=`` is a string, ``1:30`` is not a
number, and an integer beyond 64 bits becomes a float. Source: sigs.k8s.io/yaml and its copy of go-yaml.

Pure.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

_TAGS: Final = "tag:yaml.org,2002:"
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NO_NUMBER: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[oO]?([0-7]+)|0[bB]([01]+)|(0|[1-9][0-9]*))")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DATE: Final = re.compile(r"[0-9]{4}-")
_INT64, _UINT64 = 2**63, 2**64


class NotRepresentable(ValueError):
    """An error: JSON cannot represent this YAML. The message names the kind of YAML, never its value."""


def resolve(text: str, *, plain: bool, tag: str | None = None) -> Any:
    """Return the JSON value of a scalar; ``plain`` marks a scalar without quotes.

    Raises:
        NotRepresentable: JSON cannot represent the value.
    """
    if tag is not None and tag != "!":
        return _tagged(text, tag)
    return _plain(text) if plain and tag is None else text


def key_text(value: Any) -> str:
    """Return the field name that a YAML key with this value stands for.

    Raises:
        NotRepresentable: the key is null, a list or an object.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    raise NotRepresentable("a key that is no text")


def _tagged(text: str, tag: str) -> Any:
    name = tag.removeprefix(_TAGS)
    if name in ("str", "timestamp"):
        return text
    value = _plain(text)
    fits = {
        "null": value is None,
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
    }
    if not fits.get(name, False):
        raise NotRepresentable(f"a scalar with the tag {tag[:100]}")
    return value


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _NO_NUMBER.fullmatch(text):
        raise NotRepresentable("a number that JSON does not have")
    if text[0] == ".":
        return _float(text)
    if _DATE.match(text):
        return text
    return _number(text)


def _number(text: str) -> Any:
    digits = text.replace("_", "")
    found = _INTEGER.fullmatch(digits)
    if found is None:
        return _float(digits, otherwise=text)
    sign, hexadecimal, octal, binary, decimal = found.groups()
    size = next(
        int(each, base)
        for each, base in ((hexadecimal, 16), (octal, 8), (binary, 2), (decimal, 10))
        if each is not None
    )
    value = -size if sign == "-" else size
    if -_INT64 <= value < _INT64 or (not sign and value < _UINT64):
        return value
    return _float(digits, otherwise=text)


def _float(text: str, *, otherwise: str | None = None) -> Any:
    if not _FLOAT.fullmatch(text) or math.isinf(float(text)):
        return text if otherwise is None else otherwise
    value = float(text)
    return int(value) if value.is_integer() and -_INT64 <= value < _INT64 else value

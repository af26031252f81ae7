"""Values as an API server accepts them: strategies for scalars, and checks of a value against its schema.

Strategies follow bounds, patterns and formats. ``is_admitted`` also checks ``oneOf``, ``anyOf``, ``allOf`` and ``not``,
which in a structural schema hold value validations only: required fields, enums, bounds, patterns and the like. A
constraint that cannot be checked here (a pattern without a counterpart in Python, CEL) counts as met.

Sources: apiextensions ``validation.go`` (formats that are checked), kube-openapi ``strfmt`` and ``validate`` (what each
of them accepts; ``maxLength`` counts code points; patterns are RE2, unanchored).
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hypothesis import strategies as st

from restow.conversion.model.fieldpath import Steps
from restow.conversion.model.values import same
from restow.conversion.testing.re2 import NotTranslatable, translate
from restow.crds import Schema
from restow.crds.ownedpaths import children

Strategy = st.SearchStrategy[Any]

#: Includes the name of the namespace, so that functions that compare with metadata meet both cases.
TEXTS: Final = ("", "a", "default", "é", "<&>\u2028", "日本", "\U0001f6a2", '"\\/\n\t')

_INT64: Final = (-(2**63), 2**63 - 1)
_INT32: Final = (-(2**31), 2**31 - 1)
_TIMES: Final = (
    "2024-02-29T00:00:00Z",
    "1970-01-01T00:00:00Z",
    "2031-12-31T23:59:59Z",
    "2026-06-30T12:30:00.123456Z",
    "2026-06-30T12:30:00+05:30",
)
_UUID: Final = "7d0ca1b8-5a3c-{}e1f-9b2d-0123456789ab"

#: Examples of each format, including edge cases. Servers do not check formats that are not listed here.
_FORMATS: Final[Mapping[str, tuple[str, ...]]] = {
    "date-time": _TIMES,
    "datetime": _TIMES,
    "date": ("2024-02-29", "1970-01-01", "2031-12-31"),
    "duration": ("0s", "300ms", "90s", "1h30m", "1.5h", "5m0s", "36h", "-1m", "1us"),
    "ipv4": ("0.0.0.0", "10.0.0.1", "255.255.255.255"),  # noqa: S104  # an address in an object, nothing listens
    "ipv6": ("::", "::1", "2001:db8::a:1"),
    "cidr": ("10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32"),
    "mac": ("00:00:5e:00:53:01", "02:42:ac:11:00:02"),
    "email": ("a@example.dev", "first.last+tag@mail.example.dev"),
    "hostname": ("a", "example.dev", "a-b.c1.example.dev"),
    "uri": ("https://example.dev", "http://10.0.0.1:8080/a?b=c", "/path"),
    "uuid": (_UUID.format(4), "00000000-0000-0000-0000-000000000000"),
    "uuid3": (_UUID.format(3),),
    "uuid4": (_UUID.format(4),),
    "uuid5": (_UUID.format(5),),
    "byte": ("", "YQ==", "AAEC/w=="),
    "bsonobjectid": ("507f1f77bcf86cd799439011",),
    "isbn": ("978-3-16-148410-0", "0-306-40615-2"),
    "isbn10": ("0-306-40615-2",),
    "isbn13": ("978-3-16-148410-0",),
    "creditcard": ("4111111111111111",),
    "ssn": ("123-45-6789",),
    "hexcolor": ("#fff", "#00ff7F"),
    "rgbcolor": ("rgb(0,0,0)", "rgb(255,128,1)"),
    "k8s-short-name": ("a", "a-1", "x" * 63),
    "k8s-long-name": ("a", "a-1.example.dev"),
}


def characters() -> st.SearchStrategy[str]:
    """Return a strategy for the characters of JSON: all of Unicode except surrogates."""
    return st.characters(exclude_categories=["Cs"])


def strings(node: Mapping[str, Any]) -> Strategy:
    """Return a strategy for the strings of a schema's node.

    A pattern that is no RE2 matches nothing on a server; for a pattern that cannot be translated, the known texts are
    tried.
    """
    low, high = node.get("minLength", 0), node.get("maxLength", math.inf)
    pattern = node.get("pattern")
    known = _FORMATS.get(node.get("format", ""))
    try:
        matches = None if pattern is None else re.compile(translate(pattern))
    except NotTranslatable as error:
        message = f"strings of the pattern {pattern!r} cannot be generated: {error}. Give a strategy in overrides="
        warnings.warn(message, stacklevel=2)
        return st.sampled_from([text for text in (known or TEXTS) if low <= len(text) <= high] or ["a" * low])

    def fits(text: str) -> bool:
        return low <= len(text) <= high and (matches is None or matches.search(text) is not None)

    texts = [text for text in known or TEXTS if fits(text)]
    if known is not None and (texts or matches is None):
        return st.sampled_from(texts or known)
    if matches is not None:
        return st.from_regex(matches, fullmatch=False).filter(fits)
    free = st.text(characters(), min_size=low, max_size=min(high, low + 8))
    return st.one_of(st.sampled_from(texts), free) if texts else free


def integers(node: Mapping[str, Any]) -> Strategy:
    """Return a strategy for the integers of a schema's node, including the bounds."""
    low, high = _bounds(node, *(_INT32 if node.get("format") == "int32" else _INT64))
    step = _whole(node.get("multipleOf"))
    if step:
        return st.integers(-(-low // step), high // step).map(lambda value: value * step)
    border = [value for value in (0, 1, -1, low, high) if low <= value <= high]
    return st.one_of(st.sampled_from(border), st.integers(low, high)) if border else st.integers(low, high)


def floats(node: Mapping[str, Any]) -> Strategy:
    """Return a strategy for the numbers of a schema's node: integers and others."""
    low, high = node.get("minimum"), node.get("maximum")
    step = node.get("multipleOf")
    whole = integers(node) if _has_whole(node) else None
    if step:
        first, last = (None if end is None else math.floor(end / step) for end in (low, high))
        multiples = st.integers(-1000 if first is None else first, 1000 if last is None else last)
        return multiples.map(lambda count: count * step).filter(
            lambda value: _between(value, node) and float(value / step).is_integer()
        )
    others = st.floats(
        min_value=low,
        max_value=high,
        exclude_min=bool(node.get("exclusiveMinimum")) and low is not None,
        exclude_max=bool(node.get("exclusiveMaximum")) and high is not None,
        allow_nan=False,
        allow_infinity=False,
        width=32 if node.get("format") == "float" and low is None and high is None else 64,
    )
    return others if whole is None else st.one_of(whole, others)


def _has_whole(node: Mapping[str, Any]) -> bool:
    low, high = _bounds(node, *_INT64)
    return low <= high and not node.get("multipleOf")


def _bounds(node: Mapping[str, Any], low: int, high: int) -> tuple[int, int]:
    if "minimum" in node:
        border = node["minimum"]
        low = max(low, math.floor(border) + 1 if node.get("exclusiveMinimum") else math.ceil(border))
    if "maximum" in node:
        border = node["maximum"]
        high = min(high, math.ceil(border) - 1 if node.get("exclusiveMaximum") else math.floor(border))
    return low, high


def _whole(step: float | None) -> int:
    """Return the smallest integer multiple of a step that may be a fraction such as 0.5; 0 without one."""
    if not step:
        return 0
    numerator, _ = float(step).as_integer_ratio()
    return int(step) if float(step).is_integer() else numerator


def _between(value: float, node: Mapping[str, Any]) -> bool:
    low, high = float(node.get("minimum", -math.inf)), float(node.get("maximum", math.inf))
    if (value == low and node.get("exclusiveMinimum")) or (value == high and node.get("exclusiveMaximum")):
        return False
    return low <= value <= high


def is_admitted(value: Any, node: Mapping[str, Any]) -> bool:
    """Return whether a value meets the validations of a node and those in its unions."""
    return next(_problems(value, node), None) is None


def bound_problems(value: Any, node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the bounds of the node itself that the value violates, as keywords such as ``maximum``."""
    match value:
        case bool() | None:
            return
        case int() | float():
            yield from _number(value, node)
        case str():
            yield from _sizes(len(value), node, "Length")
            if not _matches(value, node.get("pattern")):
                yield "pattern"
        case list():
            yield from _sizes(len(value), node, "Items")
        case dict():
            yield from _sizes(len(value), node, "Properties")


def out_of_bounds(value: Any, schema: Schema, place: Steps = ()) -> Iterator[tuple[Steps, Any, str]]:
    """Yield (place, value, keyword) for each value of an object that violates a bound of its schema."""
    for keyword in bound_problems(value, schema.node):
        yield place, value, keyword
    for step, child, below in children(value, schema):
        if below is not None and child is not None:
            yield from out_of_bounds(child, below, (*place, step))


def _problems(value: Any, node: Mapping[str, Any]) -> Iterator[str]:
    yield from bound_problems(value, node)
    if "enum" in node and not any(same(value, each) for each in node["enum"]):
        yield "enum"
    if isinstance(value, dict):
        yield from (name for name in node.get("required") or () if name not in value)
        for name, below in (node.get("properties") or {}).items():
            if name in value and value[name] is not None:
                yield from _problems(value[name], below)
    if isinstance(value, list) and isinstance(node.get("items"), Mapping):
        for item in value:
            yield from _problems(item, node["items"])
    yield from _union_problems(value, node)


def _union_problems(value: Any, node: Mapping[str, Any]) -> Iterator[str]:
    if "not" in node and is_admitted(value, node["not"]):
        yield "not"
    if not all(is_admitted(value, each) for each in node.get("allOf") or ()):
        yield "allOf"
    if node.get("anyOf") and not any(is_admitted(value, each) for each in node["anyOf"]):
        yield "anyOf"
    if node.get("oneOf") and sum(is_admitted(value, each) for each in node["oneOf"]) != 1:
        yield "oneOf"


def _number(value: float, node: Mapping[str, Any]) -> Iterator[str]:
    low, high, step = node.get("minimum"), node.get("maximum"), node.get("multipleOf")
    if low is not None and (value < low or (value == low and node.get("exclusiveMinimum"))):
        yield "minimum"
    if high is not None and (value > high or (value == high and node.get("exclusiveMaximum"))):
        yield "maximum"
    if step and not float(value / step).is_integer():
        yield "multipleOf"


def _sizes(size: int, node: Mapping[str, Any], what: str) -> Iterator[str]:
    if size < node.get(f"min{what}", 0):
        yield f"min{what}"
    if size > node.get(f"max{what}", size):
        yield f"max{what}"


def _matches(text: str, pattern: str | None) -> bool:
    if pattern is None:
        return True
    try:
        return re.search(translate(pattern), text) is not None
    except NotTranslatable:
        return True

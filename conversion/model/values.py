"""JSON values: the mark of a missing field, JSON equality, and canonical bytes.

Python's ``==`` treats 1, 1.0 and True as equal. JSON and the API server do not, and a conversion that confused them
would change stored bytes without need.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from math import isfinite
from typing import Any, Final, Literal

import msgspec

from restow.conversion.model import deepjson

Json = dict[str, Any]


class Absent(Enum):
    """The type of ``ABSENT``."""

    ABSENT = "absent"

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "ABSENT"


#: A missing field, as opposed to null. Falsy.
ABSENT: Final = Absent.ABSENT

#: The API server has integers of 64 bits, below this bound; a larger number becomes a float.
INTEGERS: Final = 2**63

_SCALARS: Final = frozenset({str, int, bool, float, type(None), Absent})
_NUMBERS: Final = frozenset({int, float})
_encode = msgspec.json.Encoder(order="sorted").encode


def is_int64(number: float) -> bool:
    """Return whether an API server keeps a number of this size as an integer, in 64 bits."""
    return -INTEGERS <= number < INTEGERS


def same(left: Any, right: Any) -> bool:
    """Return whether two values are the same JSON: equal, with integers, floats and booleans distinguished."""
    if left is right:
        return True
    if left.__class__ in _SCALARS:
        return left.__class__ is right.__class__ and bool(left == right)
    try:
        return _same(left, right)
    except RecursionError:
        return _are_deeply(_same, left, right)


def _same(left: Any, right: Any) -> bool:
    if left.__class__ in _SCALARS:
        return left.__class__ is right.__class__ and bool(left == right)
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        for name, value in left.items():
            other = right.get(name, ABSENT)
            if other is not value and not _same(value, other):
                return False
        return True
    if not isinstance(left, list) or not isinstance(right, list) or len(left) != len(right):
        return False
    for value, other in zip(left, right, strict=True):  # noqa: SIM110 no generators on the hot path
        if other is not value and not _same(value, other):
            return False
    return True


def alike(left: Any, right: Any) -> bool:
    """Return whether two values are the same except for the spelling of numbers: the API server turns 1.0 into 1."""
    try:
        return _alike(left, right)
    except RecursionError:
        return _are_deeply(_alike, left, right)


def _alike(left: Any, right: Any) -> bool:
    if left.__class__ in _NUMBERS and right.__class__ in _NUMBERS:
        return bool(left == right) or (left.__class__ is not right.__class__ and _are_one_float(left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_alike(value, right[name]) for name, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_alike, left, right))
    return same(left, right)


def _are_one_float(left: Any, right: Any) -> bool:
    """Return whether two numbers beyond 64 bits are the same float, of which the API server prints rounded digits."""
    try:
        return bool(abs(left) >= INTEGERS and float(left) == float(right))
    except OverflowError:
        return False


def _are_deeply(are: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    """Compare parts that are nested too deeply for recursion; ``are`` compares all others."""
    pairs = [(left, right)]
    while pairs:
        left, right = pairs.pop()
        if left is right:
            continue
        if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
            pairs += [(value, right[name]) for name, value in left.items()]
        elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            pairs += zip(left, right, strict=True)
        elif isinstance(left, dict | list) or isinstance(right, dict | list) or not are(left, right):
            return False
    return True


def canonical(value: Any) -> bytes:
    """Return the one JSON text of a value: keys sorted, no spaces.

    Raises:
        TypeError: JSON cannot represent the value (raised by msgspec).
    """
    try:
        return _encode(value)
    except RecursionError:
        return deepjson.encode(value, _encode)


def is_json(value: Any) -> bool:
    """Return whether JSON can represent a value, and the value has only Python's own types for JSON."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and is_json(child) for name, child in value.items())
    if isinstance(value, list):
        return all(map(is_json, value))
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))


def plain(value: Any) -> Any:
    """Return a value with its numbers as the API server spells them: 1 instead of 1.0."""
    try:
        return _plain(value)
    except RecursionError:
        return _plain_deeply(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_plain(child) for child in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain_deeply(value: Any) -> Any:
    whole = [value]
    todo: list[Any] = [whole]
    budget = deepjson.MOST_INSIDE
    while todo:
        parent, budget = todo.pop(), budget - 1
        if not budget:  # an author's function may return a value that contains itself
            raise MemoryError
        for key, child in parent.items() if isinstance(parent, dict) else enumerate(parent):
            if isinstance(child, dict | list):
                parent[key] = child.copy()
                todo.append(parent[key])
            else:
                parent[key] = _plain(child)
    return whole[0]


def depth(value: Any) -> int:
    """Return how deeply objects and lists are nested. It does not recurse: the value may be too deep for that."""
    deepest, level = 0, [value]
    while level:
        containers = [each for each in level if isinstance(each, dict | list)]
        level = [child for each in containers for child in (each.values() if isinstance(each, dict) else each)]
        deepest += bool(containers)
    return deepest

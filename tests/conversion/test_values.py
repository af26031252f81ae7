"""Equality as JSON means it, and as the API server spells numbers."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion.model.values import ABSENT, alike, depth, is_json, plain, same

#: two values; whether they are the same, whether they are alike
PAIRS: list[Any] = [
    (1, 1, True, True),
    (1, 1.0, False, True),
    (1, True, False, False),
    (0, False, False, False),
    (1.0, True, False, False),
    ("1", 1, False, False),
    (None, None, True, True),
    (None, ABSENT, False, False),
    (ABSENT, ABSENT, True, True),
    (None, False, False, False),
    ([], {}, False, False),
    ([1, [2]], [1, [2]], True, True),
    ([1, [2]], [1, [2.0]], False, True),
    ([1], [1, 2], False, False),
    ([1, 2], [2, 1], False, False),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True, True),
    ({"a": {"b": 1}}, {"a": {"b": 1.0}}, False, True),
    ({"a": 1}, {"a": 1, "b": None}, False, False),
    ({"a": None}, {}, False, False),
    ({"a": None}, {"b": None}, False, False),
    (2**64, 2**64, True, True),
    (2**53 + 1, float(2**53), False, False),
]


@pytest.mark.parametrize(("left", "right", "is_same", "is_alike"), PAIRS)
def test_equality(left: Any, right: Any, *, is_same: bool, is_alike: bool) -> None:
    """Python takes 1, 1.0 and True for one; a conversion that did would churn stored bytes."""
    assert (same(left, right), same(right, left)) == (is_same, is_same)
    assert (alike(left, right), alike(right, left)) == (is_alike, is_alike)


def test_plain() -> None:
    """Numbers are told apart as the server does, which turns 1.0 into 1; else a digest would not be found again."""
    assert repr(plain({"a": [1.0, 1.5, True, "1.0", None, -0.0]})) == "{'a': [1, 1.5, True, '1.0', None, 0]}"


@pytest.mark.parametrize(("value", "deep"), [(1, 0), ([], 1), ({}, 1), ([[], {"a": [1]}], 3), ({"a": 1}, 1)])
def test_depth(value: Any, deep: int) -> None:
    """The bound of a stash counts objects and lists."""
    assert depth(value) == deep


def test_depth_needs_no_stack() -> None:
    """It is asked about what is too deep for recursion."""
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert depth(value) == 100_001
    while value:  # else taking it apart would need the stack
        value = value.pop()


@pytest.mark.parametrize(
    ("value", "ok"),
    [
        ({"a": [1, 1.5, None, True, "x"]}, True),
        ({1: 2}, False),
        ([{1}], False),
        ((1,), False),
        (float("inf"), False),
        (ABSENT, False),
    ],
)
def test_is_json(value: Any, *, ok: bool) -> None:
    """What a rule would write into objects must be JSON."""
    assert is_json(value) is ok

"""Matching items of lists that a function made: by what they are."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion.manifests.edit import align

A, B, C = {"name": "a", "x": 1}, {"name": "b", "x": 1}, {"name": "c", "x": 2}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ([], [], []),
        ([], [A], [None]),
        ([A], [], []),
        (["a", "b"], ["a", "b"], [0, 1]),
        (["a", "b"], ["b", "a"], [1, 0]),
        (["a", "a"], ["a", "a"], [0, 1]),
        (["a", "b"], ["A", "B"], [0, 1]),
        (["a", "b", "c"], ["A", "c"], [None, 2]),
        ([1, True, 1.0], [1.0, 1, True], [2, 0, 1]),
        ([A, B, C], [{**C, "y": 1}, {**A, "y": 1}], [2, 0]),
        ([A, C], [{"name": "c", "x": 9}, {"name": "a", "x": 9}], [1, 0]),
        ([A, B], [{"z": 1}], [None]),
        ([A], [{"z": 1}], [0]),
        ([[1], [2]], [[3], [1]], [1, 0]),
    ],
)
def test_alignment(old: list[Any], new: list[Any], found: list[int | None]) -> None:
    """A wrong match puts one item's comments on another."""
    assert align(old, new) == found


def test_items_that_others_stand_for_are_left_out() -> None:
    """An item's lines can be written once."""
    assert align([A, A], [A, A], taken={0}) == [1, None]


def test_long_lists_do_not_take_for_ever() -> None:
    """Comparing every pair of thousands of items would; in order is then good enough."""
    old = [{"name": str(number), "x": 1} for number in range(2000)]
    assert align(old, [{**item, "y": 1} for item in old]) == list(range(2000))

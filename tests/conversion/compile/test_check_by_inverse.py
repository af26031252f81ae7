"""What the check of a conversion by its inverse takes for the same value, and what for a loss."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion import ABSENT, Registry, rules

_GROUP = "checked.example.dev"


def _converted(rule: rules.Rule, **fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an object of v1 at v2, and back at v1."""
    registry = Registry()
    registry.kind(_GROUP, "Checked", hub="v2").spoke("v1")(lambda: [rule])
    graph = registry.freeze()
    obj = {"apiVersion": f"{_GROUP}/v1", "kind": "Checked", "metadata": {"name": "c"}, **fields}
    up = graph.convert(obj, f"{_GROUP}/v2")
    return up, graph.convert(up, f"{_GROUP}/v1")


@pytest.mark.parametrize(("value", "given_back"), [(1, True), (1, 1.0), (1.0, 1), (True, 1), ("1", 1), ("a", "A")])
def test_a_value_that_only_python_takes_for_the_same_is_kept(value: Any, given_back: Any) -> None:
    """Python says that 1, 1.0 and True are equal; JSON does not, and an object would change on its way."""
    one = rules.pair("a", "b", up=lambda _value: "shown", down=lambda _value: given_back, loses="both")
    up, back = _converted(one, a=value)
    assert "annotations" in up["metadata"]
    assert (type(back["a"]), back["a"]) == (type(value), value)

    two = rules.pair(
        ("a", "c"), "b", up=lambda _fields: "shown", down=lambda _value: {"a": given_back, "c": "text"}, loses="both"
    )
    up, back = _converted(two, a=value, c="text")
    assert "annotations" in up["metadata"]
    assert (type(back["a"]), back["a"]) == (type(value), value)


@pytest.mark.parametrize("fields", [{"a": "x", "c": "y"}, {"a": "x"}, {"c": "y"}])
def test_texts_that_come_back_leave_no_stash(fields: dict[str, str]) -> None:
    """A stash for what the inverse gives back would sit in every object."""
    rule = rules.pair(("a", "c"), "b", up=lambda fields: [fields], down=lambda value: value[0], loses="both")
    up, back = _converted(rule, **fields)
    assert "annotations" not in up["metadata"]
    assert {name: back.get(name, ABSENT) for name in fields} == fields


def test_a_text_that_comes_back_among_others_is_no_loss_of_its_own() -> None:
    """A group is compared as a whole: a field more than there was is a difference, too."""
    rule = rules.pair(
        ("a", "c"), "b", up=lambda fields: fields["a"], down=lambda value: {"a": value, "c": "made up"}, loses="both"
    )
    up, back = _converted(rule, a="x")
    assert "annotations" in up["metadata"]
    assert "c" not in back

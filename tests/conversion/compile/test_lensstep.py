"""What one compiled rule of functions makes of a value, with and without an entry of the stash."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion import ABSENT, RuleFailed, rules
from restow.conversion.compile.lens import LensStep
from restow.conversion.model.errors import kept_values
from restow.conversion.model.fieldpath import parse, shown
from restow.conversion.rules.sides import Direction
from restow.crds import Schema

TEXT = {"type": "string"}


def step_of(rule: Any, direction: Direction = "up", schema: dict[str, Any] | None = None) -> LensStep:
    paths = tuple(map(parse, rule.hub if direction == "up" else rule.spoke))
    target = None if schema is None else Schema.root({"type": "object", "properties": schema})
    return LensStep.of(rule, direction, paths, (None, target), shown(paths[0]))


def never(*_arguments: Any) -> Any:
    raise AssertionError("this function is not to be called")


def upper(value: Any) -> Any:
    return value.upper()


def lower(value: Any) -> Any:
    return value.lower()


CASED: dict[str, Any] = {"up": upper, "down": lower, "loses": "up"}
"""Every text is shown in capitals; the way back has small letters."""


@pytest.mark.parametrize(
    ("entry", "target"),
    [({"is": {}}, {}), ({}, ABSENT), ({"is": None}, None)],
    ids=["an empty object", "no value", "null"],
)
def test_a_value_that_failed_comes_back_as_it_was(entry: dict[str, Any], target: Any) -> None:
    """It is kept as the client wrote it; anything else is a change that no client made."""
    step = step_of(rules.pair("a", "b", up=never, down=never, loses="both", on_error="keep"))
    assert step("v", {".b": {**entry, "failed": "pair", "shown": "v"}}, ()) == (target, None)


def test_an_edit_of_a_value_that_failed_is_converted_without_merge() -> None:
    """The author's merge knows nothing of failures, and the edit takes precedence."""
    step = step_of(rules.pair("a", "b", up=upper, down=lower, loses="both", merge=never, on_error="keep"))
    assert step("new", {".b": {"is": "x", "failed": "pair", "shown": "old"}}, ()) == ("NEW", None)


def test_a_field_that_was_absent_is_absent_again() -> None:
    """Null in its place is another value, which the schema may refuse."""
    assert step_of(rules.pair("a", "b", **CASED))("v", {".b": {"shown": "v"}}, ())[0] is ABSENT


def test_a_forged_entry_shows_nothing_where_there_is_no_value() -> None:
    """Functions are never called without a value; most raise then."""
    step = step_of(rules.pair("a", "b", up=upper, down=lower))
    assert step(ABSENT, {".b": {"is": "FORGED"}}, ()) == (ABSENT, None)


def test_a_forged_entry_does_not_replace_what_the_functions_read() -> None:
    """A value that is converted in place of an entry needs all arguments of the function."""
    rule = rules.pair(
        "a",
        "b",
        up=lambda value, name: f"{name}/{value}",
        down=lambda value, name: value.removeprefix(f"{name}/"),
        reads=["$.metadata.name"],
    )
    assert step_of(rule)("v", {".b": {"is": "forged", "shown": "v"}}, (), "own") == ("own/v", None)


@pytest.mark.parametrize("merge", [None, never])
def test_a_removed_value_stays_removed(merge: Any) -> None:
    """A client that removes the one field removes what the stash knows of it; there is nothing to merge."""
    more = {} if merge is None else {"merge": merge}
    step = step_of(rules.pair("a", "b", up=never, down=never, loses="both", **more))
    assert step(ABSENT, {".b": {"is": "x", "shown": "y"}}, ()) == (ABSENT, None)


def test_a_removed_group_is_merged_as_an_empty_one_if_the_rule_has_a_merge() -> None:
    """Only the author knows what of the other version a removed group leaves."""
    seen: list[Any] = []

    def merge(edited: Any, was: Any, kept: Any) -> Any:
        seen.append((edited, was, kept))
        return {"spec.c": 1}

    def back(fields: Any) -> Any:
        return {"spec.a": 7} if fields == {"spec.c": 2} else {}

    rule: dict[str, Any] = {"spoke": ("spec.a", "spec.b"), "hub": ("spec.c",), "up": never, "loses": "both"}
    entry = {".spec.c": {"is": {"spec.c": 2}, "shown": {"spec.a": 1}}}
    merged = step_of(rules.pair(**rule, down=back, merge=merge))
    assert merged(ABSENT, entry, ()) == ({"spec.c": 1}, None), "an empty group that comes back is none"
    assert seen == [({}, {"spec.a": 1}, {"spec.c": 2})]
    assert step_of(rules.pair(**rule, down=back))(ABSENT, entry, ()) == (ABSENT, None)
    lossy = step_of(rules.pair(**rule, down=lambda _fields: {"spec.a": 7}, merge=merge))
    assert lossy(ABSENT, entry, ()) == ({"spec.c": 1}, {"shown": {"spec.c": 1}}), "it was absent, and is shown"


@pytest.mark.parametrize(
    ("entry", "was", "kept"),
    [({"is": 1}, ABSENT, 1), ({"shown": "x"}, "x", ABSENT), ({"is": None, "shown": None}, None, None)],
)
def test_merge_gets_what_was_shown_and_what_was_kept(entry: dict[str, Any], was: Any, kept: Any) -> None:
    """If the merge got null for an absent field, it would restore a null that no client has written."""
    seen: list[Any] = []

    def merge(*arguments: Any) -> Any:
        seen.append(arguments)
        return "merged"

    step = step_of(rules.pair("a", "b", up=never, down=lower, loses="both", merge=merge))
    assert step("merged", {".b": entry}, (False,)) == ("merged", None)
    assert seen == [("merged", was, kept)]


def test_null_meets_only_the_functions_that_ask_for_it() -> None:
    """A typical function raises for null, which API servers pass on."""
    step = step_of(rules.pair("a", "b", up=never, down=never))
    assert step(None, None, ()) == (None, None)
    asking = step_of(rules.pair("a", "b", up=lambda value: [value], down=lambda value: value[0], nulls=True))
    assert asking(None, None, ()) == ([None], None)
    assert step_of(rules.enum("a", {"One": "one"})).nulls, "a table may have an entry for null"


def test_what_a_function_must_not_return_names_the_rule() -> None:
    """The author could not find the rule in a message without its name."""
    group = {"spoke": ("spec.a",), "hub": ("spec.b",), "down": never, "loses": "both"}
    for made, reason in ((1, "must return an object, not a int"), ({"spec.x": 1}, "a field that it does not claim")):
        rule = rules.pair(**group, up=lambda _fields, made=made: made)
        with pytest.raises(RuleFailed, match=reason) as caught:
            step_of(rule)({"spec.a": 1}, None, ())
        assert caught.value.rule == rule.label
    keeping = rules.pair("a", "b", up=lambda _value: {1, 2}, down=never, loses="both", on_error="keep")
    with pytest.raises(RuleFailed, match="JSON cannot represent") as caught:
        step_of(keeping)("v", None, ())
    assert caught.value.rule == keeping.label


def test_defaults_stand_in_as_the_function_would_return_them() -> None:
    """A result of another form would be written to another place, or fail the object that is to be kept."""
    spec = {"spec": {"type": "object", "properties": {"b": {**TEXT, "default": "d"}, "c": TEXT}}}
    group = step_of(rules.pair(("spec.a",), ("spec.b", "spec.c"), up=never, down=never), schema=spec)
    assert group.stand_in == {"spec.b": "d"}
    whole = step_of(rules.functions(spoke=["spec.a"], hub=["spec.b", "spec.c"], up=never, down=never), schema=spec)
    assert whole.stand_in == {"spec": {"b": "d"}}
    for rule in (
        rules.pair(("spec.a",), ("spec.c",), up=never, down=never),
        rules.pair("a", "c", up=never, down=never),
    ):
        assert step_of(rule, schema=spec).stand_in is ABSENT
    with kept_values():
        kept = rules.pair(("a",), ("spec.b",), up=lambda _fields: 1 // 0, down=never, loses="both", on_error="keep")
        made, entry = step_of(kept, schema=spec).kept(ValueError(), {"a": 1}, "/a")
    assert made == {"spec.b": "d"} and entry == {"is": {"a": 1}, "failed": kept.label, "shown": made}


@pytest.mark.parametrize(
    ("loses", "reads", "merges_up", "merges_down"),
    [
        ("up", (), False, True),
        ("down", (), True, False),
        ("both", (), True, True),
        ("both", ("spec.x",), True, False),
        ("down", ("spec.x",), True, False),
    ],
)
def test_merge_decides_edits_of_the_side_that_shows_less(
    loses: Any, reads: Any, *, merges_up: bool, merges_down: bool
) -> None:
    """Elsewhere an edit says all there is to say, and a merge would bring back what the client has changed."""
    rule = rules.pair("a", "b", up=never, down=never, loses=loses, merge=never, reads=reads)
    assert (step_of(rule, "up").merge is not None) is merges_up
    assert (step_of(rule, "down").merge is not None) is merges_down

"""The parts of a compiled rule of functions: trees of values, what is forgotten, what is said of a failure."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion import ABSENT, ObjectError, RuleFailed, rules
from restow.conversion.compile.lens import NARROW, failure, no_json, placed, too_deep, tree
from restow.conversion.model.errors import kept_values
from tests.conversion.compile.test_groups import crd
from tests.conversion.compile.test_reads import GROUP, V1, V2, Registry, graph_of, identity, thing

RULE = "pair(a <-> b)"


@pytest.mark.parametrize(
    ("values", "made"),
    [
        ((1, 2, 3), {"a": {"b": {"c": 1}, "d": 2}, "e": 3}),
        ((1, ABSENT, None), {"a": {"b": {"c": 1}}, "e": None}),
        ((ABSENT, 2, ABSENT), {"a": {"d": 2}}),
        ((ABSENT, ABSENT, ABSENT), ABSENT),
    ],
    ids=["all", "some", "one", "none"],
)
def test_a_tree_has_each_value_at_its_path(values: tuple[Any, ...], made: Any) -> None:
    """A function would get the fields of an object in another field's place, or an empty object for none."""
    assert tree((("a", "b", "c"), ("a", "d"), ("e",)), *values) == made


def test_failures_name_the_rule_and_the_place_and_no_value() -> None:
    """An author could not find the function that failed, or a value of an object would be in a log."""
    said = failure(ObjectError("must name a port"), RULE, "/spec/a")
    assert (said.reason, said.rule, said.pointer) == ("must name a port", RULE, "/spec/a")
    raised = failure(ValueError("secret"), RULE, "/spec/a")
    assert (raised.reason, raised.rule, raised.pointer) == (f"{RULE} raised ValueError", RULE, "/spec/a")
    assert isinstance(raised.__cause__, ValueError)
    for error, reason in ((no_json(RULE), "what JSON cannot represent"), (too_deep(RULE, 7), "applies to 7 levels")):
        assert RULE in error.reason and reason in error.reason and error.rule == RULE
    assert failure(RuleFailed("no", rule="inner", pointer="/x"), RULE, "/spec").rule == "inner"


LOWER: dict[str, Any] = {"up": str.lower, "down": identity, "acknowledge": "case", "loses": "up"}


@pytest.mark.parametrize(
    ("source", "is_dropped"),
    [({"a": "WRONG"}, True), ({"a": "wrong"}, False), ({"a": "Kept"}, False), ({}, False)],
    ids=["comes back differently", "comes back", "is not to be forgotten", "is not there"],
)
def test_a_value_is_forgotten_only_where_it_would_not_come_back(source: Any, is_dropped: bool) -> None:
    """``explain`` would call a value lost that comes back, or the laws would allow a loss that nobody declared."""
    rule = rules.pair("a", "b", **LOWER, forget=lambda value: value.lower() == "wrong")
    assert rule.forgets(source, source) is is_dropped
    assert not rules.pair("a", "b", up=str.lower, down=identity, loses="up").forgets(source, source)


def test_what_is_forgotten_may_depend_on_metadata() -> None:
    """A reference to the object's own namespace is dropped in it alone: without the read every one would be."""
    rule = rules.pair(
        "a",
        "b",
        up=lambda value, namespace: ABSENT if value == namespace else value,
        down=lambda value, namespace: value if value is not ABSENT else namespace.upper(),
        forget=lambda value, namespace: value == namespace,
        acknowledge="its own namespace",
        reads=["$.metadata.namespace"],
    )
    for namespace, is_dropped in (("team", True), ("other", False)):
        source = {"metadata": {"namespace": namespace}, "a": "team"}
        assert rule.forgets(source, source) is is_dropped


def test_what_comes_back_may_depend_on_metadata() -> None:
    """A name that is filled in from the object itself is not lost, and ``explain`` would say so."""
    rule = rules.pair(
        "a",
        "b",
        up=lambda value, name: value.removeprefix(f"{name}/"),
        down=lambda value, name: f"{name}/{value}",
        forget=lambda _value, _name: True,
        acknowledge="its own name",
        reads=["$.metadata.name"],
    )
    for value, is_dropped in (("own/x", False), ("x", True)):
        source = {"metadata": {"name": "own"}, "a": value}
        assert rule.forgets(source, source) is is_dropped


def test_an_empty_object_that_comes_back_is_not_forgotten() -> None:
    """It is a value of one field, other than an empty group: ``explain`` would call it lost."""
    rule = rules.pair("a", "b", up=str, down=lambda _value: {}, forget=lambda _value: True, acknowledge="all of it")
    assert not rule.forgets({"a": {}}, {}) and rule.forgets({"a": {"x": 1}}, {})


def test_several_fields_are_forgotten_together() -> None:
    """A group's function gets the fields that are there by their names; an empty group is none."""
    seen: list[Any] = []

    def forget(fields: dict[str, Any]) -> bool:
        seen.append(fields)
        return True

    def up(fields: dict[str, Any]) -> Any:
        return fields.get("spec.first", ABSENT)

    def down(value: Any) -> dict[str, Any]:
        return {"spec.first": value} if value != "gone" else {}

    rule = rules.pair(("spec.first", "spec.rest"), "spec.all", up=up, down=down, forget=forget, acknowledge="rest")
    assert rule.forgets({"spec": {"first": 1, "rest": 2}}, {})
    assert not rule.forgets({"spec": {"first": 1}}, {})
    assert rule.forgets({"spec": {"rest": 2}}, {}), "nothing is shown, so nothing comes back"
    assert rule.forgets({"spec": {"first": "gone"}}, {}), "an empty group that comes back is none"
    assert not rule.forgets({"spec": {}}, {})
    assert seen == [
        {"spec.first": 1, "spec.rest": 2},
        {"spec.first": 1},
        {"spec.rest": 2},
        {"spec.first": "gone"},
    ]


def test_a_kept_value_is_converted_with_what_the_rule_reads() -> None:
    """Where only the merge of an edit fails, the edit is converted as it is, by all arguments of the function."""

    def refuse(*_arguments: Any) -> Any:
        raise ValueError

    rule = rules.pair(
        "a",
        "a",
        up=lambda value, name: f"{name}/{value.lower()}",
        down=lambda value, name: value.removeprefix(f"{name}/"),
        merge=refuse,
        loses="both",
        reads=["$.metadata.name"],
        on_error="keep",
    )
    graph = graph_of(rule)
    shown = graph.convert(thing(V1, a="B"), V2)
    assert shown["a"] == "a/b"
    with kept_values() as kept:
        edited = graph.convert({**shown, "a": "a/c"}, V1)
    assert edited["a"] == "c" and len(kept) == 1
    assert "annotations" not in edited["metadata"], "nothing failed but the merge, so nothing has to be kept"
    assert graph.convert(edited, V2)["a"] == "a/c"


def test_a_result_whose_check_fails_is_shown_with_what_the_rule_reads() -> None:
    """The function itself did not fail; a default in its place, or nothing, would hide what it returned."""

    def refuse(_value: Any, _name: Any) -> Any:
        raise ValueError

    rule = rules.pair(
        "a", "a", up=lambda value, name: f"{name}/{value}", down=refuse, reads=["$.metadata.name"], on_error="keep"
    )
    with kept_values() as kept:
        shown = graph_of(rule).convert(thing(V1, a="b"), V2)
    assert shown["a"] == "a/b" and len(kept) == 1


def test_a_function_that_quits_ends_no_server() -> None:
    """A library that calls ``sys.exit`` on bad input would end the webhook for all objects."""

    def quit_(_value: Any) -> Any:
        raise SystemExit(3)

    rule = rules.pair("a", "b", up=quit_, down=quit_, loses="both", on_error="keep")
    with kept_values() as kept:
        shown = graph_of(rule).convert(thing(V1, a="x"), V2)
    assert "b" not in shown and len(kept) == 1
    assert graph_of(rule).convert(shown, V1)["a"] == "x"


def test_no_two_objects_share_the_default_that_stands_in() -> None:
    """A later step that edits the one object would edit the schema's default, and so all others."""

    def refuse(_value: Any) -> Any:
        raise ValueError

    whole = {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "string"}}}
    rule = rules.pair("spec.a", "spec.b", up=refuse, down=refuse, loses="both", on_error="keep")
    registry = Registry()
    registry.kind(GROUP, "Thing", hub="v2").spoke("v1")(lambda: [rule])
    graph = registry.freeze([crd({"a": whole}, {"b": {**whole, "default": {"x": {"y": "z"}}}})])
    with kept_values():
        one, other = (graph.convert(thing(V1, spec={"a": {}}), V2)["spec"]["b"] for _ in range(2))
    assert one == other == {"x": {"y": "z"}}
    one["x"]["y"] = "changed"
    assert other == {"x": {"y": "z"}}


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(NARROW - 1, NARROW - 1), (NARROW, ABSENT), (-NARROW, -NARROW), (-NARROW - 1, ABSENT)],
)
@pytest.mark.parametrize("otherwise", [None, 7])
def test_a_field_of_32_bits_shows_no_larger_number(seconds: int, shown: Any, otherwise: int | None) -> None:
    """An API server refuses the larger number, and so every read of the object at that version."""
    how = {} if otherwise is None else {"otherwise": otherwise}
    rule = rules.duration("spec.ttl", "spec.seconds", unit="s", text="spoke", **how)
    narrow = {"type": "integer", "format": "int32"}
    registry = Registry()
    registry.kind(GROUP, "Thing", hub="v2").spoke("v1")(lambda: [rule])
    graph = registry.freeze([crd({"ttl": {"type": "string"}}, {"seconds": narrow})])
    there = graph.convert(thing(V1, spec={"ttl": f"{seconds}s"}), V2)
    wanted = otherwise if shown is ABSENT and otherwise is not None else shown
    assert there.get("spec", {}).get("seconds", ABSENT) == wanted
    assert graph.convert(there, V1)["spec"] == {"ttl": f"{seconds}s"}


@pytest.mark.parametrize("otherwise", [None, 7])
def test_a_text_that_is_no_number_shows_none_in_a_field_of_32_bits(otherwise: int | None) -> None:
    """One such text would fail the list that its object is in."""
    how = {} if otherwise is None else {"otherwise": otherwise}
    rule = rules.duration("spec.ttl", "spec.seconds", unit="s", text="spoke", **how)
    registry = Registry()
    registry.kind(GROUP, "Thing", hub="v2").spoke("v1")(lambda: [rule])
    graph = registry.freeze([crd({"ttl": {"type": "string"}}, {"seconds": {"type": "integer", "format": "int32"}})])
    there = graph.convert(thing(V1, spec={"ttl": "soon"}), V2)
    assert there.get("spec", {}).get("seconds") == otherwise
    assert graph.convert(there, V1)["spec"] == {"ttl": "soon"}


@pytest.mark.parametrize(
    ("items", "place"),
    [
        ([({"id": 2}, ["id"])], ("list", 1, "x")),
        ([({"id": 3}, ["id"])], ()),
        ([({}, ["id"])], ()),
        ([({"id": 1}, ["id"])], ()),
    ],
    ids=["there", "no such item", "no key", "no value"],
)
def test_the_place_of_a_read_has_the_index_of_its_item(items: Any, place: tuple[str | int, ...]) -> None:
    """``explain`` would say that a value came from a neighbour, or from a field that is not there."""
    value = {"list": [{"id": 1}, {"id": 2, "x": "y"}]}
    assert placed(value, (("list",), ("x",)), items) == place
    assert placed(value, (("list",),), items) == ("list",), "a read from the root, for a rule in an item"
    for no_list in ("text", 5, None, {"id": 2}):
        assert placed({"list": no_list}, (("list",), ("x",)), items) == ()

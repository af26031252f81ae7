"""What a rule reads from elsewhere in the object, losses both ways beside it, and items that a spoke is not shown."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion import ABSENT, DefinitionError, Graph, Registry, rules
from restow.conversion.explain import explain

GROUP = "reads.example.dev"
V1, V2 = f"{GROUP}/v1", f"{GROUP}/v2"
PHASE = "$.status.items[].parts[].phase"


def graph_of(*declared: rules.Rule) -> Graph:
    registry = Registry()
    registry.kind(GROUP, "Thing", hub="v2").spoke("v1")(lambda: declared)
    return registry.freeze()


def thing(version: str = V2, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "Thing", "metadata": {"name": "a"}, **fields}


def phase_of(value: Any, phase: Any) -> Any:
    """Show what the status says, and else the value itself."""
    return value if phase is ABSENT else phase


def identity(value: Any) -> Any:
    return value


def nested(reads: str = PHASE) -> rules.Rule:
    plan = rules.pair("shown", "plan", up=identity, down=phase_of, loses="down", reads=[reads])
    return rules.each("spec.items", [rules.each("parts", [plan], key="id")], key="name")


ITEMS = [
    {"name": "a", "parts": [{"id": 1, "plan": "p"}, {"id": 2, "plan": "q"}]},
    {"name": "b", "parts": [{"id": 1, "plan": "r"}]},
]


def phases(**items: dict[int, str]) -> dict[str, Any]:
    listed = [
        {"name": name, "parts": [{"id": number, "phase": phase} for number, phase in parts.items()]}
        for name, parts in items.items()
    ]
    return {"items": listed}


def test_the_item_with_the_same_keys_is_read() -> None:
    """By position, or by the inner key alone, a neighbour's state would be shown."""
    stored = thing(spec={"items": ITEMS}, status=phases(b={1: "three"}, a={2: "two", 3: "x"}))
    graph = graph_of(nested())
    shown = graph.convert(stored, V1)
    assert [[part["shown"] for part in item["parts"]] for item in shown["spec"]["items"]] == [["p", "two"], ["three"]]
    assert graph.convert(shown, V2) == stored


@pytest.mark.parametrize(
    "status",
    [None, {}, {"items": None}, {"items": [1, None, {"parts": 1}, {"name": "a"}, {"name": [], "parts": [{"id": {}}]}]}],
)
def test_what_is_not_there_is_absent(status: Any) -> None:
    """A status of any shape, or none, fails no conversion."""
    spec = {"items": [*ITEMS, {"name": {}, "parts": [{"plan": "s"}]}]}
    shown = graph_of(nested()).convert(thing(spec=spec, status=status), V1)
    assert [part["shown"] for item in shown["spec"]["items"] for part in item["parts"]] == ["p", "q", "r", "s"]


def test_an_explanation_names_what_was_read() -> None:
    """Who wonders where a value comes from is sent to the right item of the other list."""
    stored = thing(spec={"items": ITEMS}, status=phases(a={2: "two"}))
    text = str(explain(graph_of(nested()), stored, V1))
    assert "status" in text


@pytest.mark.parametrize("reads", ["$.status.items[].parts[].steps[].phase", "$.[", "$.status.items[]parts["])
def test_a_read_of_more_lists_than_there_are_is_told(reads: str) -> None:
    """It could only ever find nothing."""
    with pytest.raises(DefinitionError, match=r"reads|path"):
        graph_of(nested(reads))


# Losses both ways.


def up(fields: dict[str, Any]) -> Any:
    """The spoke may leave out what the hub spells out."""
    return [fields.get("first", "default"), *fields.get("rest", [])]


def down(values: Any, last: Any) -> dict[str, Any]:
    """The status says which of the hub's values is the first now."""
    return {"first": values[0] if last is ABSENT else last}


def merged(edited: dict[str, Any], shown: Any, kept: Any) -> Any:
    if not edited:
        return ["none", *kept]
    return kept if edited["first"] in kept else [edited["first"], shown["first"], *kept]


BOTH = graph_of(
    rules.pair(("first", "rest"), "values", up=up, down=down, merge=merged, loses="both", reads=["$.status.now"])
)


def test_the_spoke_comes_back_although_the_status_has_a_say() -> None:
    """Going up is checked by what going down gives of an object with nothing to read."""
    old = thing(V1, rest=["a"])
    stored = BOTH.convert(old, V2)
    assert stored["values"] == ["default", "a"]
    assert BOTH.convert(stored, V1) == old
    assert BOTH.convert({**stored, "status": {"now": "later"}}, V1) == {**old, "status": {"now": "later"}}
    edited = {**stored, "values": ["b"], "status": {"now": "later"}}
    assert BOTH.convert(edited, V1)["first"] == "later", "an edit of the hub wins over what the spoke once wrote"


def test_what_the_stash_gave_back_is_not_held_against_the_inverse() -> None:
    """It cannot know what was read then: the hub would get a stash of its own by every write that changes nothing."""
    stored = thing(values=["a", "b"], status={"now": "b"})
    shown = BOTH.convert(stored, V1)
    assert shown["first"] == "b"
    assert BOTH.convert(shown, V2) == stored


@pytest.mark.parametrize(
    ("edit", "values"),
    [({"first": "a"}, ["a", "b"]), ({"first": "c"}, ["c", "b", "a", "b"]), ({}, ["none", "a", "b"])],
)
def test_a_group_that_was_taken_away_is_an_edit(edit: dict[str, Any], values: Any) -> None:
    """Only the author knows what it means that no field of the group is left."""
    shown = BOTH.convert(thing(values=["a", "b"], status={"now": "b"}), V1)
    sent = {**{name: value for name, value in shown.items() if name != "first"}, **edit}
    stored = BOTH.convert(sent, V2)
    assert (stored["values"], stored["metadata"]) == (values, {"name": "a"})


def test_a_read_needs_a_loss_going_down() -> None:
    """Two objects that differ in what is read alone would become the same."""
    with pytest.raises(DefinitionError, match="reads"):
        graph_of(rules.pair("a", "a", up=identity, down=phase_of, loses="up", reads=["$.status.now"]))


# Spellings that need not come back.


def is_wrong(text: Any) -> bool:
    return bool(text == "WRONG")


def test_a_spelling_that_is_put_right_is_not_remembered() -> None:
    """Else whoever reads the old version goes on to see the mistake."""
    right = rules.pair("a", "a", up=str.lower, down=identity, forget=is_wrong, acknowledge="spelling", loses="up")
    graph = graph_of(right)
    assert graph.convert(thing(V1, a="WRONG"), V2) == thing(V2, a="wrong")
    other = thing(V1, a="Other")
    assert graph.convert(graph.convert(other, V2), V1) == other


# Hidden items.


def is_hidden(item: dict[str, Any]) -> bool:
    return bool(item.get("hidden"))


def reappeared(item: dict[str, Any], hidden: dict[str, Any]) -> dict[str, Any]:
    return {**hidden, **item}


HIDING = graph_of(rules.each("spec.items", [], key="id", hide=is_hidden, merge=reappeared))
HIDDEN = {"id": 2, "hidden": True, "x": 1}


@pytest.mark.parametrize("spec", [{"items": [], "y": 1}, {"y": 1}])
def test_hidden_items_outlive_their_list(spec: Any) -> None:
    """A client that was shown an empty list, and whose types leave those out, removes nothing."""
    stored = thing(spec={"items": [HIDDEN], "y": 1})
    shown = HIDING.convert(stored, V1)
    assert shown["spec"] == {"items": [], "y": 1}
    assert HIDING.convert({**shown, "spec": spec}, V2) == stored


def test_hidden_items_go_with_the_object_around_them() -> None:
    """Who removes an object means all that is in it."""
    shown = HIDING.convert(thing(spec={"items": [HIDDEN]}, other=1), V1)
    assert HIDING.convert({name: value for name, value in shown.items() if name != "spec"}, V2) == thing(other=1)


def test_an_item_with_the_key_of_a_hidden_one_is_judged() -> None:
    """By the author, at the place where the client put it; the others are not asked about."""
    shown = HIDING.convert(thing(spec={"items": [{"id": 1}, HIDDEN, {"id": 3}]}), V1)
    sent = {**shown, "spec": {"items": [{"id": 2, "x": 5}, {"id": 1}, {"id": 3}]}}
    assert HIDING.convert(sent, V2)["spec"]["items"] == [{"id": 2, "hidden": True, "x": 5}, {"id": 1}, {"id": 3}]

"""Items of lists without keys, edited at the version that does not show all of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restow.conversion import Graph, Registry, rules
from restow.conversion.explain import explain
from restow.conversion.stash.alignment import align

GROUP = "items.example.dev"
KEY = f"{GROUP}/conversion-stash"
V1, V2 = f"{GROUP}/v1", f"{GROUP}/v2"

Items = list[Any]


def graph_of(*declared: rules.Rule, budget: int = 64 * 1024) -> Graph:
    registry = Registry()
    registry.kind(GROUP, "Thing", hub="v2", stash_budget=budget).spoke("v1")(lambda: declared)
    return registry.freeze()


KEEPS = rules.each("items", [rules.stash(hub="extra"), rules.enum("mode", {"a": "A"}, down={"B": "a"})])
GRAPH = graph_of(KEEPS)
HIDING = graph_of(rules.each("items", [rules.stash(hub="extra")], hide=lambda item: item.get("off", False)))
NESTED = graph_of(rules.each("items", [rules.each("parts", [rules.stash(hub="extra")]), rules.stash(hub="extra")]))
NAMED = graph_of(rules.each("items", [rules.stash(hub="extra")], key="name"))


def thing(version: str, items: Items, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "Thing", "metadata": {"name": "a", **metadata}, "items": items}


def shown(graph: Graph, items: Items) -> dict[str, Any]:
    return graph.convert(thing(V2, items), V1)


def written(graph: Graph, before: dict[str, Any], items: Items) -> dict[str, Any]:
    """Return what is stored when a client sends other items than it was shown."""
    return graph.convert({**before, "items": items}, V2)


def dropped(obj: dict[str, Any]) -> int:
    text = obj["metadata"].get("annotations", {}).get(KEY)
    return 0 if text is None else json.loads(text).get("dropped", 0)


A, B, C = {"a": 1, "extra": "A"}, {"a": 2}, {"a": 3, "extra": "C"}

#: What is stored, what a client of the old version makes of it, what is stored then, and how many entries are lost.
EDITS: list[Any] = [
    pytest.param([A], [{"a": 9}], [{"a": 9, "extra": "A"}], 0, id="the only one"),
    pytest.param([A, B, C], [{"a": 9}, {"a": 2}, {"a": 3}], [{"a": 9, "extra": "A"}, B, C], 0, id="the first"),
    pytest.param([A, B, C], [{"a": 1}, {"a": 2}, {"a": 9}], [A, B, {"a": 9, "extra": "C"}], 0, id="the last"),
    pytest.param(
        [A, B, C],
        [{"a": 7}, {"a": 8}, {"a": 9}],
        [{"a": 7, "extra": "A"}, {"a": 8}, {"a": 9, "extra": "C"}],
        0,
        id="all of them",
    ),
    pytest.param(
        [A, B, C],
        [{"a": 9}, {"a": 2}, {"a": 5}, {"a": 3}],
        [{"a": 9, "extra": "A"}, B, {"a": 5}, C],
        0,
        id="one, and another is inserted elsewhere",
    ),
    pytest.param([A, B, C], [{"a": 9}, {"a": 2}], [{"a": 9, "extra": "A"}, B], 0, id="one, and another is removed"),
    pytest.param([A, B, C], [{"a": 2}, {"a": 3}], [B, C], 0, id="removed"),
    pytest.param([A, B, C], [], [], 0, id="all are removed"),
    pytest.param([A, B, C], [{"a": 2}, {"a": 3}, {"a": 9}], [B, C, {"a": 9}], 0, id="removed, another one appended"),
    pytest.param([A, B, C], [{"a": 0}, {"a": 1}, {"a": 2}, {"a": 3}], [{"a": 0}, A, B, C], 0, id="inserted"),
    pytest.param([A, B, C], [{"a": 3}, {"a": 1}, {"a": 2}], [C, A, B], 0, id="moved"),
    pytest.param([A, B], [{"a": 1}, {"a": 2}, {"a": 1}], [A, B, {"a": 1}], 0, id="copied to the end"),
    pytest.param([B, A], [{"a": 1}, {"a": 2}, {"a": 1}], [{"a": 1}, B, A], 0, id="copied to the front"),
    pytest.param([A, B], [{"a": 1}, {"a": 1}, {"a": 2}], [A, {"a": 1}, B], 0, id="copied next to itself"),
    pytest.param([A, B], [{"a": 2}, {"a": 1}, {"a": 1}], [B, A, {"a": 1}], 0, id="copied and moved"),
    pytest.param([A, B, A], [{"a": 2}, {"a": 1}], [B, A], 0, id="one of two equal ones is removed"),
    pytest.param(
        [A, B, {"a": 1}], [{"a": 2}, {"a": 1}], [B, {"a": 1}], 0, id="the first of two that look the same is removed"
    ),
    pytest.param(
        [A, {"a": 1, "extra": "Z"}],
        [{"a": 9}, {"a": 1}],
        [{"a": 9, "extra": "A"}, {"a": 1, "extra": "Z"}],
        0,
        id="one of two that look the same",
    ),
    pytest.param([A, {"a": 1, "extra": "Z"}], [{"a": 1}], [{"a": 1}], 2, id="one of two is removed, but which?"),
    pytest.param([A], [{"a": 8}, {"a": 9}], [{"a": 8}, {"a": 9}], 1, id="one, and another is inserted next to it"),
    pytest.param([A, B, C], [{"a": 9}], [{"a": 9}], 2, id="one, and its neighbours are removed"),
    pytest.param([A, B, C], [{"a": 3}, {"a": 9}, {"a": 2}], [C, {"a": 9}, B], 1, id="one, and others are moved"),
    pytest.param(
        [A, {"a": 4, "extra": "D"}, C],
        [{"a": 3}, {"a": 8}, {"a": 1}],
        [C, {"a": 8}, A],
        1,
        id="one between two that change places",
    ),
    pytest.param(
        [{"mode": "B", "a": 1, "extra": 1}],
        [{"mode": "x", "a": 1}],
        [{"mode": "x", "a": 1, "extra": 1}],
        0,
        id="the field whose value is kept",
    ),
    pytest.param(
        [{"mode": "B", "a": 1}], [{"mode": "a", "a": 2}], [{"mode": "B", "a": 2}], 0, id="next to a value that is kept"
    ),
    pytest.param([A, 1], [{"a": 9}, 1], [{"a": 9, "extra": "A"}, 1], 0, id="next to what is no object"),
]


@pytest.mark.parametrize(("stored", "edit", "result", "lost"), EDITS)
def test_an_edit_keeps_what_the_items_hide(stored: Items, edit: Items, result: Items, lost: int) -> None:
    """An edit of a shown field must not destroy a hidden one, nor give one item what belongs to another."""
    now = written(GRAPH, shown(GRAPH, stored), edit)
    assert now["items"] == result
    assert dropped(now) == lost
    assert lost or "annotations" not in now["metadata"]


def test_what_an_edit_lost_stays_counted() -> None:
    """The stored object says that something was lost, at every version; else it is lost in silence."""
    now = written(GRAPH, shown(GRAPH, [A]), [{"a": 8}, {"a": 9}])
    assert now["metadata"]["annotations"] == {KEY: '{"dropped":1,"format":1,"kept":{}}'}
    assert GRAPH.convert(GRAPH.convert(now, V1), V2) == now


def test_explain_tells_what_an_edit_lost() -> None:
    """Who asks where a hidden field has gone must find its name, and the list that it was in."""
    found = explain(GRAPH, {**shown(GRAPH, [A]), "items": [{"a": 8}, {"a": 9}]}, V2)
    assert [(each.path, each.fields) for each in found.doubtful] == [(".items[]", (".extra",))]
    assert explain(GRAPH, {**shown(GRAPH, [A]), "items": [{"a": 8}]}, V2).doubtful == ()


HIDDEN = {"a": 5, "off": True}
HIDDEN_EDITS: list[Any] = [
    pytest.param([A, HIDDEN, B], [{"a": 9}, {"a": 2}], [{"a": 9, "extra": "A"}, HIDDEN, B], id="the item before"),
    pytest.param([A, B, HIDDEN, C], [{"a": 1}, {"a": 3}], [A, HIDDEN, C], id="the item before is removed"),
    pytest.param([HIDDEN, A], [{"a": 9}], [HIDDEN, {"a": 9, "extra": "A"}], id="at the beginning"),
    pytest.param([A, HIDDEN, B], [{"a": 7}], [HIDDEN, {"a": 7}], id="nothing is known any more"),
    pytest.param([A, HIDDEN], [], [HIDDEN], id="none is left"),
]


@pytest.mark.parametrize(("stored", "edit", "result"), HIDDEN_EDITS)
def test_hidden_items_keep_their_places(stored: Items, edit: Items, result: Items) -> None:
    """A hidden item outlives every edit, behind the item that it stood behind; else edits change the order."""
    assert written(HIDING, shown(HIDING, stored), edit)["items"] == result


def test_lists_in_lists() -> None:
    """An edit deep inside changes how all items around it look, and none of them loses anything."""
    stored = [{"a": 1, "extra": 1, "parts": [{"b": 1, "extra": 2}, {"b": 2, "extra": 3}]}, {"a": 2, "parts": []}]
    before = shown(NESTED, stored)
    before["items"][0]["parts"][1] = {"b": 9}
    stored[0]["parts"][1]["b"] = 9  # type: ignore[index]
    assert NESTED.convert(before, V2)["items"] == stored


def test_lists_in_lists_count_what_is_lost() -> None:
    """A loss deep inside is one too."""
    before = shown(NESTED, [{"a": 1, "extra": 1, "parts": [{"b": 1, "extra": 2}]}])
    before["items"][0]["parts"] = [{"b": 8}, {"b": 9}]
    now = NESTED.convert(before, V2)
    assert now["items"] == [{"a": 1, "extra": 1, "parts": [{"b": 8}, {"b": 9}]}]
    assert dropped(now) == 1


def test_a_key_tells_items_apart() -> None:
    """Of a list with keys, only items without a key are found by their places; another name is another item."""
    stored = [{"name": "x", "extra": 1}, {"a": 1, "extra": 2}, {"name": "z", "extra": 3}]
    edit = [{"name": "y"}, {"a": 9}, {"name": "z", "b": 1}]
    now = written(NAMED, shown(NAMED, stored), edit)
    assert now["items"] == [{"name": "y"}, {"a": 9, "extra": 2}, {"name": "z", "b": 1, "extra": 3}]
    assert dropped(now) == 0


def test_the_order_is_kept_only_where_it_is_needed() -> None:
    """The annotation is small: no order for lists whose items have keys, nor for those that hide nothing."""
    assert "order" not in shown(NAMED, [{"name": "x", "extra": 1}])["metadata"]["annotations"][KEY]
    assert "annotations" not in shown(GRAPH, [B, B])["metadata"]
    text = shown(GRAPH, [A, *({"a": number} for number in range(2, 501))])["metadata"]["annotations"][KEY]
    assert len(text) < 500 * 8 + 150


def test_over_the_budget_the_order_of_a_list_may_go() -> None:
    """It is no value that is lost: unedited items keep what they hide, and nothing is counted."""
    graph = graph_of(KEEPS, budget=300)
    stored = [A, *({"a": number} for number in range(2, 100))]
    before = shown(graph, stored)
    assert "order" not in before["metadata"]["annotations"][KEY]
    assert dropped(before) == 0
    assert written(graph, before, before["items"])["items"] == stored


def test_an_edit_without_the_order_is_told() -> None:
    """Stashes of earlier releases do not have it: what an edit may have lost is counted, what is removed is not."""
    before = shown(GRAPH, [A, C])
    stash = json.loads(before["metadata"]["annotations"][KEY])
    del stash["kept"]["v2"][".items"]["order"]
    before["metadata"]["annotations"][KEY] = json.dumps(stash)
    edited = written(GRAPH, before, [{"a": 1}, {"a": 9}])
    assert (edited["items"], dropped(edited)) == ([A, {"a": 9}], 1)
    removed = written(GRAPH, before, [{"a": 1}])
    assert (removed["items"], dropped(removed)) == ([A], 0)


@pytest.mark.parametrize("order", ["", "x", 7, None, "x" * 8, "x" * 800, []])
def test_a_forged_order_does_no_harm(order: Any) -> None:
    """Any client may write the annotation: it can lose what is kept, and can fail no conversion."""
    before = shown(GRAPH, [A, B, C])
    stash = json.loads(before["metadata"]["annotations"][KEY])
    stash["kept"]["v2"][".items"]["order"] = order
    before["metadata"]["annotations"][KEY] = json.dumps(stash)
    assert [item["a"] for item in GRAPH.convert(before, V2)["items"]] == [1, 2, 3]


# How items are found again


def then_and_now(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, int | None]]]:
    then = [str(number) for number in range(draw(st.integers(0, 6)))]
    return then, [(look, index) for index, look in enumerate(then)]


@st.composite
def moves(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, int | None]]]:
    """Draw a list, and what inserting, removing and moving items made of it, with the index that each item had."""
    then, now = then_and_now(draw)
    for number in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(now)))
        match draw(st.sampled_from(["insert", "remove", "move"])):
            case "insert":
                now.insert(place, (f"new{number}", None))
            case "remove" if now[place:]:
                del now[place]
            case "move" if now[place:]:
                now.insert(draw(st.integers(0, len(now) - 1)), now.pop(place))
    return then, now


@settings(suppress_health_check=list(HealthCheck))
@given(moves())
def test_what_is_only_moved_is_found(moved: tuple[list[str], list[tuple[str, int | None]]]) -> None:
    """Items that look as they did are found wherever they are; else moving one loses what it hides."""
    then, now = moved
    found = align(then, [look for look, _ in now], {}).found
    for index, (_, before) in enumerate(now):
        assert before is None or found[before] == index


@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_edited_items_are_found_in_their_places(data: st.DataObject) -> None:
    """However many items are edited, and however many of them looked the same; else an edit loses what they hide."""
    then = data.draw(st.lists(st.sampled_from("abc"), max_size=6))
    edited = data.draw(st.sets(st.sampled_from(range(len(then))))) if then else set[int]()
    now = [f"new{index}" if index in edited else look for index, look in enumerate(then)]
    alignment = align(then, now, dict(enumerate(then)))
    assert alignment.found == {index: index for index in range(len(then))}
    assert not alignment.doubtful


@settings(suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from("abcd"), max_size=6), st.lists(st.sampled_from("abcd"), max_size=6))
def test_every_item_is_found_once_told_or_removed(then: list[str], now: list[str]) -> None:
    """No item gets what two items hid, and none that is still there loses what it hides in silence."""
    kept = dict(enumerate(range(len(then))))
    alignment = align(then, now, kept)
    assert len({*alignment.found.values()}) == len(alignment.found)
    assert alignment.left == {*range(len(now))} - {*alignment.found.values()}
    assert alignment.doubtful.isdisjoint(alignment.found)
    looks = {now[index] for index in alignment.left}
    missing = {index for index, look in enumerate(then) if look in looks and index not in alignment.found}
    assert missing <= alignment.doubtful

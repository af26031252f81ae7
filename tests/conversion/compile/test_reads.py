"""What a rule reads from elsewhere in the object, with losses both ways, and items that a spoke is not shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from restow.conversion import ABSENT, DefinitionError, Graph, Registry, rules
from restow.conversion.definition.losses import rule_losses
from restow.conversion.explain import LeafEnding, explain
from restow.conversion.explain.roundtrip import round_trips
from restow.conversion.rules.protocol import Loss
from restow.conversion.testing import LawBroken, Laws

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
    """If the misspelling were stashed, clients of the old version would still see it."""
    right = rules.pair("a", "a", up=str.lower, down=identity, forget=is_wrong, acknowledge="spelling", loses="up")
    graph = graph_of(right)
    assert graph.convert(thing(V1, a="WRONG"), V2) == thing(V2, a="wrong")
    other = thing(V1, a="Other")
    assert graph.convert(graph.convert(other, V2), V1) == other


def test_what_is_forgotten_needs_a_reason() -> None:
    """The report would call it kept, and an author would lose what a colleague thought safe."""
    whole = rules.pair("a", "a", up=str.lower, down=identity, forget=is_wrong, loses="up")
    with pytest.raises(DefinitionError, match="does not say why"):
        graph_of(whole)
    with pytest.raises(DefinitionError, match="no forget="):
        graph_of(rules.pair("a", "a", up=identity, down=identity, acknowledge="why"))
    with pytest.raises(DefinitionError, match="forgets nothing"):
        graph_of(rules.pair("a", "a", up=identity, down=identity, forget=is_wrong, acknowledge="why", loses="down"))


def seconds(text: Any) -> Any:
    return int(text.removesuffix("s")) if isinstance(text, str) and text[:-1].isdecimal() else text


def spelled(value: Any) -> Any:
    return f"{value}s" if isinstance(value, int) else value


def always(_value: Any) -> bool:
    return True


SPELLED: Any = {"up": seconds, "down": spelled, "forget": always, "acknowledge": "007s is 7s"}
SPELLING = rules.pair("spec.wait", "spec.wait", **SPELLED)


def test_a_forgotten_value_is_told_as_dropped() -> None:
    """Nothing would say where the spelling went, nor that it does not come back."""
    graph = graph_of(rules.each("spec.items", [rules.pair("wait", "wait", **SPELLED)], key="id"), SPELLING)
    old = thing(V1, spec={"wait": "007s", "items": [{"id": 1, "wait": "01s"}, {"id": 2, "wait": "2s"}]})
    found = explain(graph, old, V2)
    ends = {leaf.pointer: (leaf.ending, leaf.reason) for leaf in found.source_leaves}
    assert ends == {
        "/spec/wait": (LeafEnding.DROPPED, "007s is 7s"),
        "/spec/items/0/wait": (LeafEnding.DROPPED, "007s is 7s"),
    }
    assert found.stash_after is None
    assert not round_trips(graph, old).broken
    rows = rule_losses(graph.kind(GROUP, "Thing"))
    assert [(row.up, row.down, row.reason) for row in rows if row.reason] == [
        (Loss.DROPPED, Loss.LOSSLESS, "007s is 7s")
    ] * 2


def test_the_laws_hold_of_a_declared_forget_and_of_no_other() -> None:
    """That two spellings mean the same could not be declared and be green; or a loss of meaning could."""
    graph = graph_of(rules.each("spec.items", [rules.pair("wait", "wait", **SPELLED)], key="id"), SPELLING)
    laws = Laws(graph.kind(GROUP, "Thing"))
    old = thing(V1, spec={"wait": "007s", "items": [{"id": 1, "wait": "01s"}, {"id": 2, "wait": "2s"}]})
    laws.round_trip(old, "v2")
    laws.forget(old, "v2")
    laws.edits_win(thing(V2, spec={"wait": 5}, z=1), old)
    undeclared = Laws(graph_of(rules.pair("a", "a", up=seconds, down=spelled)).kind(GROUP, "Thing"))
    with pytest.raises(LawBroken, match="without declaring it"):
        undeclared.round_trip(thing(V1, a="007s"), "v2")
    lossy = rules.pair("a", "a", up=str.lower, down=str.title, forget=always, acknowledge="cases")
    Laws(graph_of(lossy).kind(GROUP, "Thing")).forget(thing(V1, a="WRONG"), "v2")
    cut: Any = {"up": lambda text: text[:2], "down": lambda text: text[1:], "loses": "up"}
    lossy = rules.pair("a", "a", **cut, forget=always, acknowledge="none")
    with pytest.raises(LawBroken, match="does not mean the same"):
        Laws(graph_of(lossy).kind(GROUP, "Thing")).forget(thing(V1, a="WRONG"), "v2")


# Metadata is the same in both versions.


def in_namespace(reference: dict[str, Any], namespace: Any) -> dict[str, Any]:
    """Leave out a namespace that is the object's own, as Cluster API's references do since v1beta2."""
    return {name: value for name, value in reference.items() if name != "namespace" or value != namespace}


def with_namespace(reference: dict[str, Any], namespace: Any) -> dict[str, Any]:
    return reference if "namespace" in reference or namespace is ABSENT else {**reference, "namespace": namespace}


REFERENCE = rules.pair(
    "spec.ref", "spec.ref", up=in_namespace, down=with_namespace, loses="up", reads="$.metadata.namespace"
)


def test_metadata_is_read_in_both_directions() -> None:
    """A field that repeats metadata would keep a stash annotation in every object for ever."""
    graph = graph_of(replace(REFERENCE, loses="nothing"))  # type: ignore[call-arg]
    old = thing(V1, spec={"ref": {"name": "x", "namespace": "team"}})
    old["metadata"]["namespace"] = "team"
    new = graph.convert(old, V2)
    assert new["spec"] == {"ref": {"name": "x"}}
    assert list(new["metadata"]) == ["name", "namespace"]
    assert graph.convert(new, V1) == old
    Laws(graph.kind(GROUP, "Thing")).round_trip(old, "v2")


def test_each_direction_is_checked_with_the_metadata_of_the_object() -> None:
    """A reference that never named a namespace would be given one; a foreign one would be taken for the own one."""
    graph = graph_of(REFERENCE)
    for reference in ({"name": "x"}, {"name": "x", "namespace": "other"}, {"name": "x", "namespace": "team"}):
        old = thing(V1, spec={"ref": reference})
        old["metadata"]["namespace"] = "team"
        assert graph.convert(graph.convert(old, V2), V1) == old


def test_an_explanation_names_the_metadata_that_was_read() -> None:
    """The origin of the value would be a guess."""
    old = thing(V1, spec={"ref": {"name": "x", "namespace": "team"}})
    old["metadata"]["namespace"] = "team"
    (leaf,) = [each for each in explain(graph_of(REFERENCE), old, V2).leaves if each.pointer == "/spec/ref/name"]
    assert ("metadata", "namespace") in leaf.origin.sources


def test_merge_and_forget_read_metadata_too() -> None:
    """An edit that names the object's own namespace could not be told from one that names another."""
    seen: list[tuple[Any, ...]] = []

    def merged(edited: Any, _shown: Any, _kept: Any, namespace: Any) -> Any:
        seen.append(("merge", namespace))
        return edited

    def forgets_own(value: Any, namespace: Any) -> bool:
        seen.append(("forget", namespace))
        return bool(value == namespace)

    def up(value: Any, _namespace: Any) -> Any:
        return str(value).lower()

    def down(value: Any, _namespace: Any) -> Any:
        return value

    rule = rules.pair(
        "a",
        "a",
        up=up,
        down=down,
        merge=merged,
        forget=forgets_own,
        acknowledge="x",
        loses="both",
        reads=["$.metadata.name"],
    )
    graph = graph_of(rule)
    shown = graph.convert(thing(V1, a="B"), V2)
    graph.convert({**shown, "a": "c"}, V1)
    assert seen == [("forget", "a"), ("merge", "a")]


@pytest.mark.parametrize("read", ["$.metadata.generation", "$.metadata.managedFields", "$.status.now", "$.metadata"])
def test_other_reads_are_of_the_hub_alone(read: str) -> None:
    """The value could be another one when the object comes back, and ``up`` would be given what it cannot know."""
    with pytest.raises(DefinitionError, match="reads"):
        graph_of(rules.pair("a", "a", up=identity, down=phase_of, reads=[read]))


def test_metadata_goes_with_reads_of_the_hub() -> None:
    """Each function has its arguments in the order of the reads, those that it cannot have left out."""

    def up(value: Any, name: Any) -> Any:
        assert name == "a"
        return value

    def down(value: Any, now: Any, name: Any) -> Any:
        assert (name, now) in (("a", "later"), ("a", ABSENT))
        return value

    graph = graph_of(
        rules.pair("x", "x", up=up, down=down, loses="both", reads=["$.status.now", "$.metadata.name"]),
    )
    new = thing(V2, x="1", status={"now": "later"})
    assert graph.convert(graph.convert(new, V1), V2) == new


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

"""Every rule, both directions, as tables: what goes up, what comes down, what only the stash can bring back."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion import ABSENT, Graph, Registry, RuleFailed, rules
from restow.conversion.definition.losses import rule_losses
from restow.conversion.rulefiles import RuleFileError, dump, load
from restow.conversion.stash.annotation import parse_stash

GROUP = "rules.example.dev"
KEY = f"{GROUP}/conversion-stash"


def graph_of(*declared: rules.Rule | list[rules.Rule]) -> Graph:
    registry = Registry()
    kind = registry.kind(GROUP, "Thing", hub="v2")
    kind.spoke("v1")(lambda: [rule for each in declared for rule in (each if isinstance(each, list) else [each])])
    return registry.freeze()


def up(graph: Graph, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return graph.convert({"apiVersion": f"{GROUP}/v1", "kind": "Thing", **fields, **more}, f"{GROUP}/v2")


def down(graph: Graph, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return graph.convert({"apiVersion": f"{GROUP}/v2", "kind": "Thing", **fields, **more}, f"{GROUP}/v1")


def fields_of(obj: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}


def stash_of(obj: dict[str, Any]) -> dict[str, Any]:
    parsed = parse_stash(obj.get("metadata", {}).get("annotations", {}).get(KEY))
    return {} if parsed is None else dict(parsed[0].kept)


RENAME = rules.rename("spec.ttl", "spec.timeToLive")
MOVE = rules.move("spec.image", "spec.box.image")
ENUM = rules.enum("spec.mode", {"a": "Alpha", "b": "Beta"}, down={"Gamma": "a"})
WRAP = rules.wrap("spec.image", "spec.images[]")
UNWRAP = rules.unwrap("spec.images[]", "spec.image")
CONSTANT = rules.constant(hub="spec.tier", value="basic")
SPOKE_CONSTANT = rules.constant("spec.tier", "basic")
DEFAULT = rules.default("spec.replicas", 1)
EACH = rules.each("items", [rules.rename("old", "new"), rules.stash(hub="extra")], key="id")
EACH_VALUE = rules.each_value("pools", [rules.rename("old", "new")], hub="groups")
INSIDE = rules.inside("net", [rules.rename("cidr", "range")], hub="network")
INSIDE_SECRET = rules.inside("net", [rules.rename("cidr", "range"), rules.stash(hub="secret")], hub="network")
BOXED = [
    rules.move("image", "box.image"),
    rules.constant(hub="box.kind", value="fixed"),
    rules.default("count", 1, hub="box.count"),
]
GROUPED = rules.pair(
    ("x", "y"),
    "point",
    up=lambda leaves: [leaves.get("x"), leaves.get("y")],
    down=lambda point: {name: value for name, value in zip(("x", "y"), point, strict=True) if value is not None},
)
FUNCTIONS = rules.functions(
    spoke=["spec.low", "spec.high"],
    hub=["spec.range"],
    up=lambda tree: {"spec": {"range": {"from": tree["spec"].get("low"), "to": tree["spec"].get("high")}}},
    down=lambda tree: {"spec": {"low": tree["spec"]["range"].get("from"), "high": tree["spec"]["range"].get("to")}},
)

#: rule, spoke's fields, hub's fields: plain both ways, nothing stashed in either.
PLAIN = [
    pytest.param(RENAME, {"spec": {"ttl": 3}}, {"spec": {"timeToLive": 3}}, id="rename"),
    pytest.param(RENAME, {"spec": {"ttl": None}}, {"spec": {"timeToLive": None}}, id="rename-null"),
    pytest.param(RENAME, {"spec": {"ttl": {"a": {}}}}, {"spec": {"timeToLive": {"a": {}}}}, id="rename-subtree"),
    pytest.param(RENAME, {"spec": {}}, {"spec": {}}, id="rename-absent"),
    pytest.param(RENAME, {"spec": None}, {"spec": None}, id="spec-null"),
    pytest.param(RENAME, {"spec": "text"}, {"spec": "text"}, id="spec-of-another-type"),
    pytest.param(RENAME, {}, {}, id="no-spec"),
    pytest.param(MOVE, {"spec": {"image": "i"}}, {"spec": {"box": {"image": "i"}}}, id="move-makes-the-object"),
    pytest.param(MOVE, {"spec": {}}, {"spec": {}}, id="move-absent"),
    pytest.param(ENUM, {"spec": {"mode": "a"}}, {"spec": {"mode": "Alpha"}}, id="enum"),
    pytest.param(ENUM, {"spec": {"mode": None}}, {"spec": {"mode": None}}, id="enum-null"),
    pytest.param(ENUM, {"spec": {"mode": "other"}}, {"spec": {"mode": "other"}}, id="enum-unknown-passes"),
    pytest.param(ENUM, {"spec": {"mode": ["a"]}}, {"spec": {"mode": ["a"]}}, id="enum-unhashable-passes"),
    pytest.param(WRAP, {"spec": {"image": "i"}}, {"spec": {"images": ["i"]}}, id="wrap"),
    pytest.param(WRAP, {"spec": {"image": None}}, {"spec": {"images": None}}, id="wrap-null"),
    pytest.param(UNWRAP, {"spec": {"images": [{"a": 1}]}}, {"spec": {"image": {"a": 1}}}, id="unwrap-object"),
    pytest.param(CONSTANT, {"spec": {"a": 1}}, {"spec": {"a": 1, "tier": "basic"}}, id="constant"),
    pytest.param(CONSTANT, {}, {}, id="constant-without-spec"),
    pytest.param(SPOKE_CONSTANT, {"spec": {"tier": "basic", "a": 1}}, {"spec": {"a": 1}}, id="spoke-constant"),
    pytest.param(DEFAULT, {"spec": {"a": 1}}, {"spec": {"a": 1, "replicas": 1}}, id="default"),
    pytest.param(DEFAULT, {"spec": {"replicas": 4}}, {"spec": {"replicas": 4}}, id="default-set"),
    pytest.param(DEFAULT, {}, {}, id="default-without-spec"),
    pytest.param(
        EACH,
        {"items": [{"id": "1", "old": 1}, {"id": "2"}]},
        {"items": [{"id": "1", "new": 1}, {"id": "2"}]},
        id="each",
    ),
    pytest.param(EACH, {"items": []}, {"items": []}, id="each-empty"),
    pytest.param(EACH, {"items": None}, {"items": None}, id="each-null"),
    pytest.param(EACH, {"items": [None, "text"]}, {"items": [None, "text"]}, id="each-odd-items"),
    pytest.param(EACH_VALUE, {"pools": {"a.b": {"old": 1}}}, {"groups": {"a.b": {"new": 1}}}, id="each-value"),
    pytest.param(INSIDE, {"net": {"cidr": 1, "z": 2}}, {"network": {"range": 1, "z": 2}}, id="inside"),
    pytest.param(INSIDE, {"net": None}, {"network": None}, id="inside-null"),
    pytest.param(INSIDE, {"net": {}}, {"network": {}}, id="inside-empty"),
    pytest.param(BOXED, {"image": "i"}, {"box": {"image": "i", "kind": "fixed", "count": 1}}, id="implied-in-a-box"),
    pytest.param(
        BOXED, {"image": "i", "count": 2}, {"box": {"image": "i", "kind": "fixed", "count": 2}}, id="box-said"
    ),
    pytest.param(BOXED, {"count": 2}, {"box": {"kind": "fixed", "count": 2}}, id="box-for-what-is-said"),
    pytest.param(BOXED, {"a": 1}, {"a": 1}, id="no-box-for-what-is-implied"),
    pytest.param(GROUPED, {"x": 1, "y": 2}, {"point": [1, 2]}, id="pair-group"),
    pytest.param(GROUPED, {"y": 2}, {"point": [None, 2]}, id="pair-group-part"),
    pytest.param(FUNCTIONS, {"spec": {"low": 1, "high": 2}}, {"spec": {"range": {"from": 1, "to": 2}}}, id="functions"),
    pytest.param(rules.move('metadata.annotations["x.dev/a"]', "spec.a"), {}, {}, id="annotation-absent"),
]


@pytest.mark.parametrize(("rule", "spoke", "hub"), PLAIN)
def test_plain_both_ways(rule: rules.Rule | list[rules.Rule], spoke: dict[str, Any], hub: dict[str, Any]) -> None:
    """A value that both versions can say maps plainly, without a stash; else every object carries an annotation."""
    graph = graph_of(rule)
    assert up(graph, spoke) == {"apiVersion": f"{GROUP}/v2", "kind": "Thing", **hub}
    assert down(graph, hub) == {"apiVersion": f"{GROUP}/v1", "kind": "Thing", **spoke}


#: rule, hub's fields, what the spoke shows: only the stash can bring the rest back.
LOSSY_DOWN = [
    pytest.param(ENUM, {"spec": {"mode": "Gamma"}}, {"spec": {"mode": "a"}}, id="enum-extra-value"),
    pytest.param(ENUM, {"spec": {"mode": "a"}}, {"spec": {"mode": "a"}}, id="enum-collision"),
    pytest.param(WRAP, {"spec": {"images": ["a", "b"]}}, {"spec": {"image": "a"}}, id="wrap-two"),
    pytest.param(WRAP, {"spec": {"images": []}}, {}, id="wrap-none"),
    pytest.param(WRAP, {"spec": {"images": [None]}}, {"spec": {"image": None}}, id="wrap-null-item"),
    pytest.param(CONSTANT, {"spec": {"tier": "gold", "a": 1}}, {"spec": {"a": 1}}, id="constant-other-value"),
    pytest.param(CONSTANT, {"spec": {"a": 1}}, {"spec": {"a": 1}}, id="constant-missing"),
    pytest.param(DEFAULT, {"spec": {"a": 1}}, {"spec": {"a": 1}}, id="default-missing"),
    pytest.param(rules.stash(hub="spec.x"), {"spec": {"x": 1}}, {}, id="stash-alone"),
    pytest.param(rules.stash(hub="spec.x"), {"spec": {"x": None, "a": 1}}, {"spec": {"a": 1}}, id="stash-null"),
    pytest.param(INSIDE_SECRET, {"network": {"secret": 1}}, {}, id="inside-hidden"),
    pytest.param(
        INSIDE_SECRET, {"network": {"secret": 1, "range": 2}}, {"net": {"cidr": 2}}, id="inside-partly-hidden"
    ),
    pytest.param(BOXED, {"box": {"kind": "fixed"}}, {}, id="only-what-is-implied"),
    pytest.param(BOXED, {"box": {"kind": "fixed", "count": 1}}, {}, id="only-what-is-implied-twice"),
    pytest.param(BOXED, {"box": {}}, {"box": {}}, id="box-without-what-is-implied"),
    pytest.param(BOXED, {"box": {"image": "i", "kind": "other"}}, {"image": "i"}, id="box-with-another-value-and-none"),
    pytest.param(
        MOVE,
        {"spec": {"box": {"image": "i"}, "image": 5}},
        {"spec": {"image": "i"}},
        id="undeclared-in-the-way",
    ),
    pytest.param(EACH, {"items": [{"id": "1", "extra": 1}]}, {"items": [{"id": "1"}]}, id="each-item"),
    pytest.param(
        rules.each("items", [], key="id", hide=lambda item: item.get("secret", False)),
        {
            "items": [
                {"id": "0", "secret": True},
                {"id": "1"},
                {"id": "2", "secret": True},
                {"id": "3", "secret": True},
            ]
        },
        {"items": [{"id": "1"}]},
        id="each-hidden",
    ),
]


@pytest.mark.parametrize(("rule", "hub", "spoke"), LOSSY_DOWN)
def test_what_the_spoke_cannot_say_comes_back(
    rule: rules.Rule | list[rules.Rule], hub: dict[str, Any], spoke: dict[str, Any]
) -> None:
    """The stash brings back exactly what was lost and is gone again; else an old client's update destroys data."""
    graph = graph_of(rule)
    shown = down(graph, hub)
    assert fields_of(shown) == spoke
    assert set(stash_of(shown)) == {"v2"}
    assert graph.convert(shown, f"{GROUP}/v2") == {"apiVersion": f"{GROUP}/v2", "kind": "Thing", **hub}


LOSSY_UP = [
    pytest.param(UNWRAP, {"spec": {"images": ["a", "b"]}}, {"spec": {"image": "a"}}, id="unwrap-two"),
    pytest.param(rules.stash("spec.x"), {"spec": {"x": 1, "a": 1}}, {"spec": {"a": 1}}, id="spoke-stash"),
    pytest.param(DEFAULT, {"spec": {"replicas": 1}}, {"spec": {"replicas": 1}}, id="default-spelled-out"),
    pytest.param(SPOKE_CONSTANT, {"spec": {"tier": "gold", "a": 1}}, {"spec": {"a": 1}}, id="spoke-constant-other"),
    pytest.param(
        MOVE,
        {"spec": {"image": "i", "box": {}}},
        {"spec": {"box": {"image": "i"}}},
        id="move-into-an-empty-object",
    ),
    pytest.param(
        rules.move("spec.image.at.name", "spec.image"),
        {"spec": {"image": {"at": {"name": "i", "tag": "t", "more": {}}, "x": [1]}}},
        {"spec": {"image": "i"}},
        id="nested-objects-become-a-value",
    ),
    pytest.param(
        rules.move("spec.image.name", "spec.image"),
        {"spec": {"image": {"name": "i", "tag": "t"}}},
        {"spec": {"image": "i"}},
        id="object-becomes-a-value",
    ),
]


@pytest.mark.parametrize(("rule", "spoke", "hub"), LOSSY_UP)
def test_what_the_hub_cannot_say_comes_back(rule: rules.Rule, spoke: dict[str, Any], hub: dict[str, Any]) -> None:
    """The hub keeps what only an old version says; else a stored object loses it for ever."""
    graph = graph_of(rule)
    stored = up(graph, spoke)
    assert fields_of(stored) == hub
    assert set(stash_of(stored)) == {"v1"}
    assert graph.convert(stored, f"{GROUP}/v1") == {"apiVersion": f"{GROUP}/v1", "kind": "Thing", **spoke}


def test_a_number_is_no_truth_value() -> None:
    """A function that gives back True for 1 loses something, though Python calls them equal."""
    graph = graph_of(rules.pair("x", "y", up=lambda v: v, down=bool, loses="both"))
    stored = up(graph, {"x": 1})
    assert stash_of(stored) == {"v1": {".x": {"is": 1, "shown": 1}}}
    assert repr(graph.convert(stored, f"{GROUP}/v1")["x"]) == "1"


def test_drop_is_final() -> None:
    """An acknowledged drop leaves no trace; else drop would be a second stash."""
    graph = graph_of(rules.drop("spec.legacy", acknowledge="unused"))
    stored = up(graph, {"spec": {"legacy": 1, "a": 2}})
    assert fields_of(stored) == {"spec": {"a": 2}}
    assert "metadata" not in stored


def test_annotation_becomes_a_field() -> None:
    """The usual life of a feature, from an annotation to a field; else alpha annotations cannot be converted."""
    graph = graph_of(rules.move('metadata.annotations["x.dev/a"]', "spec.a"))
    stored = up(graph, {"metadata": {"name": "n", "annotations": {"x.dev/a": "1", "other": "2"}}})
    assert (stored["metadata"], stored["spec"]) == ({"name": "n", "annotations": {"other": "2"}}, {"a": "1"})


def test_swapped_names() -> None:
    """Every rule reads its input, not another's output; else the order of rules would decide."""
    graph = graph_of(rules.rename("a", "b"), rules.rename("b", "a"))
    assert fields_of(up(graph, {"a": 1, "b": 2})) == {"a": 2, "b": 1}


def test_merge_decides_what_an_edit_means() -> None:
    """With merge, an edit of the poorer version changes only its part of the richer value."""
    rule = rules.pair(
        "stage",
        "stages",
        up=lambda stage: [stage],
        down=lambda stages: stages[0],
        loses="down",
        merge=lambda edited, _shown, kept: kept if edited in kept else [edited, *kept[1:]],
    )
    graph = graph_of(rule)
    shown = down(graph, {"stages": ["preview", "supported", "expired"]})
    for edited, stages in (
        ("preview", ["preview", "supported", "expired"]),
        ("supported", ["preview", "supported", "expired"]),
        ("new", ["new", "supported", "expired"]),
    ):
        assert graph.convert({**shown, "stage": edited}, f"{GROUP}/v2")["stages"] == stages


def test_reads_reach_the_scope_and_the_root() -> None:
    """A function down may look at other fields; else a status cannot decide what is shown."""
    rule = rules.each(
        "items",
        [
            rules.pair(
                "shown",
                "stages",
                up=lambda shown: [shown],
                down=lambda stages, identity, status: status.get(identity, stages[0]) if status else stages[0],
                loses="down",
                reads=("id", "$.status.stages"),
            )
        ],
        key="id",
    )
    obj = {
        "items": [{"id": "1", "stages": ["a", "b"]}, {"id": "2", "stages": ["a"]}],
        "status": {"stages": {"1": "b"}},
    }
    assert [item["shown"] for item in down(graph_of(rule), obj)["items"]] == ["b", "a"]
    assert [item["shown"] for item in down(graph_of(rule), {"items": obj["items"]})["items"]] == ["a", "a"]


PHASED = rules.each(
    "images",
    [
        rules.each(
            "versions",
            [
                rules.pair(
                    "shown",
                    "stages",
                    up=lambda shown: [shown],
                    down=lambda stages, phase: phase or stages[0],
                    loses="both",
                    reads="$.status.images[].versions[].phase",
                )
            ],
            key="version",
        )
    ],
    key="name",
)


def test_reads_by_key() -> None:
    """What another list says is found by the keys of the items around, not by position."""
    obj = {
        "images": [
            {"name": "a", "versions": [{"version": "1", "stages": ["x"]}, {"version": "2", "stages": ["x"]}]},
            {"name": "b", "versions": [{"version": "1", "stages": ["x"]}, {"stages": ["x"]}, None]},
            None,
        ],
        "status": {
            "images": [
                {"name": "b", "versions": [{"version": "1", "phase": "b1"}]},
                {"name": "a", "versions": [{"version": "2", "phase": "a2"}, {"version": "2", "phase": "other"}, 5]},
                7,
            ]
        },
    }
    shown = down(graph_of(PHASED), obj)
    assert [[v and v["shown"] for v in i["versions"]] for i in shown["images"][:2]] == [["x", "a2"], ["b1", "x", None]]
    assert fields_of(graph_of(PHASED).convert(shown, f"{GROUP}/v2")) == obj


def judged(item: dict[str, Any], hidden: dict[str, Any]) -> dict[str, Any]:
    if "fail" in item:
        raise KeyError("s3cret")
    return {**hidden, **item}


HIDING = rules.each("items", [], key="id", hide=lambda item: item.get("secret", False))
JUDGED = rules.each("items", [], key="id", hide=lambda item: item.get("secret", False), merge=judged)


def test_merge_judges_an_item_that_takes_the_key_of_a_hidden_one() -> None:
    """A client that adds what it was not shown edits it; else the hidden item would be lost or doubled."""
    shown = down(graph_of(JUDGED), {"items": [{"id": "1", "secret": True, "a": 1}, {"id": "2"}]})
    edited = graph_of(JUDGED).convert({**shown, "items": [{"id": "2"}, {"id": "1", "b": 2}]}, f"{GROUP}/v2")
    assert edited["items"] == [{"id": "2"}, {"id": "1", "secret": True, "a": 1, "b": 2}]
    with pytest.raises(RuleFailed, match=r"^/items: each\(items <-> items\) merge raised KeyError$"):
        graph_of(JUDGED).convert({**shown, "items": [{"id": "1", "fail": 1}]}, f"{GROUP}/v2")


@pytest.mark.parametrize("rule", [HIDING, JUDGED], ids=["without merge", "with merge"])
@pytest.mark.parametrize("hidden", [{"secret": True}, {"secret": True, "id": None}], ids=["no key", "null"])
@pytest.mark.parametrize("shown", [{"a": 1}, {"a": 1, "id": None}], ids=["no key", "null"])
def test_items_without_a_key_do_not_replace_each_other(
    rule: rules.Rule, hidden: dict[str, Any], shown: dict[str, Any]
) -> None:
    """An item that a schema without required keys lets in has nothing in common with the next such item."""
    stored = {"items": [hidden, shown, {"id": "1"}, {"secret": True, "b": 2}]}
    graph = graph_of(rule)
    old = down(graph, stored)
    assert fields_of(old) == {"items": [shown, {"id": "1"}]}
    assert fields_of(graph.convert(old, f"{GROUP}/v2")) == stored


@pytest.mark.parametrize("sent", [{"items": []}, {}], ids=["an empty list", "no list"])
def test_hidden_items_outlive_their_list(sent: dict[str, Any]) -> None:
    """To a client that was shown none of the items, an empty list and none are the same."""
    stored = {"spec": {"items": [{"id": "1", "secret": True}], "a": 1}}
    graph = graph_of(rules.each("spec.items", [], key="id", hide=lambda item: item.get("secret", False)))
    shown = down(graph, stored)
    assert shown["spec"] == {"items": [], "a": 1}
    assert graph.convert({**shown, "spec": {"a": 1, **sent}}, f"{GROUP}/v2")["spec"] == stored["spec"]
    assert "spec" not in graph.convert({name: shown[name] for name in shown if name != "spec"}, f"{GROUP}/v2")


def test_merge_is_told_of_a_group_that_was_taken_away() -> None:
    """Removing all fields of a group is an edit too, and the author judges it."""
    graph = graph_of(
        rules.pair(
            ("old", "since"),
            "stages",
            up=lambda leaves: [leaves.get("old")],
            down=lambda stages: {"old": stages[0]},
            loses="both",
            merge=lambda edited, _shown, kept: kept[1:] if not edited else [edited.get("old"), *kept[1:]],
        )
    )
    shown = down(graph, {"stages": ["a", "b"]})
    assert fields_of(shown) == {"old": "a"}
    bare = {name: value for name, value in shown.items() if name != "old"}
    assert graph.convert(bare, f"{GROUP}/v2")["stages"] == ["b"]


def test_a_failing_function_is_named_with_its_place() -> None:
    """The error names rule and place and hides the value; else operators cannot find the object's defect."""

    def fail(value: Any) -> Any:
        raise ValueError(f"secret {value}")

    graph = graph_of(rules.each("items", [rules.each_value("m", [rules.pair("a", "b", up=fail, down=fail)])], key="id"))
    with pytest.raises(RuleFailed) as caught:
        up(graph, {"items": [{"id": "0"}, {"id": "1", "m": {"x/y": {"a": "s3cret"}}}]})
    assert caught.value.pointer == "/items/1/m/x~1y/a"
    assert "ValueError" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("returned", [{"a": 1, "other": 2}, ["a"], "a"], ids=["an undeclared leaf", "a list", "a text"])
def test_a_function_keeps_to_its_claims(returned: Any) -> None:
    """What a function returns beyond its claims fails; else it could overwrite what another rule owns."""
    graph = graph_of(rules.pair("x", ("a", "b"), up=lambda _: returned, down=lambda _: 1))
    with pytest.raises(RuleFailed, match="pair"):
        up(graph, {"x": 1})


def test_absent_can_be_returned() -> None:
    """A function may answer that nothing is there; else it would have to invent a null."""
    graph = graph_of(rules.pair("x", "y", up=lambda v: v or ABSENT, down=lambda v: v, loses="up"))
    stored = up(graph, {"x": 0})
    assert fields_of(stored) == {}
    assert fields_of(graph.convert(stored, f"{GROUP}/v1")) == {"x": 0}


def test_untouched_parts_are_shared() -> None:
    """Only objects on changed paths are copied; else conversion costs what deepcopy costs."""
    obj: dict[str, Any] = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Thing",
        "spec": {"ttl": 1, "big": {"a": []}},
        "status": {"b": {}},
    }
    stored = graph_of(RENAME).convert(obj, f"{GROUP}/v2")
    assert stored["spec"]["big"] is obj["spec"]["big"]
    assert stored["status"] is obj["status"]
    assert obj["spec"] == {"ttl": 1, "big": {"a": []}}


def test_generated_code_can_be_read() -> None:
    """A route shows its source with the names of the fields; else a wrong conversion cannot be debugged."""
    route = graph_of(RENAME).kind(GROUP, "Thing").routes["v1", "v2"]
    assert "# v1 -> v2" in route.source
    assert "'timeToLive'" in route.source
    assert route.touched == {"spec"}


def test_several_fields_of_one_version_are_as_many_rules() -> None:
    """A kind that grew by ten fields needs one line, and each field is accounted for by itself."""
    registry = Registry()
    kind = registry.kind("example.dev", "Grown", hub="v2")
    gone = rules.drop(["spec.a", "spec.b"], acknowledge="they never did anything")
    kind.spoke("v1")(lambda: [rules.stash(hub=["spec.x", "spec.y"]), gone])
    graph = registry.freeze()
    stored = {"apiVersion": "example.dev/v2", "kind": "Grown", "spec": {"x": 1, "y": 2, "z": 3}}
    shown = graph.convert(stored, "example.dev/v1")
    assert shown["spec"] == {"z": 3} and graph.convert(shown, "example.dev/v2") == stored
    old = {"apiVersion": "example.dev/v1", "kind": "Grown", "spec": {"a": 1, "b": 2, "z": 3}}
    assert graph.convert(old, "example.dev/v2")["spec"] == {"z": 3}
    losses = rule_losses(graph.kind("example.dev", "Grown"))
    assert [loss.rule for loss in losses] == ["stash(spec.x)", "stash(spec.y)", "drop(spec.a)", "drop(spec.b)"]
    text = dump(registry)
    assert "- stash: {hub: [spec.x, spec.y]}" in text and dump(load(text).registry) == text
    with pytest.raises(RuleFileError, match=r"line 10, column 7: .*both stash\(spec.x\)"):
        load(text.replace("[spec.x, spec.y]", "[spec.x, spec.x]")).freeze()

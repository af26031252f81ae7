"""The objects around fields: when they appear, when they go, and what it takes for them to come back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from restow.conversion import ABSENT, Graph, rules
from restow.conversion.testing import Laws
from tests.conversion.randomkinds import GROUP, KIND, crd, freeze, obj

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
STASH = f"{GROUP}/conversion-stash"

#: A field that moves into an object, and one that moves out of it; only their neighbours differ.
BOXED = [rules.move("image", "box.image"), rules.constant(hub="box.kind", value="fixed")]
FLAT_HUB = obj({"image": TEXT})
INSIDE = [rules.inside("net", [rules.constant("tier", 7)], hub="network")]


def box(*required: str, **fields: Any) -> dict[str, Any]:
    return obj({"image": TEXT, "box": obj(fields)}, required=list(required))


def boxed(*required: str) -> dict[str, Any]:
    return obj({"box": obj({"image": TEXT, "kind": TEXT, "other": TEXT})}, required=list(required))


def graph_of(declared: list[rules.Rule], spoke: dict[str, Any], hub: dict[str, Any]) -> Graph:
    return freeze({"v1": declared}, crd({"v2": hub, "v1": spoke}))


def at(version: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": KIND, "metadata": {"name": "a"}, **fields}


def kept(converted: dict[str, Any]) -> Any:
    text = converted["metadata"].get("annotations", {}).get(STASH)
    return None if text is None else next(iter(json.loads(text)["kept"].values()))


BOTH = graph_of(BOXED, box(other=TEXT), boxed())
REQUIRED = graph_of(BOXED, box("box", other=TEXT), boxed("box"))
OUT = graph_of(
    [rules.move("box.image", "image"), rules.constant(hub="box.kind", value="fixed")],
    obj({"box": obj({"image": TEXT, "other": TEXT})}, required=["box"]),
    obj({"image": TEXT, "box": obj({"kind": TEXT, "other": TEXT})}, required=["box"]),
)
ONE_SIDED = graph_of(BOXED, FLAT_HUB, obj({"box": obj({"image": TEXT, "kind": TEXT})}))
NETS = graph_of(INSIDE, obj({"net": obj({"tier": NUMBER})}), obj({"network": obj({})}))
NETS_REQUIRED = graph_of(
    INSIDE, obj({"net": obj({"tier": NUMBER})}, required=["net"]), obj({"network": obj({})}, required=["network"])
)

FORGETFUL = graph_of(
    [rules.inside("net", [rules.drop("debug", acknowledge="unused")], hub="network")],
    obj({"net": obj({"debug": TEXT})}),
    obj({"network": obj({})}),
)

#: graph, version and fields of an object, fields in the other version, what the stash says.
CORNERS: list[Any] = [
    pytest.param(BOTH, "v1", {"image": "i"}, {"box": {"image": "i", "kind": "fixed"}}, None, id="made and gone again"),
    pytest.param(
        BOTH,
        "v1",
        {"image": "i", "box": {}},
        {"box": {"image": "i", "kind": "fixed"}},
        {".box": {"is": {}}},
        id="was empty",
    ),
    pytest.param(
        BOTH,
        "v1",
        {"image": "i", "box": None},
        {"box": {"image": "i", "kind": "fixed"}},
        {".box": {"is": None}},
        id="was null",
    ),
    pytest.param(
        BOTH, "v1", {"box": {}}, {"box": {"kind": "fixed"}}, {".box": {"is": {}}}, id="implied in an empty one"
    ),
    pytest.param(BOTH, "v1", {"box": None}, {"box": None}, None, id="nothing implied in null"),
    pytest.param(BOTH, "v1", {"box": {"other": "o"}}, {"box": {"other": "o", "kind": "fixed"}}, None, id="has more"),
    pytest.param(
        BOTH, "v2", {"box": {"kind": "fixed"}}, {}, {".box.kind": {"gone": 1, "is": "fixed"}}, id="all implied"
    ),
    pytest.param(BOTH, "v2", {"box": {}}, {"box": {}}, {".box.kind": {}}, id="empty without what is implied"),
    pytest.param(
        REQUIRED,
        "v1",
        {"image": "i", "box": {}},
        {"box": {"image": "i", "kind": "fixed"}},
        None,
        id="required and empty",
    ),
    pytest.param(
        REQUIRED,
        "v1",
        {"image": "i"},
        {"box": {"image": "i", "kind": "fixed"}},
        {".box": {}},
        id="required and missing",
    ),
    pytest.param(
        OUT, "v1", {"box": {"image": "i"}}, {"image": "i", "box": {"kind": "fixed"}}, None, id="required and emptied"
    ),
    pytest.param(
        OUT, "v2", {"image": "i", "box": {}}, {"box": {"image": "i"}}, {".box.kind": {}}, id="required and filled"
    ),
    pytest.param(ONE_SIDED, "v2", {"box": {}}, {}, {".box": {"gone": 1, "is": {}}}, id="empty and unknown elsewhere"),
    pytest.param(
        ONE_SIDED, "v2", {"box": None}, {}, {".box": {"gone": 1, "is": None}}, id="null and unknown elsewhere"
    ),
    pytest.param(ONE_SIDED, "v1", {"box": {}}, {}, {".box": {"gone": 1, "is": {}}}, id="undeclared and empty"),
    pytest.param(
        NETS, "v2", {"network": {}}, {"net": {"tier": 7}}, {".network": {"left": True}}, id="inside: was empty"
    ),
    pytest.param(NETS, "v1", {"net": {"tier": 7}}, {}, {".net": {"gone": 1, "inside": {}}}, id="inside: all implied"),
    pytest.param(NETS, "v1", {"net": None}, {"network": None}, None, id="inside: null"),
    pytest.param(NETS_REQUIRED, "v1", {"net": {"tier": 7}}, {"network": {}}, None, id="inside: required"),
    pytest.param(NETS_REQUIRED, "v2", {}, {}, None, id="inside: missing"),
]


@pytest.mark.parametrize(("graph", "version", "fields", "shown", "entries"), CORNERS)
def test_corner(graph: Graph, version: str, fields: dict[str, Any], shown: dict[str, Any], entries: Any) -> None:
    """An object appears only for something in it, goes with the last of it, and comes back as it was."""
    thing, other = at(version, fields), {"v1": "v2", "v2": "v1"}[version]
    converted = graph.convert(thing, f"{GROUP}/{other}")
    assert {name: value for name, value in converted.items() if name not in at(other, {})} == shown
    assert kept(converted) == entries
    assert graph.convert(converted, f"{GROUP}/{version}") == thing
    Laws(graph.kind(GROUP, KIND)).round_trip(thing, other)


def test_an_object_of_dropped_fields_leaves_nothing_behind() -> None:
    """What was dropped is gone, and so is what the stash said of the object around it."""
    shown = FORGETFUL.convert(at("v1", {"net": {"debug": "d"}}), f"{GROUP}/v2")
    assert FORGETFUL.convert(shown, f"{GROUP}/v1") == at("v1", {})


@pytest.mark.parametrize(
    ("net", "back"),
    [
        ({"debug": "d"}, {}),
        ({"deep": {"trace": "t"}}, {}),
        ({"debug": "d", "deep": {"trace": "t"}}, {}),
        ({"debug": "d", "deep": {}}, {"deep": {}}),
        ({"debug": "d", "name": "n"}, {"name": "n"}),
    ],
)
def test_an_object_of_dropped_fields_stays_where_the_other_version_implies_one(net: Any, back: Any) -> None:
    """What is dropped must not take the object around it away, nor leave an entry for an object that is there."""
    deep = obj({"trace": TEXT})
    inner = [
        rules.constant(hub="tier", value=7),
        rules.drop("debug", acknowledge="unused"),
        rules.inside("deep", [rules.drop("trace", acknowledge="unused")]),
    ]
    graph = graph_of(
        [rules.inside("net", inner)],
        obj({"net": obj({"debug": TEXT, "name": TEXT, "deep": deep})}),
        obj({"net": obj({"tier": NUMBER, "name": TEXT, "deep": obj({})})}),
    )
    shown = graph.convert(at("v1", {"net": net}), f"{GROUP}/v2")
    assert shown["net"] == {"tier": 7, **back}
    assert graph.convert(shown, f"{GROUP}/v1") == at("v1", {"net": back})
    Laws(graph.kind(GROUP, KIND)).round_trip(at("v1", {"net": net}), "v2")


@pytest.mark.parametrize("around", ["inside", "paths"])
@pytest.mark.parametrize("tier", [[], [7]])
def test_an_object_of_nothing_but_a_forgotten_value_goes_with_it(around: str, tier: list[int]) -> None:
    """``pair`` and docs/conversion.md say so; the other version must look the same after the way there and back."""
    prefix = "" if around == "inside" else "net."
    same = f"{prefix}off"
    acknowledged = {"forget": lambda value: not value, "acknowledge": "false means the same as nothing"}
    made = [rules.constant(hub=f"{prefix}tier", value=value) for value in tier]
    made.append(rules.pair(same, same, up=lambda value: value or ABSENT, down=bool, loses="both", **acknowledged))
    boolean = {"type": "boolean"}
    graph = graph_of(
        made if prefix else [rules.inside("net", made)],
        obj({"net": obj({"off": boolean})}),
        obj({"net": obj({"off": boolean} | ({"tier": NUMBER} if tier else {}))}),
    )
    shown = graph.convert(at("v1", {"net": {"off": False}}), f"{GROUP}/v2")
    back = graph.convert(shown, f"{GROUP}/v1")
    assert "net" not in back
    assert graph.convert(back, f"{GROUP}/v2").get("net") == shown.get("net")
    whole = at("v1", {"net": {"off": True}})
    assert graph.convert(graph.convert(whole, f"{GROUP}/v2"), f"{GROUP}/v1") == whole


def test_what_an_object_was_counts_only_while_it_is_as_it_was_shown() -> None:
    """A client that empties an object gets it empty; else what it was before would undo the edit."""
    shown = BOTH.convert(at("v1", {"image": "i", "box": None}), f"{GROUP}/v2")
    assert "box" not in BOTH.convert({name: value for name, value in shown.items() if name != "box"}, f"{GROUP}/v1")
    assert BOTH.convert({**shown, "box": {"other": "o"}}, f"{GROUP}/v1")["box"] == {"other": "o"}


def test_an_edited_object_with_hidden_fields_reads_back_as_written() -> None:
    """An object sent empty stays empty for its client although hidden fields come back into it."""
    graph = graph_of([rules.stash(hub="box.hidden")], box(other=TEXT), box(other=TEXT, hidden=TEXT))
    shown = graph.convert(at("v2", {"box": {"hidden": "h", "other": "o"}}), f"{GROUP}/v1")
    stored = graph.convert({**shown, "box": {}}, f"{GROUP}/v2")
    assert stored["box"] == {"hidden": "h"}
    assert graph.convert(stored, f"{GROUP}/v1")["box"] == {}


@pytest.mark.parametrize("value", ["text", 1.5, [1], {"a": 1}, True])
def test_a_stash_brings_nothing_that_the_schema_cannot_hold(value: Any) -> None:
    """What a conversion returns is stored unseen: a forged annotation must not be a way around the schema."""
    graph = graph_of([rules.stash(hub="weight")], obj({}), obj({"weight": NUMBER}))
    text = json.dumps({"format": 1, "kept": {"v2": {".weight": {"is": value}}}})
    forged = at("v1", {"metadata": {"name": "a", "annotations": {STASH: text}}})
    assert "weight" not in graph.convert(forged, f"{GROUP}/v2")

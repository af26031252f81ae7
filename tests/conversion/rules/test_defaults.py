"""Fields that one version may omit and the other spells out: on either side, hidden or shown, around other rules."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion import Graph, Registry, rules
from restow.conversion.explain import LeafEnding, OriginKind, explain

GROUP = "defaults.example.dev"
V1, V2 = f"{GROUP}/v1", f"{GROUP}/v2"
KEY = f"{GROUP}/conversion-stash"


def graph_of(*declared: rules.Rule) -> Graph:
    registry = Registry()
    registry.kind(GROUP, "Thing", hub="v2").spoke("v1")(lambda: list(declared))
    return registry.freeze()


def thing(version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "Thing", "metadata": {"name": "a"}, **fields}


def is_stashed(obj: dict[str, Any]) -> bool:
    return KEY in obj["metadata"].get("annotations", {})


def round_trips(graph: Graph, obj: dict[str, Any]) -> dict[str, Any]:
    """Check that an object comes back, and return what the other version shows without its stash."""
    source, target = (V1, V2) if obj["apiVersion"] == V1 else (V2, V1)
    there = graph.convert(obj, target)
    assert graph.convert(there, source) == obj
    return {name: value for name, value in there.items() if name not in ("apiVersion", "kind", "metadata")}


MIRRORED = graph_of(rules.default("spec.asn", 0, omitted_in="hub"))
SHOWN = graph_of(rules.default("spec.strategy", "Rolling", hides=False))
MIRRORED_SHOWN = graph_of(rules.default("spec.asn", 0, omitted_in="hub", hides=False))


def test_the_hub_may_omit_what_the_spoke_spells_out() -> None:
    """A spoke that requires the field would get objects without it."""
    assert round_trips(MIRRORED, thing(V2, spec={"a": 1})) == {"spec": {"a": 1, "asn": 0}}
    assert round_trips(MIRRORED, thing(V1, spec={"asn": 0, "a": 1})) == {"spec": {"a": 1}}
    assert round_trips(MIRRORED, thing(V1, spec={"asn": 7})) == {"spec": {"asn": 7}}
    assert round_trips(MIRRORED, thing(V2)) == {}


@pytest.mark.parametrize("spec", [{}, {"asn": 0}, {"asn": 3, "a": 1}, None])
def test_the_mirror_loses_nothing(spec: Any) -> None:
    """What the other version shows alike would become the same object on the way back."""
    for graph in (MIRRORED, MIRRORED_SHOWN):
        round_trips(graph, thing(V1, spec=spec))
        round_trips(graph, thing(V2, spec=spec))


def test_a_value_that_is_written_stays_visible() -> None:
    """Lines would vanish from manifests, and a client would not read what it wrote."""
    assert round_trips(SHOWN, thing(V2, spec={"strategy": "Rolling"})) == {"spec": {"strategy": "Rolling"}}
    assert not is_stashed(SHOWN.convert(thing(V2, spec={"strategy": "Rolling"}), V1))
    assert not is_stashed(SHOWN.convert(thing(V1, spec={"strategy": "Rolling"}), V2))


def test_what_was_omitted_stays_omitted() -> None:
    """The spoke's client would see a field that it never wrote, as soon as the object is written at the hub."""
    stored = SHOWN.convert(thing(V1, spec={"a": 1}), V2)
    assert stored["spec"] == {"a": 1, "strategy": "Rolling"}
    assert SHOWN.convert({**stored, "spec": {**stored["spec"], "a": 2}}, V1) == thing(V1, spec={"a": 2})


def test_an_edit_wins_over_what_was_omitted() -> None:
    """A strategy that the hub's client chose would not be shown."""
    stored = SHOWN.convert(thing(V1, spec={"a": 1}), V2)
    edited = {**stored, "spec": {"a": 1, "strategy": "Recreate"}}
    assert SHOWN.convert(edited, V1)["spec"] == {"a": 1, "strategy": "Recreate"}


#: Rules that convert the object for which there is a default, or what is in it.
AROUND = [
    pytest.param([rules.rename("spec.a", "spec.b")], id="a-field-in-it"),
    pytest.param([rules.inside("spec", [rules.rename("a", "b")])], id="rules-inside-of-it"),
    pytest.param([rules.move("spec.a", "other.b")], id="a-field-moved-out"),
    pytest.param([rules.move("other.a", "spec.b")], id="a-field-moved-in"),
    pytest.param([rules.rename("spec.a", "spec.b"), rules.default("spec.n", 1)], id="a-default-in-it"),
    pytest.param([rules.default("spec.m", 1, hub="spec.n"), rules.stash(hub="spec.s")], id="a-moved-default-in-it"),
    pytest.param([rules.stash("spec.a"), rules.constant(hub="spec.c", value="k")], id="a-constant-in-it"),
    pytest.param([rules.default("spec.in", {}), rules.rename("spec.in.a", "spec.in.b")], id="two-defaults"),
]
OBJECTS: list[dict[str, Any]] = [
    {},
    {"spec": {}},
    {"spec": None},
    {"spec": {"a": 1}},
    {"spec": {"b": 1}},
    {"spec": {"n": 1}},
    {"spec": {"n": 2, "m": 1, "c": "k"}},
    {"spec": {"in": {}}},
    {"spec": {"in": {"a": 1, "b": 2}}},
    {"spec": {"z": 1}, "other": {"a": 1}},
    {"other": {"b": 1}},
    {"other": {}},
]


@pytest.mark.parametrize("hides", [True, False])
@pytest.mark.parametrize("omitted_in", ["spoke", "hub"])
@pytest.mark.parametrize("inner", AROUND)
def test_a_default_of_an_object_goes_with_the_rules_inside_of_it(
    inner: list[rules.Rule], omitted_in: Any, hides: bool
) -> None:
    """Each of the two would be right alone, and an object that is missing or empty would not come back."""
    graph = graph_of(rules.default("spec", {}, omitted_in=omitted_in, hides=hides), *inner)
    filled = V2 if omitted_in == "spoke" else V1
    for fields in OBJECTS:
        for version in (V1, V2):
            shown = round_trips(graph, thing(version, **fields))
            assert version == filled or "spec" in shown, "what one side always has is filled in"


def test_what_is_implied_in_an_object_that_is_filled_in_is_filled_in_too() -> None:
    """The object would be there without the fields that its schema requires."""
    graph = graph_of(
        rules.default("spec", {}),
        rules.default("spec.m", 1, hub="spec.n"),
        rules.constant(hub="spec.tier", value="basic"),
        rules.rename("spec.a", "spec.b"),
    )
    assert round_trips(graph, thing(V1)) == {"spec": {"n": 1, "tier": "basic"}}
    assert round_trips(graph, thing(V2, spec={"n": 1, "tier": "basic"})) == {}
    assert round_trips(graph, thing(V1, spec={"a": 1, "m": 2})) == {"spec": {"b": 1, "n": 2, "tier": "basic"}}


def test_an_object_of_one_version_alone_is_always_there() -> None:
    """A required object would be missing where nothing is moved into it."""
    graph = graph_of(rules.constant(hub="box", value={}), rules.move("image", "box.image"))
    assert round_trips(graph, thing(V1)) == {"box": {}}
    assert round_trips(graph, thing(V1, image="i")) == {"box": {"image": "i"}}
    assert round_trips(graph, thing(V2, box={})) == {}
    assert round_trips(graph, thing(V2)) == {}


@pytest.mark.parametrize(
    ("rule", "default", "filled", "converted"),
    [
        (rules.enum("mode", {"a": "A"}), rules.default("mode", "A"), "A", ("a", "A")),
        (rules.wrap("mode", "modes[]"), rules.default("mode", ["x"], hub="modes"), ["x"], ("y", ["y"])),
        (rules.rename("mode", "kindOf"), rules.default("mode", 1, hub="kindOf"), 1, (2, 2)),
        (
            rules.each("mode", [rules.rename("old", "new")], key="id"),
            rules.default("mode", []),
            [],
            ([{"id": "1", "old": 2}], [{"id": "1", "new": 2}]),
        ),
    ],
)
def test_a_default_of_a_field_that_another_rule_converts(
    rule: rules.Rule, default: rules.Rule, filled: Any, converted: tuple[Any, Any]
) -> None:
    """A function is never called for what is absent, so no other rule could fill in a required field."""
    graph = graph_of(rule, default)
    (name,) = rule.hub
    assert round_trips(graph, thing(V1)) == {name: filled}
    assert round_trips(graph, thing(V1, mode=converted[0]))[name] == converted[1]
    assert round_trips(graph, thing(V2, **{name: filled})) == {}
    assert round_trips(graph, thing(V2)) == {}


def test_defaults_inside_of_items() -> None:
    """Each item has its own absence to be kept."""
    inner = [rules.default("box", {}), rules.rename("box.a", "box.b"), rules.default("n", 1, hides=False)]
    graph = graph_of(rules.each("items", inner, key="id"))
    shown = round_trips(graph, thing(V1, items=[{"id": 1}, {"id": 2, "box": {}, "n": 1}, {"id": 3, "box": {"a": 1}}]))
    assert shown["items"] == [
        {"id": 1, "box": {}, "n": 1},
        {"id": 2, "box": {}, "n": 1},
        {"id": 3, "box": {"b": 1}, "n": 1},
    ]
    round_trips(graph, thing(V2, items=[{"id": 1}, {"id": 2, "box": {"b": 1}}, {"id": 3, "box": {}, "n": 1}]))


def test_functions_read_the_hub_as_it_is() -> None:
    """A field that is hidden from the spoke would be hidden from the functions, too."""
    graph = graph_of(
        rules.default("mode", "A"),
        rules.enum("mode", {"a": "A"}),
        rules.pair(
            "x", "x", up=lambda value: value, down=lambda value, mode: f"{value}{mode}", loses="down", reads="mode"
        ),
    )
    assert graph.convert(thing(V2, mode="A", x="1"), V1)["x"] == "1A"


def test_an_explanation_names_the_rule_that_filled_in_and_the_one_that_hides() -> None:
    """The field would be said to come from the stash, or to have gone without a trace."""
    default, mode = rules.default("spec", {}), rules.default("mode", "A")
    graph = graph_of(default, rules.rename("spec.a", "spec.b"), mode, rules.enum("mode", {"a": "A"}))
    up = explain(graph, thing(V1), V2)
    origins = {leaf.pointer: leaf.origin for leaf in up.leaves}
    assert [origins["/spec"].how, origins["/mode"].how] == [OriginKind.DEFAULT, OriginKind.DEFAULT]
    assert origins["/mode"].rules == (mode.label,)
    down = explain(graph, thing(V2, spec={}, mode="A"), V1)
    ends = {leaf.pointer: (leaf.ending, leaf.rule) for leaf in down.source_leaves}
    assert ends == {"/spec": (LeafEnding.IMPLIED, default.label), "/mode": (LeafEnding.IMPLIED, mode.label)}

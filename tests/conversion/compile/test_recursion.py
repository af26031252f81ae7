"""Rules that apply again inside of themselves, and rules inside of fields that no schema describes."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion import DefinitionError, Graph, Registry, RuleFailed, rules
from restow.conversion.compile.collections import MOST_LEVELS
from restow.conversion.explain import explain
from tests.conversion.randomkinds import GROUP, KIND, crd, freeze, obj

V1, V2 = f"{GROUP}/v1", f"{GROUP}/v2"
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
OPEN = {"type": "object", **ANYTHING}


def graph_of(*declared: rules.Rule) -> Graph:
    registry = Registry()
    registry.kind(GROUP, KIND, hub="v2").spoke("v1")(lambda: list(declared))
    return registry.freeze()


def thing(version: str = V1, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": KIND, "metadata": {"name": "a"}, "spec": spec}


def both_ways(graph: Graph, spoke: Any, hub: Any) -> None:
    """Check that one object becomes the other, and back."""
    assert graph.convert(thing(V1, **spoke), V2)["spec"] == hub
    assert graph.convert(thing(V2, **hub), V1)["spec"] == spoke


ROUTE = [rules.rename("match", "matcher"), rules.enum("mode", {"all": "All"}), rules.stash(hub="note")]
ROUTES = rules.inside("spec.route", ROUTE, recurse=["routes[]"])


def test_a_tree_of_lists_is_converted_to_its_leaves() -> None:
    """Alertmanager's routes have routes: whatever is not converted below is pruned, or matches nothing."""
    tree = {"match": 1, "routes": [{"match": 2, "routes": [{"match": 3, "mode": "all"}]}, {"match": 4, "routes": []}]}
    both_ways(
        graph_of(ROUTES),
        {"route": tree},
        {
            "route": {
                "matcher": 1,
                "routes": [
                    {"matcher": 2, "routes": [{"matcher": 3, "mode": "All"}]},
                    {"matcher": 4, "routes": []},
                ],
            }
        },
    )


def test_what_a_level_hides_comes_back_on_that_level() -> None:
    """The stash of a nested item has a place of its own; else the notes of two routes would be swapped or lost."""
    graph = graph_of(ROUTES)
    stored = thing(
        V2, route={"note": 1, "routes": [{"matcher": "a", "note": 2, "routes": [{"matcher": "b", "note": 3}]}]}
    )
    shown = graph.convert(stored, V1)
    assert shown["spec"] == {"route": {"routes": [{"match": "a", "routes": [{"match": "b"}]}]}}
    assert graph.convert(shown, V2) == stored


def test_each_applies_again_by_its_keys_under_another_name() -> None:
    """Items of a nested list are the same items by their key, as on the first level."""
    rule = rules.each("spec.nodes", [rules.stash(hub="x")], key="id", recurse={"kids": "children"})
    graph = graph_of(rule)
    both_ways(graph, {"nodes": [{"id": 1, "kids": [{"id": 2}]}]}, {"nodes": [{"id": 1, "children": [{"id": 2}]}]})
    shown = graph.convert(thing(V2, nodes=[{"id": 1, "children": [{"id": 2, "x": 2}, {"id": 3, "x": 3}]}]), V1)
    edited = {**shown, "spec": {"nodes": [{"id": 1, "kids": [{"id": 3, "new": 1}, {"id": 2}]}]}}
    assert graph.convert(edited, V2)["spec"] == {
        "nodes": [{"id": 1, "children": [{"id": 3, "new": 1, "x": 3}, {"id": 2, "x": 2}]}]
    }


def test_a_schema_like_tree_has_lists_maps_and_objects() -> None:
    """A tree of schemas goes on in properties, items and allOf: each is another container."""
    rule = rules.inside(
        "spec.schema", [rules.rename("nullable", "optional")], recurse=["properties{}", "items.", "allOf[]"]
    )
    both_ways(
        graph_of(rule),
        {"schema": {"properties": {"a": {"items": {"allOf": [{"nullable": True}, 1]}}}, "nullable": False}},
        {"schema": {"properties": {"a": {"items": {"allOf": [{"optional": True}, 1]}}}, "optional": False}},
    )


def test_a_union_holds_on_every_level() -> None:
    """Nodes of a tree are often of several types."""
    leaf = rules.when([rules.rename("a", "b")], field="type", equals="leaf")
    both_ways(
        graph_of(rules.each("spec.nodes", [leaf], recurse=["nodes"])),
        {"nodes": [{"type": "leaf", "a": 1}, {"type": "node", "a": 2, "nodes": [{"type": "leaf", "a": 3}]}]},
        {"nodes": [{"type": "leaf", "b": 1}, {"type": "node", "a": 2, "nodes": [{"type": "leaf", "b": 3}]}]},
    )


def nested(levels: int) -> dict[str, Any]:
    route: dict[str, Any] = {"match": 1}
    for _ in range(levels - 1):
        route = {"match": 1, "routes": [route]}
    return route


def test_as_many_levels_as_any_schema_has_are_converted() -> None:
    """The bound on levels would refuse objects that users write."""
    graph, obj_ = graph_of(ROUTES), thing(route=nested(MOST_LEVELS - 1))
    assert graph.convert(graph.convert(obj_, V2), V1) == obj_
    assert "match" not in str(graph.convert(obj_, V2)).replace("matcher", "")


def test_an_object_that_is_too_deep_fails_by_name() -> None:
    """One made-up object must fail alone, with the rule's name, and never end the process by its depth."""
    with pytest.raises(RuleFailed, match=r"inside\(spec.route.*applies to 100 levels"):
        graph_of(ROUTES).convert(thing(route=nested(4_000)), V2)
    with pytest.raises(RuleFailed) as error:
        graph_of(ROUTES).convert(thing(route=nested(MOST_LEVELS + 5)), V2)
    assert error.value.pointer.startswith("/spec/route/routes/0/routes/0/")


def test_an_explanation_follows_every_level() -> None:
    """Each leaf of a tree has one origin, or a reader believes that the stash had it."""
    found = explain(graph_of(ROUTES), thing(route={"match": 1, "routes": [{"match": 2}]}), V2)
    told = {leaf.pointer: leaf.origin.how.value for leaf in found.leaves}
    assert told["/spec/route/routes/0/matcher"] == "moved"


def test_a_schema_that_unrolls_its_levels_is_checked_on_each() -> None:
    """controller-gen writes a recursive type to some depth: a field that is forgotten on the second is a finding."""
    inner = {"match": {"type": "string"}, "routes": {"type": "array", "items": ANYTHING}}
    hub_inner = {"matcher": {"type": "string"}, "routes": {"type": "array", "items": ANYTHING}}

    def level(fields: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"type": "array", "items": obj({**fields, **more})}

    rule = rules.each("spec.routes", [rules.rename("match", "matcher")], recurse=["routes"])
    spoke, hub = level(inner, routes=level(inner)), level(hub_inner, routes=level(hub_inner))
    graph = freeze(
        {"v1": [rule]}, crd({"v2": obj({"spec": obj({"routes": hub})}), "v1": obj({"spec": obj({"routes": spoke})})})
    )
    both_ways(
        graph,
        {"routes": [{"match": "a", "routes": [{"match": "b", "routes": [{"match": "c"}]}]}]},
        {"routes": [{"matcher": "a", "routes": [{"matcher": "b", "routes": [{"matcher": "c"}]}]}]},
    )
    more = level(hub_inner, routes=level(hub_inner, extra={"type": "string"}))
    with pytest.raises(DefinitionError, match=r"\.spec\.routes\[\]\.routes\[\]\.extra"):
        freeze(
            {"v1": [rule]},
            crd({"v2": obj({"spec": obj({"routes": more})}), "v1": obj({"spec": obj({"routes": spoke})})}),
        )
    wrong = rules.each("spec.routes", [rules.rename("match", "matcher")], recurse=["rutes"])
    with pytest.raises(DefinitionError, match="does not declare"):
        freeze(
            {"v1": [wrong]},
            crd({"v2": obj({"spec": obj({"routes": hub})}), "v1": obj({"spec": obj({"routes": spoke})})}),
        )


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (rules.each("spec.a", [rules.rename("b", "c")], recurse=["b"]), "the recursion of each(spec.a <-> spec.a) and"),
        (rules.each("spec.a", [], recurse=["b["]), "is no path"),
        (
            rules.each(
                "spec.a",
                [rules.pair("b", "b", up=str, down=lambda v, _: v, loses="both", reads="$.status.a[].b")],
                recurse=["a"],
            ),
            "reads $.status.a[].b by keys of items",
        ),
    ],
)
def test_what_cannot_apply_again_is_refused(rule: rules.Rule, problem: str) -> None:
    """A field that goes on and is converted at once has two writers; a read by keys has no end of keys."""
    with pytest.raises(DefinitionError) as error:
        graph_of(rule)
    assert problem in str(error.value)


def opaque(*declared: rules.Rule, schema: Any = OPEN) -> Graph:
    document = crd({"v2": obj({"spec": obj({"o": schema})}), "v1": obj({"spec": obj({"o": schema})})})
    return freeze({"v1": list(declared)}, document)


@pytest.mark.parametrize("schema", [OPEN, ANYTHING])
def test_every_rule_works_inside_of_what_no_schema_describes(schema: Any) -> None:
    """A pair over the whole subtree was the only way: the stash then held it twice, and any edit forgot all of it."""
    graph = opaque(
        rules.each("spec.o.list", [rules.rename("a", "b"), rules.wrap("x", "y[]")], key="id"),
        rules.each_value("spec.o.map", [rules.enum("mode", {"a": "A"}), rules.constant(hub="fixed", value=1)]),
        rules.inside("spec.o.one", [rules.default("n", 1), rules.each("deep", [rules.stash(hub="z")], key="id")]),
        rules.unwrap("spec.o.many[]", "spec.o.single"),
        rules.pair("spec.o.text", "spec.o.length", up=lambda v: [v], down=lambda v: v[0]),
        rules.when([rules.move("spec.o.size", "spec.o.box.size")], field="spec.o.type", equals="x"),
        schema=schema,
    )
    both_ways(
        graph,
        {
            "o": {
                "list": [{"id": 1, "a": 1, "x": 2}],
                "map": {"k": {"mode": "a"}},
                "one": {"deep": [{"id": 1}]},
                "many": ["m"],
                "text": "t",
                "type": "x",
                "size": 3,
                "other": 1,
            }
        },
        {
            "o": {
                "list": [{"id": 1, "b": 1, "y": [2]}],
                "map": {"k": {"mode": "A", "fixed": 1}},
                "one": {"deep": [{"id": 1}], "n": 1},
                "single": "m",
                "length": ["t"],
                "type": "x",
                "box": {"size": 3},
                "other": 1,
            }
        },
    )


@pytest.mark.parametrize("value", [1, None, [], ["x"], {"list": 1, "map": [1], "one": "x"}, {"list": [1, None, []]}])
def test_whatever_stands_in_an_opaque_field_passes(value: Any) -> None:
    """No schema says what is there, so no type of value may fail a conversion."""
    graph = opaque(
        rules.each("spec.o.list", [rules.rename("a", "b")]),
        rules.each_value("spec.o.map", [rules.rename("a", "b")]),
        rules.inside("spec.o.one", [rules.rename("a", "b")]),
        schema=ANYTHING,
    )
    both_ways(graph, {"o": value}, {"o": value})


def test_a_list_of_another_declared_type_is_still_refused() -> None:
    """each over a declared string converts nothing, ever."""
    with pytest.raises(DefinitionError, match="needs a list"):
        opaque(rules.each("spec.o", [rules.rename("a", "b")]), schema={"type": "string"})


TEMPLATE = {
    "type": "object",
    "properties": {
        "metadata": obj({"annotations": {"type": "object", "additionalProperties": {"type": "string"}}}),
        "spec": OPEN,
    },
}
WHOLE = {"type": "object", "x-kubernetes-embedded-resource": True, **ANYTHING}


@pytest.mark.parametrize("schema", [TEMPLATE, WHOLE])
def test_labels_and_annotations_of_a_template_are_ends_of_rules(schema: Any) -> None:
    """An embedded template has metadata of its own, which belongs to the author and not to the API server."""
    graph = opaque(
        rules.move('spec.o.metadata.annotations["example.dev/zone"]', "spec.o.spec.zone"),
        rules.rename('spec.o.metadata.annotations["old/x"]', 'spec.o.metadata.annotations["new/x"]'),
        schema=schema,
    )
    both_ways(
        graph,
        {"o": {"metadata": {"annotations": {"example.dev/zone": "z", "old/x": "1", "b": "c"}}, "spec": {"d": 1}}},
        {"o": {"metadata": {"annotations": {"new/x": "1", "b": "c"}}, "spec": {"d": 1, "zone": "z"}}},
    )


def test_labels_and_annotations_of_the_object_are_ends_of_every_rule() -> None:
    """The way from an alpha annotation to a field, and from a field to a label, needs more than a plain move."""
    label, annotation = 'metadata.labels["example.dev/tier"]', 'metadata.annotations["example.dev/n"]'
    graph = graph_of(
        rules.enum(label, {"a": "Alpha"}, hub="spec.tier"),
        rules.pair(annotation, "spec.number", up=int, down=str),
        rules.when([rules.rename("spec.size", "spec.large")], has='metadata.labels["example.dev/big"]'),
    )
    spoke = thing(V1, size=1)
    spoke["metadata"] |= {
        "labels": {"example.dev/tier": "a", "example.dev/big": "x"},
        "annotations": {"example.dev/n": "5"},
    }
    hub = graph.convert(spoke, V2)
    assert hub["spec"] == {"large": 1, "tier": "Alpha", "number": 5}
    assert hub["metadata"] == {"name": "a", "labels": {"example.dev/big": "x"}}
    assert graph.convert(hub, V1) == spoke

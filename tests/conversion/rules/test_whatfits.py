"""What a standard rule shows fits the schema of its version, whatever text or number a client has stored."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from restow.conversion import Registry, rules
from restow.conversion.compile.graph import Graph, KindGraph
from restow.conversion.manifests import Targets, convert_manifest
from restow.conversion.model.values import canonical
from restow.conversion.testing.laws import Laws
from tests.conversion.rules.standardkinds import GROUP, INTEGER, KIND, NUMBER, TEXT, Node, crd_of, listed, obj

INT32: Node = {"type": "integer", "format": "int32"}
LIMITS = 'metadata.annotations["example.dev/limits"]'
A_TEMPLATE = ("$(X)", "${X}", "{{ .x }}")


def graph_of(rule: rules.Rule, spoke: Node | None = None, hub: Node | None = None) -> Graph:
    """Freeze one rule, with a CRD if there are fields."""
    registry = Registry()
    registry.kind(GROUP, KIND, hub="v2").spoke("v1")(lambda: [rule])
    if spoke is None and hub is None:
        return registry.freeze()
    return registry.freeze([crd_of(obj(spoke or {}), obj(hub or {}))])


def kind_of(graph: Graph) -> KindGraph:
    return graph.kind(GROUP, KIND)


def thing(version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": KIND, "metadata": {"name": "a"}, "spec": {"z": 1, **fields}}


def from_server(value: Any) -> Any:
    """Return a value as an API server stores it: 64-bit integers, other numbers as floats that are printed by Go."""
    if isinstance(value, dict):
        return {name: from_server(each) for name, each in value.items()}
    if isinstance(value, list):
        return [from_server(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        value = float(value)
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 10**21
    return int(Decimal(repr(value))) if is_whole else value


def shown(graph: Graph, source: str, **fields: Any) -> dict[str, Any]:
    """Convert an object; check that it fits, and comes back, also from an API server that stored it."""
    target = "v2" if source == "v1" else "v1"
    given = thing(source, **fields)
    if kind_of(graph).schema("v1") is not None:
        Laws(kind_of(graph)).validity(given, target)
    there = graph.convert(given, f"{GROUP}/{target}")
    assert canonical(graph.convert(there, f"{GROUP}/{source}")) == canonical(given)
    stored = graph.convert(from_server(there), f"{GROUP}/{source}")
    assert canonical(stored["spec"]) == canonical(given["spec"])
    return {name: value for name, value in there["spec"].items() if name != "z"}


Z: Node = {"z": INTEGER}


@pytest.mark.parametrize("text", A_TEMPLATE)
@pytest.mark.parametrize(
    ("rule", "node", "expected"),
    [
        (rules.duration("spec.a", unit="s"), INTEGER, {}),
        (rules.duration("spec.a", unit="s", otherwise=0), INTEGER, {"a": 0}),
        (rules.quantity("spec.a", unit="Mi"), INTEGER, {}),
        (rules.cast("spec.a", spoke_type="string", hub_type="integer"), INTEGER, {}),
        (rules.cast("spec.a", spoke_type="string", hub_type="boolean"), {"type": "boolean"}, {}),
        (rules.split("spec.a"), listed(TEXT), {"a": [...]}),
        (rules.json("spec.a"), {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {}),
    ],
)
def test_a_text_with_a_template_is_no_value_of_another_type(
    rule: rules.Rule, node: Node, expected: dict[str, Any], text: str
) -> None:
    """A client that stores such a text at one version would break every typed client of the other version."""
    graph = graph_of(rule, {"a": TEXT, **Z}, {"a": node, **Z})
    if expected == {"a": [...]}:
        expected = {"a": [text]}
    assert shown(graph, "v1", a=text) == expected


@pytest.mark.parametrize("text", A_TEMPLATE)
def test_a_list_or_an_object_with_a_template_is_shown_as_a_text(text: str) -> None:
    """A list or an object would stand in a field that is a text."""
    joined = graph_of(rules.join("spec.a"), {"a": listed(TEXT), **Z}, {"a": TEXT, **Z})
    assert shown(joined, "v1", a=["x", text]) == {"a": f"x,{text}"}
    opened = obj({"b": TEXT})
    graph = graph_of(rules.json("spec.a", text="hub"), {"a": opened, **Z}, {"a": TEXT, **Z})
    assert shown(graph, "v1", a={"b": text}) == {"a": canonical({"b": text}).decode()}


@pytest.mark.parametrize("has_crd", [False, True])
def test_an_annotation_is_always_a_text(has_crd: bool) -> None:
    """API servers refuse an answer with any other annotation, and with it the list that the object is in."""
    fields = {"limits": obj({"cpu": TEXT}), **Z}
    graph = graph_of(rules.json(LIMITS, "spec.limits"), *((Z, fields) if has_crd else ()))
    there = graph.convert(thing("v2", limits={"cpu": "$(X)"}), f"{GROUP}/v1")
    assert there["metadata"]["annotations"]["example.dev/limits"] == '{"cpu":"$(X)"}'
    assert graph.convert(there, f"{GROUP}/v2") == thing("v2", limits={"cpu": "$(X)"})


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (rules.cast("spec.a", spoke_type="string", hub_type="integer"), "18446744073709551615"),
        (rules.cast("spec.a", spoke_type="string", hub_type="number"), "18446744073709551615"),
        (rules.quantity("spec.a"), "1e30"),
        (rules.quantity("spec.a", unit="m"), "9E"),
        (rules.scale("spec.a", factor=1000), 2**63 - 1),
        (rules.scale("spec.a", factor="1000/3"), 3 * 2**60),
        (rules.cast("spec.a", spoke_type="number", hub_type="integer"), 1e308),
    ],
)
def test_an_integer_has_64_bits(rule: rules.Rule, value: Any) -> None:
    """API servers turn larger ones into floats: clients cannot read these, and another number comes back."""
    found = shown(graph_of(rule), "v1", a=value).get("a")
    assert found is None or isinstance(found, float) or -(2**63) <= found < 2**63


@pytest.mark.parametrize(
    ("rule", "node", "fits", "too_large"),
    [
        (rules.duration("spec.a", unit="ms"), TEXT, "1h0m0s", "2562047h0m0s"),
        (rules.quantity("spec.a"), TEXT, "2M", "3G"),
        (rules.quantity("spec.a", unit="Ki"), TEXT, "1Gi", "4Ti"),
        (rules.cast("spec.a", spoke_type="string", hub_type="integer"), TEXT, "2147483647", "2147483648"),
        (rules.scale("spec.a", factor=1000), INTEGER, 7, 2**31),
        (rules.scale("spec.a", factor=1), INTEGER, -(2**31), -(2**31) - 1),
    ],
)
def test_a_field_of_32_bits_shows_no_larger_number(rule: rules.Rule, node: Node, fits: Any, too_large: Any) -> None:
    """Typed clients cannot read a larger number, and so nothing of the list that it is in."""
    graph = graph_of(rule, {"a": node, **Z}, {"a": INT32, **Z})
    for value in (fits, fits, too_large, too_large):
        found = shown(graph, "v1", a=value)
        assert ("a" in found) is (value == fits)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"cpu":"1"}', {"a": {"cpu": "1"}}),
        ('{"cpu":1}', {}),
        ('{"gpu":"1"}', {}),
        ('{"cpu":"1","gpu":"1"}', {}),
    ],
)
def test_an_object_is_shown_where_the_schema_holds_all_of_it(text: str, found: dict[str, Any]) -> None:
    """Clients would not see the object, or one of which the API server prunes a field with its next write."""
    graph = graph_of(rules.json("spec.a"), {"a": TEXT, **Z}, {"a": obj({"cpu": TEXT}), **Z})
    assert shown(graph, "v1", a=text) == found


def test_a_value_of_another_type_passes_as_it_is() -> None:
    """An object that is there already, where a text is due, would be hidden from the clients that wrote it."""
    graph = graph_of(rules.json("spec.a"), {"a": TEXT, **Z}, {"a": obj({"cpu": TEXT}), **Z})
    there = graph.convert(thing("v1", a={"gpu": "1"}), f"{GROUP}/v2")
    assert there["spec"] == {"a": {"gpu": "1"}, "z": 1}


@pytest.mark.parametrize("text", ['{"id":18446744073709551615}', '{"a":1.0}', '{"a":[1e2,0.5]}', '{"a":1e300}'])
def test_a_json_text_survives_how_an_api_server_spells_numbers(text: str) -> None:
    """The text would come back with other numbers, without an entry in the stash."""
    shown(graph_of(rules.json("spec.a")), "v1", a=text)


def test_offline_a_template_stays_where_it_is_with_a_crd_too() -> None:
    """A manifest would lose the expression to the stash annotation, where no tool fills it in."""
    rule = rules.duration("spec.a", "spec.b", unit="s")
    graph = graph_of(rule, {"a": TEXT, **Z}, {"b": INTEGER, **Z})
    text = f"apiVersion: {GROUP}/v1\nkind: {KIND}\nmetadata:\n  name: a\nspec:\n  a: ${{DRAIN}}\n  z: 1\n"
    found = convert_manifest(text, graph, Targets.of(graph, "v2"))
    assert found.text == text.replace("/v1", "/v2")
    assert [each.spared for each in found.outcomes] == [("/spec/a",)]


def test_a_number_field_shows_a_large_text_approximately() -> None:
    """A number of a schema has no bounds: what an API server makes of it is shown at once."""
    graph = graph_of(rules.cast("spec.a", spoke_type="string", hub_type="number"), {"a": TEXT, **Z}, {"a": NUMBER, **Z})
    assert shown(graph, "v1", a="18446744073709551616") == {"a": 18446744073709551616.0}

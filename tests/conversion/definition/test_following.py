"""Whoever follows the advice of findings to the letter gets to rules without findings: it is the way in for authors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from restow.crds import Crd
from tests.conversion.definition.following import every, followed
from tests.conversion.randomkinds import crd, keyed, obj
from tests.upstream.files import cluster_api, crossplane, kueue, metallb

Node = dict[str, Any]
LEAVES: list[Node] = [
    {"type": "string"},
    {"type": "integer"},
    {"type": "boolean"},
    {"x-kubernetes-int-or-string": True},
    {"type": "string", "enum": ["a", "b"]},
    {"type": "string", "enum": ["b", "c"]},
    {"type": "string", "default": "x"},
]
OPAQUE: Node = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@st.composite
def nodes(draw: st.DrawFn, depth: int) -> Node:
    kind = draw(st.sampled_from(["leaf"] if not depth else ["leaf", "object", "list", "keyed", "map", "opaque"]))
    match kind:
        case "object":
            return draw(objects(depth - 1))
        case "list":
            return {"type": "array", "items": draw(nodes(depth - 1))}
        case "keyed":
            inner = draw(objects(depth - 1))
            return keyed({**inner, "properties": {**inner["properties"], "id": {"type": "string"}}})
        case "map":
            return {"type": "object", "additionalProperties": draw(nodes(depth - 1))}
        case "opaque":
            return OPAQUE
    return draw(st.sampled_from(LEAVES))


@st.composite
def objects(draw: st.DrawFn, depth: int) -> Node:
    names = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, unique=True))
    required = [name for name in names if draw(st.booleans())]
    return obj({name: draw(nodes(depth)) for name in names}, **({"required": required} if required else {}))


@st.composite
def edited(draw: st.DrawFn, node: Node) -> Node:
    """Return a node as a later version may declare it: much is as before, some fields came, went, or are required."""
    if not draw(st.integers(0, 7)):
        return draw(nodes(2))
    found = dict(node)
    if "properties" in node:
        kept = {name: draw(edited(each)) for name, each in node["properties"].items() if draw(st.integers(0, 4))}
        kept |= {"id": node["properties"]["id"]} if "id" in node["properties"] and draw(st.integers(0, 5)) else {}
        if draw(st.booleans()):
            kept[draw(st.sampled_from(["a", "d"]))] = draw(nodes(1))
        must = [name for name in kept if name == "id" or draw(st.booleans())]
        found = obj(kept, **({"required": must} if must else {}))
    for inside in ("items", "additionalProperties"):
        if inside in node:
            found[inside] = draw(edited(node[inside]))
    if (
        "x-kubernetes-list-map-keys" in node
        and "name" not in found["items"].get("properties", {})
        and draw(st.booleans())
    ):
        fields = {**found["items"].get("properties", {}), "name": {"type": "string"}}
        fields.pop("id", None)
        return keyed(obj(fields), "name")
    is_keyed = "id" in found.get("items", {}).get("properties", {})
    if "x-kubernetes-list-map-keys" in node and not (is_keyed and draw(st.integers(0, 5))):
        found = {"type": "array", "items": found["items"]}
    return found


@st.composite
def versions(draw: st.DrawFn) -> tuple[Node, Node]:
    """Return two versions of a schema."""
    spec = draw(objects(3))
    later = draw(edited(spec))
    return tuple(obj({"spec": each}) for each in draw(st.permutations([spec, later])))  # type: ignore[return-value]


TEXT: Node = {"type": "string"}


def specs(spoke: Node, hub: Node) -> tuple[Node, Node]:
    return obj({"spec": spoke}), obj({"spec": hub})


def listed(**fields: Node) -> Node:
    return {"type": "array", "items": obj(fields)}


#: A field that only one version describes, and that this one requires.
DESCRIBED = specs(obj({"c": OPAQUE}), obj({"c": obj({"a": TEXT})}, required=["c"]))
DESCRIBED_LIST = specs(
    obj({"b": {"type": "array", "items": OPAQUE}}), obj({"b": keyed(obj({"a": OPAQUE, "id": TEXT}))}, required=["b"])
)
#: What identifies the items of a list has another name, another type, or may be missing.
RENAMED_KEY = specs(obj({"a": listed(a=TEXT, b=TEXT)}), obj({"a": keyed(obj({"a": TEXT, "id": TEXT}))}))
CAST_KEY = specs(obj({"a": keyed(obj({"a": TEXT, "id": TEXT}))}), obj({"a": listed(id={"type": "integer"})}))
OPTIONAL_KEY = specs(obj({"a": listed(id=TEXT)}), obj({"a": keyed(obj({"id": TEXT}))}))
#: A list in a list of the same name, whose rules have one name too.
SAME_NAMES = specs(
    obj({"a": keyed(obj({"a": keyed(obj({"a": TEXT, "id": TEXT})), "b": TEXT, "id": TEXT}))}),
    obj({"a": listed(a=listed())}),
)
#: A required object that a pair makes, and that requires more than the pair gives.
MADE = specs(
    obj({"a": obj({"a": listed(a=TEXT), "b": TEXT}, required=["b"]), "b": TEXT}, required=["a"]),
    obj({"a": obj({"a": {"type": "array", "items": TEXT}})}, required=["a"]),
)


#: A list and a map whose items and values have other fields.
KEYED = specs(
    obj({"a": {"type": "object", "additionalProperties": obj({"b": TEXT, "c": TEXT})}}),
    obj({"a": keyed(obj({"b": TEXT, "c": {"type": "integer"}, "id": TEXT}))}),
)


@pytest.mark.parametrize("choice", [0, 1])
@example(schemas=DESCRIBED)
@example(schemas=KEYED)
@example(schemas=DESCRIBED_LIST)
@example(schemas=RENAMED_KEY)
@example(schemas=CAST_KEY)
@example(schemas=OPTIONAL_KEY)
@given(schemas=versions())
def test_every_advice_leads_to_rules_without_findings(schemas: tuple[Node, Node], choice: int) -> None:
    """An author would follow an advice, and be refused with another text, or with the same one."""
    spoke, hub = schemas
    followed([], crd({"v2": hub, "v1": spoke}), "v2", "v1", choice=choice)


#: A list that differs in an object that a rename converts as a whole.
LIST_IN_OBJECT = specs(
    obj({"a": obj({"c": {"type": "array", "items": TEXT}}, required=["c"])}, required=["a"]),
    obj(
        {"a": obj({"a": TEXT, "b": OPAQUE, "c": listed(a=TEXT)}, required=["c"]), "b": TEXT, "c": TEXT}, required=["a"]
    ),
)


@pytest.mark.parametrize("choice", [0, 1])
@example(schemas=LIST_IN_OBJECT)
@example(schemas=DESCRIBED[::-1])
@example(schemas=RENAMED_KEY)
@example(schemas=CAST_KEY)
@example(schemas=SAME_NAMES)
@example(schemas=MADE)
@given(schemas=versions())
def test_every_advice_inside_of_what_is_moved_leads_there_too(schemas: tuple[Node, Node], choice: int) -> None:
    """What differs inside of an object that a rename converts would be reported without a way out."""
    spoke, hub = schemas
    moved = obj({"conf": hub["properties"]["spec"]})
    renamed = {"rename": {"spoke": "spec", "hub": "conf"}}
    followed([renamed], crd({"v2": moved, "v1": spoke}), "v2", "v1", choice=choice)


REAL = {
    "metallb_bgppeers": (metallb, "v1beta1", "v1beta2"),
    "kueue_workloads": (kueue, "v1beta1", "v1beta2"),
    "cluster-api_machines": (cluster_api, "v1beta1", "v1beta2"),
    "crossplane_compositeresourcedefinitions": (crossplane, "v1", "v2"),
}


@pytest.mark.parametrize("name", REAL)
def test_real_kinds_get_rules_from_advice_alone(name: str) -> None:
    """What people write is other than what we draw: lists of pod templates, conditions, references."""
    folder, spoke, hub = REAL[name]
    assert [*every(followed([], _real(folder, name.partition("_")[2], {spoke, hub}), hub, spoke))]


def _real(folder: Callable[[], Path], plural: str, names: set[str]) -> Crd:
    (file,) = folder().glob(f"*_{plural}.yaml")
    document = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    versions = [each for each in document["spec"]["versions"] if each["name"] in names]
    return Crd.from_document({**document, "spec": {**document["spec"], "versions": versions}})

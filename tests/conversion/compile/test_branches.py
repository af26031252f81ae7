"""Rules for one branch of a union: how the branch is decided, and what becomes of objects in other branches."""

from __future__ import annotations

import json
from typing import Any

import pytest

from restow.conversion import DefinitionError, Graph, Registry, rules
from restow.conversion.explain import explain
from tests.conversion.randomkinds import GROUP, KIND, crd, freeze, obj

V1, V2 = f"{GROUP}/v1", f"{GROUP}/v2"
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def graph_of(*declared: Any) -> Graph:
    registry = Registry()
    registry.kind(GROUP, KIND, hub="v2").spoke("v1")(lambda: list(declared))
    return registry.freeze()


def thing(version: str = V1, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": KIND, "metadata": {"name": "a"}, **fields}


def spec_of(graph: Graph, version: str, **spec: Any) -> Any:
    """Convert an object to the other version, and check that it comes back."""
    before, other = thing(version, spec=spec), V2 if version == V1 else V1
    after = graph.convert(before, other)
    assert graph.convert(after, version) == before
    return after.get("spec")


def problems(*declared: Any, spoke: Any = None, hub: Any = None) -> str:
    """Return what freezing says of rules, with schemas of spec if given."""
    with pytest.raises(DefinitionError) as error:
        typed(*declared, spoke=spoke, hub=hub) if spoke else graph_of(*declared)
    return str(error.value)


def typed(*declared: rules.Rule, spoke: Any, hub: Any) -> Graph:
    """Freeze rules with schemas of spec."""
    return freeze({"v1": list(declared)}, crd({"v2": obj({"spec": obj(hub)}), "v1": obj({"spec": obj(spoke)})}))


STORES = (
    rules.enum("spec.type", {"s3": "S3", "minio": "MinIO", "gcs": "GCS"}),
    rules.when(
        [rules.rename("spec.size", "spec.sizeGb"), rules.stash(hub="spec.tier")],
        field="spec.type",
        equals=["s3", "minio"],
    ),
    rules.when([rules.wrap("spec.size", "spec.sizes[]")], field="spec.type", equals="gcs"),
)


@pytest.mark.parametrize(
    ("spoke", "hub"),
    [
        ({"type": "s3", "size": 1}, {"type": "S3", "sizeGb": 1}),
        ({"type": "minio", "size": 1}, {"type": "MinIO", "sizeGb": 1}),
        ({"type": "gcs", "size": 1}, {"type": "GCS", "sizes": [1]}),
        ({"type": "other", "size": 1}, {"type": "other", "size": 1}),
        ({"size": 1}, {"size": 1}),
        ({"type": None, "size": 1}, {"type": None, "size": 1}),
        ({"type": {"s3": 1}, "size": 1}, {"type": {"s3": 1}, "size": 1}),
    ],
)
def test_the_discriminator_decides_alike_in_both_directions(spoke: Any, hub: Any) -> None:
    """Another branch on the way back would leave fields under names that no version has."""
    graph = graph_of(*STORES)
    assert spec_of(graph, V1, **spoke) == hub
    assert spec_of(graph, V2, **hub) == spoke


def test_an_edit_that_changes_the_branch_brings_nothing_of_the_other_one_back() -> None:
    """The hidden tier of an S3 store would end up in a GCS store that the client has made of it."""
    graph = graph_of(*STORES)
    stored = thing(V2, spec={"type": "S3", "sizeGb": 1, "tier": "cold"})
    shown = graph.convert(stored, V1)
    assert shown["spec"] == {"type": "s3", "size": 1}
    assert graph.convert({**shown, "spec": {"type": "gcs", "size": 1}}, V2)["spec"] == {"type": "GCS", "sizes": [1]}
    assert graph.convert({**shown, "spec": {"size": 1}}, V2)["spec"] == {"size": 1}


def test_an_edit_within_the_branch_keeps_what_it_hides() -> None:
    """Two values of one branch mean the same rules: what is hidden belongs to the branch, not to the value."""
    graph = graph_of(*STORES)
    shown = graph.convert(thing(V2, spec={"type": "S3", "sizeGb": 1, "tier": "cold"}), V1)
    edited = {**shown, "spec": {"type": "minio", "size": 2}}
    assert graph.convert(edited, V2)["spec"] == {"type": "MinIO", "sizeGb": 2, "tier": "cold"}


@pytest.mark.parametrize(
    "entry", [1, {}, {"branch": "x"}, {"branch": "gcs", "shown": "s3"}, {"branch": [], "inside": 1}, {"inside": {}}]
)
def test_no_stash_of_any_shape_fails_a_conversion(entry: Any) -> None:
    """Any client can write the annotation, and must not make an object unreadable by it."""
    stash = {f"{GROUP}/conversion-stash": json.dumps({"format": 1, "kept": {"v2": {"?.spec.type": entry}}})}
    sent = thing(V1, spec={"type": "s3", "size": 1})
    sent["metadata"]["annotations"] = stash
    assert graph_of(*STORES).convert(sent, V2)["spec"]["type"] == "S3"


def test_the_default_of_a_discriminator_names_the_branch_of_objects_without_one() -> None:
    """A client that leaves the type out would get its fields under the names of no branch."""
    graph = graph_of(
        rules.default("spec.type", "s3"),
        rules.when([rules.rename("spec.size", "spec.sizeGb")], field="spec.type", equals="s3"),
    )
    assert spec_of(graph, V1, size=1) == {"sizeGb": 1, "type": "s3"}
    assert spec_of(graph, V2, sizeGb=1, type="s3") == {"size": 1}
    assert spec_of(graph, V2, sizeGb=1) == {"size": 1}


def test_a_default_around_a_table_names_the_branch_too() -> None:
    """The default is told in the hub's words, the branch in the spoke's."""
    graph = graph_of(
        rules.default("spec.type", "S3"),
        rules.enum("spec.type", {"s3": "S3", "gcs": "GCS"}),
        rules.when([rules.rename("spec.size", "spec.sizeGb")], field="spec.type", equals="s3"),
    )
    assert spec_of(graph, V1, size=1) == {"sizeGb": 1, "type": "S3"}
    assert spec_of(graph, V1, size=1, type="gcs") == {"size": 1, "type": "GCS"}
    shown = graph.convert(thing(V1, spec={"size": 1}), V2)
    assert f"{GROUP}/conversion-stash" not in shown["metadata"].get("annotations", {})


def test_values_that_are_no_texts_decide_too() -> None:
    """1 and true are different values in JSON, and must not name the same branch."""
    graph = graph_of(
        rules.when([rules.rename("spec.a", "spec.one")], field="spec.mode", equals=1),
        rules.when([rules.rename("spec.a", "spec.yes")], field="spec.mode", equals=True),
        rules.when([rules.rename("spec.a", "spec.none")], field="spec.mode", equals=[None]),
    )
    assert spec_of(graph, V1, mode=1, a=5) == {"mode": 1, "one": 5}
    assert spec_of(graph, V1, mode=True, a=5) == {"mode": True, "yes": 5}
    assert spec_of(graph, V1, a=5) == {"none": 5}


PROVIDERS = (
    rules.when(
        [
            rules.inside("spec.s3", [rules.rename("id", "key")], hub="spec.aws"),
            rules.rename("spec.zone", "spec.region"),
        ],
        has="spec.s3",
        hub="spec.aws",
    ),
    rules.when([rules.rename("spec.zone", "spec.location")], has="spec.gcs"),
)


@pytest.mark.parametrize(
    ("spoke", "hub"),
    [
        ({"s3": {"id": 1}, "zone": "z"}, {"aws": {"key": 1}, "region": "z"}),
        ({"gcs": {}, "zone": "z"}, {"gcs": {}, "location": "z"}),
        ({"s3": None, "zone": "z"}, {"s3": None, "zone": "z"}),
        ({"s3": {"id": 1}, "gcs": {"a": 1}, "zone": "z"}, {"aws": {"key": 1}, "gcs": {"a": 1}, "region": "z"}),
    ],
)
def test_presence_decides_and_the_first_branch_counts(spoke: Any, hub: Any) -> None:
    """An object with the fields of two branches, which no API server refuses, must be converted one way both ways."""
    assert spec_of(graph_of(*PROVIDERS), V1, **spoke) == hub


def test_branches_by_presence_that_share_no_field_all_hold() -> None:
    """Fields of unrelated branches would not be converted, because of an order that does not matter."""
    graph = graph_of(
        rules.when([rules.rename("spec.tlsPort", "spec.securePort")], has="spec.tls"),
        rules.when([rules.rename("spec.user", "spec.login")], has="spec.auth"),
    )
    assert spec_of(graph, V1, tls={}, auth={}, tlsPort=1, user="u") == {
        "tls": {},
        "auth": {},
        "securePort": 1,
        "login": "u",
    }


def test_a_branch_whose_field_is_hidden_as_a_whole_comes_back() -> None:
    """The deciding object is empty to the other version: without a word in the stash its branch would be forgotten."""
    graph = graph_of(
        rules.when([rules.stash("spec.s3.id"), rules.rename("spec.zone", "spec.region")], has="spec.s3"),
        rules.when([rules.rename("spec.zone", "spec.location")], has="spec.gcs"),
    )
    assert spec_of(graph, V1, s3={"id": 1}, zone="z") == {"region": "z"}
    assert spec_of(graph, V1, s3={"id": 1}, gcs={}, zone="z") == {"region": "z", "gcs": {}}


def test_unions_work_inside_of_each_and_of_branches() -> None:
    """A union stands where its discriminator does: in the items of a list, and in a branch of another union."""
    level = rules.when(
        [
            rules.rename("x", "y"),
            rules.when([rules.rename("deep", "deeper")], field="level", equals=2),
        ],
        field="kind",
        equals="A",
    )
    graph = graph_of(rules.each("spec.items", [level, rules.rename("all", "every")], key="name"))
    items = [
        {"name": "1", "kind": "A", "x": 1, "level": 2, "deep": 1, "all": 1},
        {"name": "2", "kind": "A", "x": 1, "level": 1, "deep": 1},
        {"name": "3", "kind": "B", "x": 1, "level": 2, "deep": 1, "all": 2},
    ]
    assert spec_of(graph, V1, items=items) == {
        "items": [
            {"name": "1", "kind": "A", "level": 2, "every": 1, "y": 1, "deeper": 1},
            {"name": "2", "kind": "A", "level": 1, "deep": 1, "y": 1},
            {"name": "3", "kind": "B", "x": 1, "level": 2, "deep": 1, "every": 2},
        ]
    }


def test_functions_of_a_branch_read_the_object_as_it_was() -> None:
    """A rule that holds always has converted the field already, so its hub name would read nothing."""
    shown = rules.pair("spec.a", "spec.b", up=lambda v: v, down=lambda v, n: [v, n], loses="both", reads="spec.number")
    graph = graph_of(rules.rename("spec.no", "spec.number"), rules.when([shown], field="spec.type", equals="x"))
    assert graph.convert(thing(V2, spec={"type": "x", "b": 1, "number": 7}), V1)["spec"]["a"] == [1, 7]


def test_fields_may_change_places_with_those_of_a_branch() -> None:
    """A step that puts a field where another step has not yet taken one would overwrite it."""
    graph = graph_of(
        rules.rename("spec.b", "spec.c"), rules.when([rules.rename("spec.a", "spec.b")], field="spec.t", equals="x")
    )
    assert spec_of(graph, V1, t="x", a=1, b=2) == {"t": "x", "b": 1, "c": 2}
    assert spec_of(graph, V2, t="x", b=1, c=2) == {"t": "x", "a": 1, "b": 2}
    other = graph_of(
        rules.rename("spec.a", "spec.b"), rules.when([rules.rename("spec.b", "spec.c")], field="spec.t", equals="x")
    )
    assert spec_of(other, V1, t="x", a=1, b=2) == {"t": "x", "b": 1, "c": 2}


TYPED = {"type": {"type": "string", "enum": ["s3", "gcs"]}, "size": NUMBER, "shape": TEXT}
TYPED_HUB = {"type": {"type": "string", "enum": ["s3", "gcs"]}, "sizeGb": NUMBER, "shape": NUMBER}
ONE = rules.when(
    [
        rules.rename("spec.size", "spec.sizeGb"),
        rules.pair("spec.shape", "spec.shape", up=len, down=lambda n: "x" * n, loses="both"),
    ],
    field="spec.type",
    equals="s3",
)


def test_what_only_another_branch_converts_is_kept() -> None:
    """No version may get a field that it does not declare, or one of another type: the server prunes or refuses it."""
    graph = typed(ONE, spoke=TYPED, hub=TYPED_HUB)
    assert spec_of(graph, V1, type="s3", size=1, shape="xx") == {"type": "s3", "sizeGb": 1, "shape": 2}
    assert spec_of(graph, V1, type="gcs", size=1, shape="xx") == {"type": "gcs"}
    assert spec_of(graph, V2, type="gcs", sizeGb=1, shape=3) == {"type": "gcs"}


def test_an_explanation_names_the_rule_of_the_branch() -> None:
    """Who wonders where a field went must be told the rule that moved it, and where in the stash the rest is."""
    text = str(explain(graph_of(*STORES), thing(V2, spec={"type": "S3", "sizeGb": 1, "tier": "cold"}), V1))
    assert "rename" in text
    found = explain(graph_of(*STORES), thing(V2, spec={"type": "S3", "tier": "cold"}), V1)
    assert [leaf.where for leaf in found.source_leaves if leaf.where] == ["v2 ?.spec.type.spec.tier"]


SIZE = [rules.rename("spec.size", "spec.sizeGb")]


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ([rules.when(SIZE)], "has neither field= nor has="),
        ([rules.when(SIZE, field="spec.type")], "has no value in equals="),
        ([rules.when(SIZE, field="spec.type", equals="a", has="spec.b")], "has field= and has="),
        ([rules.when(SIZE, field="spec.type", equals=[{}])], "is no scalar"),  # type: ignore[list-item]
        ([rules.when(SIZE, field="spec.[", equals="a")], "is no path"),
        ([rules.when(SIZE, field="spec.type", equals="a"), *SIZE], "claim it"),
        (
            [rules.when(SIZE, field="spec.type", equals="a"), rules.when([], field="spec.type", equals=["b", "a"])],
            "two branches (rules.when) are for its value 'a'",
        ),
        (
            [rules.when(SIZE, field="spec.type", equals="a"), rules.rename("spec.type", "spec.kind")],
            'Give hub="spec.kind"',
        ),
        (
            [rules.when([rules.rename("spec.type", "spec.kind")], field="spec.type", equals="a")],
            "in this branch converts it",
        ),
        (
            [rules.when(SIZE, field="spec.type", equals="a"), rules.pair("spec.type", "spec.type", up=str, down=str)],
            "may lose the branch",
        ),
        (
            [rules.when(SIZE, field="spec.type", equals="a"), rules.enum("spec.type", {"a": "X", "b": "X"})],
            "Add 'b' to equals=",
        ),
        ([rules.when(SIZE, has="spec.a", hub="spec.b")], "no rule makes the one of the other"),
        ([rules.when(SIZE, has="spec.a"), rules.move("spec.x", "spec.a.x")], "makes it for other objects"),
        ([rules.when(SIZE, has="spec.a"), rules.stash("spec.a")], "may lose the branch"),
        ([rules.when(SIZE, has="spec.a.x"), rules.inside("spec.a", [rules.rename("x", "y")])], 'Give hub="spec.a.y"'),
        (
            [rules.when(SIZE, has="spec.a.x"), rules.inside("spec.a", [rules.wrap("x", "y[]")])],
            "may lose the branch",
        ),
        (
            [
                rules.rename("spec.b", "spec.a"),
                rules.when([rules.rename("spec.a", "spec.b")], field="spec.t", equals="x"),
            ],
            "in a circle through a branch",
        ),
        ([rules.each("spec.l", [rules.when([rules.rename("n", "id")], has="x")], key="id")], "changes the key id"),
    ],
)
def test_a_branch_that_cannot_be_decided_alike_is_refused(declared: Any, problem: str) -> None:
    """Each of these would convert an object by one branch there and by another one back."""
    assert problem in problems(*declared)


def test_a_discriminator_is_checked_against_the_schemas() -> None:
    """A misspelled value would be a branch that no object is ever in."""
    schema = {"type": {"type": "string", "enum": ["a"]}, "size": NUMBER}
    hub = {"type": {"type": "string", "enum": ["a"]}, "sizeGb": NUMBER}
    assert "is for 'b', which the enum does not have" in problems(
        rules.when(SIZE, field="spec.type", equals="b"), spoke=schema, hub=hub
    )
    assert "does not declare" in problems(rules.when(SIZE, field="spec.tipe", equals="a"), spoke=schema, hub=hub)

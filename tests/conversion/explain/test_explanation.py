"""Explanations: every leaf has one origin, the origin is the true one, and every field of the source is explained."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from restow.conversion import Graph, ObjectError, Registry, rules
from restow.conversion.explain import Explanation, LeafEnding, OriginKind, explain, leaves, value_at
from restow.conversion.model.fieldpath import pointer
from restow.conversion.model.values import ABSENT, same
from restow.conversion.testing import objects
from tests.conversion.example import CRDS
from tests.conversion.example import graph as example
from tests.conversion.randomkinds import GROUP, KIND, crd, freeze, kinds, obj

RELAXED = settings(suppress_health_check=list(HealthCheck), deadline=None)
STASH = f"{GROUP}/conversion-stash"
STASHES = {STASH, "edge.example.dev/conversion-stash"}
CARRIED = (OriginKind.COPIED, OriginKind.MOVED)


def without(value: Any, steps: tuple[Any, ...]) -> Any:
    """The object without a field; an item of a list becomes another value, so that the others keep their places."""
    changed = copy.deepcopy(value)
    around = value_at(changed, steps[:-1])
    if isinstance(around, list):
        around[steps[-1]] = "another"
    else:
        del around[steps[-1]]
    return changed


EXAMPLES = {found.kind: found for found in CRDS}


@st.composite
def over_the_hub(draw: st.DrawFn) -> tuple[Graph, Any, str]:
    """Draw an object of the example provider and another version; often there is a hub between the two."""
    document = draw(st.sampled_from([*EXAMPLES.values()]))
    source, target = draw(st.permutations(document.versions))[:2]
    found = draw(objects(source.schema, source.api_version, document.kind, unknown=draw(st.booleans())))
    if draw(st.booleans()):
        found, source, target = example.convert(found, target.api_version), target, source
    return example, found, target.api_version


@st.composite
def at_random(draw: st.DrawFn) -> tuple[Graph, Any, str]:
    """Draw a kind, an object of it, and another version; often with a stash, at times with an edit since."""
    graph, document = draw(kinds())
    source, target = draw(st.sampled_from([("v1", "v2"), ("v2", "v1")]))
    schemas = {version.name: version.schema for version in document.versions}
    found = draw(objects(schemas[source], f"{GROUP}/{source}", KIND, unknown=draw(st.booleans())))
    way = draw(st.sampled_from(["plain", "stashed", "edited"]))
    if way == "plain":
        return graph, found, f"{GROUP}/{target}"
    shown = graph.convert(found, f"{GROUP}/{target}")
    if way == "edited":
        edit = draw(objects(schemas[target], f"{GROUP}/{target}", KIND))
        stash = (shown.get("metadata") or {}).get("annotations", {}).get(STASH)
        assume(stash is not None)
        annotations = {**((edit.get("metadata") or {}).get("annotations") or {}), STASH: stash}
        shown = {**edit, "metadata": {**edit["metadata"], "annotations": annotations}}
    return graph, shown, f"{GROUP}/{source}"


samples = st.one_of(at_random(), over_the_hub())


def explained(sample: tuple[Graph, Any, str]) -> Explanation:
    return explain(*sample)


@RELAXED
@given(samples)
def test_every_leaf_has_exactly_one_origin(sample: tuple[Graph, Any, str]) -> None:
    """A leaf without an origin, or with two, would leave a person as wise as before."""
    found = explained(sample)
    assert [leaf.place for leaf in found.leaves] == [place for place, _ in leaves(found.result)]


@RELAXED
@given(samples)
def test_nothing_comes_from_a_stash_that_is_not_there(sample: tuple[Graph, Any, str]) -> None:
    """The stash is the default explanation of a leaf; without a stash it would hide a leaf that the trace missed."""
    found = explained(sample)
    if found.stash_before is None:
        assert not [leaf for leaf in found.leaves if leaf.origin.how is OriginKind.STASH]


@RELAXED
@given(samples)
def test_sources_exist_and_carried_values_are_theirs(sample: tuple[Graph, Any, str]) -> None:
    """An origin that names a field which is not there, or holds something else, is a wrong answer."""
    found = explained(sample)
    for leaf in found.leaves:
        values = [value_at(found.source, source) for source in leaf.origin.sources]
        assert all(value is not ABSENT for value in values), leaf
        if leaf.origin.how in CARRIED:
            assert len(values) == 1
            assert same(values[0], leaf.value), leaf
            assert (leaf.origin.sources[0] == leaf.place) is (leaf.origin.how is OriginKind.COPIED), leaf


@RELAXED
@given(samples)
def test_deleting_the_one_source_changes_the_leaf(sample: tuple[Graph, Any, str]) -> None:
    """Deleting the reported source of a leaf must change the leaf; otherwise the report names a wrong source."""
    graph, _, target = sample
    found = explained(sample)
    for leaf in found.leaves:
        if leaf.origin.how not in (*CARRIED, OriginKind.COMPUTED) or len(leaf.origin.sources) != 1:
            continue
        (source,) = leaf.origin.sources
        if source[0] in ("apiVersion", "kind"):
            continue
        rest = without(found.source, source)
        is_implied = any("default(" in rule for rule in leaf.origin.rules)
        if not is_implied and same(value_at(graph.convert(rest, target), leaf.place), leaf.value):
            # A default of the same field may have the value that the source gave.
            (again,) = [each for each in explain(graph, rest, target).leaves if each.place == leaf.place]
            assert again.origin.how is OriginKind.DEFAULT, leaf


@RELAXED
@given(samples)
def test_only_what_names_a_source_changes_with_it(sample: tuple[Graph, Any, str]) -> None:
    """A leaf that changes although its origin does not name the cause was explained wrongly."""
    graph, _, target = sample
    found = explained(sample)
    for source, _ in leaves(found.source):
        if source[0] in ("apiVersion", "kind") or STASHES & {*source} or any(isinstance(step, int) for step in source):
            continue
        after = graph.convert(without(found.source, source), target)
        for leaf in found.leaves:
            value = value_at(after, leaf.place)
            if (
                value is ABSENT
                or same(value, leaf.value)
                or leaf.origin.how in (OriginKind.ANNOTATION, OriginKind.STASH)
            ):
                continue
            named = any(source[: len(each)] == each for each in (*leaf.origin.sources, *leaf.origin.deciders))
            assert named or isinstance(value, dict | list) or STASHES & {*leaf.place}, (leaf, source)


@RELAXED
@given(samples)
def test_nothing_of_the_source_goes_untold(sample: tuple[Graph, Any, str]) -> None:
    """Every leaf of the source is in the result, or has an ending: that is what tells of losses."""
    found = explained(sample)
    told = {leaf.place for leaf in found.source_leaves}
    used = {source for leaf in found.leaves for source in leaf.origin.sources}
    for place, value in leaves(found.source):
        is_used = any(place[: len(source)] == source for source in used)
        is_told = is_used or place in told or place == ("apiVersion",) or STASHES & {*place}
        assert is_told or value in (None, {}), place


@RELAXED
@given(samples)
def test_what_is_said_to_be_stashed_is_in_the_stash(sample: tuple[Graph, Any, str]) -> None:
    """A leaf that is reported as kept and is not would be lost without a report."""
    found = explained(sample)
    stashed = [leaf for leaf in found.source_leaves if leaf.ending is LeafEnding.STASHED]
    if found.stash_after is None:
        assert not stashed
    for leaf in stashed:
        version, _, address = leaf.where.partition(" ")
        first = address.partition("[")[0].partition("{")[0]
        assert any(
            name.startswith((first, "[")) or first.startswith(name) for name in found.stash_after["kept"][version]
        )


def origins(found: Explanation) -> dict[str, str]:
    """Each leaf with how it came about and from where."""
    return {
        leaf.pointer: " ".join([leaf.origin.how.value, *map(pointer, leaf.origin.sources)]) for leaf in found.leaves
    }


def source_leaves(found: Explanation) -> dict[str, str]:
    """Each leaf of the source that needs telling, with what became of it."""
    return {
        leaf.pointer: " ".join(filter(None, [leaf.ending.value, leaf.where, leaf.reason]))
        for leaf in found.source_leaves
    }


GATEWAY: dict[str, Any] = {
    "apiVersion": "edge.example.dev/v1alpha1",
    "kind": "Gateway",
    "metadata": {"name": "a"},
    "spec": {
        "certificate": "c",
        "host": "h",
        "debug": True,
        "listeners": [{"title": "x", "timeoutSeconds": 5}],
    },
    "status": {"phase": "Ready"},
}


def test_a_way_over_the_hub_is_told_as_one() -> None:
    """People know their two versions; the hub between them is not what they asked for."""
    found = explain(example, GATEWAY, "edge.example.dev/v1beta1")
    assert found.route == ("v1alpha1", "v1", "v1beta1")
    assert origins(found) == {
        "/apiVersion": "version",
        "/kind": "copied /kind",
        "/metadata/name": "copied /metadata/name",
        "/spec/hosts/0": "computed /spec/host",
        "/spec/tls/cert": "moved /spec/certificate",
        "/spec/listeners/0/name": "moved /spec/listeners/0/title",
        "/spec/listeners/0/timeout": "computed /spec/listeners/0/timeoutSeconds",
        "/spec/listeners/0/protocol": "default",
        "/status/ready": "computed /status/phase",
    }
    assert source_leaves(found) == {"/spec/debug": "dropped only read by the first prototype of the controller"}
    rules = {leaf.pointer: leaf.origin.rules for leaf in found.leaves}
    assert rules["/spec/tls/cert"] == (
        "move(spec.certificate <-> spec.tls.certificate)",
        "rename(spec.tls.cert <-> spec.tls.certificate)",
    )
    assert rules["/spec/listeners/0/timeout"] == (
        "pair(timeoutSeconds <-> timeout) in each(spec.listeners <-> spec.listeners)",
    )


def test_links_follow_moved_fields_and_items() -> None:
    """By them, comments go where the rules go."""
    links = explain(example, GATEWAY, "edge.example.dev/v1beta1").links
    assert links.trace(("spec", "tls", "cert")) == (("spec", "certificate"), True)
    assert links.trace(("spec", "listeners", 0, "name")) == (("spec", "listeners", 0, "title"), True)
    assert links.trace(("spec", "hosts", 0)) == (("spec", "host", 0), False)
    assert links.source(("spec", "listeners", 0, "protocol")) is None
    assert links.source(("metadata", "name")) == ("metadata", "name")


def kind_of(*declared: rules.Rule, **options: Any) -> Graph:
    registry = Registry()
    registry.kind(GROUP, KIND, hub="v2", **options).spoke("v1")(lambda: declared)
    return registry.freeze()


def thing(version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": KIND, **fields}


def test_hidden_items_are_stashed_and_come_back_in_their_places() -> None:
    """An item that the old version does not show must be told of, both ways."""
    graph = kind_of(rules.each("items", [rules.rename("o", "n")], key="id", hide=lambda item: bool(item.get("off"))))
    whole = thing("v2", items=[{"id": "1", "off": True}, {"id": "2", "n": 2}, {"id": "3", "off": True}])
    down = explain(graph, whole, f"{GROUP}/v1")
    assert origins(down)["/items/0/o"] == "moved /items/1/n"
    assert source_leaves(down) == dict.fromkeys(
        ["/items/0/id", "/items/0/off", "/items/2/id", "/items/2/off"], "stashed v2 .items"
    )
    up = explain(graph, down.result, f"{GROUP}/v2")
    assert [origins(up)[f"/items/{index}/id"] for index in range(3)] == ["stash", "moved /items/0/id", "stash"]
    assert up.links.trace(("items", 1)) == (("items", 0), True)
    assert up.links.trace(("items", 0)) is None


def test_what_the_stash_has_no_room_for_is_lost() -> None:
    """Degrading is declared; but not in silence."""
    graph = kind_of(rules.stash(hub="small"), rules.stash(hub="big"), stash_budget=120)
    found = explain(graph, thing("v2", metadata={}, small="s", big="b" * 99), f"{GROUP}/v1")
    assert source_leaves(found) == {"/small": "stashed v2 .small", "/big": "lost v2 .big"}
    assert found.stash_after == {"kept": {"v2": {".small": {"is": "s"}}}, "dropped": 1}


def test_what_was_in_the_way_is_told_from_what_took_its_place() -> None:
    """An undeclared field of the same name and value comes from the stash, not from its namesake."""
    graph = kind_of(rules.rename("a", "b"))
    shown = graph.convert(thing("v2", metadata={}, a=5, b=5), f"{GROUP}/v1")
    assert origins(explain(graph, shown, f"{GROUP}/v2"))["/a"] == "stash"
    assert origins(explain(graph, shown, f"{GROUP}/v2"))["/b"] == "moved /a"


def test_losses_of_both_legs_are_told() -> None:
    """A client that loses a value needs the report, whether the hub or the target lacks the field."""
    cache = {
        "apiVersion": "edge.example.dev/v2",
        "kind": "Cache",
        "metadata": {},
        "spec": {"capacity": "1Gi", "evictionPolicy": "LRU", "zoneList": ["a", "b"]},
    }
    assert source_leaves(explain(example, cache, "edge.example.dev/v1")) == {
        "/spec/zoneList/0": "stashed v2 .spec.zoneList",
        "/spec/zoneList/1": "stashed v2 .spec.zoneList",
        "/spec/zoneList": "stashed internal .spec.zones",
        "/spec/evictionPolicy": "stashed internal .spec.eviction",
        "/spec/capacity": "stashed internal .spec.size",
    }


def test_an_edit_is_told_from_the_stash() -> None:
    """A stashed value counts only while the shown value is unedited; after an edit it is not the origin."""
    graph = kind_of(rules.wrap("image", "images[]"))
    shown = graph.convert(thing("v2", metadata={}, images=["a", "b"]), f"{GROUP}/v1")
    assert origins(explain(graph, shown, f"{GROUP}/v2"))["/images/1"] == "stash /image"
    cleared = {**shown, "metadata": {}}
    assert origins(explain(graph, cleared, f"{GROUP}/v2")) == {
        "/apiVersion": "version",
        "/kind": "copied /kind",
        "/metadata": "copied /metadata",
        "/images/0": "computed /image",
    }


def test_reads_are_sources_too() -> None:
    """A function that looks elsewhere must not hide that."""
    graph = kind_of(
        rules.pair("shown", "real", up=lambda v: v, down=lambda v, s: s or v, loses="down", reads=["$.status.now"])
    )
    found = explain(graph, thing("v2", real="a", status={"now": "b"}), f"{GROUP}/v1")
    assert origins(found)["/shown"] == "computed /real /status/now"


def deciders(found: Explanation) -> dict[str, str]:
    """Each leaf that a branch of a union converts, with the fields that decide about the branch."""
    return {leaf.pointer: " ".join(map(pointer, leaf.origin.deciders)) for leaf in found.leaves if leaf.origin.deciders}


UNION = (
    rules.when(
        [rules.rename("bucket", "place"), rules.constant(hub="region", value="eu"), rules.rename("plain", "size")],
        field="type",
        equals="S3",
    ),
    rules.when([rules.rename("path", "place"), rules.enum("mode", {"a": "A"})], field="type", equals="Disk"),
)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"type": "S3", "bucket": "b", "mode": "a", "other": 1},
            {"/place": "/type", "/region": "/type", "/mode": "/type"},
        ),
        ({"type": "Disk", "path": "p", "size": 3}, {"/place": "/type", "/size": "/type"}),
        ({"size": 3, "other": 1}, {}),
    ],
)
def test_the_field_that_decides_about_a_branch_is_named(fields: dict[str, Any], expected: dict[str, str]) -> None:
    """Where another field decides whether a field is moved, filled in or left, the report has to name that field."""
    found = explain(kind_of(*UNION), thing("v1", **fields), f"{GROUP}/v2")
    assert deciders(found) == expected


def test_what_decides_is_named_inside_of_a_branch_and_over_the_hub() -> None:
    """A field in an object that a branch moves, seen from another spoke, depends on the same decision."""
    inner = rules.inside("box", [rules.rename("a", "b")], hub="crate")
    registry = Registry()
    kind = registry.kind(GROUP, KIND, hub="v2")
    kind.spoke("v1")(lambda: [rules.when([inner], has="box", hub="crate"), rules.rename("kindOf", "class")])
    kind.spoke("v0")(lambda: [rules.rename("c", "crate"), rules.rename("k", "class")])
    found = explain(registry.freeze(), thing("v0", c={"b": 1, "x": 2}, k="y"), f"{GROUP}/v1")
    assert origins(found)["/box/a"] == "moved /c/b"
    assert deciders(found) == {"/box/a": "/c", "/box/x": "/c"}


def test_a_presence_decides_only_where_it_is_the_first() -> None:
    """The later fields of a union by presence decide nothing; naming them would send people to the wrong field."""
    graph = kind_of(
        rules.when([rules.rename("size", "aSize")], has="a"), rules.when([rules.rename("size", "bSize")], has="b")
    )
    found = explain(graph, thing("v2", a={"x": 1}, b={"x": 1}, aSize=1, bSize=2), f"{GROUP}/v1")
    assert origins(found)["/size"] == "moved /aSize"
    assert deciders(found) == {"/size": "/a", "/bSize": "/a"}


def test_what_the_api_server_does_to_the_result() -> None:
    """Pruned and defaulted fields surprise people after the fact."""
    text = {"type": "string"}
    spec = obj(
        {
            "a": text,
            "mode": {**text, "default": "fast"},
            "parts": {"type": "array", "items": obj({"x": {**text, "default": "y"}})},
        }
    )
    document = crd({"v2": obj({"spec": spec}), "v1": obj({"spec": spec})})
    found = explain(freeze({"v1": []}, document), thing("v1", spec={"b": 1, "parts": [{}, {"x": "z"}]}), f"{GROUP}/v2")
    assert found.pruned == (".spec.b",)
    assert [(each.path, each.value) for each in found.defaulted] == [(".spec.mode", "fast"), (".spec.parts[].x", "y")]


def test_there_is_nothing_to_explain_at_the_same_version() -> None:
    """An empty explanation would look like a failure of ours."""
    with pytest.raises(ObjectError, match="there is nothing to explain"):
        explain(example, GATEWAY, "edge.example.dev/v1alpha1")

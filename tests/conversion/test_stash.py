"""The stash: its exact text, its guards, its budget, and foreign text in its annotation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restow.conversion import Graph, Registry, rules
from restow.conversion.stash.annotation import FORMAT, section, with_section
from restow.crds import Crd

GROUP = "stash.example.dev"
KEY = f"{GROUP}/conversion-stash"
V1, V2 = f"{GROUP}/v1", f"{GROUP}/v2"


def graph_of(*declared: rules.Rule, budget: int = 64 * 1024) -> Graph:
    registry = Registry()
    kind = registry.kind(GROUP, "Thing", hub="v2", stash_budget=budget)
    kind.spoke("v1")(lambda: declared)
    return registry.freeze()


GRAPH = graph_of(
    rules.wrap("spec.image", "spec.images[]"),
    rules.stash(hub="spec.box.weight"),
    rules.each("spec.items", [rules.stash(hub="extra")], key="id", hide=lambda item: item.get("hidden", False)),
    rules.each("spec.loose", [rules.stash(hub="extra")]),
)


#: Reads the recorded stashes: every kind of entry. These rules never change, nor do the files.
OLDER = graph_of(
    rules.wrap("spec.image", "spec.images[]"),
    rules.stash(hub="spec.box.weight"),
    rules.each("spec.items", [rules.stash(hub="extra")], key="id", hide=lambda item: item.get("hidden", False)),
    rules.each("spec.loose", [rules.stash(hub="extra")]),
    rules.inside("spec.net", [rules.stash(hub="secret")]),
    rules.each_value("spec.pools", [rules.stash(hub="extra")]),
    rules.move("spec.made.flat", "spec.flat"),
    rules.constant(hub="spec.tier", value="gold"),
    rules.enum("spec.mode", {"public": "Public"}, down={"Mesh": "public"}),
    rules.default("spec.replicas", 2),
)
RECORDED = sorted((Path(__file__).parent / "stashes").glob("format-*.json"))


def thing(spec: Any, version: str = V2, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "Thing", "metadata": {"name": "a", **metadata}, "spec": spec}


def text_of(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["annotations"][KEY])


def edited(shown: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return what a client sends after changing the spec that it was shown; it keeps the annotation."""
    return {**shown, "spec": {**shown["spec"], **spec}}


def test_the_text_is_canonical_and_minimal() -> None:
    """The annotation's bytes are fixed: they are stored, compared and read by later releases."""
    shown = GRAPH.convert(
        thing(
            {
                "images": ["b", "a"],
                "box": {"weight": 1, "a": 2},
                "items": [{"id": "1", "extra": "é"}, {"id": "2", "hidden": True}],
            }
        ),
        V1,
    )
    assert text_of(shown) == (
        '{"format":1,"kept":{"v2":{".spec.box.weight":{"is":1},".spec.images":{"is":["b","a"],"shown":"b"},'
        '".spec.items":{"items":[{"item":["1"],"kept":{".extra":{"is":"é"}}},'
        '{"after":["1"],"hidden":{"hidden":true,"id":"2"}}]}}}}'
    )
    assert shown["spec"] == {"image": "b", "box": {"a": 2}, "items": [{"id": "1"}]}


ITEMS = [{"id": "1", "extra": 1}, {"id": "2", "hidden": True}, {"id": "3", "extra": 3}]
EDITS: list[Any] = [
    pytest.param(
        {"items": ITEMS},
        {"items": [{"id": "3"}, {"id": "1"}]},
        {"items": [{"id": "3", "extra": 3}, {"id": "1", "extra": 1}, {"id": "2", "hidden": True}]},
        id="reordered",
    ),
    pytest.param(
        {"items": ITEMS},
        {"items": [{"id": "0"}, {"id": "1"}, {"id": "3"}]},
        {"items": [{"id": "0"}, {"id": "1", "extra": 1}, {"id": "2", "hidden": True}, {"id": "3", "extra": 3}]},
        id="inserted-before",
    ),
    pytest.param(
        {"items": ITEMS},
        {"items": [{"id": "3"}]},
        {"items": [{"id": "3", "extra": 3}, {"id": "2", "hidden": True}]},
        id="removed-item-stays-away",
    ),
    pytest.param(
        {"items": ITEMS},
        {"items": [{"id": "1"}, {"id": "2", "mine": 1}, {"id": "3"}]},
        {"items": [{"id": "1", "extra": 1}, {"id": "2", "mine": 1}, {"id": "3", "extra": 3}]},
        id="hidden-key-reused",
    ),
    pytest.param({"images": ["a", "b"]}, {"image": "c"}, {"images": ["c", "b"]}, id="first-image-edited"),
    pytest.param({"images": ["a", "b"], "x": 1}, {"image": None}, {"images": None, "x": 1}, id="image-set-to-null"),
    pytest.param(
        {"box": {"weight": 1, "a": 2}}, {"box": {"a": 3}}, {"box": {"weight": 1, "a": 3}}, id="sibling-edited"
    ),
    pytest.param(
        {"loose": [{"a": 1, "extra": 1}, {"a": 2, "extra": 2}]},
        {"loose": [{"a": 2}, {"a": 1}]},
        {"loose": [{"a": 2, "extra": 2}, {"a": 1, "extra": 1}]},
        id="keyless-reordered",
    ),
    pytest.param(
        {"loose": [{"a": 1, "extra": 1}, {"a": 1, "extra": 2}]},
        {"loose": [{"a": 1}, {"a": 1}]},
        {"loose": [{"a": 1, "extra": 1}, {"a": 1, "extra": 2}]},
        id="keyless-equal-items",
    ),
    pytest.param(
        {"loose": [{"a": 1, "extra": 1}]},
        {"loose": [{"a": 5}]},
        {"loose": [{"a": 5, "extra": 1}]},
        id="keyless-edited",
    ),
]


@pytest.mark.parametrize(("hub", "edit", "result"), EDITS)
def test_edits_win(hub: dict[str, Any], edit: dict[str, Any], result: dict[str, Any]) -> None:
    """An edit in the old version wins, and what it did not touch comes back to its place, by key."""
    stored = GRAPH.convert(edited(GRAPH.convert(thing(hub), V1), **edit), V2)
    assert stored["spec"] == result
    assert "annotations" not in stored["metadata"]


def test_a_removed_object_stays_removed() -> None:
    """Removing an object removes what was hidden in it; else a client could not delete what it sees."""
    shown = GRAPH.convert(thing({"box": {"weight": 1, "a": 2}, "x": 1}), V1)
    assert GRAPH.convert({**shown, "spec": {"x": 1}}, V2)["spec"] == {"x": 1}


def test_what_is_hidden_goes_with_the_next_object_that_was_shown() -> None:
    """Also where the object around it was not shown itself; else hidden fields outlive what they belong to."""
    graph = graph_of(rules.stash(hub="spec.box.inner.weight"))
    shown = graph.convert(thing({"box": {"a": 1, "inner": {"weight": 1}}, "x": 1}), V1)
    assert shown["spec"] == {"box": {"a": 1}, "x": 1}
    assert graph.convert(edited(shown, box={"a": 2}), V2)["spec"] == {"box": {"a": 2, "inner": {"weight": 1}}, "x": 1}
    assert graph.convert({**shown, "spec": {"x": 1}}, V2)["spec"] == {"x": 1}


def test_what_was_not_shown_goes_with_the_object_around_it() -> None:
    """An empty list that is shown as nothing does not outlive its object."""
    graph = graph_of(rules.wrap("spec.box.image", "spec.box.images[]"))
    shown = graph.convert(thing({"box": {"images": [], "a": 1}, "x": 1}), V1)
    assert shown["spec"] == {"box": {"a": 1}, "x": 1}
    assert graph.convert(edited(shown, box={"a": 2}), V2)["spec"] == {"box": {"a": 2, "images": []}, "x": 1}
    assert graph.convert({**shown, "spec": {"x": 1}}, V2)["spec"] == {"x": 1}


def test_numbers_may_be_spelled_as_the_server_does() -> None:
    """The server turns 1.0 into 1: what was shown as the one is found again as the other."""
    graph = graph_of(
        rules.each("loose", [rules.stash(hub="extra")]), rules.each("keyed", [rules.stash(hub="extra")], key="id")
    )
    stored = {**thing({}), "loose": [{"a": 1.0, "extra": 1}], "keyed": [{"id": 2.0, "extra": 1}]}
    shown = graph.convert(stored, V1)
    as_server = {**shown, "loose": [{"a": 1}], "keyed": [{"id": 2}]}
    assert graph.convert(as_server, V2)["loose"] == [{"a": 1, "extra": 1}]
    assert graph.convert(as_server, V2)["keyed"] == [{"id": 2, "extra": 1}]


def test_a_stash_cannot_hide_what_a_client_wrote() -> None:
    """An entry that would not be shown as what is there is no entry; else an annotation could overwrite a field."""
    text = json.dumps({"format": 1, "kept": {"v2": {".spec.images": {"is": ["evil", "b"], "shown": "a"}}}})
    stored = GRAPH.convert(thing({"image": "a"}, V1, annotations={KEY: text}), V2)
    assert (stored["spec"], stored["metadata"]) == ({"images": ["a"]}, {"name": "a"})


@pytest.mark.parametrize("entry", [{"is": 7}, {"is": 7, "shown": 5}, {"is": 2}, {}, 7])
def test_a_stash_cannot_change_a_field_that_has_a_default(entry: Any) -> None:
    """All that the stash can say of such a field is whether the default was spelled out."""
    graph = graph_of(rules.default("replicas", 2))
    for version, other in ((V1, V2), (V2, V1)):
        text = json.dumps({"format": 1, "kept": {other.rpartition("/")[2]: {".replicas": entry}}})
        forged = {**thing({}, version, annotations={KEY: text}), "replicas": 5}
        assert graph.convert(forged, other)["replicas"] == 5
        bare = {name: value for name, value in forged.items() if name != "replicas"}
        assert graph.convert(bare, other).get("replicas", 2) == 2


def test_what_is_nested_too_deeply_is_not_kept() -> None:
    """A stash that could not be read again is worse than none: it would fail every conversion of its object."""
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    shown = graph_of(rules.stash(hub="deep"), rules.stash(hub="flat")).convert(
        {**thing({}), "deep": deep, "flat": 1}, V1
    )
    assert json.loads(text_of(shown)) == {"format": 1, "dropped": 1, "kept": {"v2": {".flat": {"is": 1}}}}


def test_an_object_that_only_the_hub_fills_comes_back() -> None:
    """What the old version does not show at all was not removed by it."""
    stored = thing({"box": {"weight": 1}, "x": 1})
    assert GRAPH.convert(GRAPH.convert(stored, V1), V2) == stored


@pytest.mark.parametrize("metadata", [{}, {"annotations": {}}, {"annotations": None}, {"annotations": {"a": "b"}}])
def test_metadata_is_as_it_was(metadata: dict[str, Any]) -> None:
    """Making room for the annotation leaves no trace on the way back; else bytes churn."""
    stored = thing({"box": {"weight": 1}}, **metadata)
    assert GRAPH.convert(GRAPH.convert(stored, V1), V2) == stored


@pytest.mark.parametrize("metadata", [{}, None, "none"])
def test_missing_metadata_is_as_it_was(metadata: Any) -> None:
    """Objects without metadata, or with null, come back as they were."""
    stored = {"apiVersion": V2, "kind": "Thing", "spec": {"box": {"weight": 1}}, "metadata": metadata}
    if metadata == "none":
        del stored["metadata"]
    assert GRAPH.convert(GRAPH.convert(stored, V1), V2) == stored


def test_over_the_budget_the_largest_goes_and_is_counted() -> None:
    """A full stash degrades by entries and never fails; else one big object takes its version down."""
    graph = graph_of(rules.stash(hub="big"), rules.stash(hub="small"), budget=400)
    stored = {**thing({}), "big": "x" * 1000, "small": "y"}
    shown = graph.convert(stored, V1)
    assert json.loads(text_of(shown)) == {"format": 1, "dropped": 1, "kept": {"v2": {".small": {"is": "y"}}}}
    back = graph.convert(shown, V2)
    assert (back.get("big"), back["small"]) == (None, "y")


def test_lists_degrade_item_by_item() -> None:
    """One huge item does not cost the others what they had."""
    graph = graph_of(rules.each("items", [rules.stash(hub="x")], key="id"), budget=600)
    items = [{"id": str(number), "x": "x" * (1000 if number == 1 else 10)} for number in range(4)]
    back = graph.convert(graph.convert({**thing({}), "items": items}, V1), V2)
    assert [len(item.get("x", "")) for item in back["items"]] == [10, 0, 10, 10]


def test_other_annotations_leave_no_room() -> None:
    """All annotations together must stay below 256 KiB; else the server refuses the object."""
    shown = graph_of(rules.stash(hub="big")).convert(
        {**thing({}, annotations={"other": "o" * (256 * 1024 - 300)}), "big": "x" * 1000}, V1
    )
    assert sum(map(len, shown["metadata"]["annotations"].values())) < 256 * 1024


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_stashes_stay_readable(path: Path) -> None:
    """Objects stored by any release come back as they were; else an upgrade loses what the stash kept."""
    recorded = json.loads(path.read_text())
    assert OLDER.convert(recorded["shown"], V2) == recorded["stored"]


def test_every_format_is_recorded() -> None:
    """A new format comes with records of its own, and the old ones stay."""
    assert {int(path.stem.split("-")[1]) for path in RECORDED} == set(range(1, FORMAT + 1))


HOSTILE = [
    "",
    "null",
    "[]",
    "1",
    "{",
    '{"format":1}',
    '{"format":true,"kept":{}}',
    '{"format":0,"kept":{}}',
    '{"format":-1,"kept":{}}',
    '{"format":1e3,"kept":{}}',
    '{"format":1,"kept":{"v2":{".spec.images":{"is":' + "[" * 500 + "]" * 500 + "}}}}",
    '{"format":1,"kept":[]}',
    '{"format":1,"kept":{"v2":[]}}',
    '{"format":"1","kept":{}}',
    "[" * 100_000,
    "x" * 300_000,
    '{"format":1,"kept":NaN}',
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_stash_is_left_alone(text: str) -> None:
    """Anybody may write anything into the annotation: no conversion fails for it, and none loses it needlessly."""
    obj = thing({"image": "a"}, V1, annotations={KEY: text})
    stored = GRAPH.convert(obj, V2)
    assert stored["spec"] == {"images": ["a"]}
    assert GRAPH.convert(stored, V1) == obj


def test_a_newer_format_is_not_touched() -> None:
    """A stash of a format unknown here belongs to a newer release, which will come back for it."""
    text = '{"format":2,"kept":"whatever"}'
    shown = GRAPH.convert(thing({"box": {"weight": 1}}, annotations={KEY: text}), V1)
    assert text_of(shown) == text


@pytest.mark.parametrize("text", ['{"format":0,"kept":{}}', '{"format":-1,"kept":{}}', "{}", "text"])
def test_what_is_no_stash_makes_way_for_one(text: str) -> None:
    """Foreign text in the annotation is replaced by the stash; if it blocked the stash, data would be lost."""
    stored = thing({"box": {"weight": 1}}, annotations={KEY: text})
    shown = GRAPH.convert(stored, V1)
    assert GRAPH.convert(shown, V2)["spec"] == stored["spec"]


FORGED: list[Any] = [
    {".spec.images": {"is": "no list", "shown": "a"}},
    {".spec.images": []},
    {".spec.items": {"items": {"a": 1}}},
    {
        ".spec.items": {
            "items": [
                1,
                {"item": 5, "kept": {}},
                {"item": ["1"], "kept": []},
                {"hidden": 1},
                {"hidden": {}, "after": {}, "nth": "x"},
            ]
        }
    },
    {".spec.loose": {"items": [{"item": "zz", "nth": -1, "kept": {".extra": 5}}]}},
    {".spec.box.weight": {"gone": "yes"}},
    {".spec.box.weight": {"gone": -1, "is": 1}},
    {".spec.box.weight": {"gone": True, "is": 1}},
    {".spec.box.weight": {"gone": 1.0, "is": 1}},
    {".metadata.name": {"is": "b"}, ".kind": {"is": "Other"}, ".spec": {"is": None}},
]


@pytest.mark.parametrize("entries", FORGED, ids=range(len(FORGED)))
def test_forged_entries_do_no_harm(entries: Any) -> None:
    """Entries of wrong shapes are no entries; identity and unclaimed fields are out of reach."""
    text = json.dumps({"format": 1, "kept": {"v2": entries}})
    obj = thing({"image": "a", "items": [{"id": "1"}], "loose": [{}]}, V1, annotations={KEY: text})
    stored = GRAPH.convert(obj, V2)
    assert (stored["kind"], stored["metadata"]) == ("Thing", {"name": "a"})
    assert set(stored["spec"]) <= {"images", "items", "loose", "box"}


NOISE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "is",
                    "shown",
                    "items",
                    "item",
                    "nth",
                    "kept",
                    "hidden",
                    "after",
                    "values",
                    "inside",
                    "left",
                    "gone",
                    ".extra",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
ADDRESSES = st.sampled_from(
    [".spec.images", ".spec.items", ".spec.loose", ".spec.box.weight", ".spec.image", ".spec.box", ".spec"]
)


@settings(suppress_health_check=list(HealthCheck))
@given(st.dictionaries(ADDRESSES, NOISE, max_size=4), st.sampled_from([V1, V2]))
def test_no_stash_crashes_a_conversion(entries: Any, version: str) -> None:
    """Whatever a stash holds, conversion goes on, both ways."""
    other = V2 if version == V1 else V1
    text = json.dumps({"format": 1, "kept": {"v1": entries, "v2": entries}})
    spec = {
        "image": "a",
        "images": ["a"],
        "items": [{"id": "1"}, {"x": 1}],
        "loose": [{}, 1],
        "box": {"weight": 1},
    }
    GRAPH.convert(GRAPH.convert(thing(spec, version, annotations={KEY: text}), other), version)


def test_entries_of_other_versions_travel_along() -> None:
    """Passing by a third version keeps what belongs to others; else a detour would cost data."""
    registry = Registry()
    kind = registry.kind(GROUP, "Thing", hub="v2")
    kind.spoke("v1")(lambda: [rules.stash("old")])
    kind.spoke("v3")(lambda: [rules.stash(hub="mid"), rules.stash("new")])
    graph = registry.freeze()
    obj = {**thing({}, V1), "old": 1, "mid": 2, "new": 3}
    there = graph.convert(obj, f"{GROUP}/v3")
    assert set(json.loads(text_of(there))["kept"]) == {"v1", "v2"}
    assert graph.convert(there, V1) == obj
    assert graph.convert(graph.convert(there, V2), V1) == obj


def test_entries_of_the_source_version_are_not_used_on_the_way_back() -> None:
    """A client may copy an annotation to an object of the version that it is of; what was kept then is out of date."""
    kept = {"v1": {".old": {"is": "stale"}}, "v2": {}, "v3": {".new": {"is": "kept"}}}
    registry = Registry()
    kind = registry.kind(GROUP, "Thing", hub="v2")
    kind.spoke("v1")(lambda: [rules.stash("old")])
    kind.spoke("v3")(lambda: [rules.stash("new")])
    graph = registry.freeze()
    text = json.dumps({"format": 1, "kept": kept})
    there = graph.convert({**thing({}, V1), "metadata": {"name": "a", "annotations": {KEY: text}}}, V2)
    assert set(json.loads(text_of(there))["kept"]) == {"v3"}
    assert "old" not in graph.convert(there, V1)
    assert graph.convert(there, f"{GROUP}/v3")["new"] == "kept"


def test_a_hidden_item_that_the_schema_refuses_stays_away() -> None:
    """No server validates what a conversion puts into an object: a forged item could have fields of any type."""
    items = {"type": "object", "properties": {"id": {"type": "string"}, "size": {"type": "integer"}}}
    spec = {"type": "object", "properties": {"items": {"type": "array", "items": items}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    versions = [{"name": name, "served": True, "storage": name == "v2", "schema": schema} for name in ("v1", "v2")]
    names = {"plural": "things", "kind": "Thing"}
    document = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{GROUP}", "uid": "u", "resourceVersion": "1", "generation": 1},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions},
    }
    registry = Registry()
    kind = registry.kind(GROUP, "Thing", hub="v2")
    kind.spoke("v1")(lambda: [rules.each("spec.items", [], key="id", hide=lambda item: item.get("size", 0) > 5)])
    graph = registry.freeze(crds=[Crd.from_document(document)])
    hidden: list[Any] = [
        {"id": "2", "size": 7},
        {"id": "3", "size": "seven"},
        {"id": 4, "size": 7},
    ]
    entry = {"items": [{"hidden": item, "after": ["1"]} for item in hidden]}
    text = json.dumps({"format": 1, "kept": {"v2": {".spec.items": entry}}})
    stored = graph.convert(thing({"items": [{"id": "1"}]}, V1, annotations={KEY: text}), V2)
    assert stored["spec"]["items"] == [{"id": "1"}, {"id": "2", "size": 7}]


@pytest.mark.parametrize("annotations", [None, {}, {"other": "x"}])
def test_entries_of_an_admission_step_travel_with_the_object(annotations: Any) -> None:
    """What a step keeps would be lost by the next read and write, or would leave a trace when it is taken out again."""
    metadata = {"name": "a"} | ({} if annotations is None else {"annotations": annotations})
    stored = {"apiVersion": V2, "kind": "Thing", "metadata": metadata, "spec": {"images": ["x", "y"]}}
    kept = with_section(stored, KEY, "step", {"place": {"a": 1}}, 1024)
    assert section(stored, KEY, "step") == {}
    shown = GRAPH.convert(kept, V1)
    assert section(shown, KEY, "step") == {"place": {"a": 1}}
    assert GRAPH.convert(shown, V2) == kept
    assert with_section(kept, KEY, "step", {}, 1024) == stored

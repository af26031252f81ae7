"""The part of an object that a field set owns: all of it, and nothing else but the keys of list items."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given

from restow.crds import ANY, Schema
from restow.crds.fieldpath import FieldSet, Path, from_paths, keys_of
from restow.crds.ownedpaths import owned
from restow.migrator.ownership.projection import leave_out, project
from restow.migrator.ownership.reconcile import Unknown
from tests.migrator import builders as b
from tests.migrator.oracle import field_set, is_one_leaf, members, owned_paths
from tests.migrator.strategies import Change, changes

PORT = {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}
PART = b.struct(name=b.STRING, size=b.INTEGER, inner=b.struct(on={"type": "boolean"}))
SCHEMA = Schema(
    b.struct(
        text=b.STRING,
        struct=b.struct(a=b.STRING, b=b.STRING),
        whole=b.atomic(b.struct(a=b.STRING)),
        map=b.mapping(b.struct(x=b.STRING)),
        list=b.atomic_list(PART),
        parts=b.keyed_list(PART, "name"),
        ports=b.keyed_list(b.struct(**PORT), "port", "protocol"),
        whole_items=b.keyed_list(b.atomic(PART), "name"),
        set=b.set_list(b.STRING),
    )
)
LIVE = {
    "text": "t",
    "struct": {"a": "1", "b": "2"},
    "whole": {"a": "1"},
    "map": {"k": {"x": "1"}, "l": {"x": "2"}},
    "list": [{"name": "a"}],
    "parts": [{"name": "a", "size": 1, "inner": {"on": True}}, {"name": "b", "size": 2}],
    "ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}],
    "whole_items": [{"name": "a", "size": 1}],
    "set": ["x", "y", "z"],
}
K_A, K_B, K_GONE = 'k:{"name":"a"}', 'k:{"name":"b"}', 'k:{"name":"gone"}'

CASES: dict[str, tuple[FieldSet, Any, Any]] = {
    "a scalar": ({"f:text": {}}, {"text": "t"}, {}),
    "a field of an object": ({"f:struct": {"f:a": {}}}, {"struct": {"a": "1"}}, {"struct": {}}),
    "an object as a place": ({"f:struct": {".": {}}}, {"struct": {}}, {"struct": {}}),
    "a place and a field": ({"f:struct": {".": {}, "f:b": {}}}, {"struct": {"b": "2"}}, {"struct": {}}),
    "an atomic object": ({"f:whole": {}}, {"whole": {"a": "1"}}, {}),
    "an atomic list": ({"f:list": {}}, {"list": [{"name": "a"}]}, {}),
    "a list as a place": ({"f:parts": {}}, {}, {}),
    "an item with all that is its": (
        {"f:parts": {K_A: {".": {}, "f:name": {}, "f:size": {}}}},
        {"parts": [{"name": "a", "size": 1}]},
        {"parts": [{"name": "a"}]},
    ),
    "a field of an item, its key not owned": (
        {"f:parts": {K_B: {"f:size": {}}}},
        {"parts": [{"name": "b", "size": 2}]},
        {"parts": [{"name": "b"}]},
    ),
    "an item alone": ({"f:parts": {K_A: {".": {}}}}, {"parts": [{"name": "a"}]}, {"parts": [{"name": "a"}]}),
    "an object in an item": (
        {"f:parts": {K_A: {"f:inner": {"f:on": {}}}}},
        {"parts": [{"name": "a", "inner": {"on": True}}]},
        {"parts": [{"name": "a", "inner": {}}]},
    ),
    "items in the order of the list": (
        {"f:parts": {K_B: {"f:size": {}}, K_A: {"f:size": {}}}},
        {"parts": [{"name": "a", "size": 1}, {"name": "b", "size": 2}]},
        {"parts": [{"name": "a"}, {"name": "b"}]},
    ),
    "an item that is gone": ({"f:parts": {K_GONE: {".": {}, "f:size": {}}}, "f:text": {}}, {"text": "t"}, {}),
    "a field that is gone": ({"f:struct": {"f:gone": {}}, "f:gone": {}}, {}, {}),
    "a key that the object has by default": (
        {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}},
        {"ports": [{"port": 80}]},
        {"ports": [{"port": 80}]},
    ),
    "an item named by two keys": (
        {"f:ports": {'k:{"protocol":"UDP", "port":80}': {".": {}}}},
        {"ports": [{"port": 80, "protocol": "UDP"}]},
        {"ports": [{"port": 80, "protocol": "UDP"}]},
    ),
    "an atomic item": ({"f:whole_items": {K_A: {}}}, {"whole_items": [{"name": "a", "size": 1}]}, {}),
    "values of a set": ({"f:set": {'v:"z"': {}, 'v:"x"': {}, 'v:"gone"': {}}}, {"set": ["x", "z"]}, {}),
    "an item by its index": ({"f:list": {"i:0": {"f:name": {}}}}, {"list": [{"name": "a"}]}, {"list": [{}]}),
    "a key of a map": ({"f:map": {"f:l": {".": {}, "f:x": {}}}}, {"map": {"l": {"x": "2"}}}, {"map": {"l": {}}}),
    "another shape than the object has": ({"f:text": {"f:a": {}}, "f:struct": {K_A: {".": {}}}}, {}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_project_by_example(name: str) -> None:
    """Each way in which a set names a part: too little loses an owner, too much gives away another's."""
    fields, part, bare = CASES[name]
    found = project(fields, LIVE, SCHEMA)
    assert (found.part, found.bare) == (part, bare)


def test_items_and_keys_are_owned_by_their_names() -> None:
    """A key that is an item of a list in the other version would not be found there, and its owner lose it."""
    fields: FieldSet = {
        "f:struct": {},
        "f:map": {"f:k": {}, "f:l": {"f:x": {}}},
        "f:parts": {K_A: {}, K_B: {"f:size": {}}},
        "f:whole_items": {K_A: {}},
    }
    found = project(fields, LIVE, SCHEMA)
    assert found.owned == {
        ("f:struct",): {},
        ("f:map", "f:k"): {"": "k"},
        ("f:map", "f:l", "f:x"): "2",
        ("f:parts", K_A): {"name": "a"},
        ("f:parts", K_B, "f:size"): 2,
        ("f:whole_items", K_A): {"name": "a", "size": 1},
    }
    assert found.places == {("f:struct",)}
    assert found.part["parts"] == [{"name": "a"}, {"name": "b", "size": 2}]
    both = project({"f:map": {"f:k": {".": {}, "f:x": {}}}, "f:parts": {K_A: {".": {}, "f:size": {}}}}, LIVE, SCHEMA)
    assert both.owned[("f:map", "f:k")] == {"": "k"} and both.owned[("f:parts", K_A)] == {"name": "a"}
    lists = Schema(b.struct(map=b.mapping(b.set_list(b.STRING))))
    assert project({"f:map": {"f:k": {}}}, {"map": {"k": []}}, lists).owned == {("f:map", "f:k"): []}
    atomic = Schema(b.struct(map=b.mapping(b.atomic(b.struct(x=b.STRING)))))
    assert project({"f:map": {"f:k": {}}}, {"map": {"k": {}}}, atomic).owned == {("f:map", "f:k"): {}}
    assert not both.places, "what is owned by its name is no place"


@given(changes())
def test_what_is_owned_of_the_part_is_what_was_asked_for(change: Change) -> None:
    """Converted or not, an object that stands for a set must say exactly that set (and the keys of its items)."""
    fields = field_set(owned_paths(change.mask, change.live, change.old))
    schema = Schema(change.old)
    found = project(fields, change.live, schema)
    there = spelt(owned(found.part, schema, empty_lists=True))
    assert members(fields) <= there
    assert there - members(fields) <= spelt(owned(found.bare, schema, empty_lists=True))  # keys of items
    assert members(fields) <= spelt({*found.owned, *found.places})


def spelt(paths: Iterable[Path]) -> frozenset[Path]:
    """Paths as the oracle spells them."""
    return members(from_paths(paths))


@given(changes())
def test_the_bare_part_has_nothing_that_is_owned_but_items_and_their_keys(change: Change) -> None:
    """A value left in it would come out of the converter again, and be taken for an invention."""
    fields = field_set(owned_paths(change.mask, change.live, change.old))
    bare = project(fields, change.live, Schema(change.old)).bare
    assert not [value for value in leaves(bare, change.old) if value not in ({}, None)]


def leaves(value: Any, node: b.Node) -> list[Any]:
    """What a value holds besides the keys of its items."""
    if is_one_leaf(value, node) or not value:
        return [value]
    if isinstance(value, list):
        names = node.get("x-kubernetes-list-map-keys", ())
        items = [{name: child for name, child in item.items() if name not in names} for item in value]
        return [each for item in items for each in leaves(item, node["items"])]
    known, other = node.get("properties", {}), node.get("additionalProperties")
    return [each for name, child in value.items() for each in leaves(child, known.get(name) or other or node)]


@given(changes())
def test_project_leaves_its_inputs_alone(change: Change) -> None:
    """The live object is shared by all managers' parts; a change in place would show in the next one's."""
    fields = field_set(owned_paths(change.mask, change.live, change.old))
    before = copy.deepcopy((fields, change.live))
    project(fields, change.live, Schema(change.old))
    assert (fields, change.live) == before


@pytest.mark.parametrize("old", [SCHEMA, ANY, Unknown({})], ids=["known", "any", "unknown"])
@pytest.mark.parametrize("element", ["i:7", "i:x", "k:{broken", "k:{}", "k:5", "k:null", "v:", "v:{", "x:1"])
def test_elements_that_name_nothing_are_passed_over(element: str, old: Schema | Unknown) -> None:
    """An odd entry must not end the run."""
    assert project({"f:parts": {element: {".": {}, "f:size": {}}}}, LIVE, old).part == {}


@pytest.mark.parametrize(
    ("fields", "others", "part"),
    [
        ({"f:list": {}}, {}, {"list": [{"name": "a"}]}),
        ({"f:parts": {}}, {"f:parts": {K_A: {}}}, {}),
        ({"f:struct": {}}, {}, {"struct": {}}),
        ({"f:parts": {K_B: {".": {}, "f:name": {}, "f:size": {}}}}, {}, {"parts": [{"name": "b", "size": 2}]}),
        ({"f:whole_items": {K_A: {}}}, {}, {"whole_items": [{"name": "a", "size": 1}]}),
        ({"f:set": {'v:"y"': {}}}, {}, {"set": ["y"]}),
    ],
    ids=["whole list", "a part is owned", "an object as a place", "an item", "a whole item", "a value"],
)
def test_a_version_without_a_schema_is_told_by_what_its_managers_own(
    fields: FieldSet, others: FieldSet, part: Any
) -> None:
    """The version has left the CRD, and its lists have to be read all the same."""
    assert project(fields, LIVE, Unknown(fields | others)).part == part


def test_a_list_in_an_item_is_told_by_what_others_own_of_it_too() -> None:
    """A leaf would be taken for the whole list, of which another manager owns a value."""
    live = {"parts": [{"name": "a", "tags": ["x"]}]}
    leaf: FieldSet = {"f:parts": {K_A: {"f:name": {}, "f:tags": {}}}}
    both: FieldSet = {"f:parts": {K_A: {"f:name": {}, "f:tags": {'v:"x"': {}}}}}
    assert project(leaf, live, Unknown(both)).part == {"parts": [{"name": "a"}]}
    assert project(leaf, live, Unknown(leaf)).part == live


def test_an_item_may_lack_a_key_that_had_a_default_in_a_version_without_a_schema() -> None:
    """The webhook gives no defaults, and nobody knows them any more; but two candidates are one too many."""
    fields: FieldSet = {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}}
    one = {"ports": [{"port": 80}, {"port": 81}]}
    assert project(fields, one, Unknown(fields)).part == {"ports": [{"port": 80}]}
    two = {"ports": [{"port": 80}, {"protocol": "TCP"}]}
    assert project(fields, two, Unknown(fields)).part == {}


# The rest of an object, without what a set owns.

RESTS: dict[str, tuple[FieldSet, Any]] = {
    "a scalar": ({"f:text": {}}, {"text": None}),
    "a field of an object": ({"f:struct": {"f:a": {}}}, {"struct": {"b": "2"}}),
    "an object as a place, with something of others in it": ({"f:struct": {".": {}}}, {}),
    "an object as a place, with all that is in it": (
        {"f:struct": {".": {}, "f:a": {}, "f:b": {}}},
        {"struct": None},
    ),
    "all that is in an object, but not its place": ({"f:struct": {"f:a": {}, "f:b": {}}}, {"struct": {}}),
    "a key of a map as a place, with something of others in it": ({"f:map": {"f:k": {}}}, {}),
    "a key of a map, with all that is in it": (
        {"f:map": {"f:k": {".": {}, "f:x": {}}}},
        {"map": {"l": {"x": "2"}}},
    ),
    "an atomic object": ({"f:whole": {}}, {"whole": None}),
    "an atomic list": ({"f:list": {}}, {"list": None}),
    "a list as a place": ({"f:parts": {}}, {}),
    "an item with all that is in it": (
        {"f:parts": {K_B: {".": {}, "f:name": {}, "f:size": {}}}},
        {"parts": [LIVE["parts"][0]]},
    ),
    "an item with all that is in it and in its object": (
        {"f:parts": {K_A: {".": {}, "f:name": {}, "f:size": {}, "f:inner": {"f:on": {}}}}},
        {"parts": [LIVE["parts"][1]]},
    ),
    "an item of which an object of others stays": (
        {"f:parts": {K_A: {".": {}, "f:name": {}, "f:size": {}}}},
        {"parts": [{"name": "a", "inner": {"on": True}}, LIVE["parts"][1]]},
    ),
    "an item, with something of others in it": (
        {"f:parts": {K_B: {".": {}, "f:name": {}}}},
        {},
    ),
    "an item alone, with something of others in it": ({"f:parts": {K_B: {".": {}}}}, {}),
    "a field of what became atomic since": (
        {"f:whole": {"f:a": {}}, "f:whole_items": {K_A: {"f:size": {}}}},
        {"whole": {}, "whole_items": [{"name": "a"}]},
    ),
    "a field of an item": ({"f:parts": {K_B: {"f:size": {}}}}, {"parts": [LIVE["parts"][0], {"name": "b"}]}),
    "the key of an item that is not owned": ({"f:parts": {K_B: {"f:name": {}}}}, {}),
    "an item whose key has its default": (
        {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}},
        {"ports": [{"port": 80, "protocol": "UDP"}]},
    ),
    "every item": (
        {
            "f:ports": {
                'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}},
                'k:{"port":80,"protocol":"UDP"}': {".": {}, "f:port": {}, "f:protocol": {}},
            }
        },
        {"ports": None},
    ),
    "an atomic item": ({"f:whole_items": {K_A: {}}}, {"whole_items": None}),
    "a value of a set": ({"f:set": {'v:"y"': {}}}, {"set": ["x", "z"]}),
    "what is not there": ({"f:gone": {}, "f:parts": {K_GONE: {}}, "f:set": {'v:"gone"': {}}}, {}),
}


@pytest.mark.parametrize("case", RESTS)
def test_the_rest_of_an_object(case: str) -> None:
    """Whatever goes beyond what is owned is taken for the owner's; an item without its keys is none."""
    fields, changed = RESTS[case]
    before = copy.deepcopy(LIVE)
    wanted = {name: value for name, value in (LIVE | changed).items() if value is not None}
    assert leave_out(fields, LIVE, SCHEMA) == wanted
    assert before == LIVE


@pytest.mark.parametrize(
    ("fields", "changed"),
    [
        ({"f:list": {}}, {"list": None}),
        ({"f:struct": {}}, {}),
        ({"f:struct": {".": {}, "f:a": {}, "f:b": {}}}, {"struct": None}),
        ({"f:parts": {K_B: {".": {}, "f:name": {}, "f:size": {}}}}, {"parts": [LIVE["parts"][0]]}),
        ({"f:whole_items": {K_A: {}}}, {"whole_items": None}),
        ({"f:set": {'v:"y"': {}}}, {"set": ["x", "z"]}),
        (
            {"f:ports": {'k:{"port":80,"protocol":"UDP"}': {".": {}, "f:port": {}, "f:protocol": {}}}},
            {"ports": [{"port": 80}]},
        ),
    ],
    ids=["whole list", "an object as a place", "an object", "an item", "a whole item", "a value", "two keys"],
)
def test_the_rest_of_an_object_of_a_version_without_a_schema(fields: FieldSet, changed: Any) -> None:
    """What stays of a value that is the owner's shows no change without it, and it would be stripped."""
    wanted = {name: value for name, value in (LIVE | changed).items() if value is not None}
    assert leave_out(fields, LIVE, Unknown(fields)) == wanted


@pytest.mark.parametrize("empty", [{"struct": {}}, {"parts": []}, {"text": ""}, {"text": None}], ids=str)
def test_an_empty_value_is_left_out(empty: dict[str, Any]) -> None:
    """It would stay as it is, so nothing would show that it is the owner's."""
    [name] = empty
    assert leave_out({f"f:{name}": {}}, empty | {"other": 1}, SCHEMA) == {"other": 1}


def test_an_item_that_lacks_a_key_is_left_out_in_a_version_without_a_schema() -> None:
    """The default of the key is unknown without a schema: the item would stay, as if its owner had nothing in it."""
    fields: FieldSet = {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}}
    assert leave_out(fields, {"ports": [{"port": 80}, {"port": 81}]}, Unknown(fields)) == {"ports": [{"port": 81}]}


NODES = Schema(
    b.struct(
        parts=b.keyed_list(
            b.struct(
                name=b.STRING,
                tags=b.set_list(b.STRING),
                a=b.struct(b=b.struct(c=b.STRING), d=b.struct()),
                other=b.struct(),
            ),
            "name",
        )
    )
)
OWNED_ITEM: FieldSet = {".": {}, "f:name": {}}


@pytest.mark.parametrize(
    ("item", "owned", "rest"),
    [
        ({"a": {"b": {"c": "x"}}}, {"f:a": {"f:b": {"f:c": {}}}}, None),
        ({"a": {"b": {"c": "x"}}, "other": {}}, {"f:a": {"f:b": {"f:c": {}}}}, {"a": {"b": {}}, "other": {}}),
        ({"a": {"b": {"c": "x"}, "d": {}}}, {"f:a": {"f:b": {"f:c": {}}}}, {"a": {"b": {}, "d": {}}}),
        ({"a": {"b": {}}}, {}, {"a": {"b": {}}}),
        ({"tags": ["x", "y"]}, {"f:tags": {'v:"x"': {}}}, {"tags": ["y"]}),
        ({"tags": ["x"]}, {"f:tags": {'v:"x"': {}}}, None),
    ],
    ids=[
        "an object in an object",
        "an empty one of others",
        "another one in it",
        "empty ones of others",
        "a part of a set",
        "a set",
    ],
)
def test_an_owned_item_goes_with_all_that_is_in_it(item: Any, owned: FieldSet, rest: Any) -> None:
    """An item that others have something in would be taken for the owner's, or one that is his alone stay."""
    left = leave_out({"f:parts": {K_A: OWNED_ITEM | owned}}, {"parts": [{"name": "a", **item}]}, NODES)
    assert left == ({} if rest is None else {"parts": [{"name": "a", **rest}]})


@given(changes())
def test_nothing_of_the_rest_is_owned_and_all_else_is_there(change: Change) -> None:
    """A field of others that went along would be given to the owner; one of his that stayed would be lost."""
    fields = field_set(owned_paths(change.mask, change.live, change.old))
    schema = Schema(change.old)
    rest = leave_out(fields, change.live, schema)
    mine = project(fields, change.live, schema).owned
    # An empty list that nobody's set names is content too: an item with one does not go.
    before, after = (owned(each, schema, empty_lists=True) for each in (change.live, rest))
    gone = {path for path in before if path not in after}
    assert {path for path in gone - mine.keys() if not (is_key(path) and path[:-1] in mine)} == set()
    stayed = {path for path in mine if path in after}
    assert all(
        is_key(path) or not {other for other in before if other[: len(path)] == path} <= set(mine) for path in stayed
    )


def is_key(path: Path) -> bool:
    """Whether a path is that of a key of an item: it stays with the item, and goes with it."""
    return len(path) > 1 and path[-1][:2] == "f:" and path[-1][2:] in keys_of(path[-2])

"""Everything that there is to own of a value; what the real server says to that is tested in tests/apiserver."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from restow.crds import Schema
from restow.crds.fieldpath import from_paths
from restow.crds.ownedpaths import Place, owned, place_of
from restow.migrator.ownership.reconcile import Unknown, was_whole
from tests.migrator import builders as b
from tests.migrator.oracle import WHOLE, members, owned_paths
from tests.migrator.strategies import Change, changes

ITEM = b.struct(name=b.STRING, size=b.INTEGER)
K_A = 'k:{"name":"a"}'


@given(changes())
def test_all_that_is_owned_of_any_value(change: Change) -> None:
    """For any schema the paths must be those by which an apply of the whole value would own it."""
    found = owned(change.live, Schema(change.old), empty_lists=True)
    assert members(from_paths(found)) == owned_paths(WHOLE, change.live, change.old)


@pytest.mark.parametrize(
    ("node", "value", "found"),
    [
        (b.struct(x=b.STRING), {"x": "a"}, {("f:x",): "a"}),
        (b.struct(x=b.STRING), {"x": None}, {("f:x",): None}),
        (b.struct(x=b.struct()), {"x": {}}, {("f:x",): {}}),
        (b.struct(x=b.struct(y=b.STRING)), {"x": {"y": "a"}}, {("f:x", "f:y"): "a"}),
        (b.mapping(b.struct(y=b.STRING)), {"x": {"y": "a"}}, {("f:x",): {"": "x"}, ("f:x", "f:y"): "a"}),
        (b.struct(x=b.set_list(b.STRING)), {"x": ["a"]}, {("f:x", 'v:"a"'): "a"}),
        (b.struct(x=b.set_list(b.STRING)), {"x": []}, {}),
        (
            b.struct(x=b.keyed_list(ITEM, "name")),
            {"x": [{"name": "a"}]},
            {("f:x", K_A): {"name": "a"}, ("f:x", K_A, "f:name"): "a"},
        ),
        (b.struct(x=b.keyed_list(ITEM, "name")), {"x": [{"size": 1}]}, {("f:x",): [{"size": 1}]}),
        (b.struct(x=b.keyed_list(b.atomic(ITEM), "name")), {"x": [{"name": "a"}]}, {("f:x", K_A): {"name": "a"}}),
        (b.struct(x=b.atomic_list(ITEM)), {"x": [{"size": 1}]}, {("f:x",): [{"size": 1}]}),
        (b.struct(x=b.ANYTHING), {"x": "text"}, {("f:x",): "text"}),
        (b.struct(x=b.ANYTHING), {"x": [1]}, {("f:x",): [1]}),
        (b.struct(), {"pruned": {"a": 1}}, {("f:pruned",): {"a": 1}}),
    ],
    ids=[
        "scalar",
        "null",
        "empty object",
        "object",
        "key of a map",
        "set",
        "empty set is nobody's",
        "item",
        "item without its key",
        "atomic item",
        "atomic list",
        "text of any type",
        "list of any type",
        "unknown field",
    ],
)
def test_owned_by_example(node: b.Node, value: dict[str, Any], found: dict[tuple[str, ...], Any]) -> None:
    """Values are compared to tell an image from an invention: each must stand at the path that owns it."""
    assert owned(value, Schema(node)) == found


def test_an_item_that_is_there_twice_is_owned_as_one() -> None:
    """Items that cannot be told apart have no fields of their own for the server."""
    schema = Schema(b.struct(x=b.keyed_list(ITEM, "name")))
    value = {"x": [{"name": "a", "size": 1}, {"name": "a", "size": 2}]}
    assert set(owned(value, schema)) == {("f:x", K_A)}


def test_names_without_bound_take_no_memory_without_bound() -> None:
    """The keys of maps and items differ from object to object: keeping each would fill the memory of a long run."""
    schema = Schema(b.struct(map=b.mapping(b.struct(y=b.STRING)), list=b.keyed_list(ITEM, "name")))
    for number in range(3000):
        name = f"n{number}"
        found = owned({"map": {name: {"y": "a"}}, "list": [{"name": name, "size": 1}]}, schema)
        element = f'k:{{"name":"{name}"}}'
        assert found == {
            ("f:map", f"f:{name}"): {"": name},
            ("f:map", f"f:{name}", "f:y"): "a",
            ("f:list", element): {"name": name},
            ("f:list", element, "f:name"): name,
            ("f:list", element, "f:size"): 1,
        }
    assert _kept(place_of(schema)) < 5000


def _kept(place: Place) -> int:
    return 1 + sum(_kept(below) for below in (*place.fields.values(), *place.items.values()))


@pytest.mark.parametrize(
    ("node", "value", "atomic"),
    [
        (b.STRING, "a", True),
        (ITEM, {}, False),
        (b.atomic(ITEM), {}, True),
        (b.set_list(b.STRING), [], False),
        (b.atomic_list(b.STRING), [], True),
        (b.ANYTHING, [], True),
        (b.ANYTHING, {}, False),
        (b.ANYTHING, 1, True),
        (b.ANYTHING, None, False),
    ],
)
def test_what_is_owned_as_a_whole(node: b.Node, value: Any, atomic: bool) -> None:
    """A granular value taken for a whole gives its owner everything in it; the other way round, nothing."""
    schema = Schema(node)
    assert schema.is_whole(value) is was_whole(schema, value) is atomic


@pytest.mark.parametrize(
    ("fields", "value", "whole"),
    [({}, ["a"], True), ({}, {"a": 1}, False), ({"v:1": {}}, [1], False), ({}, "text", True)],
    ids=["list", "object", "others own a part", "scalar"],
)
def test_what_was_a_whole_in_a_version_that_is_not_known_any_more(fields: Any, value: Any, whole: bool) -> None:
    """Only what its managers own tells: nobody below, so the list was atomic; an empty object is more likely empty."""
    assert was_whole(Unknown(fields), value) is whole

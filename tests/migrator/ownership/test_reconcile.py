"""Ownership carried from one schema to another: nobody loses a value, nobody gains one that is not his."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from restow.crds import Schema, topology_differences
from restow.crds.fieldpath import FieldSet
from restow.migrator.ownership.reconcile import Unknown, misfit, reconcile_with_schema, whole_owners
from tests.migrator import builders as b
from tests.migrator.builders import STRING, Node
from tests.migrator.oracle import Path, covered_values, field_set, is_one_leaf, members, owned_paths, values
from tests.migrator.strategies import Change, changes

CONDITION = b.struct(type=STRING, status=STRING)
READY = {"type": "Ready", "status": "True"}
PAUSED = {"type": "Paused", "status": "False"}
K_READY = 'k:{"type":"Ready"}'
K_PAUSED = 'k:{"type":"Paused"}'
PORT = b.struct(port=b.INTEGER, protocol={"type": "string", "default": "TCP"}, name=STRING)


def under(node: Node) -> Schema:
    """The schema of an object whose field ``x`` this is."""
    return Schema(b.struct(x=node))


def reconciled(fields: FieldSet, old: Node, new: Node, live: Any) -> frozenset[Path]:
    """What the owner of ``fields`` at ``x`` owns there under the new schema."""
    return members(reconcile_with_schema({"f:x": fields}, under(old), under(new), {"x": live}))


ITEM: FieldSet = {".": {}, "f:type": {}, "f:status": {}}

CASES: dict[str, tuple[Node, Node, Any, FieldSet, FieldSet]] = {
    "atomic list to keyed": (
        b.atomic_list(CONDITION),
        b.keyed_list(CONDITION, "type"),
        [READY, PAUSED],
        {},
        {K_READY: ITEM, K_PAUSED: ITEM},
    ),
    "keyed list to atomic": (
        b.keyed_list(CONDITION, "type"),
        b.atomic_list(CONDITION),
        [READY, PAUSED],
        {K_READY: ITEM},
        {},
    ),
    "atomic list to set": (b.atomic_list(STRING), b.set_list(STRING), ["a", "b"], {}, {'v:"a"': {}, 'v:"b"': {}}),
    "set to atomic list": (b.set_list(STRING), b.atomic_list(STRING), ["a", "b"], {'v:"a"': {}}, {}),
    "other key": (
        b.keyed_list(CONDITION, "type"),
        b.keyed_list(CONDITION, "status"),
        [READY, PAUSED],
        {K_PAUSED: ITEM},
        {'k:{"status":"False"}': ITEM},
    ),
    "one more key, with a default": (
        b.keyed_list(PORT, "port"),
        b.keyed_list(PORT, "port", "protocol"),
        [{"port": 80, "protocol": "UDP"}, {"port": 81}],
        {'k:{"port":80}': {".": {}, "f:port": {}}, 'k:{"port":81}': {".": {}, "f:port": {}}},
        {
            'k:{"port":80,"protocol":"UDP"}': {".": {}, "f:port": {}},
            'k:{"port":81,"protocol":"TCP"}': {".": {}, "f:port": {}},
        },
    ),
    "one key less": (
        b.keyed_list(PORT, "port", "protocol"),
        b.keyed_list(PORT, "port"),
        [{"port": 80, "protocol": "TCP"}],
        {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}}},
        {'k:{"port":80}': {".": {}, "f:name": {}}},
    ),
    "one key less, which the object has by default only": (
        b.keyed_list(PORT, "port", "protocol"),
        b.keyed_list(PORT, "port"),
        [{"port": 80}, {"port": 81}],
        {'k:{"port":81,"protocol":"TCP"}': {".": {}, "f:port": {}}},
        {'k:{"port":81}': {".": {}, "f:port": {}}},
    ),
    "other keys, and two items become one": (
        b.keyed_list(PORT, "port"),
        b.keyed_list(PORT, "protocol"),
        [{"port": 80, "protocol": "TCP", "name": "a"}, {"port": 81, "protocol": "TCP"}],
        {'k:{"port":80}': {".": {}, "f:name": {}}, 'k:{"port":81}': {".": {}, "f:port": {}}},
        {'k:{"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}}},
    ),
    "keys in another order": (
        b.keyed_list(PORT, "port", "protocol"),
        b.keyed_list(PORT, "protocol", "port"),
        [{"port": 80, "protocol": "TCP"}],
        {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}}},
        {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}}},
    ),
    "atomic object to granular": (
        b.atomic(CONDITION),
        CONDITION,
        READY,
        {},
        {"f:type": {}, "f:status": {}},
    ),
    "granular object to atomic": (CONDITION, b.atomic(CONDITION), READY, {"f:type": {}}, {}),
    "atomic map to granular": (
        b.atomic(b.mapping(CONDITION)),
        b.mapping(CONDITION),
        {"one": READY, "two": {}},
        {},
        {"f:one": ITEM, "f:two": {}},
    ),
    "atomic items to granular": (
        b.keyed_list(b.atomic(CONDITION), "type"),
        b.keyed_list(CONDITION, "type"),
        [READY, PAUSED],
        {K_READY: {}},
        {K_READY: ITEM},
    ),
    "granular items to atomic": (
        b.keyed_list(CONDITION, "type"),
        b.keyed_list(b.atomic(CONDITION), "type"),
        [READY, PAUSED],
        {K_READY: ITEM},
        {K_READY: {}},
    ),
    "values of a map, atomic lists to keyed": (
        b.mapping(b.atomic_list(CONDITION)),
        b.mapping(b.keyed_list(CONDITION, "type")),
        {"one": [READY]},
        {"f:one": {}},
        {"f:one": {".": {}, K_READY: ITEM}},
    ),
    "lists in lists": (
        b.keyed_list(b.struct(type=STRING, inner=b.atomic_list(CONDITION)), "type"),
        b.keyed_list(b.struct(type=STRING, inner=b.keyed_list(CONDITION, "type")), "type"),
        [{"type": "Ready", "inner": [PAUSED]}, {"type": "Paused", "inner": [READY]}],
        {K_READY: {".": {}, "f:inner": {}}},
        {K_READY: {".": {}, "f:inner": {K_PAUSED: ITEM}}},
    ),
    "a list of an undescribed object to keyed": (
        b.ANYTHING,
        b.keyed_list(CONDITION, "type"),
        [READY],
        {},
        {K_READY: ITEM},
    ),
    "keyed to a list of an undescribed object": (
        b.keyed_list(CONDITION, "type"),
        b.ANYTHING,
        [READY],
        {K_READY: ITEM},
        {},
    ),
    "an atomic map to an undescribed object": (
        b.atomic(CONDITION),
        b.ANYTHING,
        READY,
        {},
        {"f:type": {}, "f:status": {}},
    ),
    "an item without its keys": (
        b.atomic_list(CONDITION),
        b.keyed_list(CONDITION, "type"),
        [READY, {"status": "True"}],
        {},
        {},
    ),
    "an item that is there twice": (
        b.atomic_list(CONDITION),
        b.keyed_list(CONDITION, "type"),
        [READY, {"type": "Ready"}],
        {},
        {K_READY: {}},
    ),
    "an item that is gone": (
        b.keyed_list(CONDITION, "type"),
        b.keyed_list(CONDITION, "status"),
        [READY],
        {K_PAUSED: ITEM},
        {K_PAUSED: ITEM},
    ),
    "a value that is gone": (b.set_list(STRING), b.set_list(STRING), ["a"], {'v:"b"': {}}, {'v:"b"': {}}),
    "an empty list stays owned": (b.atomic_list(CONDITION), b.keyed_list(CONDITION, "type"), [], {}, {}),
    "an empty object stays owned": (b.atomic(CONDITION), CONDITION, {}, {}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_reconciling_by_example(name: str) -> None:
    """Each way in which two schemas can own a value differently; a wrong one ends in a conflict or a lost owner."""
    old, new, live, owned, meant = CASES[name]
    assert reconciled(owned, old, new, live) == members({"f:x": meant})


@given(changes())
def test_reconciling_names_what_the_server_would(change: Change) -> None:
    """For any two schemas the set must be the one that the server would have written at the new version."""
    fields = field_set(owned_paths(change.mask, change.live, change.old))
    after = reconcile_with_schema(fields, Schema(change.old), Schema(change.new), change.live)
    assert members(after) == owned_paths(change.mask, change.live, change.new)


@given(changes())
def test_reconciling_keeps_every_owned_value_and_takes_no_other(change: Change) -> None:
    """Every value that was owned stays owned, and others only where the new schema cannot own them apart."""
    fields = field_set(owned_paths(change.mask, change.live, change.old))
    after = reconcile_with_schema(fields, Schema(change.old), Schema(change.new), change.live)
    owned = values(change.mask, change.live)
    joined = {value for whole in inseparable(change.live, change.new) if not whole.isdisjoint(owned) for value in whole}
    assert covered_values(after, change.live, change.new) == owned | joined


def inseparable(value: Any, node: Node, path: str = "") -> list[frozenset[str]]:
    """The groups of values that a schema can only own together."""
    if is_one_leaf(value, node) or not value:
        return [frozenset(f"{path}{below}" for below in values(True, value))]
    if isinstance(value, list):
        return [each for i, item in enumerate(value) for each in inseparable(item, node["items"], f"{path}/{i}")]
    child = node.get("properties", {}).get
    other = node.get("additionalProperties") or node
    return [each for name, v in value.items() for each in inseparable(v, child(name) or other, f"{path}/{name}")]


@given(changes(same=True))
def test_reconciling_under_one_schema_changes_nothing(change: Change) -> None:
    """Two versions with one schema need no reshaping; a set that fits the object must come out as it went in."""
    fields = field_set(owned_paths(change.mask, change.live, change.old))
    assert members(reconcile_with_schema(fields, Schema(change.old), Schema(change.new), change.live)) == members(
        fields
    )


@given(changes() | changes(same=True))
def test_renaming_is_enough_where_the_topology_is_the_same(change: Change) -> None:
    """Most entries are renamed without a look at the object: right only if the server would name the same paths."""
    if not topology_differences(Schema(change.old), Schema(change.new)):
        under_old = owned_paths(change.mask, change.live, change.old)
        assert under_old == owned_paths(change.mask, change.live, change.new)


@given(changes())
def test_reconciling_leaves_its_inputs_alone(change: Change) -> None:
    """The decoded set is shared with the other managers' entries; a change in place would give them its paths."""
    fields = field_set(owned_paths(change.mask, change.live, change.old))
    again = field_set(owned_paths(change.mask, change.live, change.old))
    reconcile_with_schema(fields, Schema(change.old), Schema(change.new), change.live)
    assert fields == again


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b.struct(), b.struct(x=b.keyed_list(CONDITION, "type"))),
        (b.struct(x=b.atomic_list(CONDITION)), b.struct()),
    ],
    ids=["old does not know it", "new does not know it"],
)
def test_a_field_that_one_version_does_not_know_is_carried_as_it_is(old: Node, new: Node) -> None:
    """What cannot be judged must neither be dropped nor be guessed at: the server ignores paths it does not know."""
    fields = {"f:x": {"f:y": {}}, "f:z": {}}
    assert reconcile_with_schema(fields, Schema(old), Schema(new), {"x": [READY]}) == fields


@pytest.mark.parametrize("live", [{}, {"x": None}, {"x": "text"}, {"x": {"y": 1}}, [], None])
def test_a_live_object_of_another_shape_loses_no_path(live: Any) -> None:
    """An owned list that the object does not have (any more) must not end the run or make the entry empty."""
    fields: FieldSet = {"f:x": {}}
    after = reconcile_with_schema(fields, under(b.atomic_list(CONDITION)), under(b.keyed_list(CONDITION, "type")), live)
    assert members(after) == {("f:x",)}


ODD = ('k:{"type":"Gone"}', 'v:"a"', "i:7", "i:-1", "i:x", "k:{broken", "k:{}", "k:5", "k:null", "v:")


@pytest.mark.parametrize("live", [[], [READY], ["a text"]], ids=["empty", "one item", "another kind"])
@pytest.mark.parametrize("element", ODD)
def test_elements_that_fit_no_item_are_carried_as_they_are(element: str, live: list[Any]) -> None:
    """An element that names no item of the list must be kept rather than crash the run or become another item's."""
    old, new = b.keyed_list(CONDITION, "type"), b.keyed_list(CONDITION, "status")
    fields: FieldSet = {"f:x": {element: {".": {}, "f:status": {}}}}
    assert reconcile_with_schema(fields, under(old), under(new), {"x": live}) == fields


MIXED = b.struct(
    text=STRING,
    number=b.INTEGER,
    either={"x-kubernetes-int-or-string": True},
    any=b.ANYTHING,
    list=b.atomic_list(b.struct(size=b.INTEGER)),
    keyed=b.keyed_list(CONDITION, "type"),
    map=b.mapping(b.INTEGER),
    whole=b.atomic(b.struct(on={"type": "boolean"})),
)


@pytest.mark.parametrize(
    ("live", "place"),
    [
        ({}, ""),
        ({"text": "a", "number": 1, "either": "a", "any": [1, {"a": "b"}], "list": [{"size": 1}]}, ""),
        ({"number": 1.5, "either": 1, "any": True, "map": {"a": 1}, "whole": {"on": False}}, ""),
        ({"text": None, "list": None, "map": {"a": None}, "unknown": {"a": [1]}}, ""),
        ({"text": 1}, ".text"),
        ({"text": True}, ".text"),
        ({"number": "1"}, ".number"),
        ({"number": True}, ".number"),
        ({"either": True}, ".either"),
        ({"either": [1]}, ".either"),
        ({"text": ["a"]}, ".text"),
        ({"list": {"size": 1}}, ".list"),
        ({"list": [{"size": 1}, {"size": "1"}]}, ".list[].size"),
        ({"keyed": [{"type": "Ready", "status": 1}]}, ".keyed[].status"),
        ({"map": {"secret": "a"}}, ".map{}"),
        ({"map": [1]}, ".map"),
        ({"whole": {"on": "yes"}}, ".whole.on"),
        ({"text": "a", "number": 1, "map": {"a": 1, "b": "c"}}, ".map{}"),
    ],
)
def test_a_value_of_another_type_is_found_by_its_place(live: dict[str, Any], place: str) -> None:
    """The server knows no owner of an object with one such value; the message must not tell what stands there."""
    assert misfit(live, Schema(MIXED)) == place


@given(changes())
def test_an_object_of_the_right_types_is_no_misfit(change: Change) -> None:
    """Types do not depend on who owns what; a false alarm would leave a sound object unmigrated."""
    assert misfit(change.live, Schema(change.old)) == misfit(change.live, Schema(change.new)) == ""


# A version that left the CRD: its schema can be told from what its managers own, in part.

KEYED = under(b.keyed_list(CONDITION, "type"))


@pytest.mark.parametrize(
    ("owned_at_version", "fields", "whole", "meant"),
    [
        ({"f:x": {}}, {"f:x": {}}, True, {"f:x": {K_READY: ITEM}}),
        ({"f:x": {K_PAUSED: {}}}, {"f:x": {}}, False, {"f:x": {}}),
        ({"f:x": {K_READY: ITEM}}, {"f:x": {K_READY: ITEM}}, False, {"f:x": {K_READY: ITEM}}),
        ({"f:y": {}}, {"f:y": {}}, False, {"f:y": {}}),
    ],
    ids=["nobody owns below", "somebody owns below", "owns below itself", "not in the schema"],
)
def test_a_removed_versions_lists_are_told_from_what_its_managers_own(
    owned_at_version: FieldSet, fields: FieldSet, whole: bool, meant: FieldSet
) -> None:
    """A whole list is expanded only if no manager of its version owned a part of it: else it was never whole."""
    old = Unknown(owned_at_version)
    assert whole_owners(fields, old, KEYED) is whole
    assert members(reconcile_with_schema(fields, old, KEYED, {"x": [READY]})) == members(meant)


@pytest.mark.parametrize(
    ("node", "fields", "whole"),
    [
        (STRING, {"f:x": {}}, False),
        (b.atomic_list(CONDITION), {"f:x": {}}, False),
        (b.set_list(STRING), {"f:x": {}}, True),
        (b.struct(y=b.set_list(STRING)), {"f:x": {"f:y": {}}}, True),
        (b.mapping(b.set_list(STRING)), {"f:x": {"f:key": {}}}, True),
        (b.keyed_list(b.struct(type=STRING, y=b.set_list(STRING)), "type"), {"f:x": {K_READY: {"f:y": {}}}}, True),
        (b.struct(y=STRING), {"f:x": {".": {}, "f:y": {}}}, False),
    ],
    ids=["scalar", "atomic list", "set", "below an object", "below a map", "below an item", "no list"],
)
def test_the_object_is_read_only_for_lists_that_may_have_been_whole(node: Node, fields: FieldSet, whole: bool) -> None:
    """A needless read costs a request per object; a missing one loses the owner of a list."""
    assert whole_owners(fields, Unknown(fields), under(node)) is whole


@pytest.mark.parametrize(
    ("fields", "whole"),
    [
        ({"f:a": {}, "f:set": {}}, True),
        ({"f:gone": {}, "f:set": {}}, True),
        ({"f:parts": {".": {}, K_READY: ITEM}, "f:a": {}}, False),
        ({"f:parts": {".": {}, K_READY: ITEM}, "f:set": {}}, True),
        ({"f:open": {"f:set": {}}}, False),
        ({"f:open": {K_READY: ITEM}}, False),
    ],
    ids=[
        "after a scalar",
        "after a field that is gone",
        "a list with itself",
        "after such a list",
        "an open object",
        "a list that is open now",
    ],
)
def test_every_field_is_looked_at(fields: FieldSet, whole: bool) -> None:
    """A list that follows what needs no look would not be read, and its owner lose it; others cost a read in vain."""
    schema = Schema(
        b.struct(
            a=STRING,
            set=b.set_list(STRING),
            parts=b.keyed_list(CONDITION, "type"),
            open={"x-kubernetes-preserve-unknown-fields": True},
        )
    )
    assert whole_owners(fields, Unknown(fields), schema) is whole


def test_an_unknown_version_is_looked_at_path_by_path() -> None:
    """That one list was owned in parts says nothing about another list of the same version."""
    schema = Schema(b.struct(x=b.keyed_list(CONDITION, "type"), y=b.set_list(STRING)))
    old = Unknown({"f:x": {K_READY: {}}, "f:y": {}})
    after = reconcile_with_schema({"f:x": {}, "f:y": {}}, old, schema, {"x": [READY], "y": ["a"]})
    assert members(after) == {("f:x",), ("f:y", 'v:"a"')}


def test_an_empty_object_of_an_unknown_version_stays_empty() -> None:
    """An owner of ``x: {}`` must not be given what others put there since, only because another list was expanded."""
    schema = Schema(b.struct(x=b.mapping(STRING), y=b.set_list(STRING)))
    fields: FieldSet = {"f:x": {}, "f:y": {}}
    after = reconcile_with_schema(fields, Unknown(fields), schema, {"x": {"others": "text"}, "y": ["a"]})
    assert members(after) == {("f:x",), ("f:y", 'v:"a"')}


@pytest.mark.parametrize("item", [{".": {}, "f:status": {}}, {"f:status": {}}], ids=["with itself", "a field alone"])
def test_items_of_a_removed_version_keep_their_paths(item: FieldSet) -> None:
    """Whoever owns a field of an item would own the item itself, and remove it with its next apply."""
    fields = {"f:x": {K_READY: item}}
    assert members(reconcile_with_schema(fields, Unknown(fields), KEYED, {"x": [READY]})) == members(fields)


def test_items_that_a_removed_version_named_by_other_keys_are_respelled() -> None:
    """An element with the old keys names no item of the list any more, so its owner would own nothing of it."""
    item = b.struct(name=STRING, kind=STRING, size=STRING)
    schema = under(b.keyed_list(item, "name", "kind"))
    fields: FieldSet = {"f:x": {'k:{"name":"a"}': {".": {}, "f:size": {}}}}
    live = {"x": [{"name": "b", "kind": "K"}, {"name": "a", "kind": "K", "size": "1"}]}
    assert whole_owners(fields, Unknown(fields), schema)
    meant = {"f:x": {'k:{"kind":"K","name":"a"}': {".": {}, "f:size": {}}}}
    assert members(reconcile_with_schema(fields, Unknown(fields), schema, live)) == members(meant)

"""Field sets as sets of paths: unions, and the spellings of one set."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given

from restow.crds import fieldpath
from restow.crds.fieldpath import FieldSet
from tests.migrator.builders import raw
from tests.migrator.oracle import members
from tests.migrator.strategies import chances, field_sets, respelled


@given(field_sets, field_sets)
def test_a_union_owns_what_either_owns(one: FieldSet, other: FieldSet) -> None:
    """Merging two entries would lose a path of one of them, or invent one."""
    assert members(fieldpath.union(one, other)) == members(one) | members(other)


@given(field_sets, field_sets)
def test_a_union_does_not_depend_on_the_order(one: FieldSet, other: FieldSet) -> None:
    """The order of entries in managedFields would change the result of a merge."""
    assert members(fieldpath.union(one, other)) == members(fieldpath.union(other, one))


@given(field_sets, field_sets, field_sets)
def test_a_union_of_three_does_not_depend_on_the_grouping(a: FieldSet, b: FieldSet, c: FieldSet) -> None:
    """Merging three entries would give different owners, depending on which two are merged first."""
    assert members(fieldpath.union(fieldpath.union(a, b), c)) == members(fieldpath.union(a, fieldpath.union(b, c)))


@given(field_sets)
def test_a_union_with_itself_or_nothing_changes_nothing(fields: FieldSet) -> None:
    """Repeating a merge, or merging with an empty set, would add a path such as a stray ``.``."""
    assert members(fieldpath.union(fields, fields)) == members(fields)
    assert members(fieldpath.union(fields, {})) == members(fieldpath.union({}, fields)) == members(fields)


@given(field_sets, field_sets)
def test_a_union_leaves_its_inputs_alone(one: FieldSet, other: FieldSet) -> None:
    """A merge in place would corrupt the sets of the listed object, which a repair needs later."""
    before = copy.deepcopy((one, other))
    fieldpath.union(one, other)
    assert (one, other) == before


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        ({"f:a": {}}, {"f:b": {}}, {"f:a": {}, "f:b": {}}),
        ({"f:a": {}}, {"f:a": {"f:b": {}}}, {"f:a": {".": {}, "f:b": {}}}),
        ({"f:a": {"f:b": {}}}, {"f:a": {".": {}}}, {"f:a": {".": {}, "f:b": {}}}),
        ({"f:a": {"f:b": {}}}, {"f:a": {"f:c": {}}}, {"f:a": {"f:b": {}, "f:c": {}}}),
        ({}, {"f:a": {"f:b": {}}}, {"f:a": {"f:b": {}}}),
    ],
    ids=["side by side", "leaf and children", "dot and children", "children of one parent", "nothing"],
)
def test_union_by_example(one: FieldSet, other: FieldSet, merged: FieldSet) -> None:
    """A leaf merged with children would lose its own ownership, or a parent of children would gain one."""
    assert fieldpath.union(one, other) == merged


@given(field_sets, chances)
def test_order_and_spelling_do_not_count(fields: FieldSet, chance: Random) -> None:
    """The server's own order and spelling would look like a lost owner and cause repairs of every object."""
    assert fieldpath.equal(raw(fields), raw(respelled(fields, chance)))


@given(field_sets, field_sets)
def test_equal_means_equal_members(one: FieldSet, other: FieldSet) -> None:
    """The check of a response would miss a lost path or an extra one."""
    assert fieldpath.equal(raw(one), raw(other)) == (members(one) == members(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"f:a": {}}, {"f:a": {"f:b": {}}}),
        ({"f:a": {"f:b": {}}}, {"f:a": {".": {}, "f:b": {}}}),
        ({'v:"1"': {}}, {"v:1": {}}),
        ({'k:{"a":1}': {}}, {'k:{"a":1,"b":2}': {}}),
        ({"v:9007199254740991": {}}, {"v:9007199254740992": {}}),
        ({}, {"f:a": {}}),
    ],
    ids=["leaf or parent", "with or without dot", "text or number", "more keys", "exact numbers", "nothing"],
)
def test_sets_that_look_alike_are_told_apart(one: FieldSet, other: FieldSet) -> None:
    """A comparison that treats these as equal would report lost ownership as intact."""
    assert not fieldpath.equal(raw(one), raw(other))
    assert not fieldpath.equal(raw(other), raw(one))


@pytest.mark.parametrize(
    ("exact", "rounded"),
    [
        ("v:9007199254740993", "v:9007199254740992"),
        ("v:-9223372036854775808", "v:-9223372036854776000"),
        ('k:{"k":1152921504606846977,"n":"a"}', 'k:{"k":1152921504606847000,"n":"a"}'),
        ('v:{"a":[9007199254740993]}', 'v:{"a":[9007199254740992]}'),
    ],
)
def test_numbers_are_equal_as_the_server_rounds_them(exact: str, rounded: str) -> None:
    """The server writes such an element back rounded, which would look like a lost owner (test_big_numbers.py)."""
    assert fieldpath.equal(raw({exact: {}}), raw({rounded: {}}))


@pytest.mark.parametrize(
    ("node", "leaf"),
    [({}, True), ({".": {}}, True), ({"f:a": {}}, False), ({".": {}, "f:a": {}}, False), ({"v:1": {}}, False)],
)
def test_a_leaf_is_a_member_with_nothing_below(node: FieldSet, leaf: bool) -> None:
    """A node with children, with or without a dot, would be treated as a whole value."""
    assert fieldpath.is_leaf(node) is leaf


@given(field_sets, chances)
def test_a_set_is_encoded_in_one_order(fields: FieldSet, chance: Random) -> None:
    """If bytes depended on the order of a Python set, a patch would differ between runs and from the response."""
    assert bytes(fieldpath.encode(_shuffled(fields, chance))) == bytes(fieldpath.encode(fields))


def _shuffled(fields: FieldSet, chance: Random) -> FieldSet:
    return {key: _shuffled(fields[key], chance) for key in chance.sample(list(fields), len(fields))}


@given(field_sets)
def test_what_is_encoded_is_decoded_alike(fields: FieldSet) -> None:
    """A set would own other paths after it is encoded and decoded, also for a plain JSON reader."""
    encoded = fieldpath.encode(fields)
    assert fieldpath.decode(encoded) == fields == json.loads(bytes(encoded))


@pytest.mark.parametrize("body", [b"null", b"[]", b'"x"', b"{", b""])
def test_what_is_no_set_is_refused(body: bytes) -> None:
    """A body that is not a JSON object would count as an empty set, which owns nothing."""
    with pytest.raises(msgspec.MsgspecError):
        fieldpath.decode(body)


@pytest.mark.parametrize("element", ["k:{broken", "v:", "v:NaN", "v:1" + "0" * 400])
def test_an_element_that_is_no_json_is_compared_as_text(element: str) -> None:
    """An element that is not JSON would end the run, or would equal another element."""
    odd: dict[str, Any] = {element: {}, "f:a": {}}
    assert fieldpath.equal(raw(odd), raw(dict(reversed(odd.items()))))
    assert not fieldpath.equal(raw(odd), raw({"f:a": {}, element + "x": {}}))


def test_only_takes_whole_branches() -> None:
    """Carrying over ``f:metadata`` would lose a part of it, or include other fields."""
    fields = {"f:metadata": {"f:labels": {"f:x": {}}}, "f:spec": {"f:y": {}}}
    assert fieldpath.only(fields, "f:metadata") == {"f:metadata": {"f:labels": {"f:x": {}}}}
    assert fieldpath.only(fields, "f:status") == {}

"""JSON that is nested more deeply than a decoder takes, cut without recursion."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.kube.nesting import elements, take

DEEP = b'{"a":[' * 10_000 + b"1" + b"]}" * 10_000

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["items", 'i"t[', "a\\", "{"]), VALUES), st.sampled_from([None, 1]))
def test_a_value_is_taken_out_of_any_object(whole: dict[str, Any], indent: int | None) -> None:
    """Brackets and quotes in texts, or a key of the same name further inside, would cut an object in two."""
    rest, value = take(json.dumps(whole, indent=indent).encode(), "items")
    wanted = whole.get("items")
    if not isinstance(wanted, list | dict):
        assert (json.loads(rest), value) == (whole, b"")
        return
    assert json.loads(rest) == whole | {"items": None}
    assert json.loads(value) == wanted


@given(st.lists(st.dictionaries(st.text(), VALUES, max_size=3), max_size=4), st.sampled_from([None, 1]))
def test_the_objects_of_a_list_come_one_by_one(items: list[Any], indent: int | None) -> None:
    """An object would be read with a part of its neighbour, or not at all."""
    assert [json.loads(each) for each in elements(json.dumps(items, indent=indent).encode())] == items


def test_depth_does_not_matter() -> None:
    """The scan would end by the same recursion limit as the decoder that it replaces."""
    rest, value = take(b'{"kind":"List","items":[' + DEEP + b',{"b":1}]}', "items")
    assert json.loads(rest) == {"kind": "List", "items": None}
    assert elements(value) == [DEEP, b'{"b":1}']


@pytest.mark.parametrize("text", [b"", b"1", b"[", b'{"items":[{', b'{"items":[}', b'"items"', b"]]", b'{"items'])
def test_what_is_cut_off_is_refused(text: bytes) -> None:
    """A part of an object would count as the whole one."""
    with pytest.raises(ValueError, match="not whole"):
        elements(take(text, "items")[1])

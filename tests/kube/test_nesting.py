"""JSON that is nested more deeply than a decoder takes, cut without recursion."""

from __future__ import annotations

import json
import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.kube import nesting
from restow.kube.nesting import take, take_elements

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
    rest, found = take_elements(json.dumps({"items": items, "kind": "List"}, indent=indent).encode(), "items")
    assert [json.loads(each) for each in found] == items
    assert json.loads(rest) == {"items": None, "kind": "List"}


def test_depth_does_not_matter() -> None:
    """The scan would end by the same recursion limit as the decoder that it replaces."""
    rest, found = take_elements(b'{"kind":"List","items":[' + DEEP + b',{"b":1}]}', "items")
    assert json.loads(rest) == {"kind": "List", "items": None}
    assert found == [DEEP, b'{"b":1}']


def test_parts_of_a_text_join_wherever_it_is_divided() -> None:
    """A string, a run of brackets or a key that lies across a border would shift every later object."""
    inner = b'{"a":"[\\"{\\\\","b":' + b"[" * 40 + b"]" * 40 + b',"items":[{}]}'
    for shift in range(1100):
        text = b'{"' + b"k" * shift + b'":{"items":[0]},"items" : [' + inner + b", [] ," + inner + b"]}"
        rest, found = take_elements(text, "items")
        assert found == [inner, b"[]", inner]
        assert rest == b'{"' + b"k" * shift + b'":{"items":[0]},"items" : null}'


def test_the_cost_grows_with_the_length_and_not_with_the_brackets() -> None:
    """A page of brackets would keep the event loop for a minute, and its process would lose its leases."""
    counted = Counter[str]()

    def count(frame: FrameType, event: str, _argument: Any) -> None:
        if frame.f_code.co_filename == nesting.__file__ and event == "call":
            counted["calls"] += 1

    chains = b",".join([b"[" * 5_000 + b"]" * 5_000] * 20)
    sys.setprofile(count)
    try:
        _, found = take_elements(b'{"items":[[' + chains + b"],{}]}", "items")
    finally:
        sys.setprofile(None)
    assert [len(each) for each in found] == [len(chains) + 2, 2]
    assert counted["calls"] < len(chains) / 100


@pytest.mark.parametrize("text", [b"", b"1", b"[", b'{"items":[{', b'{"items":[}', b'"items"', b"]]", b'{"items'])
def test_what_is_cut_off_is_refused(text: bytes) -> None:
    """A part of an object would count as the whole one."""
    with pytest.raises(ValueError, match="not whole"):
        take_elements(text, "items")

"""Merge patches: the change from one object to another."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from restow.kube.resources import merge_patch
from tests.memory.custom import apply_merge_patch

values = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=1),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("xyz"), values, max_size=3)


@given(before=objects, after=objects)
def test_a_patch_leads_to_what_was_meant(before: dict[str, Any], after: dict[str, Any]) -> None:
    """A field that a patch does not remove or set would stay wrong in a status for ever."""
    assert apply_merge_patch(before, merge_patch(before, after)) == after


@given(value=objects)
def test_what_is_equal_needs_no_patch(value: dict[str, Any]) -> None:
    """A controller would write although there is nothing to write, which it learns from an empty patch."""
    assert merge_patch(value, value) == {}

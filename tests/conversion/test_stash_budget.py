"""What the stash gives up over its budget or its depth: not more than it has to, counted, and the rest can be read."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from restow.conversion.stash.annotation import (
    _ALL_ANNOTATIONS,
    _MAX_DEPTH,
    _MOST_DROPPED,
    DEFAULT_BUDGET,
    Stash,
    parse_stash,
    seal,
)

KEY = "example.com/conversion-stash"

COUNT_AND_SIZE = ',"dropped":' + "9" * 19
"""What is kept free for the number of entries given up."""


def sealed(kept: dict[str, Any], budget: int, dropped: int = 0) -> str | None:
    """The annotation that holds these entries of v2 within a budget, None if there is none."""
    obj: dict[str, Any] = {}
    seal(obj, KEY, Stash({"v2": kept}, dropped), budget)
    return obj["metadata"]["annotations"][KEY] if obj else None


def entries(count: int) -> dict[str, Any]:
    """Entries of one size."""
    return {f".spec.n{number:02}": {"is": "x" * 20} for number in range(count)}


def items(count: int) -> dict[str, Any]:
    """One list whose items have one size."""
    return {
        ".spec.items": {"items": [{"item": [f"{number:02}"], "kept": {".x": {"is": 1}}} for number in range(count)]}
    }


ONE_ENTRY = len('".spec.n00":{"is":"' + "x" * 20 + '"},')
ONE_ITEM = len('{"item":["00"],"kept":{".x":{"is":1}}},')


@pytest.mark.parametrize(("made", "size"), [(entries, ONE_ENTRY), (items, ONE_ITEM)], ids=["entries", "items"])
def test_every_budget_is_kept_to_and_used(made: Any, size: int) -> None:
    """Over the budget all entries would be lost; with too many given up, fields are lost that had room."""
    count = 20
    whole = len(sealed(made(count), 10**6) or "")
    for budget in range(whole + 5, whole - 15 * size, -1):
        text = sealed(made(count), budget)
        assert text is not None and len(text) <= budget
        needed = 0 if budget >= whole else math.ceil((whole - budget + len(COUNT_AND_SIZE)) / size)
        document = json.loads(text)
        assert document.get("dropped", 0) == needed, budget
        left = document["kept"]["v2"]
        assert len(left[".spec.items"]["items"] if made is items else left) == count - needed


def test_the_largest_of_all_versions_and_lists_goes_first() -> None:
    """A small entry would be lost for the sake of a large one that has no room anyway."""
    kept = {
        ".a": {"is": "y"},
        ".items": {"items": [{"item": ["1"], "kept": {".x": {"is": "x" * 500}}}]},
        ".z": {"is": 1},
    }
    assert json.loads(sealed(kept, 200) or "") == {
        "format": 1,
        "dropped": 1,
        "kept": {"v2": {".a": {"is": "y"}, ".z": {"is": 1}}},
    }


def test_what_was_given_up_before_is_counted_on() -> None:
    """The number in the annotation would be that of the last conversion, and hide what the earlier ones lost."""
    assert json.loads(sealed({".a": {"is": "y"}, ".b": {"is": "x" * 500}}, 200, dropped=3) or "")["dropped"] == 4


def nested(depth: int) -> Any:
    """Lists in lists."""
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def test_what_is_written_can_be_read() -> None:
    """A stash that is too deep to be read would be lost as a whole, without being counted."""
    kept = 0
    for depth in range(100, 150):
        text = sealed({".deep": {"is": nested(depth)}, ".flat": {"is": 1}}, 10**6)
        assert text is not None
        found = parse_stash(text)
        assert found is not None, depth
        stash, _was = found
        assert stash.kept["v2"].get(".flat") == {"is": 1}
        assert (".deep" in stash.kept["v2"]) != (stash.dropped == 1)
        kept += ".deep" in stash.kept["v2"]
    assert kept > 10


@pytest.mark.parametrize(("levels", "stays"), [(121, True), (122, False)])
def test_only_what_is_nested_too_deeply_goes(levels: int, stays: bool) -> None:
    """A field that could be read back would be lost because of another one that is nested more deeply."""
    text = sealed({".deepest": {"is": nested(200)}, ".deep": {"is": nested(levels)}}, 10**6)
    assert text is not None and parse_stash(text) is not None
    document = json.loads(text)
    assert (".deep" in document["kept"]["v2"], document["dropped"]) == (stays, 1 if stays else 2)


def test_what_is_no_entry_can_be_given_up_too() -> None:
    """A list that a client wrote in place of an entry would fail the conversion of its object."""
    assert json.loads(sealed({".forged": ["x" * 500], ".a": {"is": "y"}}, 200) or "") == {
        "format": 1,
        "dropped": 1,
        "kept": {"v2": {".a": {"is": "y"}}},
    }


@pytest.mark.parametrize(("missing", "left"), [(0, 4), (1, 3)], ids=["enough", "a byte short"])
def test_the_order_of_a_list_goes_alone_where_that_is_enough(missing: int, left: int) -> None:
    """An item that had room would be lost, or the order of another list, by which its edited items are found."""
    kept = {
        name: {**items(2)[".spec.items"], "order": "x" * length} for name, length in ((".long", 300), (".short", 1))
    }
    whole = len(sealed(kept, 10**6) or "")
    order = len(',"order":""') + 300
    document = json.loads(sealed(kept, whole + len(COUNT_AND_SIZE) - order - missing) or "")
    entries_left = document["kept"]["v2"]
    assert "order" not in entries_left[".long"] and entries_left[".short"]["order"] == "x"
    assert sum(len(entry["items"]) for entry in entries_left.values()) == left
    assert document["dropped"] == 4 - left, "an order that goes is no loss yet"


@pytest.mark.parametrize("count", [-1, True, "7", 1.5, None, [1], _MOST_DROPPED, 2**70])
def test_a_count_that_is_none_counts_as_nothing(count: Any) -> None:
    """Any client may write the annotation, and the count is added to: a text would fail the object."""
    parsed = parse_stash(json.dumps({"format": 1, "kept": {}, "dropped": count}))
    assert parsed is not None and (parsed[0].dropped, parsed[0].dropped.__class__) == (0, int)


def test_a_count_is_read_up_to_its_limit() -> None:
    """A count that is forgotten hides that fields were lost."""
    for count in (1, _MOST_DROPPED - 1):
        parsed = parse_stash(json.dumps({"format": 1, "kept": {}, "dropped": count}))
        assert parsed is not None and parsed[0].dropped == count


@pytest.mark.parametrize("was", [None, [1], "metadata", 7])
def test_a_forged_note_of_what_metadata_was_counts_as_none(was: Any) -> None:
    """Taking it for an object would fail the conversion."""
    parsed = parse_stash(json.dumps({"format": 1, "kept": {}, "was": was}))
    assert parsed is not None and parsed[1] == {}


def test_a_stash_as_large_as_annotations_may_be_is_read() -> None:
    """API servers store an annotation of this size; fields would be lost by one byte."""
    text = json.dumps({"format": 1, "kept": {}})
    assert parse_stash(text.ljust(_ALL_ANNOTATIONS)) is not None
    assert parse_stash(text.ljust(_ALL_ANNOTATIONS + 1)) is None


@pytest.mark.parametrize("wrap", [lambda inner: {"x": inner}, lambda inner: [inner]], ids=["objects", "lists"])
def test_a_stash_is_read_up_to_its_depth(wrap: Any) -> None:
    """One that is deeper ends the conversion of its object in the decoder of the next reader."""
    for extra, is_read in ((0, True), (1, False)):
        value: Any = [{}, {}, {}]  # more brackets than levels
        for _ in range(_MAX_DEPTH + extra - 6):
            value = wrap(value)
        text = json.dumps({"format": 1, "kept": {"v2": {".a": {"is": value}}}})
        assert (parse_stash(text) is not None) is is_read, extra


@pytest.mark.parametrize("metadata", [[], "name", {"annotations": []}, {"annotations": "text"}])
def test_metadata_that_can_hold_no_annotation_stays(metadata: Any) -> None:
    """The API server refuses it anyway, with a message that names the field; ours would be another object."""
    obj = {"metadata": metadata}
    seal(obj, KEY, Stash({"v2": entries(1)}))
    assert obj == {"metadata": metadata}


def test_a_budget_without_room_for_any_stash_leaves_none() -> None:
    """An annotation over the budget may be the one that an API server refuses."""
    assert sealed(entries(1), 5) is None


def test_all_annotations_together_fit() -> None:
    """An API server refuses the object whose annotations have one byte too many."""
    size = len(sealed(entries(2), DEFAULT_BUDGET) or "")
    for spare in (0, 1):
        obj: dict[str, Any] = {
            "metadata": {"annotations": {"a": "x" * (_ALL_ANNOTATIONS - len(KEY) - size - 1 + spare)}}
        }
        seal(obj, KEY, Stash({"v2": entries(2)}))
        text = obj["metadata"]["annotations"].get(KEY)
        assert (text is not None and len(text) == size) is (spare == 0)

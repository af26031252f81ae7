"""The cursor over large JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.conversion.reviews.conversion import WORKS, JsonCursor, NoJson

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
BLANKS = st.text(" \t\r\n", max_size=3)


def test_the_installed_msgspec_works_as_it_has_to() -> None:
    """The cursor finds the end of a value by an error text of msgspec; otherwise large reviews block the event loop."""
    assert WORKS


@given(st.lists(VALUES), BLANKS)
def test_items_are_the_items_of_the_list(values: list[Any], blank: str) -> None:
    """Whatever stands in a list is found whole and in order; else objects are lost or mixed up."""
    comma = f"{blank},{blank}"
    text = f"{blank}[{blank}{comma.join(map(json.dumps, values))}{blank}]{blank}".encode()
    cursor = JsonCursor(text)
    assert [json.loads(bytes(item)) for item in cursor.items()] == values
    cursor.end()


@given(st.dictionaries(st.text(), VALUES), BLANKS)
def test_members_are_the_members_of_the_object(values: dict[str, Any], blank: str) -> None:
    """Names are decoded, and each value is left to the caller; else the envelope is misread."""
    comma, colon = f"{blank},{blank}", f"{blank}:{blank}"
    members = comma.join(f"{json.dumps(name)}{colon}{json.dumps([value])}" for name, value in values.items())
    cursor = JsonCursor(f"{blank}{{{blank}{members}{blank}}}{blank}".encode())
    found = {name: [json.loads(bytes(item)) for item in cursor.items()] for name in cursor.members()}
    assert found == {name: [value] for name, value in values.items()}
    cursor.end()


def walked(text: bytes) -> Iterator[Any]:
    cursor = JsonCursor(text)
    for name in cursor.members():
        if name == "text":
            yield cursor.text()
        elif name == "items":
            yield from map(bytes, cursor.items())
        else:
            cursor.skip()
    cursor.end()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"[]",
        b"null",
        b"{",
        b'{"a"',
        b'{"a":',
        b'{"a":1',
        b'{"a":1,}',
        b'{"a" 1}',
        b'{"a":1 "b":2}',
        b'{"a":1} x',
        b'{"a":1}{}',
        b"{1:1}",
        b'{"text":1}',
        b'{"items":{}}',
        b'{"items":[}',
        b'{"items":[1',
        b'{"items":[1,',
        b'{"items":[1,]}',
        b'{"items":[1 2]}',
        b'{"items":[NaN]}',
        b'{"items":[tru]}',
        b'{"a":' + b"[" * 100_000,
        b'{"a":' + b"[" * 100_000 + b"}" * 100_000 + b"}",
        b'{"a":' + b"[" * 100_000 + b"]" * 99_999 + b"}",
        b'{"a":' + b"[" * 100_000 + b"tru" + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_no_json_is_noticed_where_it_is(text: bytes) -> None:
    """Skipped text has to be valid JSON too; otherwise a malformed review would get an answer."""
    with pytest.raises(NoJson):
        list(walked(text))


def test_blanks_cost_no_more_than_anything_else() -> None:
    """Megabytes of them are looked through in one go; one by one they would hold the loop up for seconds."""
    blanks = b" " * 5_000_000
    parts = (b'{"items"', b":", b"[", b"1", b",", b"2", b"]", b"}", b"")
    assert [item.strip() for item in walked(blanks.join(parts))] == [b"1", b"2"]

"""Reading list pages and watch lines."""

import json

import msgspec
import pytest

from restow.kube.cluster import Reply
from restow.kube.errors import ApiError, BadReply, Gone, ServerError, TooDeep, TooManyRequests
from restow.kube.watchevents import Added, Bookmark, Deleted, Item, Modified, WatchEvent, read_event, read_page


def line(kind: str, **metadata: object) -> bytes:
    thing = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": 1}}
    return json.dumps({"type": kind, "object": thing}).encode()


@pytest.mark.parametrize(("kind", "event"), [("ADDED", Added), ("MODIFIED", Modified), ("DELETED", Deleted)])
def test_changes(kind: str, event: type[Added | Modified | Deleted]) -> None:
    """Each change is its own type, with metadata decoded and the object's bytes untouched."""
    read = read_event(line(kind, name="a", namespace="b", uid="u", resourceVersion="7", generation=3), "widgets")
    assert type(read) is event
    assert isinstance(read, Added | Modified | Deleted)
    metadata = read.item.metadata
    assert (metadata.name, metadata.namespace, metadata.uid) == ("a", "b", "u")
    assert (metadata.resource_version, metadata.generation) == ("7", 3)
    assert read.item.json()["spec"] == {"size": 1}


def test_bookmark() -> None:
    """A bookmark is no object: it only moves the resourceVersion."""
    assert read_event(line("BOOKMARK", resourceVersion="9"), "widgets") == Bookmark("9")


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ({"code": 410, "reason": "Expired", "message": "too old"}, Gone),
        ({"code": 429, "details": {"retryAfterSeconds": 3}}, TooManyRequests),
        ({"code": 500}, ServerError),
        ({}, ServerError),
    ],
)
def test_error_events(status: dict[str, object], error: type[ApiError]) -> None:
    """An ERROR event raises what its status means, as if it had been the answer's."""
    raw = json.dumps({"type": "ERROR", "object": {"kind": "Status"} | status}).encode()
    with pytest.raises(error) as caught:
        read_event(raw, "widgets.example.com")
    assert caught.value.target == "widgets.example.com"
    assert caught.value.message == status.get("message", "")


def test_error_event_keeps_the_wait() -> None:
    """A wait that only the Status inside the stream asks for is not lost."""
    raw = b'{"type":"ERROR","object":{"code":429,"details":{"retryAfterSeconds":3}}}'
    with pytest.raises(TooManyRequests) as caught:
        read_event(raw, "widgets")
    assert caught.value.retry_after == 3


@pytest.mark.parametrize(
    "raw",
    [
        b"upstream connect error",
        line("ADDED", name="a", resourceVersion="7")[:-20],
        b"{}",
        b"[]",
        b'{"type":"ADDED"}',
        b'{"type":"ADDED","object":null}',
        line("ADDED", name="a"),
        line("SURPRISE", name="a", resourceVersion="7"),
        b"\xff\xfe",
    ],
)
def test_what_is_no_event_is_a_bad_reply(raw: bytes) -> None:
    """Plain text, cut-off and odd lines become one error that the watch recovers from, never a crash."""
    with pytest.raises(BadReply):
        read_event(raw, "widgets")


def test_no_value_of_an_object_reaches_a_message() -> None:
    """An error about a line must not quote it, since it holds a user's object."""
    with pytest.raises(BadReply) as caught:
        read_event(b'{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":"hunter2"}}', "widgets")
    assert "hunter2" not in str(caught.value)


def test_page() -> None:
    """A page gives its items untouched, its resourceVersion and where to go on."""
    body = b'{"metadata":{"resourceVersion":"5","continue":"next"},"items":[{"metadata":{"name":"a"},"x":1}]}'
    page = read_page(body, "widgets")
    assert (page.resource_version, page.continue_token) == ("5", "next")
    assert [(item.metadata.name, bytes(item.raw)) for item in page.items] == [("a", b'{"metadata":{"name":"a"},"x":1}')]


@pytest.mark.parametrize("items", [b"", b',"items":null', b',"items":[]'])
def test_empty_page(items: bytes) -> None:
    """Go encodes an empty list in three ways; all mean no items."""
    page = read_page(b'{"metadata":{"resourceVersion":"5"}' + items + b"}", "widgets")
    assert (page.items, page.continue_token) == ((), "")


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"metadata":{},"items":[]}', b'{"metadata":{"resourceVersi'])
def test_what_is_no_page_is_a_bad_reply(body: bytes) -> None:
    """A page without a resourceVersion cannot be watched from, and is refused like one that is not JSON."""
    with pytest.raises(BadReply):
        read_page(body, "widgets")


def test_an_unreadable_object_is_named_but_not_quoted() -> None:
    """A consumer that cannot decode an object learns which one it is, without its values."""

    class Wanted(msgspec.Struct):
        spec: int

    read: WatchEvent = read_event(line("ADDED", name="a", namespace="b", resourceVersion="7"), "widgets")
    assert isinstance(read, Added)
    item: Item = read.item
    with pytest.raises(BadReply, match=r"^b/a: ") as caught:
        item.decode(msgspec.json.Decoder(Wanted))
    assert "size" not in str(caught.value)


NESTED = b'{"a":' * 10_000 + b"1" + b"}" * 10_000
DEEP = (
    b'{"spec":' + NESTED + b',"metadata":{"managedFields":[' + NESTED + b'],"name":"a","namespace":"b",'
    b'"resourceVersion":"1"}}'
)


def test_an_object_that_is_nested_too_deeply_hides_no_other() -> None:
    """One object of a tenant would end each list and each watch of its kind, and with them all controllers."""
    flat = b'{"metadata":{"name":"c","resourceVersion":"1"},"spec":"items"}'
    page = read_page(
        b'{"metadata":{"resourceVersion":"2","continue":"x"},"items":[' + flat + b"," + DEEP + b"," + flat + b"]}",
        "widgets",
    )
    assert [item.metadata.name for item in page.items] == ["c", "a", "c"]
    assert (page.resource_version, page.continue_token) == ("2", "x")
    assert page.items[0].json()["spec"] == "items"
    event = read_event(b'{"type":"MODIFIED","object":' + DEEP + b"}", "widgets")
    assert isinstance(event, Modified)
    for item in (page.items[1], event.item):
        with pytest.raises(TooDeep, match=r"^b/a: an object is nested too deeply") as caught:
            item.json()
        assert not caught.value.may_pass


def test_a_deep_answer_of_another_kind_is_a_bad_reply() -> None:
    """A proxy's answer, or one that is cut off, would be read as an empty list."""
    for body in (b'{"items":[' + DEEP, b'{"items":[' + DEEP + b"]}", b"[" + DEEP + b"]", b'{"list":' + DEEP + b"}"):
        with pytest.raises(BadReply):
            read_page(body, "widgets")
    for line_ in (b'{"type":"ADDED","object":' + DEEP, b'{"other":' + DEEP + b"}"):
        with pytest.raises(BadReply):
            read_event(line_, "widgets")
    with pytest.raises(TooDeep, match="nested too deeply"):
        Reply(DEEP).json()

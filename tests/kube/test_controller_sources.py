"""Which keys an event concerns."""

import json
from collections.abc import Iterable

import pytest

from restow.kube.controller import KeyIndex
from restow.kube.listwatch import Key, key_of
from restow.kube.watchevents import Added, Bookmark, Deleted, Item, Listed, Modified, WatchEvent, read_page


def item(name: str, *owners: str, namespace: str = "ns") -> Item:
    thing = {"metadata": {"name": name, "namespace": namespace}, "owners": owners}
    page = {"metadata": {"resourceVersion": "1"}, "items": [thing]}
    return read_page(json.dumps(page).encode(), "things").items[0]


def listed(*items: Item) -> Listed:
    return Listed(items, "1")


def owners(one: Item) -> Iterable[Key]:
    return (Key(None, owner) for owner in one.json()["owners"])


def names(keys: list[Key]) -> list[str]:
    return [key.name for key in keys]


@pytest.mark.parametrize(
    ("events", "keys"),
    [
        pytest.param([listed(item("a", "x"), item("b", "x", "y"))], ["x", "y"], id="a list concerns all, each once"),
        pytest.param([Added(item("a", "x"))], ["x"], id="added"),
        pytest.param([Added(item("a", "x")), Modified(item("a", "y"))], ["y", "x"], id="moved: before and after"),
        pytest.param([Added(item("a", "x")), Modified(item("a"))], ["x"], id="left"),
        pytest.param([Modified(item("a", "x")), Modified(item("a")), Modified(item("a"))], [], id="left before"),
        pytest.param([Added(item("a", "x")), Deleted(item("a", "y"))], ["x", "y"], id="deleted: last and known"),
        pytest.param([Deleted(item("a", "y"))], ["y"], id="deleted, never seen"),
        pytest.param([listed(item("a", "x")), listed()], ["x"], id="gone in a gap"),
        pytest.param([listed(item("a", "x")), listed(item("a", "y"))], ["y", "x"], id="moved in a gap"),
        pytest.param([listed(item("a", "x")), listed(), listed()], [], id="gone in an earlier gap"),
        pytest.param([listed(item("a", "x")), Bookmark("2")], [], id="a bookmark concerns none"),
        pytest.param(
            [Added(item("a", "x", namespace="n")), Deleted(item("a", "z", namespace="m"))], ["z"], id="namespaces"
        ),
    ],
)
def test_the_last_event_concerns(events: list[WatchEvent], keys: list[str]) -> None:
    """A key whose object vanished or moved, even unseen, must be looked at again, or its state stays stale."""
    index = KeyIndex(owners)
    *before, last = events
    for event in before:
        index.apply(event)
    assert names(index.apply(last)) == keys


def test_keys_are_those_of_now() -> None:
    """A resync looks at what there is, once each, and at nothing that is gone."""
    index = KeyIndex(owners)
    index.apply(listed(item("a", "x"), item("b", "x", "y"), item("c", "z")))
    index.apply(Deleted(item("c", "z")))
    assert names(index.known_keys()) == ["x", "y"]


def test_key_of() -> None:
    """A cluster-scoped object's key has no namespace, as the client's verbs expect."""
    assert key_of(item("a")) == Key("ns", "a")
    assert key_of(item("a", namespace="")) == Key(None, "a")
    assert (str(Key("ns", "a")), str(Key(None, "a"))) == ("ns/a", "a")

"""The memory of the controllers: never older than what was written, never silent about what changed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from restow.cloudprofile.controllers import index
from restow.kube.listwatch import Key
from restow.kube.store import Store, TooOld
from restow.kube.watchevents import Added, Deleted, Item, Listed, Metadata, Modified


def obj(version: int, name: str = "a", uid: str = "u", **spec: Any) -> dict[str, Any]:
    """Return an object at a resourceVersion."""
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": str(version)}, "spec": spec}


def item(made: dict[str, Any]) -> Item:
    """Return it as a watch brings it."""
    metadata = made["metadata"]
    return Item(
        Metadata(name=metadata["name"], uid=metadata["uid"], resource_version=metadata["resourceVersion"]),
        msgspec.Raw(json.dumps(made).encode()),
    )


def store(*objects: dict[str, Any], version: int = 10) -> Store:
    """Return a store after a list; objects are grouped by ``spec.of``."""
    made = Store(index.transform_profile, lambda each: each["spec"].get("of"))
    made.apply(Listed(tuple(map(item, objects)), str(version)))
    return made


def versions(made: Store) -> dict[str, str]:
    """Return the resourceVersions of all objects."""
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in made.all()}


def test_a_write_is_known_before_its_event() -> None:
    """A reconciler would decide on the object from before its own write, and write again."""
    made = store(obj(5, x=1))
    assert made.apply_write(obj(12, x=2))
    assert not made.apply(Modified(item(obj(11, x=0))))
    assert not made.apply(Modified(item(obj(12, x=2))))
    assert versions(made) == {"a": "12"}
    assert [change.obj["spec"] for change in made.changes(made.since("10"))] == [{"x": 2}]


def test_an_answer_brings_nothing_back() -> None:
    """An object that went before the answer to its last patch came would be remembered for ever, and hold others."""
    made = store(obj(5))
    made.apply(Deleted(item(obj(12))))
    assert not made.apply_write(obj(11))
    made.apply(Added(item(obj(13, uid="new"))))
    assert not made.apply_write(obj(14, uid="u"))
    assert versions(made) == {"a": "13"}


def test_a_list_forgets_what_is_gone_and_keeps_what_is_newer() -> None:
    """What vanished in a gap would stay for ever; a list from before a write would undo it."""
    made = store(obj(5), obj(6, "b"))
    made.apply_write(obj(20, x=1))
    made.apply(Listed((item(obj(5)),), "19"))
    assert versions(made) == {"a": "20"}
    assert made.get(Key(None, "b")) is None


def test_readers_from_before_a_gap_list_again() -> None:
    """They would not apply_write what went during the gap."""
    made = store(obj(5))
    position = made.since("10")
    made.apply(Listed((), "30"))
    with pytest.raises(TooOld):
        list(made.changes(position))
    with pytest.raises(TooOld):
        made.since("10")
    assert list(made.changes(made.since("30"))) == []


def test_a_change_of_nothing_is_not_told() -> None:
    """Each of our own writes, and each heartbeat of a Shoot, would wake the controllers."""
    made = store(obj(5, x=1))
    assert not made.apply(Modified(item(obj(11, x=1))))
    assert versions(made) == {"a": "11"}
    assert made.apply(Modified(item(obj(12, x=2))))


def test_groups_follow_their_objects() -> None:
    """A Shoot that moved to another profile would hold the old one, or not hold the new one."""
    made = store(obj(5, of="p"), obj(6, "b", of="p"))
    made.apply(Modified(item(obj(11, of="q"))))
    assert [each["metadata"]["name"] for each in made.by_index("p")] == ["b"]
    assert [each["metadata"]["name"] for each in made.by_index("q")] == ["a"]
    made.apply(Deleted(item(obj(12, of="q"))))
    assert made.by_index("q") == []


def test_what_is_kept_of_a_shoot() -> None:
    """Shoots are large and many: more would cost memory, less would lose a decision."""
    full = {
        "metadata": {
            "name": "s",
            "uid": "u",
            "resourceVersion": "1",
            "managedFields": [],
            "annotations": {"gardener.cloud/operation": "maintain", "large": "x"},
        },
        "spec": {"cloudProfile": {"name": "a"}, "provider": {"workers": []}, "maintenance": {"timeWindow": {}}},
        "status": {"lastMaintenance": {"state": "Failed"}, "lastHeartbeat": "now"},
    }
    assert index.transform_shoot(full) == {
        "metadata": {
            "name": "s",
            "uid": "u",
            "resourceVersion": "1",
            "annotations": {"gardener.cloud/operation": "maintain"},
        },
        "spec": {"cloudProfile": {"name": "a"}, "maintenance": {"timeWindow": {}}},
        "status": {"lastMaintenance": {"state": "Failed"}},
    }

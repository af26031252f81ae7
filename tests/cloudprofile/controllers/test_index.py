"""The index of the controllers: its size for large profiles, and the keys that a change reconciles."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from restow.cloudprofile.controllers.index import ProfileIndex
from restow.cloudprofile.objects import CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE
from restow.kube.listwatch import Key
from restow.kube.watchevents import Added, Deleted, Item, Metadata, Modified

KEY = Key("n", "child")
VERSIONS = [{"version": f"{number}.0.0", "lifecycle": [{"classification": "supported"}]} for number in range(500)]
STATUS = {"cloudProfileSpec": {"machineImages": [{"name": "i", "versions": VERSIONS}]}, "observedGeneration": 3}


def item(name: str, version: int = 1, namespace: str = "", **parts: Any) -> Item:
    """Return an object as a watch delivers it."""
    metadata = {"name": name, "uid": name, "resourceVersion": str(version)} | parts.pop("metadata", {})
    metadata |= {"namespace": namespace} if namespace else {}
    raw = msgspec.Raw(msgspec.json.encode({"metadata": metadata, **parts}))
    return Item(msgspec.convert(metadata, Metadata, strict=False), raw)


def child(version: int = 1, **parts: Any) -> Item:
    """Return a NamespacedCloudProfile of ``parent``."""
    spec = {"parent": {"kind": CLOUD_PROFILE, "name": "parent"}}
    return item("child", version, "n", **{"spec": spec, "status": STATUS} | parts)


@pytest.fixture
def index() -> ProfileIndex:
    """Return an index with one NamespacedCloudProfile."""
    made = ProfileIndex()
    made.namespaced.apply(Added(child()))
    return made


def test_a_rendered_status_is_kept_small(index: ProfileIndex) -> None:
    """A thousand statuses of a large parent as Python objects would take eight gigabytes."""
    kept = index.namespaced.get(KEY)
    assert kept is not None
    assert len(kept["status"]) < len(msgspec.json.encode(STATUS)) / 10
    found = index.profile(NAMESPACED_CLOUD_PROFILE, KEY)
    assert found is not None
    assert found["status"] == STATUS


def test_shoots_are_offered_what_was_rendered(index: ProfileIndex) -> None:
    """Maintenance would find no versions in a compressed status that it cannot read."""
    shoot = {
        "metadata": {"namespace": "n"},
        "spec": {"cloudProfile": {"kind": NAMESPACED_CLOUD_PROFILE, "name": "child"}},
    }
    offered = index.offered_spec(shoot)
    assert offered is not None
    assert len(offered["machineImages"][0]["versions"]) == len(VERSIONS)


def test_an_equal_status_is_no_change(index: ProfileIndex) -> None:
    """Each label that another controller sets would reconcile a profile whose status is right."""
    assert not index.namespaced.apply(Modified(child(2)))
    assert index.namespaced.apply(Modified(child(3, status=STATUS | {"observedGeneration": 4})))


def test_a_profile_without_status_is_readable() -> None:
    """Reading a NamespacedCloudProfile that was just created, without a status, would raise."""
    index = ProfileIndex()
    fresh = item("child", 1, "n", spec={"parent": {"kind": CLOUD_PROFILE, "name": "parent"}})
    index.namespaced.apply(Added(fresh))
    assert "status" not in (index.profile(NAMESPACED_CLOUD_PROFILE, KEY) or {"status": 1})


def test_children_concern_only_a_parent_in_deletion(index: ProfileIndex) -> None:
    """A thousand statuses would each reconcile the parent, whose status depends on none of them."""
    assert index.keys_of_deleted_parent(child()) == ()
    index.profiles.apply(Added(item("parent")))
    assert index.keys_of_deleted_parent(child()) == ()
    index.profiles.apply(Modified(item("parent", 2, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})))
    assert index.keys_of_deleted_parent(child()) == (Key(None, "parent"),)
    index.profiles.apply(Deleted(item("parent", 3)))
    assert index.keys_of_deleted_parent(child()) == ()


def test_shoots_concern_only_a_profile_in_deletion(index: ProfileIndex) -> None:
    """Each change of a Shoot would reconcile its profile, whose status depends on no Shoot."""
    spec = {"cloudProfile": {"kind": NAMESPACED_CLOUD_PROFILE, "name": "child"}}
    shoot = item("s", 1, "n", spec=spec)
    assert index.keys_of_deleted_profile(NAMESPACED_CLOUD_PROFILE, shoot) == ()
    index.namespaced.apply(Modified(child(2, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})))
    assert index.keys_of_deleted_profile(NAMESPACED_CLOUD_PROFILE, shoot) == (KEY,)
    assert index.keys_of_deleted_profile(CLOUD_PROFILE, shoot) == ()

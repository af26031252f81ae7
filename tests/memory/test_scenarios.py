"""What the migrator relies on in an API server, shown on a real one and on the one in memory alike.

A scenario that holds on one of them only is a mistake in the memory, and whatever was tested on it proves nothing.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from restow.controlplane.existing import ExistingCluster
from restow.controlplane.plane import ControlPlane
from restow.kube import connect
from restow.kube.cluster import PatchType
from restow.kube.errors import AlreadyExists, ApiError, Conflict, Gone, Invalid, NotFound, ServerError
from restow.kube.resources import CRDS, NAMESPACES
from tests.apiserver.kind import Document, Kind, entry_versions, owners
from tests.memory.cluster import MemoryCluster

_numbers = itertools.count(1)


@pytest.fixture(params=["memory", pytest.param("apiserver", marks=pytest.mark.apiserver)])
def server(request: pytest.FixtureRequest) -> tuple[ControlPlane | ExistingCluster, Path] | None:
    """A real API server and the way to it; None for the one in memory."""
    if request.param == "memory":
        return None
    return request.getfixturevalue("control_plane"), request.getfixturevalue("kubeconfig")


@pytest.fixture
def empties_owners(server: object, request: pytest.FixtureRequest) -> bool:
    """Whether a write empties managedFields where an entry cannot be converted; the one in memory is before 1.37."""
    return server is None or not request.getfixturevalue("keeps_owners")


@pytest.fixture
async def kind(server: tuple[ControlPlane | ExistingCluster, Path] | None) -> AsyncIterator[Kind]:
    """Widgets of v1alpha1 on an API server."""
    group = f"m{next(_numbers)}.example.com"
    if server is None:
        memory = MemoryCluster()
        made = Kind(memory, memory, group)  # type: ignore[arg-type]  # it has what is used of both
        await made.create(made.document(storage="v1alpha1", versions=("v1alpha1",)))
        yield made
        return
    plane, kubeconfig = server
    async with connect(kubeconfig) as cluster:
        made = Kind(cluster, plane.etcd if isinstance(plane, ControlPlane) else None, group)
        await made.create(made.document(storage="v1alpha1", versions=("v1alpha1",)))
        yield made
        await made.remove()


async def flip(kind: Kind, **more: Any) -> None:
    """Make v1beta1 the storage version."""
    await kind.change(kind.document(storage="v1beta1", **more))


async def send(kind: Kind, version: str, name: str, change: Document, **params: str) -> Document:
    """Send a merge patch as restow."""
    params = {"fieldManager": "restow"} | params
    body = json.dumps(change).encode()
    reply = await kind.cluster.patch(kind.at(version), name, body, "default", patch_type=PatchType.MERGE, params=params)
    return dict(reply.json())


async def identity(kind: Kind, version: str, live: Document) -> Document:
    """Send an apply of nothing."""
    metadata = {name: live["metadata"][name] for name in ("name", "namespace", "uid", "resourceVersion")}
    body = {"apiVersion": f"{kind.group}/{version}", "kind": "Widget", "metadata": metadata}
    return await kind.apply(body, "restow", force=True)


async def test_a_list_comes_in_pages_of_one_moment(kind: Kind) -> None:
    """An object would be missed, or a page would never end."""
    await kind.populate(5)
    names, token = [], ""
    while True:
        params = {"limit": "2"} | ({"continue": token} if token else {})
        page = (await kind.cluster.list_page(kind.at("v1alpha1"), params=params, metadata_only=True)).json()
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue", "")
        if len(names) == 2:
            assert page["metadata"]["remainingItemCount"] == 3
            await kind.apply(kind.manifest("v1alpha1", "w99", spec={"size": 1}), "alice")
        if not token:
            break
    assert names == ["w00", "w01", "w02", "w03", "w04"]


async def test_a_selector_chooses_objects(kind: Kind) -> None:
    """A part of the objects would be taken for another one."""
    await kind.populate(2)
    await kind.merge("v1alpha1", "w01", {"metadata": {"labels": {"color": "red"}}}, "erin")
    for selector in ({"labelSelector": "color=red"}, {"fieldSelector": "metadata.name=w01"}):
        page = (await kind.cluster.list_page(kind.at("v1alpha1"), params=selector)).json()
        assert [item["metadata"]["name"] for item in page["items"]] == ["w01"]


async def test_a_name_is_taken_once(kind: Kind) -> None:
    """A second create would replace the first one's object."""
    await kind.populate(1)
    body = json.dumps(kind.manifest("v1alpha1", "w00", spec={"size": 1})).encode()
    with pytest.raises(AlreadyExists):
        await kind.cluster.create(kind.at("v1alpha1"), body, "default")
    with pytest.raises(NotFound):
        await kind.cluster.create(kind.at("v1alpha1"), body.replace(b"default", b"absent"), "absent")


async def test_what_is_deleted_is_gone(kind: Kind) -> None:
    """A deleted object would be written again, or one of the same name deleted in its place."""
    await kind.populate(1)
    uid = json.dumps({"preconditions": {"uid": "another"}}).encode()
    with pytest.raises(Conflict):
        await kind.cluster.delete(kind.at("v1alpha1"), "w00", "default", body=uid)
    live = await kind.get("v1alpha1", "w00")
    await kind.delete("v1alpha1", "w00")
    for call in (
        kind.get("v1alpha1", "w00"),
        kind.delete("v1alpha1", "w00"),
        send(kind, "v1alpha1", "w00", {}),
    ):
        with pytest.raises(NotFound):
            await call
    with pytest.raises(Conflict):
        await identity(kind, "v1alpha1", live)


async def test_a_patch_of_an_older_state_is_refused(kind: Kind) -> None:
    """What another writer wrote meanwhile would be lost."""
    await kind.populate(1)
    live = await kind.get("v1alpha1", "w00")
    await kind.merge("v1alpha1", "w00", {"spec": {"color": "red"}}, "erin")
    with pytest.raises(Conflict):
        await send(kind, "v1alpha1", "w00", {"metadata": {"resourceVersion": live["metadata"]["resourceVersion"]}})
    with pytest.raises(Conflict):
        await identity(kind, "v1alpha1", live)


async def test_a_write_takes_what_it_changes_and_nothing_else(kind: Kind) -> None:
    """Owners would be reported that no real server shows."""
    await kind.apply(kind.manifest("v1alpha1", "w", spec={"size": 1, "color": "red", "notes": ["n"]}), "alice")
    await kind.merge("v1alpha1", "w", {"spec": {"color": "blue"}, "status": {"phase": "no"}}, "erin")
    await kind.merge("v1alpha1", "w", {"status": {"phase": "Up"}, "spec": {"size": 9}}, "ctl", subresource="status")
    found = await kind.get("v1alpha1", "w")
    assert found["spec"] == {"size": 1, "color": "blue", "notes": ["n"]} and found["status"] == {"phase": "Up"}
    assert found["metadata"]["generation"] == 2
    assert owners(found) == {
        ("alice", "Apply", ""): {"/f:spec/f:size", "/f:spec/f:notes"},
        ("erin", "Update", ""): {"/f:spec/f:color"},
        ("ctl", "Update", "status"): {"/f:status", "/f:status/f:phase"},
    }


async def test_an_apply_conflicts_unless_it_is_forced_and_removes_what_it_no_longer_sends(kind: Kind) -> None:
    """An applier would take a value that another one owns, or could never give one up."""
    parts = [{"name": "a", "count": 1}, {"name": "b"}]
    await kind.apply(kind.manifest("v1alpha1", "w", spec={"size": 1, "parts": parts}), "alice")
    await kind.apply(kind.manifest("v1alpha1", "w", spec={"size": 1, "color": "red"}), "bob")
    other = kind.manifest("v1alpha1", "w", spec={"size": 2, "color": "red"})
    with pytest.raises(Conflict):
        await kind.apply(other, "bob")
    await kind.apply(other, "bob", force=True)
    await kind.apply(kind.manifest("v1alpha1", "w", spec={"parts": parts[1:]}), "alice")
    found = await kind.get("v1alpha1", "w")
    assert found["spec"] == {"size": 2, "color": "red", "parts": [{"name": "b"}]}
    item = '/f:spec/f:parts/k:{"name":"b"}'
    assert owners(found) == {
        ("bob", "Apply", ""): {"/f:spec/f:size", "/f:spec/f:color"},
        ("alice", "Apply", ""): {item, f"{item}/f:name"},
    }


async def test_an_empty_write_stores_at_the_storage_version(kind: Kind) -> None:
    """A migration that did nothing would look like one that worked."""
    await kind.populate(2)
    await flip(kind)
    for name, write in (("w00", identity), ("w01", None)):
        live = await kind.get("v1beta1", name)
        assert (await kind.stored())[f"default/{name}"]["apiVersion"].endswith("v1alpha1")
        after = await (identity(kind, "v1beta1", live) if write else send(kind, "v1beta1", name, {}))
        assert after["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]
        assert (await kind.stored())[f"default/{name}"]["apiVersion"].endswith("v1beta1")
        assert owners(after) == owners(live) and after["metadata"]["generation"] == live["metadata"]["generation"]
        again = await send(kind, "v1beta1", name, {})
        assert again["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]


async def test_a_dry_run_stores_nothing(kind: Kind) -> None:
    """A rehearsal would be the performance."""
    await kind.populate(1)
    await flip(kind)
    before = await kind.stored()
    shown = await send(kind, "v1beta1", "w00", {"spec": {"color": "red"}}, dryRun="All")
    assert shown["spec"]["color"] == "red" and await kind.stored() == before


async def test_a_patch_owns_the_default_that_it_persists_and_an_apply_does_not(kind: Kind) -> None:
    """The repair of such an owner would be tested against a server that never makes one."""
    await kind.populate(2)
    await flip(kind, default=True)
    live = await kind.get("v1beta1", "w00")
    assert "policy" not in live["spec"]
    patched = await send(kind, "v1beta1", "w00", {"metadata": _moved(live, "v1beta1")})
    applied = await identity(kind, "v1beta1", await kind.get("v1beta1", "w01"))
    assert patched["spec"]["policy"] == applied["spec"]["policy"] == "Retain"
    assert owners(patched)["restow", "Update", ""] == {"/f:spec/f:policy"}
    assert set(owners(applied)) == {("alice", "Apply", "")}


def _moved(live: Document, version: str) -> Document:
    """Metadata whose entries are at another version."""
    group = live["apiVersion"].split("/")[0]
    entries = [entry | {"apiVersion": f"{group}/{version}"} for entry in live["metadata"]["managedFields"]]
    return {"resourceVersion": live["metadata"]["resourceVersion"], "managedFields": entries}


async def test_entries_are_taken_as_they_are_sent_and_reset_by_an_empty_one(kind: Kind) -> None:
    """Translated entries would be refused, or an object would keep owners that were stripped."""
    await kind.populate(1)
    await flip(kind)
    live = await kind.get("v1beta1", "w00")
    moved = await send(kind, "v1beta1", "w00", {"metadata": _moved(live, "v1beta1")})
    assert entry_versions(moved) == {"v1beta1"} and owners(moved) == owners(live)
    kept = await send(kind, "v1beta1", "w00", {"metadata": {"managedFields": []}})
    assert owners(kept) == owners(live)
    reset = await send(kind, "v1beta1", "w00", {"metadata": {"managedFields": [{}]}})
    assert owners(reset) == {}
    untracked = await send(kind, "v1beta1", "w00", {"spec": {"color": "red"}})
    assert owners(untracked) == {}
    begun = await kind.apply(kind.manifest("v1beta1", "w00", spec={"size": 0}), "alice")
    assert set(owners(begun)) == {("before-first-apply", "Update", ""), ("alice", "Apply", "")}


async def test_a_write_loses_all_owners_where_an_entry_cannot_be_converted(empties_owners: bool, kind: Kind) -> None:
    """The repair of lost owners would be tested against a server that never loses any, as from 1.37 on."""
    await kind.populate(1)
    await flip(kind, default=True)
    before = owners(await kind.get("v1alpha1", "w00"))
    lost = await send(kind, "v1beta1", "w00", {})
    assert lost["spec"]["policy"] == "Retain" and owners(lost) == ({} if empties_owners else before)


async def test_an_apply_fails_where_an_entry_cannot_be_converted(kind: Kind) -> None:
    """The patch that follows such an answer would never be tried."""
    await kind.populate(1)
    await flip(kind)
    await kind.merge("v1beta1", "w00", {"spec": {"color": "red"}}, "erin")
    await flip(kind, default=True)
    with pytest.raises(ServerError):
        await kind.apply(kind.manifest("v1beta1", "w00", spec={"policy": "Delete"}), "bob")


async def test_storedversions_gain_the_storage_version_and_keep_the_old_one_in_the_crd(kind: Kind) -> None:
    """A prune would be tested against a CRD that forgets by itself."""
    generation = (await kind.cluster.get(CRDS, kind.name)).json()["metadata"]["generation"]
    await flip(kind)
    crd = (await kind.cluster.get(CRDS, kind.name)).json()
    assert crd["metadata"]["generation"] == generation + 1
    assert crd["status"]["storedVersions"] == ["v1alpha1", "v1beta1"]
    without = crd | {"spec": kind.document(storage="v1beta1", versions=("v1beta1",))["spec"]}
    with pytest.raises(Invalid):
        await kind.cluster.replace(CRDS, kind.name, json.dumps(without).encode())


async def test_the_status_of_a_crd_is_written_by_its_subresource_alone(kind: Kind) -> None:
    """A prune through the wrong endpoint, or of a CRD that changed since, would pass for one."""
    await flip(kind)
    crd = (await kind.cluster.get(CRDS, kind.name)).json()
    version = crd["metadata"]["resourceVersion"]

    async def patch(change: Document, subresource: str | None) -> Document:
        body = json.dumps(change).encode()
        reply = await kind.cluster.patch(CRDS, kind.name, body, patch_type=PatchType.MERGE, subresource=subresource)
        return dict(reply.json())

    pruned: Document = {"status": {"storedVersions": ["v1beta1"]}}
    assert (await patch(pruned, None))["status"]["storedVersions"] == ["v1alpha1", "v1beta1"]
    unchecked = await patch({"status": {"storedVersions": ["v1alpha1"]}}, "status")
    assert unchecked["status"]["storedVersions"] == ["v1alpha1"]
    noted = await patch({"metadata": {"annotations": {"noted": "yes"}}}, None)
    assert noted["metadata"]["generation"] == crd["metadata"]["generation"]
    with pytest.raises(Conflict):
        await patch(pruned | {"metadata": {"resourceVersion": version}}, "status")
    after = await patch(pruned | {"metadata": {"resourceVersion": noted["metadata"]["resourceVersion"]}}, "status")
    assert after["status"]["storedVersions"] == ["v1beta1"] and after["metadata"]["annotations"]["noted"] == "yes"


async def test_a_version_that_is_not_served_is_not_found(kind: Kind) -> None:
    """A list of it would show objects that no client can read."""
    await flip(kind, served=("v1beta1",))
    with pytest.raises(NotFound):
        await kind.cluster.list_page(kind.at("v1alpha1"))


async def test_a_watch_shows_what_follows_a_list(kind: Kind) -> None:
    """A change of the CRD during a run would be missed."""
    crd = (await kind.cluster.get(CRDS, kind.name)).json()
    selector = {"fieldSelector": f"metadata.name={kind.name}"}
    listed = (await kind.cluster.list_page(CRDS, params=selector)).json()
    await flip(kind)
    params = selector | {
        "resourceVersion": listed["metadata"]["resourceVersion"],
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "2",
    }
    async with kind.cluster.watch(CRDS, params=params) as lines:
        events = [json.loads(line) async for line in lines]
    modified = [event["object"] for event in events if event["type"] == "MODIFIED"]
    assert modified[-1]["metadata"]["generation"] == crd["metadata"]["generation"] + 1


async def test_a_watch_of_the_memory_ends_with_a_bookmark() -> None:
    """A watch that ended would begin from the start; a real server sends a bookmark once a minute."""
    memory = MemoryCluster()
    memory.seed("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    params = {"resourceVersion": "0", "allowWatchBookmarks": "true", "timeoutSeconds": "1"}
    async with memory.watch(NAMESPACES, params=params) as lines:
        events = [json.loads(line) async for line in lines]
    versions = [event["object"]["metadata"]["resourceVersion"] for event in events]
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"] and versions == ["1", "1"]


async def test_a_token_that_expired_comes_with_one_that_goes_on() -> None:
    """A long list would begin from the start, or skip objects; a real server needs minutes for this answer."""
    memory = MemoryCluster()
    kind = Kind(memory, memory, "example.com")  # type: ignore[arg-type]
    await kind.create(kind.document(storage="v1alpha1", versions=("v1alpha1",)))
    await kind.populate(3)
    first = (await memory.list_page(kind.at("v1alpha1"), params={"limit": "1"})).json()
    memory.compact()
    await kind.apply(kind.manifest("v1alpha1", "w99", spec={"size": 1}), "alice")
    with pytest.raises(Gone) as gone:
        await memory.list_page(kind.at("v1alpha1"), params={"continue": first["metadata"]["continue"]})
    rest = (await memory.list_page(kind.at("v1alpha1"), params={"continue": gone.value.continue_token})).json()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["w01", "w02", "w99"]
    with pytest.raises(ApiError):
        async with memory.watch(kind.at("v1alpha1"), params={"resourceVersion": "1"}):
            pass

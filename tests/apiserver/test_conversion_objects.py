"""Clients of three versions at work on the same objects, through ``restow serve``; what is stored is read from etcd."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from restow.controlplane.etcd import Etcd
from restow.conversion.certificates import Bundle
from restow.kube import connect
from restow.kube.cluster import PatchType
from restow.kube.errors import ApiError, Conflict
from restow.kube.listwatch import Selection, watch
from restow.kube.resources import CRDS
from restow.kube.watchevents import Added, Deleted, Listed, Modified
from tests.apiserver.kind import entry_versions, owners, until
from tests.apiserver.provider import (
    CACHES,
    GATEWAYS,
    GROUP,
    KINDS,
    STASH,
    Document,
    Provider,
    at,
    built,
    manifest,
    url_of,
    webhook,
)
from tests.apiserver.serving import Instance, certified, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALPHA, BETA, V1 = KINDS[GATEWAYS][2]

#: The same gateway, as each version says it.
SPECS: dict[str, Document] = {
    ALPHA: {
        "host": "a.example",
        "mode": "public",
        "certificate": "c",
        "listeners": [{"title": "web", "timeoutSeconds": 30, "protocol": "TCP"}],
    },
    BETA: {
        "hosts": ["a.example"],
        "mode": "Public",
        "tls": {"cert": "c"},
        "listeners": [{"name": "web", "timeout": "30s", "protocol": "TCP"}],
    },
    V1: {
        "hosts": ["a.example"],
        "mode": "Public",
        "tls": {"certificate": "c"},
        "listeners": [{"name": "web", "timeout": "30s", "protocol": "TCP"}],
    },
}

#: How each version says that there is another host and another timeout.
CHANGES: dict[str, Document] = {
    ALPHA: {"host": "b.example", "listeners": [{"title": "web", "timeoutSeconds": 5, "protocol": "TCP"}]},
    BETA: {"hosts": ["b.example"], "listeners": [{"name": "web", "timeout": "5s", "protocol": "TCP"}]},
    V1: {"hosts": ["b.example"], "listeners": [{"name": "web", "timeout": "5s", "protocol": "TCP"}]},
}
POINTERS = {
    ALPHA: ("/spec/host", "c.example"),
    BETA: ("/spec/hosts/0", "c.example"),
    V1: ("/spec/hosts/0", "c.example"),
}

#: What v1alpha1 cannot say.
RICH: Document = {
    "hosts": ["a.example", "b.example"],
    "mode": "Mesh",
    "tls": {"certificate": "c", "minVersion": "1.3"},
    "listeners": [{"name": "web", "timeout": "90m", "protocol": "TCP", "weight": 7}],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def serve(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Instance, Bundle]]:
    """One ``restow serve`` for all tests here, and what verifies it."""
    folder = tmp_path_factory.mktemp("tls")
    bundle = certified(folder)
    async with serving(folder) as instance:
        yield instance, bundle


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider(kubeconfig: Path, serve: tuple[Instance, Bundle]) -> AsyncIterator[Provider]:
    """The gateways, converted by it."""
    instance, bundle = serve
    async with connect(kubeconfig) as cluster:
        made = Provider(cluster)
        await made.install(GATEWAYS, instance.port, bundle)
        yield made
        await made.remove()


async def stored(etcd: Etcd, name: str) -> Document:
    """A gateway as etcd holds it."""
    return await etcd.stored_object(GROUP, "gateways", "default", name)


def merged(version: str, change: Document) -> Document:
    """The gateway of a version with a change."""
    return {**copy.deepcopy(SPECS[version]), **change}


@pytest.mark.parametrize("version", [ALPHA, BETA, V1])
async def test_every_verb_at_every_version(provider: Provider, etcd: Etcd, version: str) -> None:
    """A client that only knows one version must be able to do everything, and all others must see it as theirs."""
    name = f"verbs-{version}"
    created = await provider.create(GATEWAYS, version, name, SPECS[version])
    assert created["spec"] == SPECS[version] and created["apiVersion"] == f"{GROUP}/{version}"
    for other in (ALPHA, BETA, V1):
        assert (await provider.get(GATEWAYS, other, name))["spec"] == SPECS[other]
        for cached in (False, True):
            assert (await provider.items(GATEWAYS, other, cached=cached))[name]["spec"] == SPECS[other]
    assert (await stored(etcd, name))["apiVersion"] == f"{GROUP}/{V1}"
    assert (await stored(etcd, name))["spec"] == SPECS[V1]

    replaced = await provider.replace(GATEWAYS, version, created | {"spec": merged(version, CHANGES[version])})
    assert replaced["spec"] == merged(version, CHANGES[version])
    assert (await stored(etcd, name))["spec"] == merged(V1, CHANGES[V1])

    assert (await provider.patch(GATEWAYS, version, name, {"spec": SPECS[version]}))["spec"] == SPECS[version]
    assert (await stored(etcd, name))["spec"] == SPECS[V1]

    pointer, value = POINTERS[version]
    operation = {"op": "replace", "path": pointer, "value": value}
    await provider.patch(GATEWAYS, version, name, [operation], PatchType.JSON)
    assert (await stored(etcd, name))["spec"]["hosts"] == [value]

    applied = await provider.apply(GATEWAYS, version, name, merged(version, CHANGES[version]), "me", force=True)
    assert applied["spec"] == merged(version, CHANGES[version])
    assert (await stored(etcd, name))["spec"] == merged(V1, CHANGES[V1])

    await provider.patch(GATEWAYS, version, name, {"metadata": {"finalizers": ["example.dev/keep"]}})
    await provider.delete(GATEWAYS, version, name)
    assert "deletionTimestamp" in (await provider.get(GATEWAYS, ALPHA, name))["metadata"]
    await provider.patch(GATEWAYS, version, name, {"metadata": {"finalizers": []}})
    assert name not in await provider.items(GATEWAYS, version)


async def test_watchers_of_all_versions_see_what_each_client_does(provider: Provider) -> None:
    """Controllers live by watches: where an event is missing, or of another version, nothing happens."""
    seen: dict[str, list[tuple[str, object]]] = {version: [] for version in (ALPHA, BETA, V1)}
    ready = {version: asyncio.Event() for version in seen}
    done = {version: asyncio.Event() for version in seen}

    async def follow(version: str) -> None:
        selection = Selection(at(GATEWAYS, version), "default", field_selector="metadata.name=watched")
        async with watch(provider.cluster, selection) as events:
            async for event in events:
                if isinstance(event, Listed):
                    ready[version].set()
                elif isinstance(event, Added | Modified | Deleted):
                    found = event.item.json()
                    assert found["apiVersion"] == f"{GROUP}/{version}"
                    seen[version].append((type(event).__name__, found["spec"]))
                    if isinstance(event, Deleted):
                        done[version].set()

    async with asyncio.TaskGroup() as group:
        followers = [group.create_task(follow(version)) for version in seen]
        await asyncio.gather(*(event.wait() for event in ready.values()))
        await provider.create(GATEWAYS, BETA, "watched", SPECS[BETA])
        await provider.patch(GATEWAYS, ALPHA, "watched", {"spec": CHANGES[ALPHA]})
        await provider.delete(GATEWAYS, V1, "watched")
        await asyncio.gather(*(event.wait() for event in done.values()))
        for follower in followers:
            follower.cancel()
    for version, events in seen.items():
        changed = merged(version, CHANGES[version])
        assert events == [("Added", SPECS[version]), ("Modified", changed), ("Deleted", changed)]


async def test_two_managers_at_two_versions_keep_their_fields(provider: Provider, etcd: Etcd) -> None:
    """Ownership is kept in each applier's version: every apply converts it, and a partial object must stay partial."""
    alice = {"mode": "public", "listeners": [{"title": "web", "timeoutSeconds": 30, "protocol": "TCP"}]}
    bob = {"hosts": ["b.example"], "listeners": [{"name": "admin", "timeout": "5s", "protocol": "TCP", "weight": 3}]}
    await provider.apply(GATEWAYS, ALPHA, "shared", alice, "alice")
    await provider.apply(GATEWAYS, V1, "shared", bob, "bob")
    await provider.apply(GATEWAYS, ALPHA, "shared", alice, "alice")
    await provider.apply(GATEWAYS, V1, "shared", bob, "bob")
    found = await stored(etcd, "shared")
    assert owners(found) == {
        ("alice", "Apply", ""): {
            "/f:spec/f:mode",
            '/f:spec/f:listeners/k:{"title":"web"}',
            '/f:spec/f:listeners/k:{"title":"web"}/f:title',
            '/f:spec/f:listeners/k:{"title":"web"}/f:timeoutSeconds',
            '/f:spec/f:listeners/k:{"title":"web"}/f:protocol',
        },
        ("bob", "Apply", ""): {
            "/f:spec/f:hosts",
            '/f:spec/f:listeners/k:{"name":"admin"}',
            '/f:spec/f:listeners/k:{"name":"admin"}/f:name',
            '/f:spec/f:listeners/k:{"name":"admin"}/f:timeout',
            '/f:spec/f:listeners/k:{"name":"admin"}/f:protocol',
            '/f:spec/f:listeners/k:{"name":"admin"}/f:weight',
        },
    }
    assert entry_versions(found) == {ALPHA, V1}
    with pytest.raises(Conflict, match="alice"):
        await provider.apply(GATEWAYS, V1, "shared", {**bob, "mode": "Private"}, "bob")
    await provider.apply(GATEWAYS, ALPHA, "shared", {"mode": "public"}, "alice")
    spec = (await stored(etcd, "shared"))["spec"]
    assert [listener["name"] for listener in spec["listeners"]] == ["admin"]
    assert spec["listeners"][0]["weight"] == 3 and spec["hosts"] == ["b.example"] and spec["mode"] == "Public"


async def test_metadata(provider: Provider, etcd: Etcd) -> None:
    """Labels and annotations are the clients', all else is the server's: a conversion must not get between them."""
    metadata = {
        "labels": {"keep": "1", "change": "1", "remove": "1"},
        "annotations": {"example.dev/keep": "<&> \u2028", "example.dev/remove": ""},
        "finalizers": ["example.dev/keep"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1-2-3"}],
    }
    await provider.apply(GATEWAYS, V1, "noted", SPECS[V1], "owner", metadata=metadata)
    before = await stored(etcd, "noted")
    change = {"labels": {"change": "2", "remove": None, "add": ""}, "annotations": {"example.dev/remove": None}}
    await provider.patch(GATEWAYS, ALPHA, "noted", {"metadata": change}, fieldManager="editor")
    after = await stored(etcd, "noted")
    assert after["metadata"]["labels"] == {"keep": "1", "change": "2", "add": ""}
    assert after["metadata"]["annotations"] == {"example.dev/keep": "<&> \u2028"}
    ours = {"labels", "annotations", "managedFields", "resourceVersion"}
    kept = [{key: value for key, value in each["metadata"].items() if key not in ours} for each in (before, after)]
    assert kept[0] == kept[1] and after["spec"] == before["spec"]
    mine = owners(after)["owner", "Apply", ""]
    assert owners(before)["owner", "Apply", ""] - mine == {
        "/f:metadata/f:labels/f:change",
        "/f:metadata/f:labels/f:remove",
        "/f:metadata/f:annotations/f:example.dev/remove",
    }
    assert owners(after)["editor", "Update", ""] == {
        "/f:metadata/f:labels/f:change",
        "/f:metadata/f:labels/f:add",
    }
    await provider.patch(GATEWAYS, V1, "noted", {"metadata": {"finalizers": []}})


async def test_what_an_old_version_cannot_say(provider: Provider, etcd: Etcd) -> None:
    """It survives the old client's edits, and the note of it is seen by nobody who does not need it."""
    await provider.create(GATEWAYS, V1, "rich", RICH)
    for version in (V1, BETA):
        assert STASH not in (await provider.get(GATEWAYS, version, "rich"))["metadata"].get("annotations", {})
    seen = await provider.get(GATEWAYS, ALPHA, "rich")
    assert seen["spec"] == {
        "host": "a.example",
        "mode": "private",
        "certificate": "c",
        "listeners": [{"title": "web", "timeoutSeconds": 0, "protocol": "TCP"}],
    }
    assert STASH in seen["metadata"]["annotations"]
    seen["spec"]["certificate"] = "d"
    await provider.replace(GATEWAYS, ALPHA, seen)
    found = await stored(etcd, "rich")
    assert found["spec"] == {**RICH, "tls": {"certificate": "d", "minVersion": "1.3"}}
    assert "annotations" not in found["metadata"]
    again = await provider.get(GATEWAYS, ALPHA, "rich")
    again["spec"] |= {"mode": "public", "host": "z.example"}
    await provider.replace(GATEWAYS, ALPHA, again)
    found = await stored(etcd, "rich")
    assert found["spec"]["mode"] == "Public" and found["spec"]["hosts"][0] == "z.example"
    assert found["spec"]["listeners"] == RICH["listeners"] and "annotations" not in found["metadata"]


async def test_reading_and_writing_back_changes_nothing(provider: Provider, etcd: Etcd) -> None:
    """Controllers at an old version do it all day; a resourceVersion that moves each time is a storm."""
    await provider.create(GATEWAYS, V1, "still", RICH)
    before = await stored(etcd, "still")
    for version in (ALPHA, BETA, V1):
        seen = await provider.get(GATEWAYS, version, "still")
        written = await provider.replace(GATEWAYS, version, seen)
        assert written["metadata"]["resourceVersion"] == seen["metadata"]["resourceVersion"]
        await provider.patch(GATEWAYS, version, "still", {})
    assert await stored(etcd, "still") == before


async def test_a_status_at_each_version(provider: Provider, etcd: Etcd) -> None:
    """A status is written without its spec, and replaces the other version's words for it."""
    await provider.create(GATEWAYS, V1, "stated", SPECS[V1])

    async def state(version: str, status: Document) -> Document:
        body = built(GATEWAYS, version, "stated", {}, status=status)
        body["metadata"].pop("namespace")
        reply = await provider.cluster.patch(
            at(GATEWAYS, version),
            "stated",
            json.dumps(body).encode(),
            "default",
            patch_type=PatchType.MERGE,
            subresource="status",
        )
        found: Document = reply.json()
        return found

    await state(BETA, {"ready": True})
    assert (await stored(etcd, "stated"))["status"] == {"phase": "Ready"}
    assert (await provider.get(GATEWAYS, ALPHA, "stated"))["status"] == {"phase": "Ready"}
    await state(ALPHA, {"phase": "Broken"})
    assert (await provider.get(GATEWAYS, BETA, "stated"))["status"] == {"ready": False, "reason": "Broken"}
    assert (await stored(etcd, "stated"))["spec"] == SPECS[V1]


async def test_objects_from_before_the_webhook(provider: Provider, serve: tuple[Instance, Bundle], etcd: Etcd) -> None:
    """The day a second version comes: what is stored stays as it is until it is written, and is read as the new one."""
    old, middle, new = KINDS[CACHES][2]
    first = manifest(CACHES)
    first["spec"]["versions"] = [each | {"storage": True} for each in first["spec"]["versions"] if each["name"] == old]
    await provider.cluster.create(CRDS, json.dumps(first).encode())
    await until(lambda: listed(provider, old), "the first version is not served")
    for number in range(3):
        await provider.create(CACHES, old, f"c{number}", {"sizeMiB": 64 * number})
    instance, bundle = serve
    now = await provider.crd(CACHES)
    now["spec"] = manifest(CACHES)["spec"] | {"conversion": webhook(url_of(instance.port, CACHES), bundle)}
    await provider.cluster.replace(CRDS, CACHES, json.dumps(now).encode())
    await provider.served(CACHES)

    async def at_etcd(name: str) -> Document:
        return await etcd.stored_object(GROUP, "caches", "default", name)

    items = await provider.items(CACHES, new)
    assert {name: item["spec"] for name, item in items.items()} == {
        f"c{number}": {"size": f"{64 * number}Mi"} for number in range(3)
    }
    assert (await provider.get(CACHES, middle, "c1"))["spec"] == {"capacity": "64Mi"}
    assert (await at_etcd("c1"))["apiVersion"] == f"{GROUP}/{old}"
    assert (await at_etcd("c1"))["spec"] == {"sizeMiB": 64}
    await provider.patch(CACHES, new, "c1", {"spec": {"zone": "z1", "eviction": {"policy": "LRU"}}})
    assert (await at_etcd("c1"))["apiVersion"] == f"{GROUP}/{new}"
    assert (await at_etcd("c1"))["spec"] == {"size": "64Mi", "zone": "z1", "eviction": {"policy": "LRU"}}
    seen = await provider.get(CACHES, old, "c1")
    assert seen["spec"] == {"sizeMiB": 64}
    await provider.replace(CACHES, old, seen | {"spec": {"sizeMiB": 128}})
    assert (await at_etcd("c1"))["spec"] == {"size": "128Mi", "zone": "z1", "eviction": {"policy": "LRU"}}
    assert (await provider.get(CACHES, old, "c2"))["spec"] == {"sizeMiB": 128}


async def listed(provider: Provider, version: str) -> bool:
    """Whether caches of a version can be listed."""
    try:
        await provider.items(CACHES, version)
    except ApiError:
        return False
    return True

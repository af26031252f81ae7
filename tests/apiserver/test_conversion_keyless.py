"""Clients edit the items of an atomic list at a version that does not show all of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from restow.controlplane.etcd import Etcd
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import ApiError, NotFound
from restow.kube.resources import CRDS, Resource
from tests.apiserver.kind import until
from tests.apiserver.provider import url_of, webhook
from tests.apiserver.serving import certified, serving
from tests.apiserver.task_conversions import DOCUMENT, GROUP

pytestmark = pytest.mark.asyncio(loop_scope="module")

Document = dict[str, Any]
V1, V1BETA1 = (Resource(GROUP, version, "tasks", namespaced=True) for version in ("v1", "v1beta1"))
NAME = f"tasks.{GROUP}"
STASH = f"{GROUP}/conversion-stash"

BUILD, TEST = {"name": "build", "image": "i:1"}, {"name": "test", "image": "i:1"}
STEPS = [{**BUILD, "tty": True}, TEST]
OTHERS = [{**BUILD, "onError": "continue"}, TEST]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tasks(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HttpCluster]:
    """The CRD, converted by ``restow serve``."""
    folder = tmp_path_factory.mktemp("tls")
    bundle = certified(folder)
    registry = "tests.apiserver.task_conversions:graph"
    async with serving(folder, registry=registry) as instance, connect(kubeconfig) as cluster:
        conversion = webhook(url_of(instance.port, NAME), bundle)
        document = {**DOCUMENT, "spec": {**DOCUMENT["spec"], "conversion": conversion}}
        await cluster.create(CRDS, json.dumps(document).encode())
        await until(lambda: listed(cluster), "tasks are not served")
        yield cluster
        await cluster.delete(CRDS, NAME)
        await until(lambda: gone(cluster), "the CRD is not gone")


async def listed(cluster: HttpCluster) -> bool:
    """Say whether both versions are served."""
    try:
        for resource in (V1, V1BETA1):
            await cluster.list_page(resource, params={"limit": "1"})
    except ApiError:
        return False
    return True


async def gone(cluster: HttpCluster) -> bool:
    """Say whether the CRD is gone."""
    try:
        await cluster.get(CRDS, NAME)
    except NotFound:
        return True
    return False


async def created(cluster: HttpCluster, resource: Resource, name: str, steps: list[Document]) -> Document:
    """Create a task."""
    document = {
        "apiVersion": f"{GROUP}/{resource.version}",
        "kind": "Task",
        "metadata": {"name": name},
        "spec": {"steps": steps},
    }
    made: Document = (await cluster.create(resource, json.dumps(document).encode(), "default")).json()
    return made


async def read(cluster: HttpCluster, resource: Resource, name: str) -> Document:
    """Read a task."""
    found: Document = (await cluster.get(resource, name, "default")).json()
    return found


async def patched(
    cluster: HttpCluster, resource: Resource, name: str, change: Any, kind: PatchType, **params: str
) -> None:
    """Patch a task."""
    await cluster.patch(resource, name, json.dumps(change).encode(), "default", patch_type=kind, params=params)


async def edit(cluster: HttpCluster, resource: Resource, name: str, way: str, steps: list[Document]) -> None:
    """Write other steps, as one kind of client does."""
    match way:
        case "json patch":
            change = [{"op": "replace", "path": "/spec/steps", "value": steps}]
            await patched(cluster, resource, name, change, PatchType.JSON)
        case "merge patch":
            await patched(cluster, resource, name, {"spec": {"steps": steps}}, PatchType.MERGE)
        case "apply":
            body = {"apiVersion": f"{GROUP}/{resource.version}", "kind": "Task", "spec": {"steps": steps}}
            await patched(cluster, resource, name, body, PatchType.APPLY, fieldManager="gitops", force="true")
        case "put":
            found = await read(cluster, resource, name)
            found["spec"]["steps"] = steps
            await cluster.replace(resource, name, json.dumps(found).encode(), "default")


WAYS = ("json patch", "merge patch", "apply", "put")
EDITED = [{**BUILD, "image": "i:2"}, TEST]


@pytest.mark.parametrize("way", WAYS)
async def test_an_edit_at_the_hub_keeps_what_the_spoke_alone_has(tasks: HttpCluster, way: str) -> None:
    """A new image at v1 must not turn off the tty that v1beta1 has: neither as it is read, nor once it is written."""
    name = f"hub-{way.replace(' ', '-')}"
    await created(tasks, V1BETA1, name, STEPS)
    await edit(tasks, V1, name, way, EDITED)
    expected = [{**BUILD, "image": "i:2", "tty": True}, TEST]
    assert (await read(tasks, V1BETA1, name))["spec"]["steps"] == expected
    await patched(tasks, V1BETA1, name, {"spec": {"description": "x"}}, PatchType.MERGE)
    assert (await read(tasks, V1BETA1, name))["spec"] == {"steps": expected, "description": "x"}


@pytest.mark.parametrize("way", WAYS)
async def test_an_edit_at_the_spoke_keeps_what_is_stored(tasks: HttpCluster, etcd: Etcd, way: str) -> None:
    """A new image at v1beta1 must not take a field out of the stored object, which v1beta1 does not even show."""
    name = f"spoke-{way.replace(' ', '-')}"
    await created(tasks, V1, name, OTHERS)
    assert (await read(tasks, V1BETA1, name))["spec"]["steps"] == [BUILD, TEST]
    await edit(tasks, V1BETA1, name, way, EDITED)
    found = await etcd.stored_object(GROUP, "tasks", "default", name)
    assert found["apiVersion"] == f"{GROUP}/v1"
    assert found["spec"]["steps"] == [{**BUILD, "image": "i:2", "onError": "continue"}, TEST]
    assert STASH not in found["metadata"].get("annotations", {})


async def test_inserted_removed_and_moved_steps(tasks: HttpCluster, etcd: Etcd) -> None:
    """Each step keeps its own; else a client that sorts the steps moves what it cannot see to other steps."""
    await created(tasks, V1, "moved", OTHERS)
    new = {"name": "lint", "image": "i:1"}
    for steps, expected in (
        ([new, BUILD, TEST], [new, *OTHERS]),
        ([TEST, BUILD, new], [OTHERS[1], OTHERS[0], new]),
        ([BUILD, new], [OTHERS[0], new]),
        ([new], [new]),
    ):
        await edit(tasks, V1BETA1, "moved", "merge patch", steps)
        assert (await etcd.stored_object(GROUP, "tasks", "default", "moved"))["spec"]["steps"] == expected


async def test_what_cannot_be_told_apart_is_counted_in_the_stored_object(tasks: HttpCluster, etcd: Etcd) -> None:
    """An edit and an insertion at the same place leave a trace; else the loss is silent."""
    await created(tasks, V1, "unclear", OTHERS[:1])
    steps = [{"name": "lint", "image": "i:1"}, {**BUILD, "image": "i:2"}]
    await edit(tasks, V1BETA1, "unclear", "merge patch", steps)
    found = await etcd.stored_object(GROUP, "tasks", "default", "unclear")
    assert found["spec"]["steps"] == steps
    assert json.loads(found["metadata"]["annotations"][STASH]) == {"format": 1, "kept": {}, "dropped": 1}

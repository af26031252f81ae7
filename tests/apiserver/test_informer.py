"""The informer as an operator uses it, and the example of the documentation, on a real API server."""

from __future__ import annotations

import asyncio
import json
import logging
import runpy
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from restow.kube import Controller, Informer, Key, PatchType, ReconcileResult, Store
from restow.kube.client import HttpCluster
from restow.kube.errors import NotFound
from restow.kube.resources import CONFIG_MAPS, CRDS, NAMESPACES, Resource
from tests.apiserver.kind import until

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "embedding" / "informer_controller.py"


@pytest.fixture
async def namespace(cluster: HttpCluster) -> AsyncIterator[str]:
    """A namespace of its own."""
    name = f"informer-{uuid.uuid4().hex[:8]}"
    await cluster.create(NAMESPACES, json.dumps({"metadata": {"name": name}}).encode())
    yield name
    await cluster.delete(NAMESPACES, name)


def body(name: str, **data: str) -> bytes:
    """Return a ConfigMap."""
    return json.dumps({"metadata": {"name": name}, "data": data}).encode()


def namespace_of(config_map: Mapping[str, Any]) -> str:
    """Return the index value of a ConfigMap."""
    return str(config_map["metadata"]["namespace"])


@asynccontextmanager
async def running(informer: Informer) -> AsyncIterator[None]:
    """Run an informer that is in sync."""
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(informer.run())
        await informer.wait_for_sync()
        yield
        task.cancel()


def names(store: Store, namespace: str) -> set[str]:
    """Return the names of the ConfigMaps of a namespace in a store; a cluster adds its own CA to each."""
    return {each["metadata"]["name"] for each in store.by_index(namespace)} - {"kube-root-ca.crt"}


async def test_the_store_follows_the_api_server(cluster: HttpCluster, namespace: str) -> None:
    """A reader of the store would miss objects, or keep those that are gone."""
    await cluster.create(CONFIG_MAPS, body("before"), namespace)
    store = Store(dict, index_by=namespace_of)
    async with running(Informer(cluster, {CONFIG_MAPS: store})):
        assert names(store, namespace) == {"before"}

        async def has(expected: set[str]) -> bool:
            return names(store, namespace) == expected

        await cluster.create(CONFIG_MAPS, body("after"), namespace)
        await until(lambda: has({"before", "after"}), "the store has no new object")
        await cluster.delete(CONFIG_MAPS, "before", namespace)
        await until(lambda: has({"after"}), "the store keeps a deleted object")


async def test_a_deeply_nested_object_hides_no_other(
    cluster: HttpCluster, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One object with more levels than the decoder takes would end the informer, and a controller's watch, for ever."""
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names_ = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": loose}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names_, "versions": [version]},
    }
    await cluster.create(CRDS, json.dumps(crd).encode())
    things = Resource(group, "v1", "things", namespaced=True)

    async def create(name: str, spec: bytes = b"1") -> bool:
        whole = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": name}, "spec": "SPEC"}
        with suppress(NotFound):
            await cluster.create(things, json.dumps(whole).encode().replace(b'"SPEC"', spec), "default")
            return True
        return False

    deep = b'{"a":' * 2_000 + b"1" + b"}" * 2_000
    await until(lambda: create("flat"), "the CRD is not served")
    await create("deep", deep)
    store, reconciled = Store(dict), set[str]()

    async def reconcile(key: Key) -> ReconcileResult:
        reconciled.add(key.name)
        return ReconcileResult()

    async def has(*expected: str) -> bool:
        return {each["metadata"]["name"] for each in store.all()} == set(expected)

    async with running(Informer(cluster, {things: store})), asyncio.TaskGroup() as tasks:
        controller = tasks.create_task(Controller(cluster, things, reconcile).run())
        assert await has("flat")
        await create("deeper", deep)
        await create("last")
        await until(lambda: has("flat", "last"), "the store follows no more")

        async def all_reconciled() -> bool:
            return reconciled == {"flat", "deep", "deeper", "last"}

        await until(all_reconciled, "the controller misses objects")
        controller.cancel()
    told = [text for text in caplog.messages if "nested too deeply" in text]
    assert {text.partition(":")[0] for text in told} == {"default/deep", "default/deeper"}
    await cluster.delete(CRDS, f"things.{group}")


async def test_a_write_through_the_informer_is_in_the_store_when_it_returns(
    cluster: HttpCluster, namespace: str
) -> None:
    """A reconciler would act on the object from before its own write."""
    await cluster.create(CONFIG_MAPS, body("a", x="0"), namespace)
    store = Store(dict, index_by=namespace_of)
    informer = Informer(cluster, {CONFIG_MAPS: store})
    key = Key(namespace, "a")
    async with running(informer):
        for number in map(str, range(1, 21)):
            change = json.dumps({"data": {"x": number}}).encode()
            await informer.patch(CONFIG_MAPS, "a", change, namespace, patch_type=PatchType.MERGE)
            kept = store.get(key)
            assert kept is not None
            assert kept["data"] == {"x": number}
            assert kept == (await informer.get(CONFIG_MAPS, "a", namespace)).json()


async def test_the_example_of_the_documentation(
    cluster: HttpCluster, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Users would copy an example that does not run."""
    caplog.set_level(logging.INFO, logger="example")
    run = runpy.run_path(str(EXAMPLE))["run"]
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run(cluster))
        await cluster.create(CONFIG_MAPS, body("a"), namespace)
        await cluster.create(CONFIG_MAPS, body("b"), namespace)

        async def counted() -> bool:
            return any(f"{namespace} has {count} ConfigMaps" in caplog.messages for count in (2, 3))

        await until(counted, "the example has not logged both ConfigMaps")
        task.cancel()

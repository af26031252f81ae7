"""Conversions behind a real API server for an author's own tests: installed CRDs, wired to a webhook in this process.

The webhook and the client run in a thread with their own event loop, so that tests can be plain functions.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Final, TypeVar

from restow.conversion import Graph
from restow.crds import Crd
from restow.kube import Cluster, PatchType, connect
from restow.kube.errors import NotFound
from restow.kube.resources import CRDS
from restow.webhook.local import serve_locally

_T = TypeVar("_T")
_PATIENCE_S: Final = 60.0
_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class ServedConversions:
    """An API server that converts with a graph. Objects are JSON trees; ``kubeconfig`` is for other clients.

    Methods raise the errors of ``restow.kube.errors``: ``Invalid``, with the API server's message, for an object that
    its schema refuses.
    """

    kubeconfig: Path
    _crds: Mapping[tuple[str, str], Crd]
    _cluster: Cluster
    _loop: asyncio.AbstractEventLoop

    def create(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Create an object at its own version; return the stored object at that version."""
        resource, namespace = self._resource(obj["kind"], obj["apiVersion"], obj)
        return self._json(self._cluster.create(resource, json.dumps(obj).encode(), namespace))

    def get(self, obj: dict[str, Any], version: str) -> dict[str, Any]:
        """Read an object at a version (``v1beta1``); ``obj`` identifies it at any version."""
        group = obj["apiVersion"].rpartition("/")[0]
        resource, namespace = self._resource(obj["kind"], f"{group}/{version}", obj)
        return self._json(self._cluster.get(resource, obj["metadata"]["name"], namespace))

    def replace(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Replace an object (PUT) at its own version, as a client does after an edit."""
        resource, namespace = self._resource(obj["kind"], obj["apiVersion"], obj)
        name = obj["metadata"]["name"]
        return self._json(self._cluster.replace(resource, name, json.dumps(obj).encode(), namespace))

    def apply(self, obj: dict[str, Any], manager: str = "test") -> dict[str, Any]:
        """Apply an object by server-side apply at its own version."""
        resource, namespace = self._resource(obj["kind"], obj["apiVersion"], obj)
        patching = self._cluster.patch(
            resource,
            obj["metadata"]["name"],
            json.dumps(obj).encode(),
            namespace,
            patch_type=PatchType.APPLY,
            params={"fieldManager": manager},
        )
        return self._json(patching)

    def _resource(self, kind: str, api_version: str, obj: Mapping[str, Any]) -> tuple[Any, str | None]:
        group, _, version = api_version.rpartition("/")
        crd = self._crds[group, kind]
        namespace = obj.get("metadata", {}).get("namespace") or "default"
        return crd.resource_at(version), namespace if crd.namespaced else None

    def _json(self, request: Coroutine[Any, Any, Any]) -> dict[str, Any]:
        found: dict[str, Any] = _run(self._loop, request).json()
        return found


@contextmanager
def serve_conversions(kubeconfig: Path, graph: Graph, *crds: Crd) -> Iterator[ServedConversions]:
    """Serve a graph over TLS on this machine as the webhook of the CRDs; install them, and remove them at the end.

    The API server must run on this machine too: it calls the webhook at 127.0.0.1.

    Raises:
        AlreadyExists: a CRD of that name already exists; it may have objects of other tests.
    """
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="conversions", daemon=True)
    thread.start()
    served = _served(kubeconfig, graph, crds)
    try:
        cluster = _run(loop, served.__aenter__())
        try:
            yield ServedConversions(kubeconfig, {(crd.group, crd.kind): crd for crd in crds}, cluster, loop)
        finally:
            _run(loop, served.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _run(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, _T]) -> _T:
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


@asynccontextmanager
async def _served(kubeconfig: Path, graph: Graph, crds: tuple[Crd, ...]) -> AsyncIterator[Cluster]:
    async with (
        serve_locally(graph, crds) as conversions,
        connect(kubeconfig) as cluster,
        _installed(cluster, crds, conversions),
    ):
        yield cluster


@asynccontextmanager
async def _installed(
    cluster: Cluster, crds: tuple[Crd, ...], conversions: Mapping[str, Mapping[str, Any]]
) -> AsyncIterator[None]:
    created: list[str] = []
    try:
        for crd in crds:
            document = {**crd.document, "spec": {**crd.document["spec"], "conversion": conversions[crd.name]}}
            await cluster.create(CRDS, json.dumps(document).encode())
            created.append(crd.name)
        for name in created:
            await _until_established(cluster, name)
        yield
    finally:
        for name in created:
            await _removed(cluster, name)


async def _until_established(cluster: Cluster, name: str) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            crd = Crd.from_document((await cluster.get(CRDS, name)).json())
            if crd.established:
                return
            await asyncio.sleep(_POLL_S)


async def _removed(cluster: Cluster, name: str) -> None:
    with suppress(NotFound):
        await cluster.delete(CRDS, name)
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                await cluster.get(CRDS, name)
                await asyncio.sleep(_POLL_S)

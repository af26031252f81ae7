"""A cluster whose lists and watches of some resources are answered from memory: one watch each, shared by all.

Controllers run on it as on the API server itself, and look at objects without a request. What a controller is told of,
the mirror has already, since it is the mirror that tells; and it has what a write through it returned before the write
returns. So a reconciler never acts on an object older than its own last write, and reading one costs nothing.

Everything else passes through: ``get`` is answered by the API server, for who must know what is true now.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import msgspec

from restow.cloudprofile.controllers.shelf import Change, Shelf, TooOld
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.cluster import Cluster, PatchType, Reply
from restow.kube.errors import api_error
from restow.kube.resources import Resource
from restow.kube.selection import Selection
from restow.kube.watching import watch

__all__ = ["Mirror"]

_GONE = 410
_encode = msgspec.json.Encoder().encode


class Mirror:
    """A ``Cluster`` with a memory. Run ``follow`` beside whatever uses it, after ``synced``.

    Args:
        cluster: where.
        shelves: the resources that are kept in memory, whole: in all namespaces, without selectors.
        clock: its ``monotonic`` and ``sleep``.
        chance: random numbers from [0, 1).
    """

    def __init__(
        self,
        cluster: Cluster,
        shelves: Mapping[Resource, Shelf],
        *,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._cluster = cluster
        self._shelves = shelves
        self._clock = clock
        self._chance = chance
        self._synced = {resource: asyncio.Event() for resource in shelves}
        self._news = {resource: asyncio.Event() for resource in shelves}

    async def follow(self) -> None:
        """Keep the memory up to date until cancelled.

        Raises:
            KubeError: a resource cannot be watched.
        """
        async with asyncio.TaskGroup() as group:
            for resource in self._shelves:
                group.create_task(self._follow(resource), name=f"mirror of {resource.full_name}")

    async def synced(self) -> None:
        """Wait until everything has been listed once."""
        for synced in self._synced.values():
            await synced.wait()

    async def _follow(self, resource: Resource) -> None:
        async with watch(self._cluster, Selection(resource), clock=self._clock, chance=self._chance) as events:
            async for event in events:
                if self._shelves[resource].apply(event):
                    self._tell(resource)
                self._synced[resource].set()

    def _tell(self, resource: Resource) -> None:
        news, self._news[resource] = self._news[resource], asyncio.Event()
        news.set()

    @property
    def host(self) -> str:
        """The server's URL."""
        return self._cluster.host

    @property
    def default_namespace(self) -> str:
        """The namespace of the kubeconfig's context, or of the pod."""
        return self._cluster.default_namespace

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        metadata_only: bool = False,
        cached: bool = False,
    ) -> Reply:
        """Read one object from the API server."""
        return await self._cluster.get(resource, name, namespace, metadata_only=metadata_only, cached=cached)

    async def discover(self, path: str) -> Reply:
        """Read a discovery document from the API server."""
        return await self._cluster.discover(path)

    def at(self, host: str = "", server_name: str = "") -> AbstractAsyncContextManager[Cluster]:
        """Open the API server through connections of its own."""
        return self._cluster.at(host, server_name)

    async def list_page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        params: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> Reply:
        """List what is in memory, in one page; other resources, and selections, by the API server."""
        shelf = self._shelves.get(resource)
        if shelf is None or namespace is not None or _selects(params):
            return await self._cluster.list_page(resource, namespace, params=params, metadata_only=metadata_only)
        await self._synced[resource].wait()
        items = [_shown(obj, metadata_only=metadata_only) for obj in shelf.all()]
        return Reply(_encode({"metadata": {"resourceVersion": shelf.version}, "items": items}))

    async def create(
        self, resource: Resource, body: bytes, namespace: str | None = None, *, params: Mapping[str, str] | None = None
    ) -> Reply:
        """Create one object."""
        return await self._cluster.create(resource, body, namespace, params=params)

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Reply:
        """Replace one object."""
        reply = await self._cluster.replace(resource, name, body, namespace, subresource=subresource, params=params)
        self._learn(resource, reply, params)
        return reply

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str | None = None,
        *,
        patch_type: PatchType,
        subresource: str | None = None,
        params: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> Reply:
        """Patch one object."""
        reply = await self._cluster.patch(
            resource,
            name,
            body,
            namespace,
            patch_type=patch_type,
            subresource=subresource,
            params=params,
            metadata_only=metadata_only,
        )
        if not metadata_only:
            self._learn(resource, reply, params)
        return reply

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, body: bytes | None = None
    ) -> Reply:
        """Delete one object."""
        return await self._cluster.delete(resource, name, namespace, body=body)

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        params: Mapping[str, str],
        metadata_only: bool = False,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Watch what happens in memory; other resources, and selections, by the API server."""
        if resource not in self._shelves or namespace is not None or _selects(params):
            return self._cluster.watch(resource, namespace, params=params, metadata_only=metadata_only)
        return self._watch(resource, params, metadata_only=metadata_only)

    @asynccontextmanager
    async def _watch(
        self, resource: Resource, params: Mapping[str, str], *, metadata_only: bool
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        async with aclosing(self._lines(resource, params, metadata_only=metadata_only)) as lines:
            yield lines

    async def _lines(
        self, resource: Resource, params: Mapping[str, str], *, metadata_only: bool
    ) -> AsyncGenerator[bytes, None]:
        shelf, loop = self._shelves[resource], asyncio.get_running_loop()
        end = loop.time() + float(params["timeoutSeconds"])
        try:
            told = shelf.since(params["resourceVersion"])
            while True:
                news = self._news[resource]
                changes, told = list(shelf.changes(told)), shelf.told
                for change in changes:
                    yield _line(change, metadata_only=metadata_only)
                if shelf.told == told and not await _comes(news, end):
                    return
        except TooOld as error:
            target = resource.describe()
            raise api_error(status=_GONE, body=b"", headers={}, verb="watch", target=target) from error

    def _learn(self, resource: Resource, reply: Reply, params: Mapping[str, str] | None) -> None:
        shelf = self._shelves.get(resource)
        if shelf is not None and "dryRun" not in (params or {}) and shelf.learn(reply.json()):
            self._tell(resource)


async def _comes(news: asyncio.Event, end: float) -> bool:
    """Wait for news; return False if the time is over first."""
    try:
        async with asyncio.timeout_at(end):
            await news.wait()
    except TimeoutError:
        return False
    return True


def _selects(params: Mapping[str, str] | None) -> bool:
    return bool(params) and not {"labelSelector", "fieldSelector"}.isdisjoint(params or ())


def _shown(obj: Mapping[str, object], *, metadata_only: bool) -> Mapping[str, object]:
    return {"metadata": obj["metadata"]} if metadata_only else obj


def _line(change: Change, *, metadata_only: bool) -> bytes:
    return _encode({"type": change.type, "object": _shown(change.obj, metadata_only=metadata_only)})

"""The controllers of the CloudProfile family under test: a clock that stands still, and a count of what they ask."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from restow.cloudprofile.controllers import ControllerOptions, run
from restow.kube.client import HttpCluster
from restow.kube.clock import Clock
from restow.kube.cluster import Cluster, PatchType, Reply, Request
from restow.kube.errors import Conflict, NotFound
from restow.kube.resources import EVENTS, Resource
from restow.kube.retry import with_retries
from tests.apiserver.kind import Document, until
from tests.apiserver.profile_api import Api

__all__ = ["BELL", "FixedTime", "Watched", "World", "running"]

BELL = "bell"


class FixedTime:
    """A clock that moves only when told; whoever sleeps on it sleeps on the event loop."""

    def __init__(self, now: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self.at = now
        self.clock = Clock(monotonic=self._monotonic, now=lambda: self.at)

    def _monotonic(self) -> float:
        return self.at.timestamp()

    def move(self, **by: float) -> None:
        self.at += timedelta(**by)

    def after(self, **by: float) -> str:
        """A time from now, as manifests write it."""
        return (self.at + timedelta(**by)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Watched(Cluster):
    """The API server, with a count of requests, of patches by object, and a hook before each patch."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.asked: Counter[str] = Counter()
        self.patched: Counter[tuple[str, str]] = Counter()
        self.conflicts = 0
        self.before_patch: Callable[[Resource, str, str | None], Awaitable[None]] | None = None

    @property
    def host(self) -> str:
        return self._cluster.host

    @property
    def default_namespace(self) -> str:
        return self._cluster.default_namespace

    def at(self, host: str = "", server_name: str = "") -> AbstractAsyncContextManager[Cluster]:
        return self._cluster.at(host, server_name)

    def writes(self) -> dict[str, int]:
        """The writes so far, by verb and resource, without events."""
        reads = ("get ", "list ", "watch ")
        return {what: n for what, n in self.asked.items() if not what.startswith((*reads, "create events"))}

    async def send(self, request: Request) -> Reply:
        resource = request.resource
        assert resource is not None
        what = resource.plural
        if request.verb == "patch" and request.subresource:
            what += f"/{request.subresource}"
        if request.verb == "patch" and request.name is not None:
            if self.before_patch is not None:
                await self.before_patch(resource, request.name, request.subresource)
            self.patched[what, request.name] += 1
        self.asked[f"{request.verb} {what}{' as a table' if request.as_table else ''}"] += 1
        try:
            return await self._cluster.send(request)
        except Conflict:
            self.conflicts += request.verb == "patch"
            raise

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        assert request.resource is not None
        self.asked[f"watch {request.resource.plural}"] += 1
        return self._cluster.stream(request)


class World:
    """Profiles and Shoots at v1beta2, and what is said of them."""

    def __init__(self, cluster: HttpCluster) -> None:
        self.cluster = cluster
        self.api = Api(cluster, "v1beta2")
        self._rung = 0
        self._uids: set[str] = set()

    async def profile(self, name: str, *versions: Document, **spec: Any) -> Document:
        body = {"kubernetes": {"versions": list(versions)}} | spec
        return await self._create(self.api.manifest("CloudProfile", name, body))

    async def child(self, name: str, parent: str, **spec: Any) -> Document:
        body = {"parent": {"kind": "CloudProfile", "name": parent}} | spec
        return await self._create(self.api.manifest("NamespacedCloudProfile", name, body))

    async def shoot(self, name: str, kind: str, profile: str, **spec: Any) -> Document:
        body = {"cloudProfile": {"kind": kind, "name": profile}} | spec
        return await self._create(self.api.manifest("Shoot", name, body))

    async def _create(self, manifest: Document) -> Document:
        made = await self.api.create(manifest)
        self._uids.add(made["metadata"]["uid"])
        return made

    async def get(self, kind: str, name: str) -> Document:
        namespace = None if kind == "CloudProfile" else "default"
        found: Document = (await self.cluster.get(self.api.at(kind), name, namespace)).json()
        return found

    async def exists(self, kind: str, name: str) -> bool:
        try:
            await self.get(kind, name)
        except NotFound:
            return False
        return True

    async def classified(self, kind: str, name: str) -> dict[str, str]:
        """The classifications of the Kubernetes versions, as the status says."""
        versions = (await self.get(kind, name)).get("status", {}).get("kubernetes", {}).get("versions", [])
        return {each["version"]: each["classification"] for each in versions}

    async def says(self, kind: str, name: str, **expected: str) -> None:
        """Wait until the status says so; versions are written with underscores."""
        wanted = {version.removeprefix("v").replace("_", "."): is_ for version, is_ in expected.items()}

        async def does() -> bool:
            return await self.classified(kind, name) == wanted

        await until(does, f"{kind} {name} does not say {wanted}")

    async def hang_bell(self) -> None:
        """Make the objects whose changes have every queue look at the clock."""
        await self.profile(BELL)
        await self.child(BELL, BELL)
        await self.shoot(BELL, "CloudProfile", BELL)

    async def ring(self) -> None:
        """Have something happen, so that queues look at the clock; their timers run on the event loop."""
        self._rung += 1
        body = json.dumps({"metadata": {"annotations": {"gardener.cloud/operation": f"ring{self._rung}"}}}).encode()
        await self.cluster.patch(self.api.at("CloudProfile"), BELL, body, patch_type=PatchType.MERGE)
        await self.cluster.patch(self.api.at("Shoot"), BELL, body, "default", patch_type=PatchType.MERGE)

    async def events(self, name: str) -> list[tuple[str, str, str]]:
        """Type, reason and note of the events about an object of this test."""
        items = (await self.cluster.list_page(EVENTS, "default")).json()["items"]
        about = ((each["regarding"], each) for each in items)
        return [
            (each["type"], each["reason"], each["note"])
            for regarding, each in about
            if regarding.get("name") == name and regarding.get("uid") in self._uids
        ]

    async def clear(self) -> None:
        """Delete everything, finalizers or not; an API server that has just started may ask for a little time."""
        for kind in ("Shoot", "NamespacedCloudProfile", "CloudProfile"):
            for item in (await with_retries(self.cluster).list_page(self.api.at(kind))).json()["items"]:
                with suppress(NotFound):
                    await self.release(item | {"kind": kind})
                    await self.api.delete(item | {"kind": kind})

    async def release(self, obj: Document) -> None:
        """Take all finalizers off."""
        metadata, body = obj["metadata"], b'{"metadata": {"finalizers": null}}'
        await self.cluster.patch(
            self.api.at(obj["kind"]), metadata["name"], body, metadata.get("namespace"), patch_type=PatchType.MERGE
        )


@asynccontextmanager
async def running(cluster: Cluster, time: FixedTime, **options: Any) -> AsyncIterator[None]:
    """Run the controllers inside of the block."""
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        task = group.create_task(
            run(cluster, time.clock, ControllerOptions(**{"resync": None, "grace": 0.5} | options))
        )
        yield
        task.cancel()

"""Clients that are at work all the time, and count every request that fails them.

They do what every client made with client-go does: a 429 is tried again, up to ten times. An API server answers lists
so while it rebuilds its watch caches, which it does whenever a CRD's spec changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from restow.kube.errors import KubeError, TooManyRequests
from tests.apiserver.provider import GATEWAYS, Provider

_PAUSE = 0.05
_TRIES = 10


@dataclass
class Load:
    """What happened so far: requests that went well, and what those said that did not."""

    succeeded: int = 0
    failures: list[str] = field(default_factory=list)

    async def count(self, request: Callable[[], Awaitable[object]]) -> None:
        """Make a request, and count it."""
        try:
            await _patiently(request)
        except KubeError as error:
            self.failures.append(str(error))
        else:
            self.succeeded += 1


async def _patiently(request: Callable[[], Awaitable[object]]) -> None:
    for _ in range(_TRIES):
        try:
            await request()
        except TooManyRequests as error:
            await asyncio.sleep(error.retry_after or 1)
        else:
            return
    await request()


@asynccontextmanager
async def under_load(provider: Provider, clients: int = 3) -> AsyncIterator[Load]:
    """Read, write and list gateways at all versions, meanwhile."""
    load = Load()

    async def client(number: int) -> None:
        name = f"load-{number}"
        turn = 0
        while True:
            turn += 1
            version = ("v1alpha1", "v1beta1", "v1")[turn % 3]
            port = {"timeoutSeconds": turn % 60} if version == "v1alpha1" else {"timeout": f"{turn % 60}s"}
            key = "title" if version == "v1alpha1" else "name"
            change = {"spec": {"listeners": [{key: "web", "protocol": "TCP", **port}]}}
            await load.count(partial(provider.patch, GATEWAYS, version, name, change))
            await load.count(partial(provider.get, GATEWAYS, "v1alpha1", name))
            await load.count(partial(provider.get, GATEWAYS, "v1beta1", name))
            if turn % 5 == 0:
                await load.count(partial(provider.items, GATEWAYS, version))
            await asyncio.sleep(_PAUSE)

    for number in range(clients):
        await provider.create(GATEWAYS, "v1", f"load-{number}", {"hosts": ["a"], "mode": "Mesh"})
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(client(number)) for number in range(clients)]
        try:
            yield load
        finally:
            for task in tasks:
                task.cancel()
    for number in range(clients):
        await provider.delete(GATEWAYS, "v1", f"load-{number}")

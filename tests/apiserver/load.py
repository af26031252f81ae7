"""Clients that are at work all the time, and count every request that fails them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from restow.kube.errors import KubeError
from tests.apiserver.provider import GATEWAYS, Provider

_PAUSE = 0.05


@dataclass
class Load:
    """What happened so far: requests that went well, and what those said that did not."""

    succeeded: int = 0
    failures: list[str] = field(default_factory=list)

    async def count(self, request: Awaitable[object]) -> None:
        """Wait for a request, and count it."""
        try:
            await request
        except KubeError as error:
            self.failures.append(str(error))
        else:
            self.succeeded += 1


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
            await load.count(provider.patch(GATEWAYS, version, name, change))
            await load.count(provider.get(GATEWAYS, "v1alpha1", name))
            await load.count(provider.get(GATEWAYS, "v1beta1", name))
            if turn % 5 == 0:
                await load.count(provider.items(GATEWAYS, version))
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

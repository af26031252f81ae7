"""A replica of ``restow operator --conversions`` from its start on, without a real API server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from restow.conversion.certificates import Url
from restow.conversion.operate.replica import Replica
from restow.conversion.server import ServingCertificate, WebhookServer
from restow.kube import Cluster
from restow.kube.clock import Clock
from restow.kube.resources import LEASES
from restow.operator import conversions
from restow.operator.process import Settings
from tests.memory.cluster import MemoryCluster


class Loaded(Exception):
    """The revisions are loaded."""


async def test_a_replica_stays_alive_while_it_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of kinds take longer than its Lease lasts: the leader would go on without it, and say Ready."""
    cluster = MemoryCluster()

    async def renewed() -> str:
        (lease,) = (await cluster.list_page(LEASES, "default")).json()["items"]
        return str(lease["metadata"]["resourceVersion"])

    async def load(_replica: Replica) -> None:
        joined = await renewed()
        while await renewed() == joined:
            await asyncio.sleep(0)
        raise Loaded

    async def sleep(_seconds: float) -> None:
        await asyncio.sleep(0)

    def listen(_webhook: WebhookServer, _serving: ServingCertificate) -> tuple[socket.socket, socket.socket]:
        raise AssertionError("it serves before it has loaded")

    @asynccontextmanager
    async def connect() -> AsyncIterator[Cluster]:
        yield cluster

    monkeypatch.setattr(Replica, "load", load)
    settings = Settings(Url("https://127.0.0.1:9443"), listen, connect=connect, clock=Clock(sleep=sleep))
    async with asyncio.timeout(10):
        with pytest.raises(Loaded):
            await conversions.run(settings, asyncio.Event())

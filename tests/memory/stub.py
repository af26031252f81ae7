"""A cluster for tests that answer a few requests by themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from restow.kube.cluster import Cluster, Reply, Request

__all__ = ["StubCluster"]


class StubCluster(Cluster):
    """A cluster that answers nothing; a test overrides ``send`` or ``stream``."""

    host = "https://server"  # type: ignore[assignment]
    default_namespace = "default"  # type: ignore[assignment]

    async def send(self, request: Request) -> Reply:
        raise NotImplementedError(str(request))

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError(str(request))

    @asynccontextmanager
    async def at(self, host: str = "", server_name: str = "") -> AsyncIterator[Cluster]:
        del host, server_name
        yield self

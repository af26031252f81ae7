"""A TCP load balancer as a Service is one: it takes an endpoint out when its readiness probe fails.

New connections go to the endpoints in turn, those that are open stay where they are. It learns of an endpoint's
readiness by asking, every few milliseconds; in between it goes on sending connections there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import aiohttp

from tests.conversion.server.webhooks import LOOPBACK, Running

PROBE_EVERY = 0.02


class Balancer:
    """The endpoints, and where new connections go."""

    def __init__(self) -> None:
        self.port = 0
        self.ready: list[Running] = []
        self._connecting: list[Running] = []
        self._all: list[Running] = []
        self._turn = count()

    def add(self, endpoint: Running) -> None:
        """Name an endpoint; it gets connections once it is ready."""
        self._all.append(endpoint)

    def remove(self, endpoint: Running) -> None:
        """Forget one that has ended."""
        self._all.remove(endpoint)

    def is_done_with(self, endpoint: Running) -> bool:
        """Say whether no connection will come to an endpoint any more."""
        return endpoint not in self.ready and endpoint not in self._connecting

    async def keep_probing(self, session: aiohttp.ClientSession) -> None:
        """Find out who is ready, again and again."""
        while True:
            self.ready = [each for each in tuple(self._all) if await self._is_ready(each, session)]
            await asyncio.sleep(PROBE_EVERY)

    async def _is_ready(self, endpoint: Running, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get(f"{endpoint.probes}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a connection on, bytes in either direction, until either side ends it."""
        endpoint = self.ready[next(self._turn) % len(self.ready)]
        self._connecting.append(endpoint)
        onward, back = await asyncio.open_connection(LOOPBACK, endpoint.port)
        self._connecting.remove(endpoint)
        async with asyncio.TaskGroup() as group:
            group.create_task(_pass_on(reader, back))
            group.create_task(_pass_on(onward, writer))


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    except ConnectionError:
        pass
    finally:
        sink.close()


@asynccontextmanager
async def balancing() -> AsyncIterator[Balancer]:
    """Run one."""
    balancer = Balancer()
    server = await asyncio.start_server(balancer.connect, LOOPBACK, 0)
    balancer.port = server.sockets[0].getsockname()[1]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        probing = asyncio.create_task(balancer.keep_probing(session))
        try:
            yield balancer
        finally:
            probing.cancel()
            server.close()

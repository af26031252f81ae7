"""A second API server on the same etcd that hears of changes of CRDs late.

It is a real kube-apiserver; what etcd sends it of CustomResourceDefinitions passes a line that holds every byte back
for a while, as a busy network or a busy server would. Objects go past at full speed: kube-apiserver speaks to etcd over
one connection per kind, so the line knows its own by the key that the server asks for on it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from restow.controlplane.apiserver import ApiServer
from restow.controlplane.commands import apiserver_command
from restow.controlplane.plane import ControlPlane
from restow.controlplane.ports import free_ports

_CRDS = b"/registry/apiextensions.k8s.io/customresourcedefinitions"
_CHUNK = 1 << 16
_START_TIMEOUT = 60.0


class LateLine:
    """The line. ``late`` is by how many seconds; 0 lets everything pass at once."""

    def __init__(self, etcd_url: str) -> None:
        self._etcd = urlsplit(etcd_url)
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0
        self.late = 0.0
        self.held = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._carry(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    def hang_up(self) -> None:
        """Break every connection."""
        for task in self._connections:
            task.cancel()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(self._etcd.hostname, self._etcd.port)
        of_crds = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._ask(reader, there_writer, of_crds))
                group.create_task(self._answer(there_reader, writer, of_crds))
        except* OSError:
            pass
        finally:
            there_writer.transport.abort()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, of_crds: asyncio.Event) -> None:
        end = b""
        while data := await reader.read(_CHUNK):
            if _CRDS in end + data:
                of_crds.set()
            end = data[-len(_CRDS) :]
            writer.write(data)
            await writer.drain()
        raise ConnectionError

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, of_crds: asyncio.Event) -> None:
        clock = asyncio.get_running_loop().time
        held: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, data = await held.get()
                if (wait := due - clock()) > 0:
                    self.held += 1
                    await asyncio.sleep(wait)
                writer.write(data)
                await writer.drain()

        async with asyncio.TaskGroup() as group:
            delivering = group.create_task(deliver())
            while data := await reader.read(_CHUNK):
                held.put_nowait((clock() + (self.late if of_crds.is_set() else 0.0), data))
            delivering.cancel()
        raise ConnectionError


@asynccontextmanager
async def late_apiserver(plane: ControlPlane) -> AsyncIterator[tuple[ApiServer, LateLine]]:
    """Run one more API server of the plane behind a line of its own."""
    line = LateLine(plane.etcd.url)
    server = await asyncio.start_server(line.accept, "127.0.0.1", 0)
    line.port = server.sockets[0].getsockname()[1]
    running = plane._running
    [port] = free_ports(1)
    url = f"https://127.0.0.1:{port}"
    admin = running.user("admin", ("system:masters",), url, datetime.now(UTC) + timedelta(days=1))
    command = apiserver_command(
        plane.binaries["kube-apiserver"],
        running.files,
        etcd=f"http://127.0.0.1:{line.port}",
        port=port,
        feature_gates={},
        runtime_config={},
        extra={},
    )
    late = ApiServer("kube-apiserver-late", command, admin, running.group)
    try:
        await late.start(_START_TIMEOUT)
        yield late, line
    finally:
        with contextlib.suppress(Exception):
            await late.stop(1.0)
        server.close()
        line.hang_up()
        await server.wait_closed()

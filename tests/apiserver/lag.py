"""A second API server on the same etcd that hears of changes of CRDs late.

It is a real kube-apiserver. A line stands between it and etcd, reads the HTTP/2 frames, and holds back what etcd's
watches of CustomResourceDefinitions deliver, as a busy server or a slow network would. Everything else passes at full
speed: its reads of a CRD are fresh, and it encodes objects by what it knew before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from restow.controlplane.commands import apiserver_command
from restow.controlplane.plane import ApiServer, ControlPlane
from tests.ports import free_port

_CRDS = b"/registry/apiextensions.k8s.io/customresourcedefinitions"
_PREFACE = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
_HEADER = 9
_DATA, _END_STREAM = 0, 0x1
_WINDOW_UPDATE = 8
_START_TIMEOUT = 60.0


class LateLine:
    """The line.

    ``late`` is by how many seconds news arrive late; 0 lets them pass at once. Between ``hold`` and ``release`` none
    arrives at all. ``held`` counts what was held back.
    """

    def __init__(self, etcd_url: str) -> None:
        self._etcd = urlsplit(etcd_url)
        self._connections: set[asyncio.Task[None]] = set()
        self._free = asyncio.Event()
        self._free.set()
        self.port = 0
        self.late = 0.0
        self.held = 0

    def hold(self) -> None:
        """Let no news of CRDs pass from now on."""
        self._free.clear()

    def release(self) -> None:
        """Let what was held back pass, and everything after it."""
        self._free.set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._carry(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
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
        watches: set[bytes] = set()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._ask(reader, there_writer, watches))
                group.create_task(self._answer(there_reader, writer, there_writer, watches))
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            there_writer.transport.abort()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, watches: set[bytes]) -> None:
        writer.write(await reader.readexactly(_PREFACE))
        while True:
            header, payload = await _frame(reader)
            # A watch is a stream that its client keeps open; a read or a write ends it with the request.
            if header[3] == _DATA and not header[4] & _END_STREAM and _CRDS in payload:
                watches.add(header[5:])
            writer.write(header + payload)
            await writer.drain()

    async def _answer(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        etcd: asyncio.StreamWriter,
        watches: set[bytes],
    ) -> None:
        clock = asyncio.get_running_loop().time
        news: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, frame = await news.get()
                wait = due - clock()
                self.held += wait > 0 or not self._free.is_set()
                await asyncio.sleep(max(0.0, wait))
                await self._free.wait()
                writer.write(frame)
                await writer.drain()

        async with asyncio.TaskGroup() as group:
            group.create_task(deliver())
            while True:
                header, payload = await _frame(reader)
                if header[3] == _DATA and header[5:] in watches:
                    news.put_nowait((clock() + self.late, header + payload))
                    if payload:
                        etcd.write(_window_update(len(payload)))
                    continue
                writer.write(header + payload)
                await writer.drain()


async def _frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Read one HTTP/2 frame: its header (length, type, flags, stream) and its payload."""
    header = await reader.readexactly(_HEADER)
    return header, await reader.readexactly(int.from_bytes(header[:3]))


def _window_update(size: int) -> bytes:
    """Return a frame that lets etcd send so many bytes more on the connection.

    The API server grants them only when the news reach it. Without this, 64 KiB of held news end its reads, too.
    """
    return bytes((0, 0, 4, _WINDOW_UPDATE, 0, 0, 0, 0, 0)) + size.to_bytes(4)


@asynccontextmanager
async def late_apiserver(plane: ControlPlane) -> AsyncIterator[tuple[ApiServer, LateLine]]:
    """Run one more API server of the plane, with the same flags, behind a line of its own."""
    line = LateLine(plane.etcd.url)
    server = await asyncio.start_server(line.accept, "127.0.0.1", 0)
    line.port = server.sockets[0].getsockname()[1]
    running = plane._running
    port = free_port()
    url = f"https://127.0.0.1:{port}"
    admin = running.user("admin", ("system:masters",), url, datetime.now(UTC) + timedelta(days=1))
    command = apiserver_command(
        plane.binaries["kube-apiserver"],
        running.files,
        etcd=f"http://127.0.0.1:{line.port}",
        port=port,
        feature_gates=plane._feature_gates,
        runtime_config=plane._runtime_config,
        extra=plane._apiserver_args,
    )
    late = ApiServer("kube-apiserver-late", command, admin, running.group)
    try:
        await late.start(_START_TIMEOUT)
        yield late, line
    finally:
        line.release()
        with contextlib.suppress(Exception):
            await late.stop(1.0)
        server.close()
        line.hang_up()
        await server.wait_closed()

"""A small TCP balancer: new connections go to instances that are ready, open ones stay where they are.

As a Service does: an instance that is not ready any more gets no new connection, after the moment that it takes to see.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

_EVERY = 0.05
_CHUNK = 1 << 16


@dataclass
class Backend:
    """Where connections can go, and how to ask whether they may."""

    port: int
    is_ready: Callable[[], Awaitable[bool]]
    ready: bool = False


class Balancer:
    """The balancer, while it runs. ``port`` is where it listens."""

    def __init__(self) -> None:
        self.port = 0
        self.accepted = 0
        self.backends: list[Backend] = []
        self._next = 0
        self._pipes: set[asyncio.Task[None]] = set()

    def add(self, port: int, is_ready: Callable[[], Awaitable[bool]]) -> Backend:
        """Add a backend; it gets connections once it is ready."""
        backend = Backend(port, is_ready)
        self.backends.append(backend)
        return backend

    def remove(self, backend: Backend) -> None:
        """Forget a backend; its open connections stay."""
        self.backends.remove(backend)

    async def watch(self) -> None:
        """Keep asking, until cancelled."""
        while True:
            for backend in list(self.backends):
                backend.ready = await backend.is_ready()
            await asyncio.sleep(_EVERY)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._pipes.add(task)
        self.accepted += 1
        try:
            ready = [backend for backend in self.backends if backend.ready]
            if ready:
                self._next += 1
                await _carry(reader, writer, ready[self._next % len(ready)].port)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._pipes.discard(task)
            writer.transport.abort()

    def hang_up(self) -> None:
        """Break all connections."""
        for task in self._pipes:
            task.cancel()


@asynccontextmanager
async def balancing() -> AsyncIterator[Balancer]:
    """Run a balancer on a free port of the loopback."""
    balancer = Balancer()
    server = await asyncio.start_server(balancer.accept, "127.0.0.1", 0)
    balancer.port = server.sockets[0].getsockname()[1]
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(balancer.watch())
        try:
            yield balancer
        finally:
            watching.cancel()
            server.close()
            balancer.hang_up()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_pipe(reader, there_writer))
            group.create_task(_pipe(there_reader, writer))
    except* OSError:
        pass
    finally:
        there_writer.transport.abort()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on until the end, and pass the end on."""
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()

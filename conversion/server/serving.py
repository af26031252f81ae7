"""Listening: a socket, its connections, and the order in which all of it ends.

A rolling restart loses no request if the endpoint stops being named before it stops being served. So a request to stop
first makes the webhook unready, and goes on serving while the news spreads, with ``Connection: close`` on every answer:
a client that keeps connections open goes elsewhere with its next request. Only then the socket is closed, idle
connections too, and what is in flight finishes.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from restow.conversion.server.connections import Connections
from restow.conversion.server.webhook import Phase, Webhook

__all__ = ["bind", "listening", "serve"]

_BACKLOG: Final = 1024

#: How many connections are accepted before those that are there have their turn.
_ACCEPT: Final = 64

#: How long to wait before accepting again after it failed: for a file to be closed.
_AGAIN_SECONDS: Final = 0.1


def bind(host: str, port: int) -> socket.socket:
    """Return a listening TCP socket; port 0 for a free one, an empty host for all addresses, IPv6 too where there is.

    An IPv6 address may stand in brackets.

    Raises:
        OSError: a file cannot be read or written.
    """
    host = host.removeprefix("[").removesuffix("]")
    family = socket.AF_INET6 if ":" in host or (not host and socket.has_dualstack_ipv6()) else socket.AF_INET
    listener = socket.create_server(
        (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=not host and family == socket.AF_INET6
    )
    listener.setblocking(False)
    return listener


class _Acceptor:
    """Accepts connections on a socket until it is closed. asyncio's own way writes a traceback for each that fails."""

    def __init__(self, connections: Connections, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        self._connections = connections
        self._listener = listener
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.TimerHandle | None = None
        self._making: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Accept whatever comes."""
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more, and close the socket."""
        if self._again is not None:
            self._again.cancel()
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPT):
            try:
                accepted, _peer = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._connections.lacks_files(error.strerror or type(error).__name__)
                self._loop.remove_reader(self._listener.fileno())
                self._again = self._loop.call_later(_AGAIN_SECONDS, self.begin)
                return
            accepted.setblocking(False)
            task = self._loop.create_task(self._make(accepted))
            self._making.add(task)
            task.add_done_callback(self._making.discard)

    async def _make(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._connections.protocol(self._context), accepted)
        except OSError:
            accepted.close()


@asynccontextmanager
async def listening(
    connections: Connections, listener: socket.socket, context: ssl.SSLContext | None = None
) -> AsyncIterator[_Acceptor]:
    """Accept connections on a socket, with TLS if there is a context; in the end all are closed, and the socket."""
    acceptor = _Acceptor(connections, listener, context)
    acceptor.begin()
    connections.watch()
    try:
        yield acceptor
    finally:
        acceptor.close()
        connections.close()


async def serve(webhook: Webhook, listener: socket.socket, context: ssl.SSLContext, stop: asyncio.Event) -> None:
    """Serve a webhook on a socket until asked to stop, then drain. Cancelling ends all connections at once."""
    connections = Connections(webhook.handle, webhook.limits, webhook.counts, webhook.clock, webhook.complaints)
    webhook.counts.gauge("restow_webhook_connections", lambda: len(connections))
    async with listening(connections, listener, context) as accepting:
        await stop.wait()
        webhook.phase = Phase.DRAINING
        await webhook.clock.sleep(webhook.limits.drain_seconds)
        accepting.close()
        webhook.phase = Phase.STOPPING
        await connections.finish(webhook.limits.finish_seconds)

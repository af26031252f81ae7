"""Listening: a socket, its connections, and the order in which all of it ends.

A rolling restart loses no request if the endpoint stops being named before it stops being served. So a request to stop
first makes the webhook unready, and goes on serving while the news spreads, with `Connection: close` on every answer:
a client that keeps connections open goes elsewhere with its next request. Only then the socket is closed, idle
connections too, and what is in flight finishes.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from restow.conversion.server.connections import Connections
from restow.conversion.server.webhook import Phase, Webhook

__all__ = ["bind", "listening", "serve"]

_BACKLOG = 1024
_SHUTDOWN_SECONDS = 2.0


def bind(host: str, port: int) -> socket.socket:
    """Return a listening TCP socket; port 0 for a free one, an empty host for all addresses, IPv6 too where there is.

    Raises OSError.
    """
    family = socket.AF_INET6 if ":" in host or (not host and socket.has_dualstack_ipv6()) else socket.AF_INET
    listener = socket.create_server(
        (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=not host and family == socket.AF_INET6
    )
    listener.setblocking(False)
    return listener


@asynccontextmanager
async def listening(
    connections: Connections, listener: socket.socket, context: ssl.SSLContext | None = None
) -> AsyncIterator[asyncio.Server]:
    """Accept connections on a socket, with TLS if there is a context; in the end all are closed, and the socket."""
    server = await asyncio.get_running_loop().create_server(
        connections,
        sock=listener,
        backlog=_BACKLOG,
        ssl=context,
        ssl_handshake_timeout=connections.limits.handshake_seconds if context is not None else None,
        ssl_shutdown_timeout=_SHUTDOWN_SECONDS if context is not None else None,
    )
    connections.watch()
    try:
        yield server
    finally:
        server.close()
        connections.close()


async def serve(webhook: Webhook, listener: socket.socket, context: ssl.SSLContext, stop: asyncio.Event) -> None:
    """Serve a webhook on a socket until asked to stop, then drain. Cancelling ends all connections at once."""
    connections = Connections(webhook.handle, webhook.limits, webhook.counts, webhook.clock)
    webhook.counts.gauge("restow_webhook_connections", lambda: len(connections))
    async with listening(connections, listener, context) as server:
        await stop.wait()
        webhook.phase = Phase.DRAINING
        await webhook.clock.sleep(webhook.limits.drain_seconds)
        server.close()
        webhook.phase = Phase.STOPPING
        await connections.finish(webhook.limits.finish_seconds)

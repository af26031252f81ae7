"""Watches aiohttp's HTTP connections, and ends those whose clients begin something and do not finish it.

aiohttp closes a connection that is idle for too long. It does not limit handshakes that never come, half-sent headers,
slow bodies, or clients that do not read their answer, and each of these holds memory. Every connection therefore
records its state and the time of the last change, and a check ends overdue connections once a second.

The number of connections that wait for their client is bounded; requests at work do not count. A new connection beyond
the bound is accepted, and ends the one that has waited longest in the most frequent state. A client that opens a
thousand silent connections thus ends its own. A bound for each address would not help, because managed API servers
share one. Up to twice the bound, no connection is ended in its first second.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from email.utils import format_datetime
from typing import Final

from aiohttp import web

from restow.conversion.server.clientconnection import (
    BUFFER,
    AtOnce,
    ClientConnection,
    ConnectionServer,
    ConnectionState,
    ConnectionTls,
)
from restow.conversion.server.failures import RateLimitedLog
from restow.conversion.server.limits import Limits
from restow.conversion.server.metrics import ServerMetrics
from restow.kube.clock import Clock

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

#: The headers of every answer, except its length and the date.
HEADERS: Final = {"Content-Type": "application/json", "Server": "restow"}
_HEAD: Final = "".join(("HTTP/1.1 200 OK\r\n", *(f"{name}: {value}\r\n" for name, value in HEADERS.items())))

_RECEIVE: Final = 64 * 1024
_LOOK_EVERY: Final = 1.0
_LATE: Final = 1.0
_LINGERING_SECONDS: Final = 2.0
_MOMENT: Final = 0.02

#: How many rounds the event loop must run before a waiting connection is ended while the process stops.
_TURNS: Final = 10

#: How many seconds a new connection has for its first request before it counts as idle.
_PATIENCE: Final = 1.0

#: How many waiting connections to end when the process cannot open another file.
_FOR_FILES: Final = 64

#: aiohttp logs the bytes that it cannot parse, and these come from a client.
_SILENT: Final = logging.Logger("silent", logging.CRITICAL + 1)  # noqa: LOG001 - it has no parent that could enable it

_WAITING: Final = (
    ConnectionState.IDLE,
    ConnectionState.HEADERS,
    ConnectionState.BODY,
    ConnectionState.ANSWER,
    ConnectionState.NEW,
)
_COUNTED: Final = (ConnectionState.HANDSHAKE, ConnectionState.NEW, ConnectionState.IDLE)


class ClientConnections(ConnectionServer):
    """Makes and watches the connections of one listening socket."""

    def __init__(
        self,
        handler: Handler,
        limits: Limits,
        counts: ServerMetrics,
        clock: Clock,
        request_log: RateLimitedLog,
        *,
        at_once: AtOnce = lambda _path, _body: None,
    ) -> None:
        super().__init__(self._watched, handler_cancellation=True)
        self.at_once = at_once
        self.clock = clock
        self.limits = limits
        self._request_log = request_log
        self._handler = handler
        self._counts = counts
        self._queues: dict[ConnectionState, dict[ClientConnection, None]] = {doing: {} for doing in ConnectionState}
        self._bounds = (((ConnectionState.HANDSHAKE,), limits.handshakes), (_WAITING, limits.connections))
        self._buffer = bytearray(_RECEIVE)
        self._timer: asyncio.TimerHandle | None = None
        self._looked = 0.0
        self._head, self._second = b"", -1

    def protocol(self, context: ssl.SSLContext | None) -> asyncio.BaseProtocol:
        """Make the protocol of an accepted connection."""
        connection = ClientConnection(
            self,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=self.limits.idle_seconds,
            lingering_time=_LINGERING_SECONDS,
            auto_decompress=False,
            read_bufsize=BUFFER,
            access_log=None,
            logger=_SILENT,
        )
        return connection if context is None else ConnectionTls(connection, context, self._buffer)

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def head(self, size: int) -> bytes:
        """Return the status line and the headers of a successful answer with a body of ``size`` bytes."""
        second = int(self.clock.monotonic())
        if second != self._second:
            date = format_datetime(self.clock.now(), usegmt=True)
            self._head, self._second = f"{_HEAD}Date: {date}\r\nContent-Length: ".encode(), second
        return b"%b%d\r\n\r\n" % (self._head, size)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Take in a connection that is ready for requests."""
        super().connection_made(handler, transport)
        if isinstance(handler, ClientConnection):
            handler.begin(ConnectionState.NEW)

    def move(self, connection: ClientConnection, state: ConnectionState) -> None:
        """Record the new state of a connection, and end others if too many wait."""
        was = connection.doing
        self._queues[was].pop(connection, None)
        connection.doing, connection.since = state, self.clock.monotonic()
        if state is not ConnectionState.GONE:
            self._queues[state][connection] = None
        if state in _COUNTED and not state is was is ConnectionState.IDLE:
            self._make_room()

    def watch(self) -> None:
        """End connections that are too slow, from now on until ``close``."""
        self._looked = asyncio.get_running_loop().time()
        self._timer = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look_again)

    def _look_again(self) -> None:
        # A loop that stood still has not read what clients sent meanwhile, so the speed of bodies is not judged yet.
        late = asyncio.get_running_loop().time() - self._looked - _LOOK_EVERY
        self.look(judged=late < _LATE)
        self.watch()

    def close(self) -> None:
        """End all connections at once, and stop watching."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in (*self._all(), *self.connections):
            if isinstance(connection, ClientConnection):
                connection.abort()

    def look(self, *, judged: bool = True) -> None:
        """End the connections that are too slow now, or too many."""
        now = self.clock.monotonic()
        for connection in self._all():
            if connection.is_too_slow(self.limits, now, judged=judged):
                self._counts.add("restow_webhook_aborted_total", connection.doing.value)
                self._request_log.tell("too-slow", connection.peer, connection.doing.value)
                connection.begin(ConnectionState.GONE)
                connection.abort()
        self._make_room()
        self._request_log.look()

    def refused(self, why: str, peer: str = "", message: str = "") -> None:
        """Count and log a client that is refused."""
        self._counts.add("restow_webhook_refused_total", why)
        self._request_log.tell(why, peer, message)

    def lacks_files(self, reason: str) -> None:
        """Make room when the process cannot open another file."""
        self.refused("no-file", message=f"a connection could not be accepted: {reason}")
        for _ in range(_FOR_FILES):
            self._end_longest((ConnectionState.HANDSHAKE, *_WAITING), _PATIENCE)

    async def finish(self, seconds: float) -> None:
        """Close idle connections, and wait at most ``seconds`` for the others to finish their request.

        A connection that was accepted just before the end, and is still in its handshake, also gets its chance. A
        connection is only ended after some rounds of the event loop: while the process stood still, it read nothing of
        what clients sent.
        """
        until, turns = self.clock.monotonic() + seconds, 0
        first_seen: dict[tuple[ClientConnection, float], int] = {}
        while len(self) and self.clock.monotonic() < until:
            self.look()
            waiting = [(each, each.since) for each in self._all() if each.doing in _COUNTED]
            first_seen = {each: first_seen.get(each, turns) for each in waiting}
            for (connection, since), turn in first_seen.items():
                if turns - turn >= _TURNS and self.clock.monotonic() - since > _PATIENCE:
                    connection.leave()
            await self.clock.sleep(_MOMENT)
            turns += 1

    def _all(self) -> list[ClientConnection]:
        return [each for queue in self._queues.values() for each in queue]

    def _make_room(self) -> None:
        for kinds, most in self._bounds:
            while (number := sum(len(self._queues[each]) for each in kinds)) > most:
                if not self._end_longest(kinds, _PATIENCE if number <= 2 * most else 0.0):
                    break

    def _end_longest(self, kinds: Sequence[ConnectionState], seconds: float) -> bool:
        """End the longest waiting connection of the most frequent state, among those that wait at least ``seconds``."""
        before = self.clock.monotonic() - seconds
        queues = [self._queues[each] for each in kinds]
        due = [each for each in queues if each and next(iter(each)).since <= before]
        if not due:
            return False
        most = max(due, key=len)
        longest = next(iter(most))
        self.refused("too-many-connections", longest.peer, longest.doing.value)
        longest.leave()
        return True

    async def _watched(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, ClientConnection)
        connection.requested(request)
        return await self._handler(request)

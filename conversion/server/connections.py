"""HTTP connections that end: aiohttp's, watched for clients that begin something and never finish it.

aiohttp closes a connection that is idle for too long. What it does not know are half-sent headers, bodies that never
end, and clients that do not read their answer; each holds memory for as long as it likes. So every connection notes
what it is doing and since when, which costs nothing, and all of them are looked at once a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, Final

from aiohttp import web

from restow.conversion.server.counts import Counts
from restow.conversion.server.limits import Limits
from restow.kube.clock import Clock

__all__ = ["Connections"]

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_LOOK_EVERY: Final = 1.0
_LINGERING_SECONDS: Final = 2.0
_MOMENT: Final = 0.02

#: How long a connection that was just accepted, or made, has for its first request before it counts as idle.
_PATIENCE: Final = 1.0

#: aiohttp logs what it could not parse, which is somebody's bytes.
_SILENT: Final = logging.Logger("silent", logging.CRITICAL + 1)  # noqa: LOG001 - below no other: nobody turns it on


class _Doing(Enum):
    NOTHING = "idle"
    HEADERS = "headers"
    REQUEST = "request"


class _Connection(web.RequestHandler):
    """One connection: what it is doing, and since when."""

    __slots__ = ("_now", "doing", "since")

    def __init__(self, connections: Connections, **settings: Any) -> None:
        super().__init__(connections, **settings)
        self._now = connections.clock.monotonic
        self.begin(_Doing.NOTHING)

    def begin(self, doing: _Doing) -> None:
        self.doing, self.since = doing, self._now()

    def data_received(self, data: bytes) -> None:
        if data and self.doing is _Doing.NOTHING:
            self.begin(_Doing.HEADERS)
        super().data_received(data)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self.begin(_Doing.NOTHING)

    def abort(self) -> None:
        """End it at once, with its handler."""
        if self.transport is not None:
            self.transport.abort()


class Connections(web.Server):
    """Makes and watches the connections of one listening socket; a protocol factory for `loop.create_server`."""

    def __init__(self, handler: Handler, limits: Limits, counts: Counts, clock: Clock) -> None:
        super().__init__(self._watched, handler_cancellation=True)
        self.clock = clock
        self._handler = handler
        self.limits = limits
        self._counts = counts
        self._accepted: set[_Connection] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._allowed = {_Doing.HEADERS: limits.header_seconds, _Doing.REQUEST: limits.request_seconds}

    def __call__(self) -> _Connection:
        """Make the protocol of a connection that was accepted; TLS comes first."""
        connection = _Connection(
            self,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=self.limits.idle_seconds,
            lingering_time=_LINGERING_SECONDS,
            auto_decompress=False,
            access_log=None,
            logger=_SILENT,
        )
        self._accepted.add(connection)
        return connection

    def __len__(self) -> int:
        return len(self._connections)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Take a connection in, or hang up on it if there are too many."""
        super().connection_made(handler, transport)
        if isinstance(handler, _Connection):
            self._accepted.discard(handler)
            handler.begin(_Doing.NOTHING)
        if len(self) > self.limits.connections:
            self._counts.add("restow_webhook_refused_total", "too-many-connections")
            transport.abort()

    def watch(self) -> None:
        """End connections that are too slow, from now on until `close`."""
        self._timer = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look_again)

    def _look_again(self) -> None:
        self.look()
        self.watch()

    def close(self) -> None:
        """End all connections at once, and stop watching."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._all():
            connection.abort()

    def look(self) -> None:
        """End the connections that are too slow now."""
        now = self.clock.monotonic()
        self._accepted = {each for each in self._accepted if now - each.since < _PATIENCE}
        for connection in self._all():
            allowed = self._allowed.get(connection.doing)
            if allowed is not None and now - connection.since > allowed:
                self._counts.add("restow_webhook_aborted_total", connection.doing.value)
                connection.abort()

    async def finish(self, seconds: float) -> None:
        """Close idle connections, and wait for the others to finish their request, for no more than some seconds.

        One that was accepted just before the end, and is still shaking hands, has its chance too.
        """
        until = self.clock.monotonic() + seconds
        while (len(self) or self._accepted) and self.clock.monotonic() < until:
            self.look()
            for connection in self._all():
                if connection.doing is _Doing.NOTHING and self.clock.monotonic() - connection.since > _PATIENCE:
                    connection.force_close()
            await self.clock.sleep(_MOMENT)

    def _all(self) -> list[_Connection]:
        return [each for each in self.connections if isinstance(each, _Connection)]

    async def _watched(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, _Connection)
        connection.begin(_Doing.REQUEST)
        return await self._handler(request)

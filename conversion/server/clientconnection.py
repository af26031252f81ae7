"""One HTTP connection of the webhook: its current state, and since when.

API servers send one small request per object. `_answers_at_once` answers such a request as soon as its last byte
arrives, without the task and the rounds of the event loop that aiohttp needs. This saves a quarter of the request's CPU
time. aiohttp handles all other requests, and every request that is refused.

TLS is asyncio's own, with less memory: all connections of a server share one receive buffer, which is empty between two
events of the loop, and asyncio's buffers have lower limits.

This module subclasses ``aiohttp.web.RequestHandler`` and ``web.Server``, and so depends on methods that aiohttp does
not document (``connection_made``, ``data_received``, ``finish_response``, ``handle_error``, and the queue of parsed
requests with its ``_messages``, ``_waiter`` and ``_parser``). aiohttp's public interface offers no alternative: an
application, its middlewares and its signals see a request only after its headers are complete, so they cannot end a
silent connection or a slow header, bound the number of connections, or see when a client has read its answer. A proxy
protocol in front of aiohttp would see the bytes, and would have to parse HTTP a second time to know where a request
ends. pyproject.toml therefore admits one minor release of aiohttp only, and the tests in tests/conversion/server (slow
and silent clients on real sockets) show whether the next one still fits.
"""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from aiohttp import StreamReader, web
from aiohttp.hdrs import CONTENT_ENCODING, CONTENT_LENGTH, EXPECT
from aiohttp.http import HttpVersion11, RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError

from restow.conversion.server.limits import Limits
from restow.kube.clock import Clock

#: Answers a small POST at once: takes its path and its whole body, returns the answer's body. None: use the handler.
AtOnce = Callable[[str, bytes], bytes | None]

#: How many bytes a connection buffers before its client has to wait. OpenSSL's memory buffers grow to the most bytes
#: that they ever held at once, and keep that size until the connection ends.
BUFFER: Final = 32 * 1024

_DIGITS: Final = len(str(BUFFER))
_SHUTDOWN_SECONDS: Final = 2.0

#: How long, in seconds, to wait for the rest of a small body before aiohttp takes the request: Go sends headers and
#: body in two or more writes.
_SOON: Final = 0.005


class ConnectionState(Enum):
    """The state of a connection. In REQUEST the server works; in the other states it waits for the client."""

    HANDSHAKE = "handshake"
    NEW = "new"
    IDLE = "idle"
    HEADERS = "headers"
    BODY = "body"
    REQUEST = "request"
    ANSWER = "answer"
    GONE = "gone"

    __hash__ = object.__hash__  # Enum's own is a Python function, and queues use states as keys


_RESTING: Final = (ConnectionState.NEW, ConnectionState.IDLE)
_REQUESTED: Final = (ConnectionState.BODY, ConnectionState.REQUEST, ConnectionState.ANSWER)


class ConnectionServer(web.Server, ABC):
    """What a connection needs from the server that made it.

    Attributes:
        clock: the clock for all timeouts.
        at_once: answers small requests.
    """

    clock: Clock
    at_once: AtOnce

    @abstractmethod
    def move(self, connection: ClientConnection, state: ConnectionState) -> None:
        """Record the new state of a connection."""

    @abstractmethod
    def head(self, size: int) -> bytes:
        """Return the status line and the headers of a successful answer with a body of ``size`` bytes."""

    @abstractmethod
    def refused(self, why: str, peer: str = "", message: str = "") -> None:
        """Count and log a client that is refused."""


class ClientConnection(web.RequestHandler):
    """One connection: its current state, and since when."""

    __slots__ = (
        *("_home", "_judged", "_judged_at", "_late", "_received", "_requested", "_size", "_socket"),
        *("doing", "since"),
    )

    def __init__(self, connections: ConnectionServer, **settings: Any) -> None:
        super().__init__(connections, **settings)
        self._home = connections
        self._socket: asyncio.Transport | None = None
        self._received = self._judged_at = self._size = 0
        self._late: asyncio.TimerHandle | None = None
        self.doing = ConnectionState.HANDSHAKE
        self.since = self._judged = self._requested = connections.clock.monotonic()

    @property
    def peer(self) -> str:
        """The client's address."""
        name = self._socket.get_extra_info("peername") if self._socket is not None else None
        return str(name[0]) if name else "unknown"

    def accepted(self, transport: asyncio.Transport) -> None:
        """Start on the socket's transport; a TLS handshake comes first if TLS is used."""
        self._socket = transport
        transport.set_write_buffer_limits(BUFFER)
        self.begin(ConnectionState.HANDSHAKE)

    def begin(self, state: ConnectionState) -> None:
        """Enter a new state, unless the connection has ended."""
        if self.doing is not ConnectionState.GONE:
            self._home.move(self, state)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Prepare to read requests."""
        assert isinstance(transport, asyncio.Transport)
        if self._socket is None:
            self._socket = transport
        transport.set_write_buffer_limits(BUFFER)
        if hasattr(transport, "set_read_buffer_limits"):  # only TLS transports have it
            transport.set_read_buffer_limits(BUFFER)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Record that the connection is gone."""
        self.begin(ConnectionState.GONE)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process received bytes; answer a small request at once."""
        self._received += len(data)
        waiter = self._waiter
        if waiter is None or waiter.done():
            self._has_begun(data)
            super().data_received(data)
            return
        self._waiter = None  # otherwise aiohttp would wake the task that handles requests
        try:
            super().data_received(data)
            if self._messages and self._answers_at_once():
                return
        finally:
            self._waiter = waiter
        self._has_begun(data)
        if self._messages and self._late is None and not waiter.done():
            waiter.set_result(None)

    def _has_begun(self, data: bytes) -> None:
        if data and self.doing in _RESTING:
            self.begin(ConnectionState.HEADERS)

    def _answers_at_once(self) -> bool:
        """Answer the only queued request. False: a request is left for aiohttp, or waits a moment if ``_late`` is set.

        Reading the body may make the parser continue with the client's next request, which is then left for aiohttp.
        """
        message, payload = self._messages[0]
        is_small = len(self._messages) == 1 and not self._paused and _is_small_post(message)
        if self._late is not None and (payload.is_eof() or not is_small):
            self._late.cancel()
            self._late = None
        if not is_small or not isinstance(message, RawRequestMessage):
            return False
        if not payload.is_eof():
            if self._late is None:
                self._late = self._loop.call_later(_SOON, self._is_late)
            return False
        self._messages.popleft()
        body = payload.read_nowait()
        answer = self._home.at_once(message.path, body)
        if answer is None or self.transport is None:
            self._messages.appendleft((message, self._read_again(body)))
            return False
        assert self._parser is not None
        self._parser.message_consumed()
        self._stay_open()
        self.transport.write(self._home.head(len(answer)) + answer)
        if self._paused:
            self.answering(len(answer))
        else:
            self.begin(ConnectionState.IDLE)
        return not self._messages

    def _is_late(self) -> None:
        """Leave a request to aiohttp if its body did not arrive soon after its headers."""
        self._late = None
        if self._messages and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _stay_open(self) -> None:
        """Restart aiohttp's idle timeout, as aiohttp does after each answer."""
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(self._next_keepalive_close_time, self._process_keepalive)

    def _read_again(self, body: bytes) -> StreamReader:
        """Return a body that was already read as an unread stream."""
        payload = StreamReader(self, limit=len(body) + 1, loop=self._loop)
        payload.feed_data(body)
        payload.feed_eof()
        return payload

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Resume reading if it is paused; aiohttp calls this for each body, whether reading is paused or not."""
        if self._reading_paused or self._buffer_paused:
            super().resume_reading(resume_parser)

    def resume_writing(self) -> None:
        """Continue after the client has read its answer."""
        super().resume_writing()
        if self.doing is ConnectionState.ANSWER and not self._request_in_progress:
            self.begin(ConnectionState.IDLE)

    def requested(self, request: web.BaseRequest) -> None:
        """Record that the headers of a request are complete."""
        if request.content.is_eof():
            self.begin(ConnectionState.REQUEST)
        else:
            self._received = self._judged_at = 0
            self.begin(ConnectionState.BODY)
            request.content.on_eof(self._has_body)
        self._requested = self._judged = self.since

    def answering(self, size: int) -> None:
        """Record that an answer of ``size`` bytes is about to be sent."""
        self._size = size
        self.begin(ConnectionState.ANSWER)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the rest of an answer."""
        if self.doing is not ConnectionState.ANSWER:
            self.answering(resp.content_length or 0)
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self.begin(ConnectionState.IDLE)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer bytes that are not valid HTTP."""
        if isinstance(exc, HttpProcessingError):
            self._home.refused("no-http", self.peer)
        return super().handle_error(request, status, exc, message)

    def is_too_slow(self, limits: Limits, now: float, *, judged: bool) -> bool:
        """Whether the client has used up its time. ``judged``: also check the rate of a body."""
        if self.doing in _REQUESTED and now - self._requested > limits.request_seconds:
            return True
        waited = now - self.since
        match self.doing:
            case ConnectionState.HANDSHAKE:
                return waited > limits.handshake_seconds
            case ConnectionState.HEADERS:
                return waited > limits.header_seconds
            case ConnectionState.ANSWER:
                return waited > limits.seconds_to_send(self._size)
            case ConnectionState.BODY:
                return self._crawls(limits, now, judged=judged)
        return False

    def abort(self) -> None:
        """End the connection and its handler at once."""
        if self._socket is not None:
            self._socket.abort()

    def leave(self) -> None:
        """End the connection; an idle one is closed as HTTP defines, so that the client knows that it may reconnect."""
        graceful = self.doing is ConnectionState.IDLE
        self.begin(ConnectionState.GONE)
        if graceful:
            self.force_close()
        else:
            self.abort()

    def _has_body(self) -> None:
        if self.doing is ConnectionState.BODY:
            self.begin(ConnectionState.REQUEST)

    def _crawls(self, limits: Limits, now: float, *, judged: bool) -> bool:
        if judged and now - self._judged < limits.stall_seconds:
            return False
        enough = self._received - self._judged_at >= limits.bytes_a_second * limits.stall_seconds
        self._judged, self._judged_at = now, self._received
        return judged and not enough


def _is_small_post(message: Any) -> bool:
    """Return whether this is the request that API servers send per object: HTTP/1.1 POST, small body of known size."""
    if not isinstance(message, RawRequestMessage) or message.method != "POST" or message.version != HttpVersion11:
        return False  # not HTTP, or another kind of request
    headers = message.headers
    if message.should_close or message.upgrade or message.chunked or CONTENT_ENCODING in headers or EXPECT in headers:
        return False
    size = headers.get(CONTENT_LENGTH, "")
    return len(size) <= _DIGITS and size.isdecimal() and 0 < int(size) <= BUFFER


class ConnectionTls(SSLProtocol):
    """The TLS of one connection."""

    max_size = 16 * 1024  # bytes per read from OpenSSL, which returns at most one record

    def __init__(self, connection: ClientConnection, context: ssl.SSLContext, buffer: bytearray) -> None:
        super().__init__(
            asyncio.get_running_loop(),
            connection,
            context,
            None,  # type: ignore[arg-type]  # no task waits for the handshake
            server_side=True,
            ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
        )
        self._connection = connection
        # asyncio's own buffer would take 256 KiB per connection; received bytes never stay in it.
        self._ssl_buffer, self._ssl_buffer_view = buffer, memoryview(buffer)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._connection.accepted(transport)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connection.begin(ConnectionState.GONE)
        super().connection_lost(exc)

"""Reads request bodies: each within its own limit, and all together within the memory of the process.

A Content-Length above the limit is refused at once. Otherwise only received bytes count, so a client that announces
much and sends nothing takes no room from others. Large bodies share a part of the memory. API servers send one object
per review, and such small bodies always find room. When the memory is used up, the server ends the request that has
waited longest for its client: a client that withholds the last byte of a body, or does not read its answer, loses its
room to the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.hdrs import CONTENT_ENCODING, EXPECT
from aiohttp.web_protocol import RequestPayloadError

from restow.conversion.server.limits import Limits, Refusal
from restow.kube.clock import Clock

#: How long a client may take, in seconds, before its request may be ended to make room for others.
_PATIENCE: Final = 1.0


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request that waits for its client: to send the rest of its body, or to read its answer."""

    request: web.BaseRequest
    since: float
    size: int = 0


class BodyReader:
    """The request bodies and large answers that this process holds. ``in_flight`` is their total size in bytes.

    ``end`` ends a request to make room for others.
    """

    def __init__(self, limits: Limits, clock: Clock, end: Callable[[web.BaseRequest], None]) -> None:
        self._limits = limits
        self._clock = clock
        self._end = end
        self._waiting: dict[_Waiting, None] = {}
        self._complete = 0
        self._large = 0
        self.in_flight = 0

    def has_room(self, size: int) -> bool:
        """Return whether a body of this many bytes fits now, without ending another request."""
        return self._complete < self._limits.requests and self._excess(0, size) <= 0

    async def read(self, request: web.BaseRequest, most: int) -> bytes | bytearray:
        """Return the whole body, of at most ``most`` bytes. The caller must ``release`` it.

        Raises:
            Refusal: the body is compressed, too large or broken, or the webhook is overloaded.
        """
        if request.headers.get(CONTENT_ENCODING, "identity").lower() != "identity":
            message = "the request's body is compressed; only Content-Encoding: identity is accepted"
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "encoding", message, hangs_up=True)
        if self._complete >= self._limits.requests:
            raise _overload("requests")
        content = request.content
        if not content.is_eof():
            return await self._read_on(request, most)
        body = content.read_nowait()
        self._grow(None, 0, len(body), most)
        self._complete += 1
        return body

    def release(self, body: bytes | bytearray) -> None:
        """Give back the room of a body."""
        self._complete -= 1
        self._count(len(body), 0)

    @contextmanager
    def sending(self, request: web.BaseRequest, size: int) -> Iterator[None]:
        """Count the bytes of an answer while it is sent. A client that does not read its answer loses this room."""
        with self._held(request) as waiting:
            self._count(0, size)
            waiting.size = size
            yield

    async def _read_on(self, request: web.BaseRequest, most: int) -> bytearray:
        announced = request.content_length or 0
        _check(announced, most)
        if self._excess(0, announced) > sum(each.size for each in self._slow(announced)):
            raise _overload("bytes")
        if request.headers.get(EXPECT, "").lower() == "100-continue":
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # type: ignore[union-attr]  # there is one
        text = bytearray()
        with self._held(request) as waiting:
            try:
                while chunk := await request.content.readany():
                    if waiting not in self._waiting:
                        raise ConnectionResetError
                    self._grow(waiting, len(text), len(text) + len(chunk), most)
                    text += chunk
                    waiting.size = len(text)
            except RequestPayloadError as error:
                message = "the request's body ended early, or is not encoded as its headers say"
                raise Refusal(HTTPStatus.BAD_REQUEST, "broken", message, hangs_up=True) from error
        self._count(0, len(text))
        self._complete += 1
        return text

    @contextmanager
    def _held(self, request: web.BaseRequest) -> Iterator[_Waiting]:
        """Register a request that waits for its client; at the end of the block its bytes no longer count."""
        waiting = _Waiting(request, self._clock.monotonic())
        self._waiting[waiting] = None
        try:
            yield waiting
        finally:
            self._give_up(waiting)

    def _grow(self, waiting: _Waiting | None, before: int, after: int, most: int) -> None:
        """Count the received bytes of a body, and end slower requests if it needs their room.

        Raises:
            Refusal: the body is too large, or no slower request can make room for it.
        """
        _check(after, most)
        while self._excess(before, after) > 0:
            slowest = next(self._slow(after), None)
            if slowest is None or slowest is waiting:
                raise _overload("bytes")
            self._give_up(slowest)
            self._end(slowest.request)
        self._count(before, after)

    def _give_up(self, waiting: _Waiting) -> None:
        if waiting in self._waiting:
            del self._waiting[waiting]
            self._count(waiting.size, 0)

    def _count(self, before: int, after: int) -> None:
        self.in_flight += after - before
        self._large += self._in_share(after) - self._in_share(before)

    def _excess(self, before: int, after: int) -> int:
        """Return by how many bytes the limits would be exceeded if a body grew from ``before`` to ``after``."""
        more = self.in_flight + after - before - self._limits.in_flight
        if after <= self._limits.object:
            return more
        large = self._large + after - self._in_share(before)
        return max(more, large - self._limits.in_flight_of_large)

    def _in_share(self, size: int) -> int:
        return size if size > self._limits.object else 0

    def _slow(self, size: int) -> Iterator[_Waiting]:
        """Yield the requests that may be ended for a body of this size, the one that has waited longest first."""
        before = self._clock.monotonic() - _PATIENCE
        for each in self._waiting:
            if each.since > before:
                return
            if each.size and (size <= self._limits.object or each.size > self._limits.object):
                yield each


def _check(size: int, most: int) -> None:
    if size > most:
        message = f"the request's body is larger than {most} bytes, the most that is accepted"
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", message, hangs_up=True)


def _overload(what: str) -> Refusal:
    message = f"the webhook is busy with as many {what} as it may hold; try again in a second"
    return Refusal(HTTPStatus.TOO_MANY_REQUESTS, "overload", message, hangs_up=True)

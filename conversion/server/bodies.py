"""Reading request bodies: nothing larger than allowed, and all together no more than the process can hold.

What a client announces is believed only where it is too much; what it sends is counted while it comes, so that a
client that announces much and sends nothing takes nothing from the others. Large bodies share a part of what there is:
API servers send one object at a time, and these always find room. Where there is none, the body that has been coming
for the longest time makes it: a client that sends all but the last byte, and waits, loses it to the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.hdrs import CONTENT_ENCODING, EXPECT
from aiohttp.web_protocol import RequestPayloadError

from restow.conversion.server.limits import Limits
from restow.conversion.server.refusals import Refusal
from restow.kube.clock import Clock

__all__ = ["Bodies"]

#: How long a body may take to come before it makes room for others.
_PATIENCE: Final = 1.0


@dataclass(slots=True, eq=False)
class _Coming:
    """A body that is not complete yet."""

    request: web.BaseRequest
    since: float
    text: bytearray = field(default_factory=bytearray)


class Bodies:
    """The bodies that are at work in this process. `in_flight` is their size in bytes.

    `end` ends a request whose body makes room for others.
    """

    def __init__(self, limits: Limits, clock: Clock, end: Callable[[web.BaseRequest], None]) -> None:
        self._limits = limits
        self._clock = clock
        self._end = end
        self._coming: dict[_Coming, None] = {}
        self._complete = 0
        self._large = 0
        self.in_flight = 0

    async def read(self, request: web.BaseRequest, most: int) -> bytes | bytearray:
        """Return the whole body, of no more than `most` bytes; `release` it when it is done with. Raises Refusal."""
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
        """Say that a body is no longer needed."""
        self._complete -= 1
        self._count(len(body), 0)

    async def _read_on(self, request: web.BaseRequest, most: int) -> bytearray:
        coming = _Coming(request, self._clock.monotonic())
        announced = request.content_length or 0
        _check(announced, most)
        if self._excess(0, announced) > sum(len(each.text) for each in self._slow(announced)):
            raise _overload("bytes")
        if request.headers.get(EXPECT, "").lower() == "100-continue":
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # type: ignore[union-attr]  # there is one
        self._coming[coming] = None
        try:
            while chunk := await request.content.readany():
                if coming not in self._coming:
                    raise ConnectionResetError
                self._grow(coming, len(coming.text), len(coming.text) + len(chunk), most)
                coming.text += chunk
        except BaseException as error:
            self._give_up(coming)
            if isinstance(error, RequestPayloadError):
                message = "the request's body ended early, or is not encoded as its headers say"
                raise Refusal(HTTPStatus.BAD_REQUEST, "broken", message, hangs_up=True) from error
            raise
        del self._coming[coming]
        self._complete += 1
        return coming.text

    def _grow(self, coming: _Coming | None, before: int, after: int, most: int) -> None:
        """Count what was received of a body, after slower ones have made room for it if need be. Raises Refusal."""
        _check(after, most)
        while self._excess(before, after) > 0:
            slowest = next(self._slow(after), None)
            if slowest is None or slowest is coming:
                raise _overload("bytes")
            self._give_up(slowest)
            self._end(slowest.request)
        self._count(before, after)

    def _give_up(self, coming: _Coming) -> None:
        if coming in self._coming:
            del self._coming[coming]
            self._count(len(coming.text), 0)

    def _count(self, before: int, after: int) -> None:
        self.in_flight += after - before
        self._large += self._in_share(after) - self._in_share(before)

    def _excess(self, before: int, after: int) -> int:
        """Return how many bytes there would be too many if a body grew."""
        more = self.in_flight + after - before - self._limits.in_flight
        if after <= self._limits.object:
            return more
        large = self._large + after - self._in_share(before)
        return max(more, large - self._limits.in_flight_of_large)

    def _in_share(self, size: int) -> int:
        return size if size > self._limits.object else 0

    def _slow(self, size: int) -> Iterator[_Coming]:
        """Yield the bodies that make room for one of some size, the one first that has been coming longest."""
        before = self._clock.monotonic() - _PATIENCE
        for each in self._coming:
            if each.since > before:
                return
            if each.text and (size <= self._limits.object or len(each.text) > self._limits.object):
                yield each


def _check(size: int, most: int) -> None:
    if size > most:
        message = f"the request's body is larger than {most} bytes, the most that is accepted"
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", message, hangs_up=True)


def _overload(what: str) -> Refusal:
    message = f"the webhook is busy with as many {what} as it may hold; try again in a second"
    return Refusal(HTTPStatus.TOO_MANY_REQUESTS, "overload", message, hangs_up=True)

"""Reading request bodies: nothing larger than allowed, and all together no more than the process can hold.

What a client announces is believed only where it is too much; what it sends is counted while it comes, so that a
client that announces much and sends nothing takes nothing from the others.
"""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web
from aiohttp.hdrs import CONTENT_ENCODING, EXPECT
from aiohttp.web_protocol import RequestPayloadError

from restow.conversion.server.limits import Limits
from restow.conversion.server.refusals import Refusal

__all__ = ["Bodies"]


class Bodies:
    """The bodies that are at work in this process. `in_flight` is their size in bytes."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.in_flight = 0

    async def read(self, request: web.BaseRequest, most: int) -> bytes | bytearray:
        """Return the whole body, of no more than `most` bytes; `release` it when it is done with. Raises Refusal."""
        if request.headers.get(CONTENT_ENCODING, "identity").lower() != "identity":
            message = "the request's body is compressed; only Content-Encoding: identity is accepted"
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "encoding", message, hangs_up=True)
        content = request.content
        if not content.is_eof():
            return await self._read_on(request, most)
        body = content.read_nowait()
        self._check(len(body), len(body), most)
        self.in_flight += len(body)
        return body

    def release(self, body: bytes | bytearray) -> None:
        """Say that a body is no longer needed."""
        self.in_flight -= len(body)

    async def _read_on(self, request: web.BaseRequest, most: int) -> bytearray:
        announced = request.content_length or 0
        self._check(announced, announced, most)
        if request.headers.get(EXPECT, "").lower() == "100-continue":
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # type: ignore[union-attr]  # there is one
        body = bytearray()
        try:
            while chunk := await request.content.readany():
                self._check(len(chunk), len(body) + len(chunk), most)
                self.in_flight += len(chunk)
                body += chunk
        except BaseException as error:
            self.release(body)
            if isinstance(error, RequestPayloadError):
                message = "the request's body ended early, or is not encoded as its headers say"
                raise Refusal(HTTPStatus.BAD_REQUEST, "broken", message, hangs_up=True) from error
            raise
        return body

    def _check(self, more: int, size: int, most: int) -> None:
        if size > most:
            message = f"the request's body is larger than {most} bytes, the most that is accepted"
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", message, hangs_up=True)
        if self.in_flight + more > self._limits.in_flight:
            message = "the webhook is busy with as many bytes as it may hold; try again in a second"
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, "overload", message, hangs_up=True)

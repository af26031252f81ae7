"""The limits of a webhook server (bytes, seconds), and its answer to a request that exceeds them.

An API server shows its user the message of an error whose body is a ``Status`` (client-go ``rest/request.go``
``transformResponse``). It retries 429 and 5xx with an integer ``Retry-After`` (``rest/with_retry.go``), up to ten times
within its 30 seconds.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, Self

import msgspec

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one process.

    Attributes:
        body: bytes of one ConversionReview.
        object: bytes of one object: two bytes on the wire may take a hundred in memory. By default etcd holds 1.5 MiB,
            and an API server accepts 3. A body up to this size is a small one.
        admission: bytes of one AdmissionReview: two objects of the size that an API server accepts, and the user.
        in_flight: bytes received of all request bodies at work together; further requests get 429. Answers and objects
            in conversion come on top: the process needs about four times as much. A quarter of it is reserved for small
            bodies, unless ``body`` needs it.
        handshakes: connections that have not finished their TLS handshake.
        connections: connections that wait for their client to send a request or the rest of one, or to read an answer.
            Each connection beyond this limit or ``handshakes`` ends the one that has waited longest.
        probe_connections: the same for the plain port.
        requests: complete requests at work; further ones get 429.
        header_seconds: from a request's first byte to the end of its headers; also for a client to read a small answer.
        request_seconds: from there to the end of the answer. An API server gives up after 30.
        stall_seconds: in each such period a body must progress by ``bytes_a_second``.
        bytes_a_second: the lowest accepted rate of a body.
        idle_seconds: between two requests. An API server keeps a connection open for 90, and handles it badly if the
            other side closes the connection just as it is used again.
        handshake_seconds: for TLS; an API server's own limit is 10.
        admission_seconds: for one admission step; a request that takes longer is refused. An API server's default is
            10.
        slice_seconds: how long a large review keeps the event loop before other tasks run.
        drain_seconds: after the request to stop: the server still serves while endpoints and load balancers learn of
            the stop.
        finish_seconds: after that: for requests in flight.
    """

    body: int = 32 * _MIB
    object: int = 8 * _MIB
    admission: int = 6 * _MIB + _MIB // 2
    in_flight: int = 256 * _MIB
    handshakes: int = 1000
    connections: int = 1000
    probe_connections: int = 100
    requests: int = 1000
    header_seconds: float = 10.0
    request_seconds: float = 35.0
    stall_seconds: float = 5.0
    bytes_a_second: int = 64 * 1024
    idle_seconds: float = 120.0
    handshake_seconds: float = 10.0
    admission_seconds: float = 9.0
    slice_seconds: float = 0.01
    drain_seconds: float = 10.0
    finish_seconds: float = 15.0

    @property
    def in_flight_of_large(self) -> int:
        """The part of ``in_flight`` that bodies above ``object`` may take."""
        return max(self.body, self.in_flight - self.in_flight // 4)

    @property
    def of_probes(self) -> Self:
        """The limits of the plain port."""
        return replace(self, connections=self.probe_connections, handshakes=self.probe_connections)

    def seconds_to_send(self, size: int) -> float:
        """Return how many seconds a client may take to read an answer of ``size`` bytes."""
        return self.header_seconds if size <= self.object else self.request_seconds


_COME_AGAIN: Final = {"Retry-After": "1"}
_HEADERS: Final[Mapping[HTTPStatus, Mapping[str, str]]] = MappingProxyType(
    {
        HTTPStatus.METHOD_NOT_ALLOWED: {"Allow": "POST"},
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE: {"Accept-Encoding": "identity"},
        HTTPStatus.TOO_MANY_REQUESTS: _COME_AGAIN,
        HTTPStatus.SERVICE_UNAVAILABLE: _COME_AGAIN,
    }
)


class Refusal(Exception):
    """A request is refused. ``why`` is one word for metrics. ``hangs_up``: the rest of the body is not read."""

    def __init__(self, status: HTTPStatus, why: str, message: str, *, hangs_up: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.why = why
        self.hangs_up = hangs_up

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the answer, except its content type and length."""
        return _HEADERS.get(self.status, {})

    @property
    def body(self) -> bytes:
        """A ``Status``, as JSON."""
        return msgspec.json.encode(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": str(self),
                "reason": self.status.phrase.replace(" ", ""),
                "code": int(self.status),
            }
        )

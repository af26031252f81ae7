"""What a server of webhooks allows and how long it waits, in bytes and seconds. Pure."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one process.

    Attributes:
        body: bytes of one ConversionReview.
        object: bytes of one object, and half of those of an AdmissionReview: two bytes on the wire may take a hundred
            in memory. etcd holds 1.5 MiB, and an API server accepts 3, unless told otherwise.
        in_flight: bytes of all request bodies at work together; beyond, clients are told to come again. Answers and
            what is being converted come on top: the process needs about four times as much.
        connections: open ones; more are closed at once.
        header_seconds: from a request's first byte to the end of its headers.
        request_seconds: from there to the end of the answer. An API server gives up after 30.
        idle_seconds: between two requests. An API server keeps a connection for 90, and takes it badly if the other
            side hangs up just when it is used again.
        handshake_seconds: for TLS; an API server's own limit is 10.
        admission_seconds: for one admission step; beyond, the request is refused. An API server's default is 10.
        slice_seconds: how long a large review keeps the event loop before others have their turn.
        drain_seconds: after the request to stop: still serving, while endpoints and load balancers learn of it.
        finish_seconds: after that: for what is in flight.
        silence_seconds: a worker process that has not answered its parent for so long hangs, and is killed; five times
            as long while it starts.
    """

    body: int = 128 * _MIB
    object: int = 8 * _MIB
    in_flight: int = 256 * _MIB
    connections: int = 1000
    header_seconds: float = 10.0
    request_seconds: float = 35.0
    idle_seconds: float = 120.0
    handshake_seconds: float = 10.0
    admission_seconds: float = 9.0
    slice_seconds: float = 0.01
    drain_seconds: float = 10.0
    finish_seconds: float = 15.0
    silence_seconds: float = 60.0

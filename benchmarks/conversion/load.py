"""A closed loop of clients over TLS keep-alive, as lean as possible, because its own cost is not the subject.

Each connection has a thread that blocks on its socket. This takes about a third of the CPU of an event loop, which
matters because clients and webhooks share the cores.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

__all__ = ["Load", "Volley", "fire"]

_PATIENCE: Final = 60.0  # seconds
_RECEIVE: Final = 256 * 1024
_END_OF_HEAD: Final = b"\r\n\r\n"
_LAST_CHUNK: Final = b"\r\n0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Load:
    """The load: one body, its target, and ``requests`` in total over a number of concurrent connections."""

    port: int
    path: str
    body: bytes
    requests: int
    connections: int


@dataclass(frozen=True, slots=True)
class Volley:
    """The result: the seconds of each request, the total seconds, and one of the answers."""

    latencies: tuple[float, ...]
    seconds: float
    answer: bytes


async def fire(load: Load, trust: ssl.SSLContext) -> Volley:
    """Send the load, after one uncounted request on each connection.

    Raises:
        RuntimeError: an answer is not 200, or the webhook closed a connection.
    """
    return await asyncio.to_thread(_fire, load, trust)


def _fire(load: Load, trust: ssl.SSLContext) -> Volley:
    request = (
        f"POST {load.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(load.body)}\r\n\r\n"
    ).encode() + load.body
    connections = [_connect(load.port, trust) for _ in range(load.connections)]
    numbers = itertools.count()  # its next() is atomic
    ready = threading.Barrier(load.connections + 1)

    def client(connection: ssl.SSLSocket) -> list[float]:
        latencies = []
        ready.wait(_PATIENCE)
        while next(numbers) < load.requests:
            begun = time.perf_counter()
            _exchange(connection, request)
            latencies.append(time.perf_counter() - begun)
        return latencies

    try:
        answers = [_exchange(connection, request) for connection in connections]
        with ThreadPoolExecutor(load.connections) as threads:
            clients = [threads.submit(client, connection) for connection in connections]
            ready.wait(_PATIENCE)
            begun = time.perf_counter()
            latencies = [each for done in clients for each in done.result()]
            return Volley(tuple(latencies), time.perf_counter() - begun, _body(answers[0]))
    finally:
        for connection in connections:
            connection.close()


def _connect(port: int, trust: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return trust.wrap_socket(plain, server_hostname="localhost")


def _exchange(connection: ssl.SSLSocket, request: bytes) -> bytes:
    """Send a request and return its whole answer with its head."""
    connection.sendall(request)
    answer = bytearray()
    while _END_OF_HEAD not in answer:
        answer += _received(connection)
    head = bytes(answer[: answer.index(_END_OF_HEAD)]).lower()
    if not head.startswith(b"http/1.1 200 "):
        status = head.split(b"\r\n", 1)[0].decode()
        message = f"the webhook answered {status}"
        raise RuntimeError(message)
    _, is_sized, length = head.partition(b"content-length:")
    if is_sized:
        whole = len(head) + len(_END_OF_HEAD) + int(length.split(b"\r\n", 1)[0])
        while len(answer) < whole:
            answer += _received(connection)
    else:
        while not answer.endswith(_LAST_CHUNK):
            answer += _received(connection)
    return bytes(answer)


def _received(connection: ssl.SSLSocket) -> bytes:
    received = connection.recv(_RECEIVE)
    if not received:
        message = "the webhook closed the connection before its answer was complete"
        raise RuntimeError(message)
    return received


def _body(answer: bytes) -> bytes:
    """Return the body of an answer, with its chunks joined."""
    head, _, body = answer.partition(_END_OF_HEAD)
    if b"transfer-encoding: chunked" not in head.lower():
        return body
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        whole, body = whole + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return whole

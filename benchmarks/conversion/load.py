"""A closed loop of clients over TLS keep-alive, as lean as it can be: what it costs itself is not the subject."""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass

__all__ = ["Load", "Volley", "fire"]


@dataclass(frozen=True, slots=True)
class Load:
    """Where to send what: one body, ``requests`` times in all, over so many connections at once."""

    port: int
    path: str
    body: bytes
    requests: int
    connections: int


@dataclass(frozen=True, slots=True)
class Volley:
    """What came of it: each request's seconds, the seconds of all, and one of the answers."""

    latencies: tuple[float, ...]
    seconds: float
    answer: bytes


async def fire(load: Load, trust: ssl.SSLContext) -> Volley:
    """Send it all, after one request on each connection that does not count.

    Raises:
        RuntimeError: an answer is not 200.
    """
    request = (
        f"POST {load.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(load.body)}\r\n\r\n"
    ).encode() + load.body
    streams = [
        await asyncio.open_connection("127.0.0.1", load.port, ssl=trust, server_hostname="localhost", limit=2**26)
        for _ in range(load.connections)
    ]
    latencies: list[float] = []
    left = load.requests

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            begun = time.perf_counter()
            await _exchange(reader, writer, request)
            latencies.append(time.perf_counter() - begun)

    try:
        answers = [await _exchange(reader, writer, request) for reader, writer in streams]
        begun = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for reader, writer in streams:
                group.create_task(client(reader, writer))
        return Volley(tuple(latencies), time.perf_counter() - begun, answers[0])
    finally:
        for _, writer in streams:
            writer.close()


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 200 "):
        status = head.split(b"\r\n", 1)[0].decode()
        message = f"the webhook answered {status}"
        raise RuntimeError(message)
    length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
    return await reader.readexactly(length)

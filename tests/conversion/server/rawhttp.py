"""HTTP byte by byte, for clients that do not behave."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.conversion.server.webhooks import GATEWAYS, LOOPBACK, Running


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> str:
        """The sentence of a Status."""
        return str(json.loads(self.body)["message"])


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Send something."""
        self.writer.write(data)
        await self.writer.drain()

    async def post(self, body: bytes = b"", *, path: str = GATEWAYS, method: str = "POST", **headers: str) -> Answer:
        """Send a request with a body, and read the answer."""
        await self.send(head(path=path, method=method, content_length=str(len(body)), **headers) + body)
        return await self.answer()

    async def answer(self) -> Answer:
        """Read an answer."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Answer(int(lines[0].split()[1]), headers, body)

    async def closed(self) -> bytes:
        """Wait until the other side has hung up; return what came before."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""


def head(*, path: str = GATEWAYS, method: str = "POST", **headers: str) -> bytes:
    """Make the head of a request."""
    given = {"Host": "webhook", **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join((*lines, "", "")).encode()


@asynccontextmanager
async def connected(webhook: Running, *, probes: bool = False, reads: bool = True) -> AsyncIterator[Client]:
    """Connect to a webhook, or to its probes.

    Without ``reads`` no answer is read, and the kernel keeps little of it: by itself it may take many megabytes.
    """
    more: dict[str, Any] = {} if probes else {"ssl": webhook.authority.client(), "server_hostname": LOOPBACK}
    connection = socket.socket()
    connection.setblocking(False)
    if not reads:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    port = webhook.probes_port if probes else webhook.port
    await asyncio.get_running_loop().sock_connect(connection, (LOOPBACK, port))
    reader, writer = await asyncio.open_connection(sock=connection, **more)
    if not reads:
        writer.transport.pause_reading()
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


async def probe(webhook: Running, path: str) -> Answer:
    """Ask a probe over a connection of its own."""
    async with connected(webhook, probes=True) as client:
        return await client.post(path=path, method="GET", connection="close")

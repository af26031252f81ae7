"""A server that answers as a test says and keeps what it was asked, a proxy that does, and kubeconfigs for them.

Only for answers that no real API server can be brought to give, and for looking at a request's own bytes.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from aiohttp import web

Answer: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Asked:
    """A request as it came over the wire; ``path`` with its query, still percent-encoded."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Recording:
    """The server: where it is, and what it was asked so far."""

    url: str
    requests: list[Asked] = field(default_factory=list)

    @property
    def tokens(self) -> list[str]:
        """The Authorization header of each request."""
        return [each.headers.get("Authorization", "") for each in self.requests]


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[Recording]:
    """Serve plain http on a free port of loopback."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        recording.requests.append(Asked(request.method, request.raw_path, request.headers.copy(), await request.read()))
        return await answer(request)

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    recording = Recording(f"http://{host}:{port}")
    try:
        yield recording
    finally:
        await runner.cleanup()


def always(status: int = 200, body: Any = None, **headers: str) -> Answer:
    """The same answer each time; a ``str`` is sent as plain text, ``bytes`` as they are, anything else as JSON."""
    content = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body or {})).encode()

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(
            status=status, body=content, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )

    return answer


def cut_off(status: int = 200, *, chunked: bool = False) -> Answer:
    """An answer whose connection ends in the middle of its body."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        if not chunked:
            response.content_length = 400
        await response.prepare(request)
        await response.write(b'{"kind":"Status","message":"cut')
        assert request.transport is not None
        request.transport.close()
        return response

    return answer


@contextmanager
def closed_port() -> Iterator[int]:
    """A port of loopback that refuses connections for as long as this is open."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@dataclass
class Tunnels:
    """A CONNECT proxy: where it is, whom it was asked for, and how its clients said who they are."""

    port: int = 0
    asked_for: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)


@asynccontextmanager
async def tunnelling(target: tuple[str, int], *, refusal: bytes = b"") -> AsyncIterator[Tunnels]:
    """Proxy every CONNECT to one target, whatever host it names; or refuse it with this status line."""
    tunnels = Tunnels()

    async def pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        tunnels.asked_for.append(head[0].split()[1])
        fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        tunnels.authorizations.append(fields.get("proxy-authorization", ""))
        if refusal:
            writer.write(b"HTTP/1.1 " + refusal + b"\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        there_reader, there = await asyncio.open_connection(*target)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pipe(reader, there), pipe(there_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    tunnels.port = server.sockets[0].getsockname()[1]
    try:
        yield tunnels
    finally:
        server.close()


def kubeconfig(
    file: Path, server: str, user: Mapping[str, Any] | None = None, *, name: str = "c", **cluster: Any
) -> Path:
    """Write a kubeconfig with one context; its user may be given, and more of its cluster."""
    document = {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"of-{name}"}}],
        "clusters": [{"name": name, "cluster": {"server": server, **cluster}}],
        "users": [{"name": name, "user": dict(user or {})}],
    }
    file.write_text(json.dumps(document))
    return file

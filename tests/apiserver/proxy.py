"""A proxy in front of the real API server that does what a test tells it to: faults, or something at a moment.

Every request is forwarded to the real server unless the test's hook says otherwise; the server behind is never faked.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from restow.controlplane.plane import ControlPlane


@dataclass(frozen=True)
class Seen:
    """A request as it arrived.

    ``number`` counts the requests of its method from 1; ``peer`` tells its connection from others.
    """

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    number: int
    content_type: str
    accept: str = ""
    peer: int = 0

    @property
    def of_crd(self) -> bool:
        """Whether it is about the CRD, not about an object."""
        return "/customresourcedefinitions" in self.path

    @property
    def is_list(self) -> bool:
        """Whether it reads a page of objects."""
        return self.method == "GET" and "limit" in self.query and not self.of_crd

    @property
    def is_write(self) -> bool:
        """Whether it patches an object."""
        return self.method == "PATCH" and not self.of_crd


@dataclass(frozen=True)
class Answer:
    """Answer so, without asking the server."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, status: int, reason: str, message: str, **more: Any) -> Answer:
        """A ``v1.Status``."""
        said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason}
        headers = more.pop("headers", {})
        return cls(status, json.dumps(said | {"message": message} | more).encode(), headers)


@dataclass(frozen=True)
class Reset:
    """Break the connection: before the server hears of the request, or after it answered."""

    after: bool = False


@dataclass(frozen=True)
class Truncate:
    """Send half of the server's answer, then break the connection."""


@dataclass(frozen=True)
class Slow:
    """Send the server's answer in two halves, so many seconds apart."""

    seconds: float


@dataclass(frozen=True)
class Body:
    """Forward with another body; ``lost``: then break the connection instead of passing the answer on."""

    body: bytes
    lost: bool = False


Fault = Answer | Reset | Truncate | Slow | Body
Hook = Callable[[Seen], Awaitable[Fault | None]]
Route = Callable[[Seen], str | None]


class Proxy:
    """The running proxy. ``hook`` may be set at any time; ``seen`` are all requests so far, ``in_flight`` writes.

    ``route`` may name another API server of the plane (its URL) for a request.
    """

    def __init__(self, plane: ControlPlane, kubeconfig: Path) -> None:
        self._plane = plane
        self._session: aiohttp.ClientSession | None = None
        self.kubeconfig = kubeconfig
        self.url = ""
        self.hook: Hook | None = None
        self.route: Route | None = None
        self.seen: list[Seen] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self._numbers: dict[str, int] = {}

    def count(self, method: str) -> int:
        """How many requests of a method were seen."""
        return self._numbers.get(method, 0)

    def about_objects(self, group: str) -> int:
        """How many requests about objects of an API group were seen; its discovery is none."""
        return sum(seen.path.startswith(f"/apis/{group}/") and seen.path.count("/") > 3 for seen in self.seen)

    async def start(self) -> web.AppRunner:
        """Listen, and write the kubeconfig."""
        connector = aiohttp.TCPConnector(ssl=self._plane.admin.ssl_context(), limit=0)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "proxy",
                    "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "nobody"}}],
                    "clusters": [{"name": "proxy", "cluster": {"server": self.url}}],
                    "users": [{"name": "nobody", "user": {}}],
                }
            )
        )
        return runner

    async def stop(self, runner: web.AppRunner) -> None:
        """Close everything."""
        assert self._session is not None
        await self._session.close()
        await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self._numbers[request.method] = number = self.count(request.method) + 1
        accept = request.headers.get("Accept", "")
        peer = request.transport.get_extra_info("peername")[1] if request.transport is not None else 0
        about = (request.method, request.path, dict(request.query), body, number, request.content_type)
        seen = Seen(*about, accept, peer)
        self.seen.append(seen)
        self.in_flight += seen.is_write
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._answer(request, seen)
        finally:
            self.in_flight -= seen.is_write

    async def _answer(self, request: web.Request, seen: Seen) -> web.StreamResponse:
        fault = await self.hook(seen) if self.hook is not None else None
        if isinstance(fault, Answer):
            kind = "application/json" if fault.body.startswith(b"{") else "text/plain"
            return web.Response(status=fault.status, body=fault.body, headers=fault.headers, content_type=kind)
        if isinstance(fault, Reset) and not fault.after:
            return self._break(request)
        assert self._session is not None
        kept = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
        headers = {name: request.headers[name] for name in kept if name in request.headers}
        data = fault.body if isinstance(fault, Body) else seen.body
        server = (self.route(seen) if self.route is not None else None) or self._plane.server
        url = server + request.raw_path
        try:
            answering = await self._session.request(request.method, url, data=data or None, headers=headers)
        except aiohttp.ClientConnectionError:
            return self._break(request)  # as the server's own end of the connection does
        async with answering as answer:
            if isinstance(fault, Reset) or (isinstance(fault, Body) and fault.lost):
                await answer.read()
                return self._break(request)
            kept = ("Content-Encoding", "Content-Type", "Date", "Retry-After", "Warning")
            passed = {name: answer.headers[name] for name in kept if name in answer.headers}
            response = web.StreamResponse(status=answer.status, headers=passed)
            if isinstance(fault, Truncate):
                whole = await answer.read()
                response.content_length = len(whole)
                await response.prepare(request)
                await response.write(whole[: len(whole) // 2])
                return self._break(request)
            await response.prepare(request)
            if isinstance(fault, Slow):
                whole = await answer.read()
                await response.write(whole[: len(whole) // 2])
                await asyncio.sleep(fault.seconds)
                await response.write(whole[len(whole) // 2 :])
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    def _break(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()


@asynccontextmanager
async def proxy_before(plane: ControlPlane, folder: Path) -> AsyncIterator[Proxy]:
    """Run a proxy in front of the plane's first API server."""
    proxy = Proxy(plane, folder / "proxy.kubeconfig")
    runner = await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop(runner)

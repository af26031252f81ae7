"""Serves a converter over HTTPS: bytes in, bytes out, whatever they are."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from restow.conversion.certificates.ca.authority import Authority

Converter = Callable[[bytes], "Reply"]


@dataclass(frozen=True)
class Reply:
    """What a converter answers."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


@dataclass(frozen=True)
class Served:
    """A running webhook: where it is, and by what it verifies."""

    url: str
    ca: bytes


@asynccontextmanager
async def served(
    converter: Converter, folder: Path, *, host: str = "127.0.0.1", methods: str = "POST", **options: Any
) -> AsyncIterator[Served]:
    """Run a converter.

    ``host`` is what its certificate is for; ``options`` are the runner's (``keepalive_timeout``).
    """
    authority = Authority.create("test", now=datetime.now(UTC), valid_for=timedelta(days=1))
    leaf = authority.issue([host], now=datetime.now(UTC), valid_for=timedelta(hours=12))
    pair = folder / "pair.pem"
    pair.write_bytes(leaf.certificate + leaf.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    limit = options.pop("limit", 1 << 27)

    async def handle(request: web.Request) -> web.Response:
        reply = converter(await request.read())
        return web.Response(body=reply.body, status=reply.status, headers=reply.headers)

    application = web.Application(client_max_size=limit)
    application.router.add_route(methods, "/convert", handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, **options)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield Served(f"https://{host}:{runner.addresses[0][1]}/convert", authority.certificate)
    finally:
        await runner.cleanup()

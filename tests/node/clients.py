"""Clients that read and write at every version of a kind for as long as a test wants, and what failed for them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

import aiohttp

from restow.controlplane.plane import ControlPlane

__all__ = ["Clients", "busy", "create_all"]

_PAUSE = 0.05


@dataclass
class Clients:
    """What they asked for, and what failed, each with its moment."""

    requests: int = 0
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def check(self, least: int) -> None:
        """Fail unless they made so many requests, and none of them failed."""
        assert not self.failures, f"{len(self.failures)} of {self.requests} failed:\n" + "\n".join(self.failures[:30])
        assert self.requests >= least, f"only {self.requests} requests were made"


@contextlib.contextmanager
def busy(plane: ControlPlane, path: str, bodies: Mapping[str, Any], count: int) -> Iterator[Clients]:
    """Run so many clients; each has an object of its own, and asks for it at each version.

    ``path`` has the places ``{version}`` and ``{name}``; ``bodies`` has a merge patch for each version, or None for a
    version at which they only read.
    """
    clients, stop = Clients(), Event()
    thread = Thread(target=lambda: asyncio.run(_run(plane, path, bodies, count, clients, stop)))
    thread.start()
    try:
        yield clients
    finally:
        stop.set()
        thread.join()


def create_all(plane: ControlPlane, path: str, documents: Sequence[Any]) -> None:
    """Create many objects, twenty at a time."""
    clients, waiting = Clients(), list(documents)

    async def some(session: aiohttp.ClientSession) -> None:
        while waiting:
            await _ask(session, "POST", path, waiting.pop(), clients)

    async def run() -> None:
        connector = aiohttp.TCPConnector(ssl=plane.admin.ssl_context(), limit=0)
        async with aiohttp.ClientSession(plane.server, connector=connector) as session:
            await asyncio.gather(*(some(session) for _ in range(20)))

    asyncio.run(run())
    clients.check(len(documents))


async def _run(
    plane: ControlPlane, path: str, bodies: Mapping[str, Any], count: int, clients: Clients, stop: Event
) -> None:
    connector = aiohttp.TCPConnector(ssl=plane.admin.ssl_context(), limit=0)
    async with aiohttp.ClientSession(plane.server, connector=connector) as session:
        await asyncio.gather(
            *(_client(session, path, bodies, f"client-{number}", clients, stop) for number in range(count))
        )


async def _client(
    session: aiohttp.ClientSession, path: str, bodies: Mapping[str, Any], name: str, clients: Clients, stop: Event
) -> None:
    for version, body in itertools.cycle(bodies.items()):
        if stop.is_set():
            return
        url = path.format(version=version, name=name)
        await _ask(session, "GET", url, None, clients)
        await _ask(session, "GET", url.rpartition("/")[0] + "?limit=10", None, clients)
        if body is not None:
            await _ask(session, "PATCH", url, body, clients)
        await asyncio.sleep(_PAUSE)


async def _ask(session: aiohttp.ClientSession, method: str, url: str, body: Any, clients: Clients) -> None:
    headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
    clients.requests += 1
    begun = time.monotonic()
    try:
        async with session.request(method, url, json=body, headers=headers) as response:
            text = await response.text()
            failed = f"{response.status} {text[:2000]}" if response.status >= 400 else ""
    except (aiohttp.ClientError, TimeoutError) as error:
        failed = repr(error)
    took = time.monotonic() - begun
    clients.slowest = max(clients.slowest, took)
    if failed:
        clients.failures.append(f"{time.strftime('%H:%M:%S')} {method} {url} after {took:.2f} s: {failed}")

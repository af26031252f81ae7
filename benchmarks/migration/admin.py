"""The administrator's requests that prepare runs: CRDs, a few objects, the native migration, the API server's metrics.

This is not restow's client, so that the preparation does not depend on the state of that client.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import aiohttp
import msgspec

from restow.controlplane import ClusterUser

__all__ = ["APPLY", "JSON", "MERGE", "Admin", "RequestFailedError", "until"]

JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"

_EVERY = 0.05  # seconds
_PATIENCE = 120.0  # seconds
_STARTING = 60.0  # seconds that a resource may take to initialize after its CRD changed
_SAMPLE = re.compile(r"^(?P<name>[a-z_]+)\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class RequestFailedError(Exception):
    """The API server refused a request of the preparation; ``status`` is the HTTP status."""

    def __init__(self, method: str, path: str, status: int, body: bytes) -> None:
        super().__init__(f"{method} {path}: {status} {body[:500].decode(errors='replace')}")
        self.status = status


class Admin:
    """Requests as the control plane's administrator."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @classmethod
    @asynccontextmanager
    async def of(cls, user: ClusterUser) -> AsyncIterator[Self]:
        """Open a session as this user."""
        connector = aiohttp.TCPConnector(ssl=user.ssl_context())
        async with aiohttp.ClientSession(user.server, connector=connector) as session:
            yield cls(session)

    async def call(self, method: str, path: str, body: Any = None, *, content_type: str = JSON) -> Any:
        """Send one request; repeat it while the API server replaces a resource whose CRD changed.

        Raises:
            RequestFailedError: the answer is not 2xx.
        """
        data = None if body is None else msgspec.json.encode(body)
        async with asyncio.timeout(_STARTING):
            while True:
                headers = {"Content-Type": content_type}
                async with self._session.request(method, path, data=data, headers=headers) as response:
                    answer = await response.read()
                if 200 <= response.status < 300:
                    return msgspec.json.decode(answer)
                if response.status not in (429, 503):
                    raise RequestFailedError(method, path, response.status, answer)
                await asyncio.sleep(0.1)

    async def events(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of a watch until the server ends it."""
        async with self._session.get(path) as response:
            if response.status != 200:
                raise RequestFailedError("WATCH", path, response.status, await response.read())
            async for line in response.content:
                yield msgspec.json.decode(line)

    async def metric(self, name: str, labels: dict[str, str]) -> list[tuple[dict[str, str], float]]:
        """Return the samples of an API server metric with these labels."""
        async with self._session.get("/metrics") as response:
            text = await response.text()
        samples = []
        for found in _SAMPLE.finditer(text):
            if found["name"] == name:
                its = dict(_LABEL.findall(found["labels"]))
                if labels.items() <= its.items():
                    samples.append((its, float(found["value"])))
        return samples


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Poll a condition until it holds: most effects of a request are not there with its answer.

    Raises:
        TimeoutError: the condition does not hold in time.
    """
    async with asyncio.timeout(_PATIENCE):
        while True:
            if await condition():
                return
            await asyncio.sleep(_EVERY)

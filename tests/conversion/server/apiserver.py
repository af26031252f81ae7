"""A client that behaves as an API server's does (client-go ``rest/request.go``, ``rest/with_retry.go``).

Connections are kept open and used again. A POST whose connection breaks is not sent again; an answer of 429 or 5xx with
an integer ``Retry-After`` is, up to ten times. What the API server would then make of the answer is ``Failed`` here, or
it is fine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from ssl import SSLContext
from typing import Any

import aiohttp

from tests.conversion.server.gateways import HUB


class Failed(Exception):
    """The API server would have failed its client's request."""


def review(*objects: Any, to: str = HUB, uid: str = "u") -> bytes:
    """Make a ConversionReview with the stub response that API servers send."""
    return json.dumps(
        {
            "kind": "ConversionReview",
            "apiVersion": "apiextensions.k8s.io/v1",
            "request": {"uid": uid, "desiredAPIVersion": to, "objects": list(objects)},
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        },
        separators=(",", ":"),
    ).encode()


def checked(answer: Any, objects: int, uid: str = "u") -> list[dict[str, Any]]:
    """Return the converted objects; raise Failed for an answer that an API server refuses."""
    response = answer["response"]
    if (answer["kind"], response["uid"], response["result"]["status"]) != ("ConversionReview", uid, "Success"):
        raise Failed(response["result"].get("message"))
    if len(response["convertedObjects"]) != objects:
        raise Failed(f"{objects} objects asked for, {len(response['convertedObjects'])} got")
    return list(response["convertedObjects"])


class ApiServer:
    """One client with its kept-alive connections."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.retried = 0

    async def convert(self, url: str, *objects: Any, to: str = HUB) -> list[dict[str, Any]]:
        """Have objects converted.

        Raises:
            Failed: an object cannot be converted.
        """
        body = review(*objects, to=to)
        for attempt in range(11):
            try:
                async with self.session.post(f"{url}?timeout=30s", data=BytesIO(body), headers=_HEADERS) as answer:
                    text = await answer.read()
                    again = answer.headers.get("Retry-After", "")
                    if answer.status == 200:
                        return checked(json.loads(text), len(objects))
                    if not (again.isdigit() and (answer.status == 429 or answer.status >= 500)) or attempt == 10:
                        raise Failed(f"{answer.status} {json.loads(text)['message']}")
            except (aiohttp.ClientError, ConnectionError) as error:
                raise Failed(f"{type(error).__name__}: {error}") from error
            self.retried += 1
            await asyncio.sleep(int(again))
        raise AssertionError


_HEADERS = {"Content-Type": "application/json", "User-Agent": "kube-apiserver-admission"}


@asynccontextmanager
async def api_server(context: SSLContext) -> AsyncIterator[ApiServer]:
    """Run one that trusts what the context trusts."""
    connector = aiohttp.TCPConnector(ssl=context, limit=0, keepalive_timeout=90)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(30)) as session:
        yield ApiServer(session)

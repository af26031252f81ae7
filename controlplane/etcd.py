r"""A client of etcd, for tests that check stored objects, and for objects that are stored past every API server.

Every read through the API server converts, so only etcd shows the version at which an object is stored. etcd's own
JSON gateway (``/v3/...``, bytes in base64) is enough for that; no gRPC client is needed.

A custom resource is stored as JSON at ``/registry/<group>/<plural>/<namespace>/<name>`` (without the namespace if it
is cluster-scoped); built-in kinds are stored as protobuf behind the prefix ``k8s\0``.

Invariant: a reader holds no connection between calls, so it can be used from any event loop.
"""

from __future__ import annotations

import base64
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import aiohttp

from restow.controlplane.errors import ControlPlaneError, NotStoredError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

_PAGE = 500  # keys per request of a prefix read
_TIMEOUT = aiohttp.ClientTimeout(total=60)


class Etcd:
    """A client of one etcd, given the URL of its client port."""

    def __init__(self, url: str) -> None:
        """Keep the URL, for instance ``http://127.0.0.1:2379``."""
        self.url = url

    async def get(self, key: str) -> bytes | None:
        """Return the value at a key, or None if there is none."""
        async with self._session() as session:
            answer = await self._call(session, "kv/range", {"key": _encode(key.encode())})
        pairs = answer.get("kvs", [])
        return _decode(pairs[0].get("value", "")) if pairs else None

    async def prefix(self, prefix: str, *, page: int = _PAGE) -> AsyncIterator[tuple[str, bytes]]:
        """Yield every key with a prefix and its value, sorted by key, all as of one revision."""
        start, end = _range(prefix)
        revision = 0  # "now" for the first page; the other pages are read at the first page's revision
        async with self._session() as session:
            while True:
                query = {
                    "key": _encode(start),
                    "range_end": _encode(end),
                    "limit": page,
                    "revision": revision,
                }
                answer = await self._call(session, "kv/range", query)
                for pair in answer.get("kvs", []):
                    start = _decode(pair["key"])
                    yield start.decode(), _decode(pair.get("value", ""))
                if not answer.get("more"):
                    return
                start += b"\0"
                revision = int(answer["header"]["revision"])

    async def count(self, prefix: str) -> int:
        """Return the number of keys with a prefix."""
        start, end = _range(prefix)
        query = {"key": _encode(start), "range_end": _encode(end), "count_only": True}
        async with self._session() as session:
            answer = await self._call(session, "kv/range", query)
        return int(answer.get("count", 0))

    async def stored_object(self, group: str, plural: str, namespace: str | None, name: str) -> dict[str, Any]:
        """Return the stored form of a custom resource.

        ``namespace`` is None for a cluster-scoped one.

        Raises:
            NotStoredError: there is no such object.
            ControlPlaneError: the stored value is not JSON (a built-in kind).
        """
        key = "/".join(part for part in ("/registry", group, plural, namespace, name) if part)
        value = await self.get(key)
        if value is None:
            message = f"etcd holds nothing at {key}."
            raise NotStoredError(message)
        return _json_object(key, value)

    async def stored_objects(
        self, group: str, plural: str, namespace: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the stored forms of the custom resources of a kind, in one namespace or everywhere."""
        prefix = "/".join(part for part in ("/registry", group, plural, namespace) if part) + "/"
        async for key, value in self.prefix(prefix):
            yield _json_object(key, value)

    async def put(self, pairs: Iterable[tuple[str, bytes]]) -> None:
        """Store values at their keys past every API server, as a restored or edited etcd may hold them."""
        async with self._session() as session:
            for key, value in pairs:
                await self._call(session, "kv/put", {"key": _encode(key.encode()), "value": _encode(value)})

    async def revision(self) -> int:
        """Return the current revision: the one of the newest write."""
        async with self._session() as session:
            return int((await self._call(session, "maintenance/status", {}))["header"]["revision"])

    async def compact(self, revision: int | None = None) -> None:
        """Remove the history before a revision (default: the current one), as the API server does.

        After that, an older continue token gets 410 Gone only if the API server has to ask etcd: kube-apiserver 1.36
        answers from snapshots of its watch cache, unless it runs with the gate ListFromCacheSnapshot off or was
        restarted since. The last write stays readable, so a write is needed after the token was issued.
        """
        async with self._session() as session:
            if revision is None:
                revision = int((await self._call(session, "maintenance/status", {}))["header"]["revision"])
            await self._call(session, "kv/compaction", {"revision": revision, "physical": True})

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(self.url, timeout=_TIMEOUT)

    async def _call(self, session: aiohttp.ClientSession, method: str, query: dict[str, Any]) -> dict[str, Any]:
        try:
            async with session.post(f"/v3/{method}", json=query) as response:
                if response.status != HTTPStatus.OK:
                    message = f"etcd answered {method} with {response.status}: {await response.text()}"
                    raise ControlPlaneError(message)
                answer: dict[str, Any] = await response.json()
                return answer
        except aiohttp.ClientError as error:
            message = f"etcd at {self.url} cannot be read: {error}. Has the control plane been stopped?"
            raise ControlPlaneError(message) from error


def _range(prefix: str) -> tuple[bytes, bytes]:
    r"""Return the first key with a prefix and the first one after the prefix; ``\0`` stands for "no bound" in etcd."""
    start = prefix.encode()  # UTF-8 has no byte 0xff, so the last byte can always be increased
    return (start, start[:-1] + bytes([start[-1] + 1])) if start else (b"\0", b"\0")


def _json_object(key: str, value: bytes) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(value)
    except ValueError as error:
        message = f"What etcd holds at {key} is not JSON; only custom resources are stored so."
        raise ControlPlaneError(message) from error
    return document


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(data: str) -> bytes:
    return base64.b64decode(data)

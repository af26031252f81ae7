"""Put objects into etcd, which takes seconds, while their creation through the API server takes many minutes.

A transaction gives all its objects one resourceVersion, and the API server's cache considers itself up to date once it
has seen the first of them. Therefore readers must first wait until the API server lists all objects.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final

import aiohttp
import msgspec

__all__ = ["put"]

_PUTS: Final = 100  # in one transaction; etcd allows 128
_BYTES: Final = 700_000  # of a transaction; etcd allows 1.5 MiB, and base64 adds a third


async def put(etcd_url: str, objects: Iterable[tuple[str, Mapping[str, Any]]]) -> int:
    """Put objects under their keys; return their number."""
    count, size = 0, 0
    puts: list[dict[str, Any]] = []
    async with aiohttp.ClientSession(etcd_url, raise_for_status=True) as session:
        for key, obj in objects:
            value = msgspec.json.encode(obj)
            if puts and (len(puts) == _PUTS or size + len(value) > _BYTES):
                await _send(session, puts)
                puts, size = [], 0
            puts.append({"requestPut": {"key": _base64(key.encode()), "value": _base64(value)}})
            count, size = count + 1, size + len(value)
        if puts:
            await _send(session, puts)
    return count


async def _send(session: aiohttp.ClientSession, puts: list[dict[str, Any]]) -> None:
    async with session.post("/v3/kv/txn", data=msgspec.json.encode({"success": puts})) as response:
        await response.read()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()

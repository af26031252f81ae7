"""Everything that was ever written of one kind: etcd's own history, revision by revision.

etcd keeps every revision until it is compacted, which a kube-apiserver asks for after some minutes. A watch that begins
in the past hands them out, so nothing has to be observed while a run is under way, and nothing can be missed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import aiohttp

Document = dict[str, Any]

_PUTS = 100  # in one transaction; etcd allows 128
_CRDS = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
_LONGEST_LINE = 1 << 26


@dataclass(frozen=True, slots=True)
class Change:
    """One key at one revision; ``document`` is None where it was deleted then."""

    revision: int
    key: str
    document: Document | None

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def of_crd(self) -> bool:
        """Whether it is the CRD, not an object."""
        return self.key.startswith(_CRDS)


class History:
    """The keys of one kind in etcd.

    Args:
        url: etcd's client URL.
        group, plural: of the kind.
    """

    def __init__(self, url: str, group: str, plural: str) -> None:
        self._url = url
        self._objects = f"/registry/{group}/{plural}/"
        self._end = f"/registry/{group}/{plural}~"  # below no kind: no API server looks at it
        self._crd = f"{_CRDS}{plural}.{group}"

    async def put(self, documents: Iterable[Document]) -> None:
        """Store objects under their names, as they are."""
        puts = []
        for each in documents:
            key = f"{self._objects}{each['metadata']['namespace']}/{each['metadata']['name']}"
            puts.append({"requestPut": {"key": _encode(key), "value": _encode(json.dumps(each))}})
        for start in range(0, len(puts), _PUTS):
            await self._call("kv/txn", {"success": puts[start : start + _PUTS]})

    async def forget(self) -> None:
        """Delete every object at once, finalizers or not."""
        for keys in (_range(self._objects), {"key": _encode(self._end)}):
            await self._call("kv/deleterange", keys)

    async def backup(self) -> dict[str, str]:
        """Return everything as it is stored, the CRD and the objects."""
        pairs = (await self._call("kv/range", _range(self._objects))).get("kvs", [])
        pairs += (await self._call("kv/range", {"key": _encode(self._crd)})).get("kvs", [])
        return {pair["key"]: pair["value"] for pair in pairs}

    async def restore(self, backup: dict[str, str]) -> None:
        """Put back what was stored, at new revisions, in one transaction; what was not there then goes."""
        gone = [{"requestDeleteRange": {"key": key}} for key in await self.backup() if key not in backup]
        puts = [{"requestPut": {"key": key, "value": value}} for key, value in backup.items()]
        await self._call("kv/txn", {"success": [*gone, *puts]})

    async def now(self) -> tuple[int, list[Change]]:
        """Return the revision, and the state of every key then."""
        answer = await self._call("kv/range", _range(self._objects))
        revision = int(answer["header"]["revision"])
        pairs = answer.get("kvs", [])
        pairs += (await self._call("kv/range", {"key": _encode(self._crd), "revision": revision})).get("kvs", [])
        return revision, [_change({"kv": pair}) for pair in pairs]

    async def since(self, revision: int) -> list[Change]:
        """Return every change after a revision, in their order."""
        crd = (await self._call("kv/range", {"key": _encode(self._crd)})).get("kvs", [])
        last = int(crd[0]["mod_revision"]) if crd else revision
        end = int((await self._call("kv/put", {"key": _encode(self._end)}))["header"]["revision"])
        keys = {"key": _encode(self._objects), "range_end": _encode(self._end + "~")}
        changes = await self._watch(keys, revision + 1, end)
        if last > revision:
            changes += await self._watch({"key": _encode(self._crd)}, revision + 1, last)
        return sorted((each for each in changes if each.key != self._end), key=lambda each: each.revision)

    async def _watch(self, keys: Document, start: int, last: int) -> list[Change]:
        found: list[Change] = []
        request = {"create_request": keys | {"start_revision": str(start)}}
        session = aiohttp.ClientSession(self._url, read_bufsize=_LONGEST_LINE)
        async with session, session.post("/v3/watch", json=request) as response:
            async for line in response.content:
                result = json.loads(line)["result"]
                if result.get("canceled"):
                    raise RuntimeError(f"etcd has forgotten revision {start}: {result}")
                found += [_change(event) for event in result.get("events", [])]
                if found and found[-1].revision >= last:
                    break
        return found

    async def _call(self, method: str, query: Document) -> Document:
        async with (
            aiohttp.ClientSession(self._url, raise_for_status=True) as session,
            session.post(f"/v3/{method}", json=query) as response,
        ):
            answer: Document = await response.json()
            return answer


def _change(event: Document) -> Change:
    pair = event["kv"]
    key, gone = base64.b64decode(pair["key"]).decode(), event.get("type") == "DELETE"
    value = pair.get("value")
    document = None if gone or value is None else json.loads(base64.b64decode(value))
    return Change(int(pair["mod_revision"]), key, document)


def _range(prefix: str) -> Document:
    return {"key": _encode(prefix), "range_end": _encode(prefix[:-1] + chr(ord(prefix[-1]) + 1))}


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

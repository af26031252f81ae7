"""The objects to migrate, and their state before and after each run.

The same objects are migrated repeatedly, from v1 to v2 and from v2 to v1: after a run all are stored at one version,
and the next run's storage version is the other. Two server-side appliers create one real object; the others are copies
of its bytes, put into etcd under their own names and uids, which takes seconds instead of minutes.

Invariant: a run starts only when every object is stored at the old version with the expected entries, and counts only
if every object is then stored at the new version with the expected entries. Both states are read from etcd.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import aiohttp
import msgspec

from benchmarks.migration.admin import APPLY, MERGE, Admin, until
from benchmarks.migration.manifests import APPLIERS, GROUP, VERSIONS, Json, Variant, applied_by, crd, versions
from restow.controlplane import ControlPlane
from restow.migrator.decide.proof import ANNOTATION

__all__ = ["Entries", "Herd", "Subject", "WrongStateError"]

_NAMESPACES = tuple(f"bench-{number}" for number in range(4))
_PUTS = 100  # in one transaction; etcd allows 128
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

Rewrite = Callable[["Subject", str], Awaitable[None]]
"""Moves all entries of a subject to this version, by combined patches at it."""


@dataclass(frozen=True, slots=True)
class Herd:
    """Objects that a section needs: their CRD's plural, their variant, and their number."""

    plural: str
    variant: Variant
    count: int


class Entries(StrEnum):
    """The version of the managedFields entries at the start of a run: the old or already the new storage version."""

    OLD = "old"
    NEW = "new"


class WrongStateError(Exception):
    """The objects are not in the state that is required before or after a run."""


class Subject:
    """One CRD and its objects."""

    def __init__(self, plane: ControlPlane, admin: Admin, herd: Herd, converted_by: Json | None = None) -> None:
        self._plane = plane
        self._admin = admin
        self._converted_by = converted_by if herd.variant is Variant.CONVERTED else None
        self.plural = herd.plural
        self.variant = herd.variant
        self.count = herd.count
        self.kind = ""
        self.storage = "v1"
        self._entries_at = "v1"

    @property
    def name(self) -> str:
        """The CRD's name."""
        return f"{self.plural}.{GROUP}"

    @property
    def made(self) -> bool:
        """Whether its objects exist."""
        return bool(self.kind)

    @property
    def other(self) -> str:
        """The version that is not the storage version."""
        return VERSIONS[1 - VERSIONS.index(self.storage)]

    async def create(self) -> None:
        """Make the CRD and its objects, stored at v1 with entries at v1."""
        document = crd(self.plural, self.variant, "v1", self._converted_by)
        self.kind = document["spec"]["names"]["kind"]
        await self._admin.call("POST", _CRDS, document)
        await until(self._established)
        for namespace in _NAMESPACES:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await self._admin.call(
                "PATCH", f"/api/v1/namespaces/{namespace}?fieldManager=bench", body, content_type=APPLY
            )
        template = await self._template()
        await self._copy(template)
        await self._check("v1", "v1")

    async def make_due(self, entries: Entries, rewrite: Rewrite) -> None:
        """Make a migration due: the objects are stored at one version, and the other one is the storage version.

        A default is new only once. Therefore objects of that variant return from v2 to v1, which lacks the field.
        """
        if self.variant is Variant.DEFAULTED and self.storage == "v2":
            await self._flip()
            await rewrite(self, self.storage)
            self._entries_at = self.storage
            await self.settle_stored_versions()
        old, new = self.storage, self.other
        wanted = old if entries is Entries.OLD else new
        if self._entries_at != wanted and self.variant is not Variant.UNTRACKED:
            await rewrite(self, wanted)
            self._entries_at = wanted
        await self._flip()
        await self._check(old, self._entries_at)

    async def check_done(self, *, entries_moved: bool, pruned: bool) -> None:
        """Check that the migration has done its work.

        Raises:
            WrongStateError: objects, entries or ``status.storedVersions`` are not at the storage version.
        """
        if entries_moved:
            self._entries_at = self.storage
        await self._check(self.storage, self._entries_at)
        if pruned:
            if not await self.pruned():
                raise WrongStateError(f"{self.name}: status.storedVersions has not been pruned")
        else:
            await self.settle_stored_versions()

    async def settle_stored_versions(self) -> None:
        """Prune ``status.storedVersions`` for contenders that do not do it."""
        body = {"status": {"storedVersions": [self.storage]}}
        await self._admin.call("PATCH", f"{_CRDS}/{self.name}/status", body, content_type=MERGE)

    async def pruned(self) -> bool:
        """Return whether ``status.storedVersions`` names only the storage version."""
        found = await self._admin.call("GET", f"{_CRDS}/{self.name}")
        return bool(found["status"]["storedVersions"] == [self.storage])

    async def unprove(self) -> None:
        """Remove the proof of a complete run of restow."""
        body = {"metadata": {"annotations": {ANNOTATION: None}}}
        await self._admin.call("PATCH", f"{_CRDS}/{self.name}", body, content_type=MERGE)

    async def resource_versions(self) -> AsyncIterator[tuple[str, str]]:
        """Yield name and resourceVersion of every object, page by page."""
        path, more = f"/apis/{GROUP}/{self.storage}/{self.plural}?limit=500", ""
        while True:
            page = await self._admin.call("GET", path + more)
            for item in page["items"]:
                yield item["metadata"]["name"], item["metadata"]["resourceVersion"]
            if not (token := page["metadata"].get("continue")):
                return
            more = f"&continue={token}"

    async def touch(self) -> None:
        """Write to the resource, but not to the subject's objects."""
        await self._probe()

    async def requests(self) -> dict[str, int]:
        """Return the numbers of requests for these objects that the API server has answered, by verb."""
        counts: dict[str, int] = {}
        about = {"group": GROUP, "resource": self.plural}
        for labels, value in await self._admin.metric("apiserver_request_total", about):
            counts[labels["verb"]] = counts.get(labels["verb"], 0) + int(value)
        return counts

    async def watched(self) -> bool:
        """Return whether the garbage collector watches these objects (again); before that, it reads them all."""
        about = {"group": GROUP, "resource": self.plural, "verb": "WATCH"}
        return any(value > 0 for _labels, value in await self._admin.metric("apiserver_longrunning_requests", about))

    async def _flip(self) -> None:
        """Make the other version the storage version, and wait until the API server encodes at it and is warm."""
        self.storage = self.other
        body = {"spec": {"versions": versions(self.variant, self.storage)}}
        await self._admin.call("PATCH", f"{_CRDS}/{self.name}", body, content_type=MERGE)
        await until(self._flipped)
        for version in VERSIONS:
            await self._admin.call("GET", f"/apis/{GROUP}/{version}/{self.plural}?limit=1")

    async def _flipped(self) -> bool:
        return await self._probe() == self.storage

    async def _probe(self) -> str:
        """Create and delete an object; return the version at which the API server stored it."""
        path = self._path(self.storage, _NAMESPACES[0])
        body = {"apiVersion": f"{GROUP}/{self.storage}", "kind": self.kind, "metadata": {"name": "probe"}}
        await self._admin.call("POST", path, body)
        stored = await self._plane.etcd.stored_object(GROUP, self.plural, _NAMESPACES[0], "probe")
        await self._admin.call("DELETE", f"{path}/probe")
        return str(stored["apiVersion"]).rpartition("/")[2]

    async def _established(self) -> bool:
        found = await self._admin.call("GET", f"{_CRDS}/{self.name}")
        conditions = found.get("status", {}).get("conditions") or []
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    async def _template(self) -> dict[str, Any]:
        """Let two appliers create one object, and return it as stored."""
        path = f"{self._path('v1', _NAMESPACES[0])}/widget-0"
        for manager in APPLIERS:
            body = {"apiVersion": f"{GROUP}/v1", "kind": self.kind, **applied_by(manager, "widget-0")}
            await self._admin.call("PATCH", f"{path}?fieldManager={manager}", body, content_type=APPLY)
        if self.variant is Variant.UNTRACKED:
            await self._admin.call("PATCH", path, {"metadata": {"managedFields": [{}]}}, content_type=MERGE)
        stored = await self._plane.etcd.stored_object(GROUP, self.plural, _NAMESPACES[0], "widget-0")
        await self._admin.call("DELETE", path)
        return stored

    async def _copy(self, template: dict[str, Any]) -> None:
        puts = []
        for number in range(self.count):
            name, namespace = f"widget-{number}", _NAMESPACES[number % len(_NAMESPACES)]
            meta = template["metadata"] | {"name": name, "namespace": namespace, "uid": str(uuid.uuid4())}
            key = f"/registry/{GROUP}/{self.plural}/{namespace}/{name}"
            value = msgspec.json.encode(template | {"metadata": meta})
            puts.append({"requestPut": {"key": _base64(key.encode()), "value": _base64(value)}})
        async with aiohttp.ClientSession(self._plane.etcd.url, raise_for_status=True) as session:
            for start in range(0, len(puts), _PUTS):
                async with session.post("/v3/kv/txn", json={"success": puts[start : start + _PUTS]}) as response:
                    await response.read()

    async def _check(self, stored: str, entries: str) -> None:
        """Check the objects in etcd."""
        tracked = (
            [] if self.variant is Variant.UNTRACKED else [(name, f"{GROUP}/{entries}") for name in sorted(APPLIERS)]
        )
        seen = 0
        async for each in self._plane.etcd.stored_objects(GROUP, self.plural):
            seen += 1
            meta = each["metadata"]
            owners = sorted((entry["manager"], entry["apiVersion"]) for entry in meta.get("managedFields", []))
            if each["apiVersion"] != f"{GROUP}/{stored}" or owners != tracked:
                raise WrongStateError(
                    f"{self.name} {meta['namespace']}/{meta['name']} is stored at {each['apiVersion']} with the owners "
                    f"{owners}; expected: {stored}, {tracked}"
                )
            if ("revisionHistoryLimit" in each["spec"]) != (self.variant is Variant.DEFAULTED and stored == "v2"):
                raise WrongStateError(f"{self.name} {meta['namespace']}/{meta['name']}: its default is not as expected")
        if seen != self.count:
            raise WrongStateError(f"{self.name}: {seen} objects are stored instead of {self.count}")

    def _path(self, version: str, namespace: str) -> str:
        return f"/apis/{GROUP}/{version}/namespaces/{namespace}/{self.plural}"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()

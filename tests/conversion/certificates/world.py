"""Secrets and CRDs as an API server keeps them, in memory, and a clock that only moves when it is told to.

No API server lives through years in a second; what its answers are like is shown by tests/apiserver.
"""

from __future__ import annotations

import asyncio
import copy
import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from restow.conversion.certificates.ca.store import SECRETS
from restow.kube import PatchType, Reply, Resource
from restow.kube.clock import Clock
from restow.kube.errors import AlreadyExists, Conflict, NotFound, Unreachable
from restow.kube.resources import CRDS

Json = dict[str, Any]

SERVICE = {"namespace": "system", "name": "webhook", "port": 443}


class World:
    """A ``Cluster`` of the verbs that wiring and certificates use.

    Attributes:
        now: the time.
        crd_writes: how often the spec of a CRD was changed.
        outpaced: whether another client has written just before every write.
        fault: asked before (False) and after (True) each write; true breaks the connection.
    """

    host, default_namespace = "https://world", "system"

    def __init__(self, *crds: str, wired: bool = False) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.crd_writes = 0
        self.outpaced = False
        self.fault: Callable[[bool], bool] = lambda _after: False
        self.chance = random.Random(1)
        self._version = 0
        self._objects: dict[tuple[str, str], Json] = {}
        for name in crds:
            self.add(name, wired=wired)

    @property
    def clock(self) -> Clock:
        """The time, for others; a work queue waits in that of the machine."""

        async def sleep(seconds: float) -> None:
            self.now += timedelta(seconds=seconds)

        return Clock(monotonic=time.monotonic, now=lambda: self.now, sleep=sleep)

    def add(self, name: str, *, wired: bool = False) -> None:
        """Create a CRD."""
        self._put(CRDS, name, _crd(name, wired=wired))

    @property
    def crds(self) -> list[Json]:
        """All CRDs."""
        return [document for (plural, _), document in self._objects.items() if plural == CRDS.plural]

    def crd(self, name: str) -> Json:
        """A CRD."""
        return self._objects[CRDS.plural, name]

    @property
    def configurations(self) -> list[Json]:
        """All webhook configurations."""
        return [document for (plural, _), document in self._objects.items() if plural.endswith("configurations")]

    def secret(self, name: str) -> Json:
        """A Secret."""
        return self._objects[SECRETS.plural, name]

    def empty(self, name: str) -> None:
        """Take everything out of a Secret."""
        self._put(SECRETS, name, {**self.secret(name), "data": {}})

    def remove(self, name: str) -> None:
        """Delete a Secret."""
        del self._objects[SECRETS.plural, name]

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, metadata_only: bool = False
    ) -> Reply:
        return Reply(msgspec.json.encode(self._found(resource, name)))

    async def list_page(self, resource: Resource, namespace: str | None = None, **_options: Any) -> Reply:
        """Nothing is watched here: it never answers."""
        await asyncio.Event().wait()
        raise AssertionError

    async def create(
        self, resource: Resource, body: bytes, namespace: str | None = None, *, params: Mapping[str, str] | None = None
    ) -> Reply:
        document = msgspec.json.decode(body)
        name = document["metadata"]["name"]
        if self.outpaced or (resource.plural, name) in self._objects:
            raise _error(AlreadyExists, 409, resource, name)
        return self._write(resource, name, document)

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Reply:
        document = msgspec.json.decode(body)
        self._check(resource, name, document)
        return self._write(resource, name, document)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str | None = None,
        *,
        patch_type: PatchType,
        subresource: str | None = None,
        params: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> Reply:
        change = msgspec.json.decode(body)
        if "webhooks" in change:
            return self._apply_configuration(resource, name, change, (params or {})["fieldManager"])
        self._check(resource, name, change)
        found = copy.deepcopy(self._found(resource, name))
        before = copy.deepcopy(found["spec"])
        _merge(found["spec"], change["spec"])
        if found["spec"] != before:
            found["metadata"]["generation"] += 1
            entry = {"manager": (params or {})["fieldManager"], "operation": "Apply", "time": f"{self.now:%FT%TZ}"}
            others = [each for each in found["metadata"]["managedFields"] if each["manager"] != entry["manager"]]
            owned = {"f:spec": _owned(change["spec"])}
            found["metadata"]["managedFields"] = [*others, {**entry, "fieldsV1": owned}]
        return self._write(resource, name, found)

    def _apply_configuration(self, resource: Resource, name: str, change: Json, manager: str) -> Reply:
        """Apply all of a webhook configuration; it is created where there is none."""
        before = self._objects.get((resource.plural, name))
        if before is not None:
            self._check(resource, name, change)
        fields = {f'k:{{"name":"{hook["name"]}"}}': _owned(hook) for hook in change["webhooks"]}
        entry = {"manager": manager, "operation": "Apply", "time": f"{self.now:%FT%TZ}"}
        generation = (
            1 if before is None else before["metadata"]["generation"] + (before["webhooks"] != change["webhooks"])
        )
        metadata = {"name": name, "uid": name, "generation": generation}
        metadata["managedFields"] = [{**entry, "fieldsV1": {"f:webhooks": fields}}]
        return self._write(resource, name, {**change, "metadata": metadata})

    def _check(self, resource: Resource, name: str, document: Json) -> None:
        now = self._found(resource, name)["metadata"]["resourceVersion"]
        if self.outpaced or document["metadata"].get("resourceVersion", now) != now:
            raise _error(Conflict, 409, resource, name)

    def _found(self, resource: Resource, name: str) -> Json:
        try:
            return self._objects[resource.plural, name]
        except KeyError:
            raise _error(NotFound, 404, resource, name) from None

    def _write(self, resource: Resource, name: str, document: Json) -> Reply:
        if self.fault(False):
            raise Unreachable("broken before the write")
        self._put(resource, name, document)
        if self.fault(True):
            raise Unreachable("broken after the write")
        return Reply(msgspec.json.encode(self._objects[resource.plural, name]))

    def _put(self, resource: Resource, name: str, document: Json) -> None:
        self._version += 1
        stored = copy.deepcopy(document)
        stored["metadata"] |= {"resourceVersion": str(self._version)}
        before = self._objects.get((resource.plural, name), stored)
        if resource == CRDS:
            self.crd_writes += stored["metadata"].get("generation") != before["metadata"].get("generation")
        self._objects[resource.plural, name] = stored


def _error(kind: Any, status: int, resource: Resource, name: str) -> Any:
    return kind(status=status, reason="", message="", details=None, verb="", target=resource.describe(name=name))


def _merge(into: Json, change: Json) -> None:
    for name, value in change.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = copy.deepcopy(value)


def _owned(fields: Any) -> Json:
    return {f"f:{name}": _owned(value) for name, value in fields.items()} if isinstance(fields, dict) else {}


def _crd(name: str, *, wired: bool) -> Json:
    plural, _, group = name.partition(".")
    conversion: Json = {"strategy": "None"}
    if wired:
        webhook = {"clientConfig": {"service": SERVICE}, "conversionReviewVersions": ["v1"]}
        conversion = {"strategy": "Webhook", "webhook": webhook}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "uid": name, "generation": 1, "managedFields": []},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": plural},
            "versions": [{"name": "v1", "served": True, "storage": True}],
            "conversion": conversion,
        },
    }

"""The writes of the demo's managers: server-side applies, patches and deletes, one at a time or many.

A refusal by the API server is a result and not an exception, because the demo shows refusals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from demo.fixtures import NEW, OLD, PLURAL, Apply, CrdStage, crd, crd_name, databases
from restow.kube import Cluster, PatchType, Reply, Resource
from restow.kube.errors import ApiError, NotFound, TooManyRequests
from restow.kube.resources import CONFIG_MAPS, CRDS, NAMESPACES

__all__ = ["DatabaseClient", "DemoError", "Response", "all_of"]


class DemoError(Exception):
    """A step of the scenario failed; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response of the API server: an object, or a refusal with its message (``409 Conflict: …``)."""

    object: Mapping[str, Any] = field(default_factory=dict)
    refusal: str = ""

    def or_raise(self) -> Response:
        """Return this response, for writes that later steps depend on.

        Raises:
            DemoError: the API server refused the write.
        """
        if self.refusal:
            msg = f"the demo cannot go on, since the API server answered {self.refusal}"
            raise DemoError(msg)
        return self

    @property
    def entries(self) -> list[Mapping[str, Any]]:
        """The managedFields of the object."""
        return list(self.object.get("metadata", {}).get("managedFields", []))


_IN_FLIGHT = 16
_SERVED_WITHIN = 30.0  # seconds; after a change of a CRD the API server needs much less than one
_POLL = 0.05
_AFTERMATH = 0.25  # seconds; the API server may handle requests by the previous CRD for up to 0.16

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


class DatabaseClient:
    """A client that writes databases of one group, and their CRD."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self.group = group

    async def create_namespaces(self, names: Iterable[str]) -> None:
        """Create namespaces."""
        for name in names:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await self._cluster.create(NAMESPACES, msgspec.json.encode(body))

    async def apply_crd(self, stage: CrdStage) -> Response:
        """Apply the CRD, and wait until the API server serves exactly its served versions."""
        body = msgspec.json.encode(crd(self.group, stage))
        params = {"fieldManager": "installer"}
        name = crd_name(self.group)
        response = await _response(self._cluster.patch(CRDS, name, body, patch_type=PatchType.APPLY, params=params))
        if not response.refusal:
            served = {version["name"] for version in response.object["spec"]["versions"] if version["served"]}
            for version in (OLD, NEW):
                await self._served(databases(self.group, version), served=version in served)
            await asyncio.sleep(_AFTERMATH)
        return response

    async def patch_stored_versions(self, versions: list[str]) -> Response:
        """Set the CRD's ``status.storedVersions`` by hand."""
        body = msgspec.json.encode({"status": {"storedVersions": versions}})
        patched = self._cluster.patch(
            CRDS, crd_name(self.group), body, patch_type=PatchType.MERGE, subresource="status"
        )
        return await _response(patched)

    async def stored_versions(self) -> list[str]:
        """Read the CRD's ``status.storedVersions``."""
        reply = await self._cluster.get(CRDS, crd_name(self.group))
        return list(reply.json()["status"]["storedVersions"])

    async def apply(
        self, manifest: Mapping[str, Any], manager: str, *, status: bool = False, force: bool = False
    ) -> Response:
        """Server-side apply as a manager, at the manifest's version."""
        params = {"fieldManager": manager, "force": "true"} if force else {"fieldManager": manager}
        metadata = manifest["metadata"]
        applied = self._cluster.patch(
            self._resource(manifest),
            metadata["name"],
            msgspec.json.encode(manifest),
            metadata["namespace"],
            patch_type=PatchType.APPLY,
            subresource="status" if status else None,
            params=params,
        )
        return await _response(applied)

    async def apply_all(self, wanted: Sequence[Apply], *, done: Callable[[], None] = lambda: None) -> list[Response]:
        """Apply without force, many at a time; responses have the order of ``wanted``."""

        async def apply(each: Apply) -> Response:
            return await self.apply(each.manifest, each.manager, status=each.status)

        return await all_of(wanted, apply, done=done)

    async def merge(self, namespace: str, name: str, version: str, patch: Mapping[str, Any], manager: str) -> Response:
        """Send a merge patch as a manager."""
        patched = self._cluster.patch(
            databases(self.group, version),
            name,
            msgspec.json.encode(patch),
            namespace,
            patch_type=PatchType.MERGE,
            params={"fieldManager": manager},
        )
        return await _response(patched)

    async def config_map(self, namespace: str, name: str) -> Response:
        """Read a ConfigMap."""
        return await _response(self._cluster.get(CONFIG_MAPS, name, namespace))

    async def delete(self, namespace: str, name: str, version: str) -> Response:
        """Delete a database."""
        return await _response(self._cluster.delete(databases(self.group, version), name, namespace))

    async def _served(self, resource: Resource, *, served: bool) -> None:
        """Wait until the API server lists objects at a version, or stops listing them."""
        async with asyncio.timeout(_SERVED_WITHIN):
            while await self._lists(resource) is not served:  # noqa: ASYNC110 - only a request shows it
                await asyncio.sleep(_POLL)

    async def _lists(self, resource: Resource) -> bool | None:
        """Return whether objects can be listed; None while the API server is not ready for it."""
        try:
            await self._cluster.list_page(resource, params={"limit": "1"})
        except NotFound:
            return False
        except TooManyRequests:
            return None
        return True

    def _resource(self, manifest: Mapping[str, Any]) -> Resource:
        if manifest["kind"] == "ConfigMap":
            return CONFIG_MAPS
        group, _, version = manifest["apiVersion"].partition("/")
        return Resource(group, version, PLURAL, namespaced=True)


async def _response(request: Awaitable[Reply]) -> Response:
    try:
        return Response((await request).json())
    except ApiError as error:
        return Response(refusal=f"{error.status} {error.reason}".rstrip() + f": {error.message}")


async def all_of(
    jobs: Iterable[_Job], do: Callable[[_Job], Awaitable[_Result]], *, done: Callable[[], None] = lambda: None
) -> list[_Result]:
    """Do all jobs, several at a time, and call ``done`` after each; results are in the order of the jobs."""
    waiting = enumerate(jobs)
    results: dict[int, _Result] = {}

    async def work() -> None:
        for number, job in waiting:
            results[number] = await do(job)
            done()

    async with asyncio.TaskGroup() as group:
        for _ in range(_IN_FLIGHT):
            group.create_task(work())
    return [results[number] for number in sorted(results)]

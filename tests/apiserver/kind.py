"""A custom resource to migrate in tests, and the truth about it: what etcd holds, and who owns which field.

Nothing here uses the migrator, so it cannot agree with it by accident.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import hashlib
import json
import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from restow.controlplane.errors import NotStoredError, UnavailableError
from restow.controlplane.etcd import Etcd
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, ServerError, TooManyRequests
from restow.kube.resources import CRDS, NAMESPACES, Resource

Document = dict[str, Any]
CANARY = "canary"
"""The name of the object that tells at which version the API server stores by now."""

Owned = dict[tuple[str, str, str], frozenset[str]]

_DEADLINE = 90.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.15  # seconds between two looks: four processes of tests look at the same time


async def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait until an async condition gives something true, and return that.

    An API server that changes a CRD ends the handlers of the old one. Requests that these still get are answered
    503 "apiserver is shutting down"; the next request is served.
    """
    pause = _FIRST_PAUSE
    try:
        async with asyncio.timeout(_DEADLINE):
            while True:
                with contextlib.suppress(ServerError):
                    if found := await condition():
                        return found
                await asyncio.sleep(pause)
                pause = min(1.2 * pause, _LONGEST_PAUSE)
    except TimeoutError:
        raise AssertionError(what) from None


def struct(**properties: Document) -> Document:
    """The schema of an object with these properties."""
    return {"type": "object", "properties": properties}


class Impatient(random.Random):
    """Chance by which no wait is waited: what is retried is retried at once."""

    def uniform(self, _a: float, _b: float) -> float:
        """Return the shortest wait."""
        return 0.0


class Kind:
    """Widgets of one test: v1alpha1, and v1beta1 which adds a default and keys the conditions."""

    plural = "widgets"
    canary: ClassVar[Document] = {"size": 1}
    """A spec that every schema of these widgets has: an apply of other fields fails."""

    def __init__(self, cluster: HttpCluster, etcd: Etcd | None, group: str) -> None:
        self.cluster = cluster
        self._etcd = etcd
        self.group = group
        self.name = f"{self.plural}.{group}"

    @property
    def etcd(self) -> Etcd:
        """What is stored; a test that looks is skipped on a cluster whose etcd cannot be read."""
        if self._etcd is None:
            msg = f"etcd of {self.cluster.host} cannot be read; unset RESTOW_KUBECONFIG for a control plane"
            raise UnavailableError(msg)
        return self._etcd

    def document(
        self,
        *,
        storage: str,
        versions: Sequence[str] = ("v1alpha1", "v1beta1"),
        served: Sequence[str] | None = None,
        default: bool = False,
        keyed_conditions: bool = True,
        namespaced: bool = True,
    ) -> Document:
        """The CRD. v1beta1 may add the default ``spec.policy`` and key ``status.conditions`` by type."""
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": self.group,
                "scope": "Namespaced" if namespaced else "Cluster",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [
                    {
                        "name": version,
                        "served": served is None or version in served,
                        "storage": version == storage,
                        "schema": {"openAPIV3Schema": _schema(version, default=default, keyed=keyed_conditions)},
                        "subresources": {"status": {}},
                    }
                    for version in versions
                ],
            },
        }

    def at(self, version: str) -> Resource:
        """The resource at one version."""
        return Resource(self.group, version, self.plural, namespaced=True)

    async def create(self, document: Document) -> None:
        """Create the CRD and wait until it is served; a CRD of this name that is being deleted is waited for."""

        async def created() -> bool:
            try:
                await self.cluster.create(CRDS, json.dumps(document).encode())
            except AlreadyExists:
                with contextlib.suppress(NotFound):
                    if not (await self.cluster.get(CRDS, self.name)).json()["metadata"].get("deletionTimestamp"):
                        raise
                return False
            return True

        await until(created, f"{self.name} is not deleted")
        await self.serves(document)

    async def change(self, document: Document) -> None:
        """Replace the CRD's spec (and whatever metadata the document brings) and wait until it takes effect."""

        async def replaced() -> bool:
            now = (await self.cluster.get(CRDS, self.name)).json()
            changed = now | {"spec": document["spec"]}
            try:
                await self.cluster.replace(CRDS, self.name, json.dumps(changed).encode())
            except Conflict:
                return False
            return True

        await until(replaced, f"{self.name} could not be replaced")
        await self.serves(document)

    async def serves(self, document: Document) -> None:
        """Wait until every served version is served, and new objects are stored at the storage version."""
        served = [version["name"] for version in document["spec"]["versions"] if version["served"]]
        storage = next(version["name"] for version in document["spec"]["versions"] if version["storage"])

        async def all_listed() -> bool:
            for version in served:
                try:
                    await self.cluster.list_page(self.at(version), params={"limit": "1"})
                except (NotFound, TooManyRequests):
                    return False
            return True

        await until(all_listed, f"{self.name} is not served")
        if storage in served and document["spec"]["scope"] == "Namespaced":
            await until(lambda: self._stores_at(storage), f"{self.name} is not stored at {storage}")

    async def _stores_at(self, version: str) -> bool:
        """Whether a new object is stored at the version.

        It is made by an apply, since an API server delays a POST for two seconds when the CRD is that new. It may be
        gone at once: while the server still deletes the objects of a former CRD of this name, it deletes new ones, too.
        """
        if self._etcd is None:
            return await self._announced_at(version)
        try:
            await self.apply(self.manifest(version, CANARY, spec=self.canary), CANARY)
            stored = await self.etcd.stored_object(self.group, self.plural, "default", CANARY)
            await self.cluster.delete(self.at(version), CANARY, "default")
        except (ApiError, NotStoredError):
            return False
        return bool(stored["apiVersion"] == f"{self.group}/{version}")

    async def _announced_at(self, version: str) -> bool:
        """Whether discovery names the version as the one of storage: all that an outsider can see of it."""
        stored = hashlib.sha256(f"{self.group}/{version}/Widget".encode()).digest()[:8]
        resources = Resource(self.group, version, "", namespaced=False)  # the path of a version's discovery
        listed = (await self.cluster.list_page(resources)).json()["resources"]
        hashes = [each.get("storageVersionHash") for each in listed if each["name"] == self.plural]
        return hashes == [base64.b64encode(stored).decode()]

    async def remove(self) -> None:
        """Delete the CRD; objects are freed of their finalizers first."""
        try:
            document = (await self.cluster.get(CRDS, self.name)).json()
        except NotFound:
            return
        version = next(each["name"] for each in document["spec"]["versions"] if each["served"])
        try:
            for item in (await self.cluster.list_page(self.at(version))).json()["items"]:
                if item["metadata"].get("finalizers"):
                    body = json.dumps({"metadata": {"finalizers": []}}).encode()
                    await self.cluster.patch(
                        self.at(version),
                        item["metadata"]["name"],
                        body,
                        item["metadata"].get("namespace"),
                        patch_type=PatchType.MERGE,
                    )
        except ApiError:
            pass
        if (document["spec"].get("conversion") or {}).get("strategy") == "Webhook":
            # A webhook that has ended keeps the CRD's finalizer from listing the objects, and so the CRD for ever.
            body = json.dumps({"spec": {"conversion": {"strategy": "None", "webhook": None}}}).encode()
            await self.cluster.patch(CRDS, self.name, body, patch_type=PatchType.MERGE)
        await self.cluster.delete(CRDS, self.name)

    async def stored_versions(self) -> list[str]:
        """``status.storedVersions`` now."""
        found: list[str] = (await self.cluster.get(CRDS, self.name)).json()["status"]["storedVersions"]
        return found

    def manifest(self, version: str, name: str, namespace: str = "default", **parts: Any) -> Document:
        """An object's manifest; ``parts`` are ``spec``, ``status``, and ``metadata`` (merged in)."""
        metadata = {"name": name, "namespace": namespace} | parts.pop("metadata", {})
        return {"apiVersion": f"{self.group}/{version}", "kind": "Widget", "metadata": metadata} | parts

    async def populate(self, count: int) -> None:
        """Have alice apply so many objects at v1alpha1, w00 and so on, each with its number as its size."""
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                manifest = self.manifest("v1alpha1", f"w{number:02}", spec={"size": number})
                group.create_task(self.apply(manifest, "alice"))

    async def apply(
        self, manifest: Document, manager: str, *, subresource: str | None = None, force: bool = False
    ) -> Document:
        """Server-side apply."""
        version = manifest["apiVersion"].split("/")[1]
        params = {"fieldManager": manager} | ({"force": "true"} if force else {})
        reply = await self.cluster.patch(
            self.at(version),
            manifest["metadata"]["name"],
            json.dumps(manifest).encode(),
            manifest["metadata"]["namespace"],
            patch_type=PatchType.APPLY,
            subresource=subresource,
            params=params,
        )
        applied: Document = reply.json()
        return applied

    async def merge(
        self,
        version: str,
        name: str,
        change: Document,
        manager: str,
        namespace: str = "default",
        *,
        subresource: str | None = None,
        params: dict[str, str] | None = None,
    ) -> Document:
        """A merge patch, as plain clients send it: an Update entry of the manager."""
        reply = await self.cluster.patch(
            self.at(version),
            name,
            json.dumps(change).encode(),
            namespace,
            patch_type=PatchType.MERGE,
            subresource=subresource,
            params={"fieldManager": manager} | (params or {}),
        )
        merged: Document = reply.json()
        return merged

    async def get(self, version: str, name: str, namespace: str = "default") -> Document:
        """Read an object."""
        found: Document = (await self.cluster.get(self.at(version), name, namespace)).json()
        return found

    async def delete(self, version: str, name: str, namespace: str = "default") -> None:
        """Delete an object."""
        await self.cluster.delete(self.at(version), name, namespace)

    async def stored(self) -> dict[str, Document]:
        """All objects as etcd holds them, by ``namespace/name``."""
        return {
            f"{found['metadata']['namespace']}/{found['metadata']['name']}": found
            async for found in self.etcd.stored_objects(self.group, self.plural)
        }

    async def store(self, document: Document) -> None:
        """Put an object into etcd past every API server, as a restored or edited etcd may hold it."""
        metadata = document["metadata"]
        key = f"/registry/{self.group}/{self.plural}/{metadata['namespace']}/{metadata['name']}"
        await self.etcd.put([(key, json.dumps(document).encode())])

    async def preserve_unknown_fields(self, change: Callable[[Document], None] = lambda _spec: None) -> None:
        """Set ``spec.preserveUnknownFields`` in etcd, since the API keeps it and does not take it; wait until it holds.

        ``change`` may do more to the spec that the API would refuse.
        """
        key = f"/registry/{CRDS.group}/{CRDS.plural}/{self.name}"
        document = json.loads(await self.etcd.get(key) or b"")
        document["spec"]["preserveUnknownFields"] = True
        change(document["spec"])
        await self.etcd.put([(key, json.dumps(document).encode())])

        async def kept() -> bool:
            served = next(each["name"] for each in document["spec"]["versions"] if each["served"])
            created = json.dumps(self.manifest(served, CANARY, spec=self.canary | {"undeclared": 1})).encode()
            params = {"dryRun": "All"}
            found = (await self.cluster.create(self.at(served), created, "default", params=params)).json()
            return "undeclared" in found["spec"]

        await until(kept, f"{self.name} prunes")

    async def namespace(self, name: str) -> None:
        """Make sure that a namespace exists."""
        with contextlib.suppress(Conflict):
            await self.cluster.create(NAMESPACES, json.dumps({"metadata": {"name": name}}).encode())


def owners(document: Document) -> Owned:
    """Who owns which field paths: by (manager, operation, subresource), each path as text."""
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): frozenset(_members(entry["fieldsV1"], ""))
        for entry in document["metadata"].get("managedFields", [])
    }


def entry_versions(document: Document) -> set[str]:
    """The versions (without the group) of an object's managedFields entries."""
    return {entry["apiVersion"].split("/")[-1] for entry in document["metadata"].get("managedFields", [])}


def without_bookkeeping(document: Document) -> Document:
    """An object without apiVersion, resourceVersion and managedFields: what must never change."""
    plain = copy.deepcopy(document)
    plain.pop("apiVersion")
    for key in ("resourceVersion", "managedFields"):
        plain["metadata"].pop(key, None)
    return plain


def _members(node: Document, path: str) -> list[str]:
    """The paths of a FieldsV1 tree that are owned; a leaf, or a node with a dot."""
    found = [path] if path and (not node or "." in node) else []
    for key, child in node.items():
        if key != ".":
            found += _members(child, f"{path}/{key}")
    return found


def _schema(version: str, *, default: bool, keyed: bool) -> Document:
    conditions: Document = {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["type"],
            "properties": {"type": {"type": "string"}, "status": {"type": "string"}, "reason": {"type": "string"}},
        },
    }
    if version != "v1alpha1" and keyed:
        conditions |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    part = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
    }
    spec: Document = {
        "size": {"type": "integer"},
        "color": {"type": "string"},
        "notes": {"type": "array", "items": {"type": "string"}},
        "parts": {
            "type": "array",
            "items": part,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    }
    if version != "v1alpha1" and default:
        spec["policy"] = {"type": "string", "default": "Retain"}
    return {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": spec},
            "status": {
                "type": "object",
                "properties": {"phase": {"type": "string"}, "conditions": conditions},
            },
        },
    }

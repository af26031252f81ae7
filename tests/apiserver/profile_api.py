"""The CRDs of the CloudProfile family on a real API server, and short ways to send them manifests."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from restow.crds.cloudprofiles import documents
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType, Reply
from restow.kube.errors import AlreadyExists, Invalid, NotFound, ServerError, TooManyRequests
from restow.kube.resources import CRDS, NAMESPACES, Resource
from tests.apiserver.kind import Document, until

__all__ = ["GROUP", "Api", "alone", "findings", "install", "lenient", "uninstall", "with_cluster", "without_value"]

GROUP = "core.gardener.cloud"

_PLURALS = {"CloudProfile": "cloudprofiles", "NamespacedCloudProfile": "namespacedcloudprofiles", "Shoot": "shoots"}
_REFUSED = re.compile(r'Invalid value: ("(?:[^"\\]|\\.)*"|-?\d+): ')
_STRICT = {"fieldValidation": "Strict"}
_DRY = {"dryRun": "All"}
_JUDGING = ("x-kubernetes-validations", "enum", "format", "pattern", "minimum", "minLength", "maxLength", "minItems")


@dataclass(frozen=True)
class Api:
    """The CRDs at one of their versions."""

    cluster: HttpCluster
    version: str

    def at(self, kind: str) -> Resource:
        """The resource of a kind."""
        return Resource(GROUP, self.version, _PLURALS[kind], namespaced=kind != "CloudProfile")

    def manifest(self, kind: str, name: str, spec: Document, namespace: str = "default", **parts: Any) -> Document:
        """An object's manifest."""
        metadata = {"name": name} | ({} if kind == "CloudProfile" else {"namespace": namespace})
        return {"apiVersion": f"{GROUP}/{self.version}", "kind": kind, "metadata": metadata, "spec": spec} | parts

    async def rehearse(self, manifest: Document) -> Document:
        """Create with strict field validation, but nothing is stored."""
        return _json(await self._create(manifest, _STRICT | _DRY))

    async def create(self, manifest: Document) -> Document:
        """Create with strict field validation."""
        return _json(await self._create(manifest, _STRICT))

    async def change(self, found: Document, **parts: Any) -> Reply:
        """Merge into an object's spec (None removes a field)."""
        metadata, body = found["metadata"], json.dumps({"spec": parts}).encode()
        return await self.cluster.patch(
            self.at(found["kind"]),
            metadata["name"],
            body,
            metadata.get("namespace"),
            patch_type=PatchType.MERGE,
            params=_STRICT,
        )

    async def apply(self, manifest: Document, manager: str) -> Document:
        """Server-side apply."""
        metadata = manifest["metadata"]
        reply = await self.cluster.patch(
            self.at(manifest["kind"]),
            metadata["name"],
            json.dumps(manifest).encode(),
            metadata.get("namespace"),
            patch_type=PatchType.APPLY,
            params={"fieldManager": manager} | _STRICT,
        )
        return _json(reply)

    async def put_status(self, found: Document, status: Document) -> Document:
        """Replace an object's status."""
        body = json.dumps(found | {"status": status}).encode()
        metadata = found["metadata"]
        reply = await self.cluster.replace(
            self.at(found["kind"]),
            metadata["name"],
            body,
            metadata.get("namespace"),
            subresource="status",
            params=_STRICT,
        )
        return _json(reply)

    async def delete(self, found: Document) -> None:
        """Delete an object."""
        metadata = found["metadata"]
        await self.cluster.delete(self.at(found["kind"]), metadata["name"], metadata.get("namespace"))

    async def _create(self, manifest: Document, params: Mapping[str, str]) -> Reply:
        body, namespace = json.dumps(manifest).encode(), manifest["metadata"].get("namespace")
        return await self.cluster.create(self.at(manifest["kind"]), body, namespace, params=params)


def findings(error: Invalid) -> list[str]:
    """What a person is told, line by line, without values, and without the note that not all rules were checked."""
    told = (f"{cause['field']}: {without_value(cause['message'])}" for cause in error.details.causes)
    return sorted(line for line in told if not line.startswith("<nil>"))


def without_value(message: str) -> str:
    """A message without the refused value, which minors write differently.

    Where a rule refuses it, Kubernetes 1.34 writes its type ("object", "integer"); later ones write a number, and
    nothing for an object.
    """
    return _REFUSED.sub("Invalid value: ", message, count=1)


def alone(version: str) -> dict[str, Document]:
    """The CRDs as if they had only one version, so that nothing is to be converted."""
    changed = documents()
    for document in changed.values():
        spec = document["spec"]
        spec["conversion"] = {"strategy": "None"}
        spec["versions"] = [each | {"storage": True} for each in spec["versions"] if each["name"] == version]
    return changed


def lenient(document: Document) -> Document:
    """A CRD that judges nothing, to have objects stored that break rules."""
    changed = copy.deepcopy(document)
    for version in changed["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"] = _lenient(version["schema"]["openAPIV3Schema"])
    return changed


async def install(cluster: HttpCluster, crds: Mapping[str, Document], *, namespaces: Iterable[str] = ()) -> None:
    """Create the CRDs and wait until each storage version is served; make sure that the namespaces exist."""
    for name in namespaces:
        with contextlib.suppress(AlreadyExists):
            await cluster.create(NAMESPACES, json.dumps({"metadata": {"name": name}}).encode())
    for document in crds.values():
        reply = await cluster.create(CRDS, json.dumps(document).encode(), params=_STRICT)
        assert not reply.warnings
    for name, document in crds.items():
        await until(lambda document=document: _lists(cluster, document), f"{name} is not served")


async def uninstall(cluster: HttpCluster, names: Iterable[str]) -> None:
    """Delete the CRDs and wait until they are gone."""
    names = tuple(names)
    for name in names:
        await cluster.delete(CRDS, name)
    for name in names:
        await until(lambda name=name: _is_gone(cluster, name), f"{name} is still there")


def with_cluster(kubeconfig: Path, work: Any) -> None:
    """Run a coroutine function on a session of its own, outside of any test's event loop."""

    async def run() -> None:
        async with connect(kubeconfig) as cluster:
            await work(cluster)

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(run())


async def _lists(cluster: HttpCluster, document: Document) -> bool:
    spec = document["spec"]
    storage = next(each["name"] for each in spec["versions"] if each["storage"])
    resource = Resource(GROUP, storage, spec["names"]["plural"], namespaced=spec["scope"] == "Namespaced")
    try:
        await cluster.list_page(resource, params={"limit": "1"})
    except (NotFound, ServerError, TooManyRequests):
        return False
    return True


async def _is_gone(cluster: HttpCluster, name: str) -> bool:
    try:
        await cluster.get(CRDS, name)
    except NotFound:
        return True
    return False


def _lenient(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if key not in _JUDGING}
    for key in ("items", "additionalProperties"):
        if key in kept:
            kept[key] = _lenient(kept[key])
    if "properties" in kept:
        kept["properties"] = {name: _lenient(each) for name, each in kept["properties"].items()}
    return kept


def _json(reply: Reply) -> Document:
    document: Document = reply.json()
    return document

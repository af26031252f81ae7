"""The example provider's two kinds on a real API server, converted by ``restow serve``.

Gateways are stored at v1, Caches at v3; each is served at three versions. Nothing here uses restow's conversions, so it
cannot agree with them by accident.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from restow.conversion.certificates import Bundle
from restow.crds.documents import load_documents
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import ApiError, NotFound
from restow.kube.resources import CRDS, Resource
from tests.apiserver.kind import until
from tests.apiserver.serving import MANIFESTS

Document = dict[str, Any]

GROUP = "edge.example.dev"
GATEWAYS, CACHES = f"gateways.{GROUP}", f"caches.{GROUP}"
KINDS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    GATEWAYS: ("gateways", "Gateway", ("v1alpha1", "v1beta1", "v1")),
    CACHES: ("caches", "Cache", ("v1", "v2", "v3")),
}
STASH = f"{GROUP}/conversion-stash"


def manifest(name: str) -> Document:
    """A CRD as the provider ships it, without spec.conversion."""
    [found] = load_documents((MANIFESTS / f"{name.partition('.')[0]}.yaml").read_text())
    return found


def url_of(port: int, name: str) -> str:
    """Where a ``restow serve`` on a port of the loopback converts a CRD."""
    return f"https://127.0.0.1:{port}/convert/{name}"


def webhook(url: str, bundle: Bundle | None) -> Document:
    """The spec.conversion for a webhook."""
    config = {"url": url} | ({"caBundle": bundle.base64} if bundle is not None else {})
    return {"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}}


class Provider:
    """The kinds. A CRD is given by its name, an object by its CRD, version and name; all are in ``default``."""

    def __init__(self, cluster: HttpCluster) -> None:
        self.cluster = cluster

    async def install(self, name: str, port: int, bundle: Bundle | None) -> None:
        """Create a CRD that is converted by a ``restow serve`` on a port of the loopback; wait until it is served."""
        await self.create_crd(name, webhook(url_of(port, name), bundle))

    async def create_crd(self, name: str, conversion: Document | None = None) -> None:
        """Create one CRD, and wait until all its versions are served."""
        document = manifest(name)
        if conversion is not None:
            document["spec"]["conversion"] = conversion
        await self.cluster.create(CRDS, json.dumps(document).encode())
        await self.served(name)

    async def served(self, name: str) -> None:
        """Wait until every version of a CRD can be listed."""

        async def listed() -> bool:
            try:
                for version in KINDS[name][2]:
                    await self.cluster.list_page(at(name, version), params={"limit": "1"})
            except ApiError:
                return False
            return True

        await until(listed, f"{name} is not served")

    async def remove(self) -> None:
        """Delete both CRDs, and wait until they are gone."""
        for name in KINDS:
            try:
                await self.cluster.delete(CRDS, name)
            except NotFound:
                continue
        for name in KINDS:
            await until(lambda name=name: self._gone(name), f"{name} is not gone")

    async def crd(self, name: str) -> Document:
        """A CRD as it is now."""
        found: Document = (await self.cluster.get(CRDS, name)).json()
        return found

    async def create(self, crd: str, version: str, name: str, spec: Document, **parts: Any) -> Document:
        """Create an object."""
        body = json.dumps(built(crd, version, name, spec, **parts)).encode()
        created: Document = (await self.cluster.create(at(crd, version), body, "default")).json()
        return created

    async def get(self, crd: str, version: str, name: str) -> Document:
        """Read an object."""
        found: Document = (await self.cluster.get(at(crd, version), name, "default")).json()
        return found

    async def items(self, crd: str, version: str, *, cached: bool = False) -> dict[str, Document]:
        """List all objects, from etcd or from the watch cache, by name."""
        params = {"resourceVersion": "0"} if cached else {}
        page = (await self.cluster.list_page(at(crd, version), "default", params=params)).json()
        return {item["metadata"]["name"]: item for item in page["items"]}

    async def replace(self, crd: str, version: str, document: Document) -> Document:
        """Write an object back (PUT)."""
        body = json.dumps(document).encode()
        name = document["metadata"]["name"]
        replaced: Document = (await self.cluster.replace(at(crd, version), name, body, "default")).json()
        return replaced

    async def patch(
        self, crd: str, version: str, name: str, change: Any, kind: PatchType = PatchType.MERGE, **params: str
    ) -> Document:
        """Patch an object; ``params`` are those of the request (fieldManager, force)."""
        body = json.dumps(change).encode()
        resource = at(crd, version)
        reply = await self.cluster.patch(resource, name, body, "default", patch_type=kind, params=params)
        patched: Document = reply.json()
        return patched

    async def apply(
        self, crd: str, version: str, name: str, spec: Document, manager: str, *, force: bool = False, **parts: Any
    ) -> Document:
        """Server-side apply."""
        params = {"fieldManager": manager} | ({"force": "true"} if force else {})
        body = built(crd, version, name, spec, **parts)
        return await self.patch(crd, version, name, body, PatchType.APPLY, **params)

    async def delete(self, crd: str, version: str, name: str) -> None:
        """Delete an object."""
        await self.cluster.delete(at(crd, version), name, "default")

    async def _gone(self, name: str) -> bool:
        try:
            await self.cluster.get(CRDS, name)
        except NotFound:
            return True
        await asyncio.sleep(0.05)
        return False


def at(crd: str, version: str) -> Resource:
    """A kind's resource at one version."""
    return Resource(GROUP, version, KINDS[crd][0], namespaced=True)


def built(crd: str, version: str, name: str, spec: Document, **parts: Any) -> Document:
    """An object's manifest; ``parts`` are further fields, ``metadata`` is merged."""
    metadata = {"name": name, "namespace": "default"} | parts.pop("metadata", {})
    head = {"apiVersion": f"{GROUP}/{version}", "kind": KINDS[crd][1], "metadata": metadata}
    return head | ({"spec": spec} if spec else {}) | parts

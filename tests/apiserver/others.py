"""CRDs and objects of other projects, and releases of Helm, that name a version of the CRD under test."""

from __future__ import annotations

import base64
import gzip
import json
from contextlib import suppress
from typing import Any

from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError, NotFound
from restow.kube.resources import CRDS, Resource
from tests.apiserver.kind import until

__all__ = ["OPEN", "SECRETS", "Others", "a_release"]

SECRETS = Resource("", "v1", "secrets", namespaced=True)

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Others:
    """CRDs and objects of other projects; takes them away."""

    def __init__(self, cluster: HttpCluster) -> None:
        self._cluster = cluster
        self._made: list[tuple[Resource, str, str | None]] = []

    async def kind(
        self,
        name: str,
        kind: str,
        spec: dict[str, Any] = OPEN,
        *,
        namespaced: bool = True,
        subresources: dict[str, Any] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> Resource:
        """A CRD at v1 whose objects have this spec and any status, or this schema."""
        plural, _, group = name.partition(".")
        schema = schema or {"type": "object", "properties": {"spec": spec, "status": OPEN}}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        version |= {"subresources": subresources} if subresources else {}
        document = {
            "metadata": {"name": name},
            "spec": {
                "group": group,
                "scope": "Namespaced" if namespaced else "Cluster",
                "names": {"plural": plural, "kind": kind},
                "versions": [version],
            },
        }
        unapproved = {"annotations": {"api-approved.kubernetes.io": "unapproved, a test"}}  # for groups of k8s.io
        await self.made(CRDS, name, spec=document["spec"], metadata=unapproved)
        resource = Resource(group, "v1", plural, namespaced=namespaced)

        async def served() -> bool:
            with suppress(ApiError):
                await self._cluster.list_page(resource)
                listed = (await self._cluster.discover(f"/apis/{group}/v1")).json()["resources"]
                return any(each["name"] == plural for each in listed)
            return False

        await until(served, f"{name} is not served")
        return resource

    async def made(self, resource: Resource, name: str, kind: str = "", **content: Any) -> None:
        """An object."""
        metadata = {"name": name} | content.pop("metadata", {})
        body = {"metadata": metadata} | content
        if kind:
            body |= {"apiVersion": resource.api_version, "kind": kind}
        namespace = "default" if resource.namespaced else None
        await self._cluster.create(resource, json.dumps(body).encode(), namespace)
        self._made.append((resource, name, namespace))

    async def remove(self) -> None:
        """Delete all."""
        for each in reversed(self._made):
            with suppress(NotFound):
                await self._cluster.delete(*each)


def a_release(manifest: str, status: str = "deployed") -> dict[str, Any]:
    """The content of the Secret of a release."""
    stored = {"name": "web", "version": 1, "info": {"status": status}, "manifest": manifest}
    text = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(stored).encode()))).decode()
    return {"type": "helm.sh/release.v1", "data": {"release": text}, "metadata": {"labels": {"owner": "helm"}}}

"""A CRD that another project published, made to live through an upgrade: only its storage and served flags are set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from restow.controlplane.errors import NotStoredError
from restow.controlplane.etcd import Etcd
from restow.kube.client import HttpCluster
from restow.kube.errors import Conflict, NotFound, ServerError, TooManyRequests
from restow.kube.resources import CRDS
from tests.apiserver.kind import Document, Kind, until


class PublishedKind(Kind):
    """The custom resource of a published CRD, with strategy None.

    Args:
        cluster, etcd: where it lives.
        published: the CRD as published.
        canaries: the smallest valid ``spec`` at each version, to see at which version new objects are stored.
    """

    def __init__(self, cluster: HttpCluster, etcd: Etcd, published: Document, canaries: dict[str, Document]) -> None:
        super().__init__(cluster, etcd, published["spec"]["group"])
        self.plural = published["spec"]["names"]["plural"]
        self.name = published["metadata"]["name"]
        self.schemas: dict[str, Document] = {
            version["name"]: version["schema"]["openAPIV3Schema"] for version in published["spec"]["versions"]
        }
        self._published = published
        self._canaries = canaries

    def document(self, *, storage: str, versions: Sequence[str] = ("v1beta1", "v1beta2"), **_other: Any) -> Document:
        """The CRD with these versions, all of them served."""
        published = self._published
        flagged = [
            version | {"served": True, "storage": version["name"] == storage}
            for version in published["spec"]["versions"]
            if version["name"] in versions
        ]
        head = {key: published[key] for key in ("apiVersion", "kind")}
        return head | {"metadata": {"name": self.name}, "spec": published["spec"] | {"versions": flagged}}

    def manifest(self, version: str, name: str, namespace: str = "default", **parts: Any) -> Document:
        """An object's manifest; see ``Kind``."""
        return super().manifest(version, name, namespace, **parts) | {"kind": self._published["spec"]["names"]["kind"]}

    async def serves(self, document: Document) -> None:
        """Wait as ``Kind`` does, and until versions that were taken out are served no longer."""
        await super().serves(document)
        there = {version["name"] for version in document["spec"]["versions"]}

        async def none_listed() -> bool:
            return all([await self._is_unknown(version) for version in self.schemas.keys() - there])

        await until(none_listed, f"{self.name} still serves versions that were taken out")

    async def remove(self) -> None:
        """Delete the CRD and wait until it is gone: another test will want the name."""
        await super().remove()

        async def gone() -> bool:
            try:
                await self.cluster.get(CRDS, self.name)
            except NotFound:
                return True
            return False

        await until(gone, f"{self.name} is still there")

    async def _stores_at(self, version: str) -> bool:
        body = self.manifest(version, "canary", spec=self._canaries[version])
        try:
            await self.cluster.create(self.at(version), json.dumps(body).encode(), "default")
            stored = await self.etcd.stored_object(self.group, self.plural, "default", "canary")
            await self.cluster.delete(self.at(version), "canary", "default")
        except (Conflict, NotFound, NotStoredError, ServerError, TooManyRequests):
            return False
        return bool(stored["apiVersion"] == f"{self.group}/{version}")

    async def _is_unknown(self, version: str) -> bool:
        try:
            await self.cluster.list_page(self.at(version), params={"limit": "1"})
        except NotFound:
            return True
        except TooManyRequests:
            pass
        return False

"""A kind of one's own with two versions, and objects that are stored at the old one."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.node.clients import create_all
from tests.node.cluster import Cluster
from tests.node.nodes import wait_for

__all__ = ["Kind"]

_OLD, _NEW = "v1alpha1", "v1"


@dataclass
class Kind:
    """Widgets of example.com, for instance."""

    cluster: Cluster
    plural: str

    @property
    def crd(self) -> str:
        """The name of the CRD."""
        return f"{self.plural}.example.com"

    def create(self, count: int) -> None:
        """Create the CRD and so many objects at the old version, which is no longer the storage version then."""
        self._apply([self._definition(_OLD)])
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", self.crd)
        wait_for(lambda: self.plural in self.cluster.kubectl("api-resources", "--api-group=example.com"), "not served")
        path = f"/apis/example.com/{_OLD}/namespaces/default/{self.plural}"
        create_all(self.cluster.plane, path, [self._object(number) for number in range(count)])
        self._apply([self._definition(_NEW)])

    def back(self) -> None:
        """Make the other version the storage version."""
        self._apply([self._definition(_OLD)])

    def forth(self) -> None:
        """Make the new version the storage version again."""
        self._apply([self._definition(_NEW)])

    def writes(self) -> list[int]:
        """Return how often each object was written since it was created."""
        keys = [f"/registry/example.com/{self.plural}{end}" for end in "/0"]
        start, end = (base64.b64encode(each.encode()).decode() for each in keys)
        asked = json.dumps({"key": start, "range_end": end, "keys_only": True}).encode()
        with urllib.request.urlopen(f"{self.cluster.plane.etcd.url}/v3/kv/range", asked) as answer:
            return [int(each["version"]) - 1 for each in json.load(answer).get("kvs", [])]

    def remove(self) -> None:
        """Delete everything."""
        self.cluster.kubectl("delete", "crd", self.crd, "--ignore-not-found", "--wait")

    def stored_versions(self) -> list[str]:
        """Return what the CRD says."""
        found: list[str] = self.cluster.get("crd", self.crd)["status"]["storedVersions"]
        return found

    def _apply(self, documents: Iterable[dict[str, Any]]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)})
        self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)

    def _object(self, number: int) -> dict[str, Any]:
        metadata = {"name": f"object-{number}", "namespace": "default"}
        return {
            "apiVersion": f"example.com/{_OLD}",
            "kind": self._kind,
            "metadata": metadata,
            "spec": {"size": number, "text": "x" * 2000},
        }

    @property
    def _kind(self) -> str:
        return self.plural.removesuffix("s").capitalize()

    def _definition(self, storage: str) -> dict[str, Any]:
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        versions = [
            {"name": name, "served": True, "storage": name == storage, "schema": schema} for name in (_NEW, _OLD)
        ]
        names = {
            "plural": self.plural,
            "singular": self._kind.lower(),
            "kind": self._kind,
            "listKind": f"{self._kind}List",
        }
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.crd},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions},
        }

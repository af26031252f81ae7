"""What a sample of a published CRD's objects is made of: writes by several managers, in the ways that clients have.

Objects that use fields which the newer version does not have live in a namespace of their own, ``lossy``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.apiserver.kind import Document
from tests.apiserver.published import PublishedKind

How = Literal["apply", "create", "merge", "put"]

LOSSY = "lossy"


@dataclass(frozen=True)
class Write:
    """One write of an object: server-side apply, POST, merge patch, or read-change-PUT."""

    manager: str
    how: How
    parts: Document
    subresource: str | None = None
    version: str = "v1beta1"


@dataclass(frozen=True)
class Sample:
    """Objects of one CRD.

    Attributes:
        file: the published CRD.
        canaries: a minimal valid spec at each version.
        objects: writes by object name.
        lossy: objects that use fields which v1beta2 does not have.
        both_served: whether v1beta2 is served from the start, next to the storage version v1beta1.
    """

    file: str
    canaries: dict[str, Document]
    objects: Mapping[str, tuple[Write, ...]]
    lossy: frozenset[str] = field(default_factory=frozenset)
    both_served: bool = False

    def namespace(self, name: str) -> str:
        """Where an object lives."""
        return LOSSY if name in self.lossy else "default"


async def create_objects(kind: PublishedKind, sample: Sample) -> dict[str, Document]:
    """Carry out all writes of a sample; return what is stored then, by ``namespace/name``."""
    await kind.namespace(LOSSY)
    for name, writes in sample.objects.items():
        for write in writes:
            await carry_out(kind, name, write, sample.namespace(name))
    return await kind.stored()


async def carry_out(kind: PublishedKind, name: str, write: Write, namespace: str = "default") -> Document:
    """Do one write, and return the answer."""
    manifest = kind.manifest(write.version, name, namespace, **write.parts)
    resource, params = kind.at(write.version), {"fieldManager": write.manager}
    if write.how == "apply":
        return await kind.apply(manifest, write.manager, subresource=write.subresource)
    if write.how == "merge":
        return await kind.merge(
            write.version, name, write.parts, write.manager, namespace, subresource=write.subresource
        )
    if write.how == "create":
        reply = await kind.cluster.create(resource, json.dumps(manifest).encode(), namespace, params=params)
    else:
        now = await kind.get(write.version, name, namespace)
        for part, content in write.parts.items():
            now[part] = now.get(part, {}) | content
        body = json.dumps(now).encode()
        reply = await kind.cluster.replace(
            resource, name, body, namespace, subresource=write.subresource, params=params
        )
    written: Document = reply.json()
    return written


def applied(manager: str, *, version: str = "v1beta1", **parts: Any) -> Write:
    """A server-side apply."""
    return Write(manager, "apply", parts, version=version)


def status(manager: str, how: How = "apply", **content: Any) -> Write:
    """A write of the status."""
    return Write(manager, how, {"status": content}, "status")


def ref(kind: str, name: str, api_version: str = "infrastructure.cluster.x-k8s.io/v1beta1") -> Document:
    """An object reference in full, as v1beta1 has them; v1beta2 knows kind and name of it."""
    return {"apiVersion": api_version, "kind": kind, "name": name, "namespace": "default"}


def condition(kind: str, state: str = "True", **more: str) -> Document:
    """A condition that is valid at both versions."""
    told = {"reason": "Provisioned", "message": "fine", "lastTransitionTime": "2025-03-01T10:00:00Z"}
    return {"type": kind, "status": state} | told | more


CONDITIONS = [condition("Ready"), condition("Available", "False", message="waiting", reason="Waiting")]
SEVERE = [condition("Ready", "False", severity="Error", message="no network"), condition("Available")]
LABELS = {"labels": {"cluster.x-k8s.io/cluster-name": "prod"}, "annotations": {"cluster.x-k8s.io/paused": "no"}}
V2_REF = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachine", "name": "m"}

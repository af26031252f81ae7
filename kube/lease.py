"""The Lease object (coordination.k8s.io/v1) that an election is held on: read it, and write one's record into it.

A write is an update of what was last read or written, so the server refuses it (409) if anyone wrote in between. What
elections do not use of the object (labels, owners, other fields of the spec) is written back as it was read.
"""

from __future__ import annotations

from typing import Any

import msgspec

from restow.kube.cluster import Cluster
from restow.kube.election import LeaseRecord
from restow.kube.errors import NotFound
from restow.kube.resources import LEASES, qualified_name

__all__ = ["Lease"]


class Lease:
    """The Lease object. What elections do not use of it (labels, owners, …) is written back as it was read."""

    def __init__(self, cluster: Cluster, name: str, namespace: str) -> None:
        self._cluster = cluster
        self._name = name
        self._namespace = namespace
        self._document: dict[str, Any] | None = None
        self.ours = False
        """Whether the document is the answer to our own last write."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return qualified_name(self._namespace, self._name)

    def __str__(self) -> str:
        return f"lease {self.key}"

    async def read(self) -> LeaseRecord | None:
        """Return what the lease says, or None if there is none."""
        self.ours = False
        try:
            reply = await self._cluster.get(LEASES, self._name, self._namespace)
        except NotFound:
            self._document = None
            return None
        lease = reply.decode(_lease)
        self._document = reply.decode(_document)
        return lease.spec

    async def write(self, record: LeaseRecord) -> None:
        """Create the lease, or update it as it was last read or written.

        Raises:
            Conflict: it is not so any more.
        """
        self.ours = False
        spec = msgspec.to_builtins(record)
        if self._document is None:
            new = {
                "apiVersion": LEASES.api_version,
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": spec,
            }
            reply = await self._cluster.create(LEASES, msgspec.json.encode(new), self._namespace)
        else:
            changed = self._document | {"spec": (self._document.get("spec") or {}) | spec}
            reply = await self._cluster.replace(LEASES, self._name, msgspec.json.encode(changed), self._namespace)
        self._document = reply.decode(_document)
        self.ours = True


class _LeaseObject(msgspec.Struct, frozen=True):
    spec: LeaseRecord = msgspec.field(default_factory=LeaseRecord)


_lease = msgspec.json.Decoder(_LeaseObject)
_document = msgspec.json.Decoder(dict[str, Any])

"""Change a field of any object without a change of ownership.

A write changes the field's owner in managedFields: the API server removes a changed field from its owner and assigns it
to the writer. Therefore the module writes under the name of the field's owner. If the owner's entry is an Update at the
same version, this is enough. Otherwise a second write restores the previous managedFields; it changes nothing else, so
the API server keeps them as sent. The module compares every answer with the previous ownership.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

from restow.crds import fieldpath
from restow.kube.cluster import Cluster, PatchType
from restow.kube.errors import Conflict
from restow.kube.resources import Resource
from restow.kube.retry import with_retries
from restow.migrator.ownership.entries import FIELD_MANAGER, ManagedFieldsEntry, same_ownership
from restow.migrator.requests.wire import Meta, combined_patch, object_decoder


class WriteOutcome(Enum):
    """The result of a write; the value of a failure is a sentence."""

    WRITTEN = ""
    CONFLICT = "another client wrote the object meanwhile"
    LOSES_OWNERS = (
        "a write would lose the owners of its fields, since the API server cannot convert an entry of its "
        "managedFields; migrate the CRD of the object first (restow migrate), then run again"
    )
    OWNER_CHANGED = (
        "it was moved, but another client wrote the object meanwhile, so its owner by server-side apply owns it as an "
        "update now; have that owner apply again with force"
    )


class OwnedWrites:
    """Writes to a cluster.

    Args:
        cluster: the API server.
        dry_run: send every write with ``dryRun=All``.

    Attributes:
        count: the number of requests that changed something.
    """

    def __init__(self, cluster: Cluster, *, dry_run: bool = False) -> None:
        self._cluster = with_retries(cluster)
        self._dry_run = dry_run
        self.count = 0

    async def change(
        self,
        resource: Resource,
        meta: Meta,
        changes: Mapping[str, str],
        path: Sequence[str],
        *,
        subresource: str | None = None,
    ) -> WriteOutcome:
        """Change strings of one object.

        Args:
            resource: the resource, at the version to write at.
            meta: the object's metadata as read.
            changes: the new strings by JSON pointer.
            path: the path of the first one in managedFields.
            subresource: the subresource to write, such as ``status``; None for the object itself.

        Raises:
            KubeError: the API server refuses the write, or cannot be reached.
        """
        replace = {"/metadata/resourceVersion": meta.resource_version, **changes}
        body = msgspec.json.encode([{"op": "replace", "path": at, "value": value} for at, value in replace.items()])
        owner = {"fieldManager": _owner_of(meta, path)}
        try:
            # First a dry run: an entry that cannot be converted makes the server drop all others, as the answer shows.
            answer = await self._patch(resource, meta, body, PatchType.JSON, owner | {"dryRun": "All"}, subresource)
            if meta.managed_fields and not answer.managed_fields:
                return WriteOutcome.LOSES_OWNERS
            if self._dry_run:
                return WriteOutcome.WRITTEN
            answer = await self._patch(resource, meta, body, PatchType.JSON, owner, subresource)
        except Conflict:
            return WriteOutcome.CONFLICT
        return WriteOutcome.WRITTEN if await self._restored(resource, meta, answer) else WriteOutcome.OWNER_CHANGED

    async def _restored(self, resource: Resource, before: Meta, now: Meta) -> bool:
        """Restore the previous managedFields; return false if another client wrote the object meanwhile."""
        if not before.managed_fields or same_ownership(before.managed_fields, now.managed_fields):
            return True
        body = combined_patch(now.resource_version, before.managed_fields)
        try:
            now = await self._patch(resource, now, body, PatchType.MERGE, {"fieldManager": FIELD_MANAGER})
        except Conflict:
            return False
        return same_ownership(before.managed_fields, now.managed_fields)

    async def _patch(
        self,
        resource: Resource,
        meta: Meta,
        body: bytes,
        patch_type: PatchType,
        params: dict[str, str],
        subresource: str | None = None,
    ) -> Meta:
        self.count += "dryRun" not in params
        reply = await self._cluster.patch(
            resource,
            meta.name,
            body,
            meta.namespace or None,
            patch_type=patch_type,
            subresource=subresource,
            params=params,
            metadata_only=True,
        )
        return reply.decode(object_decoder).metadata


def _owner_of(meta: Meta, path: Sequence[str]) -> str:
    """Return the manager that owns a field: the entry that names the longest part of its path, Updates first."""
    best, owner = 0, FIELD_MANAGER
    for entry in sorted(meta.managed_fields, key=lambda each: each.operation != "Update"):
        if (depth := _depth(entry, path)) > best:
            best, owner = depth, entry.manager
    return owner


def _depth(entry: ManagedFieldsEntry, path: Sequence[str]) -> int:
    try:
        node: Any = fieldpath.decode(entry.fields)
    except msgspec.MsgspecError:
        return 0
    for depth, element in enumerate(path):
        if element not in node:
            return depth
        node = node[element]
    return len(path)

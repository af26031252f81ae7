"""How the controllers write: merge patches of the object that was looked at, and of no other.

Every patch carries the resourceVersion that its decision was made on. If the object has changed since, the API server
refuses it (409) and the decision is made again; nothing is ever written for a spec that is no longer there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from restow.cloudprofile.parts import Object
from restow.kube.cluster import Cluster, PatchType
from restow.kube.controller import Result
from restow.kube.errors import Conflict, NotFound
from restow.kube.resources import Resource
from restow.kube.sources import Key

__all__ = ["MANAGER", "Reconcile", "again_if_changed", "patch"]

MANAGER: Final = "restow-cloudprofile"
"""The field manager of the controllers."""

Reconcile = Callable[[Key], Awaitable[Result]]

_SOON = 0.1  # seconds: the watch that tells of the change is about as long behind

_encode = msgspec.json.Encoder().encode


async def patch(
    cluster: Cluster,
    resource: Resource,
    obj: Object,
    change: Mapping[str, Any],
    *,
    subresource: str | None = None,
    dry_run: bool = False,
) -> Object:
    """Merge a change into an object as it was read; return the object afterwards.

    Raises:
        Conflict: the object has changed since, or was made again.
        NotFound: it is gone.
        KubeError: the API server refuses the write otherwise, or cannot be reached.
    """
    metadata = obj["metadata"]
    guarded = {name: metadata[name] for name in ("uid", "resourceVersion") if name in metadata}
    body = {**change, "metadata": {**change.get("metadata", {}), **guarded}}
    params = {"fieldManager": MANAGER} | ({"dryRun": "All"} if dry_run else {})
    reply = await cluster.patch(
        resource,
        metadata["name"],
        _encode(body),
        metadata.get("namespace"),
        patch_type=PatchType.MERGE,
        subresource=subresource,
        params=params,
    )
    after: Object = reply.json()
    return after


def again_if_changed(resource: Resource, reconcile: Reconcile) -> Reconcile:
    """Return a reconciler for which an object that changed or went meanwhile is no failure."""

    async def reconciled(key: Key) -> Result:
        try:
            return await reconcile(key)
        except Conflict:
            return Result(requeue_after=_SOON)
        except NotFound as error:
            if error.names(resource.plural, key.name):
                return Result()
            raise

    return reconciled

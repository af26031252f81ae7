"""How the controllers write: merge patches of the object that they decided on, and Kubernetes Events.

Every patch carries the resourceVersion that its decision was made on. If the object has changed since, the API server
refuses it (409) and the decision is made again; nothing is ever written for a spec that is no longer there.

Events are best effort: one that cannot be written is logged and changes nothing else. A level-triggered controller
finds the same fact again and again; ``EventRecorder.record`` writes it once, until ``forget``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Final

import msgspec

from restow.cloudprofile.objects import GROUP, HUB, Object, ObjectEvent
from restow.kube.clock import Clock
from restow.kube.cluster import Cluster, PatchType
from restow.kube.controller import ReconcileResult
from restow.kube.errors import Conflict, NotFound
from restow.kube.events import event_body, write_event
from restow.kube.resources import Resource
from restow.kube.watch import Key

__all__ = ["MANAGER", "EventRecorder", "Reconcile", "again_if_changed", "patch"]


MANAGER: Final = "restow-cloudprofile"
"""The field manager of the controllers."""

Reconcile = Callable[[Key], Awaitable[ReconcileResult]]

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

    async def reconciled(key: Key) -> ReconcileResult:
        try:
            return await reconcile(key)
        except Conflict:
            return ReconcileResult(requeue_after=_SOON)
        except NotFound as error:
            if error.names(resource.plural, key.name):
                return ReconcileResult()
            raise

    return reconciled


class EventRecorder:
    """Writes events.

    Args:
        cluster: where.
        controller: who reports, a qualified name.
        instance: this process.
        clock: its ``now``.
    """

    def __init__(self, cluster: Cluster, controller: str, instance: str, clock: Clock) -> None:
        self._cluster = cluster
        self._controller = controller
        self._instance = instance
        self._clock = clock
        self._recorded: dict[Key, Hashable] = {}

    async def record(self, event: ObjectEvent, kind: str, obj: Object, key: Key, meaning: Hashable = None) -> bool:
        """Write an event unless the last one about this key meant the same; return whether it is new.

        ``meaning`` is what to compare, the message by default.
        """
        meaning = event.message if meaning is None else meaning
        if self._recorded.get(key) == meaning:
            return False
        self._recorded[key] = meaning
        await self.write(event, kind, obj)
        return True

    def forget(self, key: Key) -> None:
        """Forget the last event about a key: what it says no longer holds."""
        self._recorded.pop(key, None)

    async def write(self, event: ObjectEvent, kind: str, obj: Object) -> None:
        """Write an event."""
        metadata = obj["metadata"]
        regarding = {"apiVersion": f"{GROUP}/{HUB}", "kind": kind} | {
            name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion") if metadata.get(name)
        }
        body = event_body(
            regarding=regarding,
            type=event.type,
            reason=event.reason,
            action="Reconcile",
            note=event.message,
            at=self._clock.now(),
            controller=self._controller,
            instance=self._instance,
        )
        await write_event(self._cluster, body)

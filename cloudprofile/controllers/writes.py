"""The writes of the controllers: merge patches and Kubernetes Events.

Every patch has the resourceVersion of the object that the decision was made for. If the object has changed since, the
API server refuses the patch (409) and the controller decides again; it never writes for an outdated spec.

Events are best effort: if an Event cannot be written, that is logged. A level-triggered controller finds the same fact
repeatedly; ``EventRecorder.record`` writes it once, until ``forget`` is called.
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
from restow.kube.listwatch import Key
from restow.kube.resources import Resource

MANAGER: Final = "restow-cloudprofile"
"""The field manager of the controllers."""

Reconcile = Callable[[Key], Awaitable[ReconcileResult]]

_SOON = 0.1  # seconds, about the delay of the watch that delivers the change

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
    """Apply a merge patch to an object at the resourceVersion that was read; return the patched object.

    Raises:
        Conflict: the object has changed since, or was deleted and created again.
        NotFound: the object is gone.
        KubeError: the API server refuses the write for another reason, or cannot be reached.
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
    """Return a reconciler that tries again after a conflict, and does nothing if its object was deleted meanwhile."""

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
    """A writer of Events that writes each once.

    Args:
        cluster: the API server.
        controller: the reporting controller, a qualified name.
        instance: this process.
        clock: its ``now`` gives the times of Events.
    """

    def __init__(self, cluster: Cluster, controller: str, instance: str, clock: Clock) -> None:
        self._cluster = cluster
        self._controller = controller
        self._instance = instance
        self._clock = clock
        self._recorded: dict[Key, Hashable] = {}

    async def record(self, event: ObjectEvent, kind: str, obj: Object, key: Key, meaning: Hashable = None) -> bool:
        """Write an Event unless the last one for this key had the same meaning; return whether it was written.

        Two Events are the same if their ``meaning`` is equal; by default the message is compared.
        """
        meaning = event.message if meaning is None else meaning
        if self._recorded.get(key) == meaning:
            return False
        self._recorded[key] = meaning
        await self.write(event, kind, obj)
        return True

    def forget(self, key: Key) -> None:
        """Forget the last Event of a key, because it no longer holds."""
        self._recorded.pop(key, None)

    async def write(self, event: ObjectEvent, kind: str, obj: Object) -> None:
        """Write an Event."""
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

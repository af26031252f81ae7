"""Kubernetes Events about profiles and Shoots: what a person finds with ``kubectl describe``.

Best effort: an event that cannot be written is logged and changes nothing else. What is said again and again, since a
level-triggered controller comes by again and again, is written once; see ``say`` and ``unsay``.
"""

from __future__ import annotations

from collections.abc import Hashable

from restow.cloudprofile.maintenancereport import Event
from restow.cloudprofile.parts import Object
from restow.cloudprofile.resources import GROUP, HUB
from restow.kube.clock import Clock
from restow.kube.cluster import Cluster
from restow.kube.events import event_body, write_event
from restow.kube.sources import Key

__all__ = ["Recorder"]


class Recorder:
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
        self._said: dict[Key, Hashable] = {}

    async def say(self, event: Event, kind: str, obj: Object, key: Key, meaning: Hashable = None) -> bool:
        """Write an event unless the last one about this key meant the same; return whether it is new.

        ``meaning`` is what to compare, the message by default.
        """
        meaning = event.message if meaning is None else meaning
        if self._said.get(key) == meaning:
            return False
        self._said[key] = meaning
        await self.write(event, kind, obj)
        return True

    def unsay(self, key: Key) -> None:
        """Forget what was said about a key: it no longer holds."""
        self._said.pop(key, None)

    async def write(self, event: Event, kind: str, obj: Object) -> None:
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

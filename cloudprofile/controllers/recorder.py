"""Kubernetes Events about profiles and Shoots: what a person finds with `kubectl describe`.

Best effort: an event that cannot be written is logged and changes nothing else. What is said again and again, since a
level-triggered controller comes by again and again, is written once; see `say` and `unsay`.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from datetime import UTC, datetime
from typing import Any

import msgspec

from restow.cloudprofile.maintenancereport import Event
from restow.cloudprofile.parts import Object
from restow.cloudprofile.resources import GROUP, HUB
from restow.kube.clock import Clock
from restow.kube.cluster import Cluster
from restow.kube.errors import KubeError
from restow.kube.failures import describe_failure
from restow.kube.resources import EVENTS
from restow.kube.sources import Key

__all__ = ["Recorder", "event_body"]

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode

_LONGEST_NOTE = 1024  # characters that an API server takes
_LONGEST_NAME = 200


def event_body(event: Event, kind: str, obj: Object, controller: str, instance: str, now: datetime) -> dict[str, Any]:
    """Return an Event of events.k8s.io/v1 about an object; that of a cluster-scoped one is in `default`."""
    metadata = obj["metadata"]
    regarding = {"apiVersion": f"{GROUP}/{HUB}", "kind": kind} | {
        name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion") if metadata.get(name)
    }
    note = event.message if len(event.message) <= _LONGEST_NOTE else event.message[: _LONGEST_NOTE - 1] + "…"
    return {
        "metadata": {
            "generateName": f"{metadata['name'][:_LONGEST_NAME]}-",
            "namespace": metadata.get("namespace") or "default",
        },
        "eventTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "type": event.type,
        "reason": event.reason,
        "action": "Reconcile",
        "note": note,
        "regarding": regarding,
        "reportingController": controller,
        "reportingInstance": instance,
    }


class Recorder:
    """Writes events.

    Args:
        cluster: where.
        controller: who reports, a qualified name.
        instance: this process.
        clock: its `now`.
    """

    def __init__(self, cluster: Cluster, controller: str, instance: str, clock: Clock) -> None:
        self._cluster = cluster
        self._controller = controller
        self._instance = instance
        self._clock = clock
        self._said: dict[Key, Hashable] = {}

    async def say(self, event: Event, kind: str, obj: Object, key: Key, meaning: Hashable = None) -> bool:
        """Write an event unless the last one about this key meant the same; return whether it is new.

        `meaning` is what to compare, the message by default.
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
        body = event_body(event, kind, obj, self._controller, self._instance, self._clock.now())
        try:
            await self._cluster.create(EVENTS, _encode(body), body["metadata"]["namespace"])
        except KubeError as error:
            _log.warning("event %s about %s not written: %s", event.reason, kind, describe_failure(error))

"""Kubernetes Events, which ``kubectl describe`` shows: within the API server's limits, and best effort."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from restow.kube.clock import micro_time
from restow.kube.cluster import Cluster
from restow.kube.errors import KubeError, describe_failure
from restow.kube.resources import EVENTS

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode

_LONGEST_NOTE = 1024  # bytes that an API server accepts
_LONGEST_NAME = 200  # characters of the object's name; a unique suffix follows it
_LONGEST_INSTANCE = 128


def event_body(
    *,
    regarding: Mapping[str, str],
    type: str,  # noqa: A002 - the field's name
    reason: str,
    action: str,
    note: str,
    at: datetime,
    controller: str,
    instance: str,
) -> dict[str, Any]:
    """Return an Event of events.k8s.io/v1; the function cuts fields that are too long for an API server.

    Args:
        regarding: the object by ``apiVersion``, ``kind``, ``name``, ``uid``, and ``namespace`` if it has one; Events
            about a cluster-scoped object are in ``default``.
        type: ``Normal`` or ``Warning``.
        reason: one word in CamelCase, for programs.
        action: what the controller did, one word in CamelCase.
        note: the message.
        at: the time of the event.
        controller: the reporting controller, a qualified name (``example.com/operator``).
        instance: this process.
    """
    return {
        "metadata": {
            "generateName": f"{regarding['name'][:_LONGEST_NAME]}-",
            "namespace": regarding.get("namespace") or "default",
        },
        "eventTime": micro_time(at),
        "type": type,
        "reason": reason,
        "action": action,
        "note": _cut(note),
        "regarding": dict(regarding),
        "reportingController": controller,
        "reportingInstance": instance[:_LONGEST_INSTANCE],
    }


async def write_event(cluster: Cluster, body: Mapping[str, Any]) -> None:
    """Write an Event; only log an error of the API server."""
    try:
        await cluster.create(EVENTS, _encode(body), body["metadata"]["namespace"])
    except KubeError as error:
        about = f"{body['regarding']['kind']} {body['regarding']['name']}"
        _log.warning("event %s about %s not written: %s", body["reason"], about, describe_failure(error))


def _cut(note: str) -> str:
    encoded = note.encode()
    if len(encoded) <= _LONGEST_NOTE:
        return note
    return encoded[: _LONGEST_NOTE - 3].decode(errors="ignore") + "…"

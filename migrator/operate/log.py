"""The hooks that a reconciler has by default: structured logs of a migration, and Kubernetes Events on a CRD.

``log_details`` writes one line per event, with its numbers as fields of the record. ``Events`` writes what ``kubectl
describe crd`` shows. A level-triggered reconciler finds the same state repeatedly. It repeats an Event once an hour,
because an API server keeps Events for an hour by default. The number of Events of a CRD is limited. If an Event cannot
be written, this is only logged.
"""

from __future__ import annotations

import logging
import socket
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from restow.kube.cluster import Cluster
from restow.kube.events import event_body, write_event
from restow.kube.resources import CRDS
from restow.migrator.operate.hooks import MigrationDetails, MigrationEvent

_log = logging.getLogger(__name__)

_LEVELS = {
    MigrationEvent.IDLE: logging.DEBUG,
    MigrationEvent.SETTLING: logging.DEBUG,
    MigrationEvent.FAILED: logging.WARNING,
    MigrationEvent.REFUSED: logging.WARNING,
}


def log_details(details: MigrationDetails) -> None:
    """Log an event, as a hook: problems as warnings, events without work at the level debug.

    The record has an attribute ``migration``, a flat dict that a JSON formatter can write.
    """
    level = _LEVELS.get(details.event, logging.INFO)
    if not _log.isEnabledFor(level):
        return
    fields = {
        "crd": details.crd,
        "happening": details.event.value,
        "due": [phase.value for phase in details.due],
        "storageVersion": details.storage_version,
        "storedVersions": list(details.stored_versions),
        "pruned": details.pruned,
        "objects": dict(details.objects),
        "requests": dict(details.requests),
        "remaining": details.remaining,
        "failures": details.failures,
        "failed": [asdict(each) for each in details.failed],
        "references": {
            each.of.version: {
                "againstUnserving": sum(each.against_unserving.values()),
                "againstRemoval": sum(each.against_removal.values()),
            }
            for each in details.references
        },
        "durationSeconds": round(details.duration_s, 3),
    }
    _log.log(
        level,
        "%s: %s: %s%s",
        details.crd,
        details.event,
        details.message,
        _again(details),
        extra={"migration": fields},
    )


def _again(details: MigrationDetails) -> str:
    """Return when the CRD is reconciled again; a stopped run continues in another process, or never."""
    after = details.requeue_after
    if after is None or details.event is MigrationEvent.STOPPED:
        return ""
    if after <= 0:
        return "; looking again at once"
    return f"; again in {after:.0f} s" if after >= 1 else f"; again in {after:.1f} s"


_SAID_FOR_S = 3600.0  # kube-apiserver --event-ttl
_BURST = 25  # as client-go's spam filter
_REFILL_S = 300.0

_REASONS = {
    MigrationEvent.STARTED: ("Normal", "MigrationStarted"),
    MigrationEvent.FINISHED: ("Normal", "MigrationFinished"),
    MigrationEvent.STOPPED: ("Normal", "MigrationStopped"),
    MigrationEvent.FAILED: ("Warning", "MigrationFailed"),
    MigrationEvent.REFUSED: ("Warning", "MigrationRefused"),
}


def event_of(details: MigrationDetails, controller: str, instance: str) -> dict[str, Any] | None:
    """Return an Event of events.k8s.io/v1 on the CRD; None for details that need no Event.

    Args:
        details: the event of the migration.
        controller: the reporting controller, a qualified name (``example.com/operator``).
        instance: this process.
    """
    said = _REASONS.get(details.event)
    if said is None or not details.uid:
        return None
    return event_body(
        regarding={
            "apiVersion": CRDS.api_version,
            "kind": "CustomResourceDefinition",
            "name": details.crd,
            "uid": details.uid,
        },
        type=said[0],
        reason=said[1],
        action="Migrate",
        note=details.message,
        at=details.at,
        controller=controller,
        instance=instance,
    )


@dataclass(slots=True)
class _Said:
    """The Events of one CRD so far: the last one of each kind with its time, and the number of further ones allowed."""

    last: dict[MigrationEvent, tuple[str, datetime]] = field(default_factory=dict)
    left: float = _BURST
    counted: datetime | None = None


class EventLimiter:
    """Remembers the Events of each CRD."""

    def __init__(self) -> None:
        self._said: dict[str, _Said] = {}

    def worth_saying(self, details: MigrationDetails) -> bool:
        """Record an event of a migration; return whether to write a Kubernetes Event."""
        if details.event is MigrationEvent.FORGOTTEN:
            self._said.pop(details.crd, None)
            return False
        if details.event not in _REASONS or not details.uid:
            return False
        said = self._said.setdefault(details.crd, _Said())
        if self._repeats(said, details) or not _affords(said, details.at):
            return False
        if details.event is MigrationEvent.FINISHED:
            said.last.clear()  # every following event is new
        said.last[details.event] = (details.message, details.at)
        return True

    def _repeats(self, said: _Said, details: MigrationDetails) -> bool:
        message, at = said.last.get(details.event, ("", details.at))
        return message == details.message and (details.at - at).total_seconds() < _SAID_FOR_S


def _affords(said: _Said, at: datetime) -> bool:
    if said.counted is not None:
        said.left = min(_BURST, said.left + max(0.0, (at - said.counted).total_seconds()) / _REFILL_S)
    said.counted = at
    if said.left < 1:
        return False
    said.left -= 1
    return True


class Events:
    """A hook that writes Events: started, finished with counts, stopped, failed and refused with the reason.

    Needs ``create`` on ``events`` of ``events.k8s.io`` in the namespace ``default``.

    Args:
        cluster: the API server.
        controller: the reporting controller, a qualified name.
        instance: this process; the name of the host (the pod) by default.
    """

    def __init__(self, cluster: Cluster, controller: str = "restow.dev/migrator", instance: str = "") -> None:
        self._cluster = cluster
        self._controller = controller
        self._instance = instance or socket.gethostname()
        self._announcements = EventLimiter()

    async def __call__(self, details: MigrationDetails) -> None:
        """Write an Event about the details if they are new."""
        news = self._announcements.worth_saying(details)
        body = event_of(details, self._controller, self._instance)
        if body is not None and news:
            await write_event(self._cluster, body)

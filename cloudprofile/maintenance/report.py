"""What a Shoot's ``status.lastMaintenance`` and its events say of a maintenance. Pure.

Texts are Gardener's, so that what reads them there can read them here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from restow.cloudprofile.objects import ObjectEvent

__all__ = [
    "MaintenanceMessages",
    "MaintenanceReport",
    "MaintenanceUpdate",
    "events",
    "last_maintenance",
    "messages",
    "rejected",
    "succeeded",
]


@dataclass(frozen=True, slots=True)
class MaintenanceUpdate:
    """One update of a maintenance.

    Attributes:
        successful: whether it was possible.
        description: what was changed, or why nothing could be.
        reason: why it was due.
    """

    successful: bool
    description: str
    reason: str


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """Everything that a maintenance did, and what it could not do.

    Attributes:
        control_plane: the update of the control plane's Kubernetes version, if one was due.
        workers_kubernetes, workers_machine_image: updates of worker pools, by their names.
        credentials: rotations, by what is rotated.
        operations: other changes, each a sentence.
    """

    control_plane: MaintenanceUpdate | None = None
    workers_kubernetes: Mapping[str, MaintenanceUpdate] = field(default_factory=dict)
    workers_machine_image: Mapping[str, MaintenanceUpdate] = field(default_factory=dict)
    credentials: Mapping[str, MaintenanceUpdate] = field(default_factory=dict)
    operations: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.operations or any(True for _ in _lines(self)))


@dataclass(frozen=True, slots=True)
class MaintenanceMessages:
    """The texts of a maintenance.

    Attributes:
        description: all that was done or tried.
        failure_reason: why what failed did; empty where nothing failed.
    """

    description: str
    failure_reason: str


@dataclass(frozen=True, slots=True)
class _Line:
    """How one update is spoken of: who it concerns, and how its failure is put in the two texts."""

    update: MaintenanceUpdate
    subject: str
    failed: str
    cause: str
    event: str = ""


_KUBERNETES_EVENT = "KubernetesVersionMaintenance"
_IMAGE_EVENT = "MachineImageVersionMaintenance"


def _lines(report: MaintenanceReport) -> Iterator[_Line]:
    kubernetes_cause = "Kubernetes maintenance failure due to: "
    if report.control_plane:
        failed = "Kubernetes version update failed"
        yield _Line(report.control_plane, "Control Plane", failed, kubernetes_cause, _KUBERNETES_EVENT)
    for name, update in report.workers_kubernetes.items():
        failed = "Kubernetes version maintenance failed"
        yield _Line(update, f"Worker pool {json.dumps(name)}", failed, kubernetes_cause, _KUBERNETES_EVENT)
    for name, update in report.workers_machine_image.items():
        failed = "machine image version maintenance failed"
        yield _Line(update, f"Worker pool {json.dumps(name)}", failed, "", _IMAGE_EVENT)
    for name, update in report.credentials.items():
        cause = "Automatic rotation failure due to: "
        yield _Line(update, f"Credentials {json.dumps(name)}", "Automatic rotation failed", cause)


def messages(report: MaintenanceReport) -> MaintenanceMessages:
    """Return the texts of a maintenance."""
    lines = tuple(_lines(report))
    done = [_done(line) for line in lines]
    succeeded_count = sum(line.update.successful for line in lines)
    lead = "All" if succeeded_count == len(lines) else f"({succeeded_count}/{len(lines)})"
    listed = ", ".join((*done, *report.operations))
    causes = (f"{line.subject}: {line.cause}{line.update.description}" for line in lines if not line.update.successful)
    return MaintenanceMessages(f"{lead} maintenance operations successful. {listed}".rstrip(), ", ".join(causes))


def _done(line: _Line) -> str:
    if line.update.successful:
        return f"{line.subject}: {line.update.description}. Reason: {line.update.reason}"
    return f"{line.subject}: {line.failed}. Reason for update: {line.update.reason}"


def events(report: MaintenanceReport) -> tuple[ObjectEvent, ...]:
    """Return an event for each update of a version."""
    return tuple(_event(line) for line in _lines(report) if line.event)


def _event(line: _Line) -> ObjectEvent:
    if line.update.successful:
        return ObjectEvent("Normal", line.event, f"{_done(line)}.")
    return ObjectEvent("Warning", line.event, f"{_done(line)}. Error: {line.update.description}")


def last_maintenance(report: MaintenanceReport, now: datetime) -> dict[str, Any]:
    """Return ``status.lastMaintenance`` for a maintenance whose changes are about to be written.

    Its state is Processing, or Failed where an update was not possible; the others are written all the same.
    """
    texts = messages(report)
    status = {"description": texts.description, "triggeredTime": _time(now), "state": "Processing"}
    if texts.failure_reason:
        status |= {"state": "Failed", "failureReason": texts.failure_reason}
    return status


def rejected(why: str, now: datetime) -> dict[str, Any]:
    """Return ``status.lastMaintenance`` where the API server refused the changes; the next window tries again."""
    return {
        "description": "Maintenance failed",
        "triggeredTime": _time(now),
        "state": "Failed",
        "failureReason": f"Updates to the Shoot failed to be applied: {why}",
    }


def succeeded(status: Mapping[str, Any], report: MaintenanceReport) -> dict[str, Any]:
    """Return ``status.lastMaintenance`` after the changes of a report were written, or there were none to write.

    Processing becomes Succeeded. A failure of an earlier maintenance is over once one has nothing left to do.
    """
    after = dict(status)
    if report.is_empty and after.get("state") == "Failed":
        after |= {"state": "Succeeded", "description": "Maintenance succeeded"}
        after.pop("failureReason", None)
    elif after.get("state") == "Processing":
        after["state"] = "Succeeded"
    return after


def _time(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

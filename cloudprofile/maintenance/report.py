"""The report of a maintenance in a Shoot's status and Events. Pure.

The texts are Gardener's, so that programs that parse them there can parse them here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from restow.cloudprofile.objects import Object, ObjectEvent


@dataclass(frozen=True, slots=True)
class MaintenanceUpdate:
    """One update of a maintenance.

    Attributes:
        successful: whether it was possible.
        description: the change, or why it was not possible.
        reason: why it was due.
    """

    successful: bool
    description: str
    reason: str


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """All changes and failures of a maintenance.

    Attributes:
        control_plane: the update of the control plane's Kubernetes version, if one was due.
        workers_kubernetes, workers_machine_image: updates of worker pools, by their names.
        credentials: rotations, by the name of the credentials.
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
        description: all updates, done or tried.
        failure_reason: the reasons of the failures; empty if nothing failed.
    """

    description: str
    failure_reason: str


@dataclass(frozen=True, slots=True)
class _Line:
    """The wording for one update: its subject, and the phrases for its failure in the two texts."""

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

    The state is Processing, or Failed if an update was not possible; the other updates are still written.
    """
    texts = messages(report)
    status = {"description": texts.description, "triggeredTime": _time(now), "state": "Processing"}
    if texts.failure_reason:
        status |= {"state": "Failed", "failureReason": texts.failure_reason}
    return status


def rejected(why: str, now: datetime) -> dict[str, Any]:
    """Return ``status.lastMaintenance`` after the API server refused the changes; the next window tries again."""
    return {
        "description": "Maintenance failed",
        "triggeredTime": _time(now),
        "state": "Failed",
        "failureReason": f"Updates to the Shoot failed to be applied: {why}",
    }


def succeeded(status: Mapping[str, Any], report: MaintenanceReport) -> dict[str, Any]:
    """Return ``status.lastMaintenance`` after the changes of a report were written, or if there were none to write.

    Processing becomes Succeeded. A failure of an earlier maintenance ends when a maintenance has nothing left to do.
    """
    after = dict(status)
    if report.is_empty and after.get("state") == "Failed":
        after |= {"state": "Succeeded", "description": "Maintenance succeeded"}
        after.pop("failureReason", None)
    elif after.get("state") == "Processing":
        after["state"] = "Succeeded"
    return after


WINDOW_CONDITION: Final = "MaintenanceWindowValid"
"""The type of the condition that a Shoot gets when its maintenance window cannot be read."""


def window_conditions(shoot: Object, unreadable: str, now: datetime) -> list[Object] | None:
    """Return the conditions of a Shoot whose window cannot be read, or can be read again; None if they are up to date.

    ``unreadable`` is why it cannot be read; empty if it can.
    """
    conditions = list((shoot.get("status") or {}).get("conditions") or ())
    known = next((each for each in conditions if each.get("type") == WINDOW_CONDITION), None)
    if unreadable:
        says = {"status": "False", "reason": "WindowUnreadable", "message": f"{_FORCED_ANY_TIME}: {unreadable}"}
    elif known is not None:
        says = {"status": "True", "reason": "WindowReadable", "message": "The Shoot is maintained in its window."}
    else:
        return None
    if known is not None and {**known, **says} == known:
        return None
    changed = known is None or known.get("status") != says["status"]
    since = {"lastTransitionTime": _time(now)} if changed else {}
    others = [each for each in conditions if each is not known]
    return [*others, {**(known or {"type": WINDOW_CONDITION}), **says, **since}]


_FORCED_ANY_TIME = (
    "The maintenance window cannot be read, so forced updates happen at any time, and no others; change "
    "spec.maintenance.timeWindow"
)


def _time(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

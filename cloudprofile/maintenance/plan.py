"""The changes of a Shoot's maintenance, the merge patches that write them, and their report. Pure.

The texts of the report are Gardener's, so that programs that parse them there can parse them here.

Machine images are updated first, and chosen for the kubelets before the maintenance; then the control plane, then its
workers. The Kubernetes version of a worker pool is updated if the pool names its own, and never above the control
plane's. An update is automatic if the owner has enabled it (the default), and forced if a version is expired or no
longer in the profile, even if the owner has opted out (versioning policy).
``restow.cloudprofile.maintenance.schedule`` decides whether the Shoot may be maintained now.

As in Gardener, a worker pool whose machine type or image is not in the profile at all ends the search for images: pools
before it are updated, it and the pools after it are not, and ``image_error`` gives the reason. Kubernetes versions are
updated anyway.

The patches come in the order of the API: the changes are tried with a dry run, announced in the status, written, and
reported as done. If the dry run refuses the changes, they are reported as failed and not tried again before the next
window.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from restow.cloudprofile.maintenance.schedule import annotations_without_request
from restow.cloudprofile.objects import (
    Object,
    ObjectEvent,
    kubernetes_versions,
    machine_images,
    spec_of,
    with_condition,
    workers,
)
from restow.cloudprofile.shoots.machines import find_machine_type, fitting_versions, kubelet_version
from restow.cloudprofile.versions.lifecycle import whole_seconds
from restow.cloudprofile.versions.semver import parse
from restow.cloudprofile.versions.updates import auto_target, due, forced_target, image_due, image_target
from restow.kube.resources import merge_patch


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
    status = {"description": texts.description, "triggeredTime": whole_seconds(now), "state": "Processing"}
    if texts.failure_reason:
        status |= {"state": "Failed", "failureReason": texts.failure_reason}
    return status


def rejected(why: str, now: datetime) -> dict[str, Any]:
    """Return ``status.lastMaintenance`` after the API server refused the changes; the next window tries again."""
    return {
        "description": "Maintenance failed",
        "triggeredTime": whole_seconds(now),
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
    if unreadable:
        says = {"status": "False", "reason": "WindowUnreadable", "message": f"{_FORCED_ANY_TIME}: {unreadable}"}
    elif any(each.get("type") == WINDOW_CONDITION for each in conditions):
        says = {"status": "True", "reason": "WindowReadable", "message": "The Shoot is maintained in its window."}
    else:
        return None
    changed = with_condition(conditions, {"type": WINDOW_CONDITION, **says}, whole_seconds(now))
    return None if changed == conditions else changed


_FORCED_ANY_TIME = (
    "The maintenance window cannot be read, so forced updates happen at any time, and no others; change "
    "spec.maintenance.timeWindow"
)


class NotOffered(ValueError):
    """An error: the profile does not offer the machine type or image of a worker pool."""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The changes of a maintenance.

    Attributes:
        spec: the Shoot's spec afterwards; equal to the one before if nothing is due.
        report: the changes and the failures, with reasons.
        image_error: why the machine images of some worker pools were not checked; empty if all were.
    """

    spec: dict[str, Any]
    report: MaintenanceReport
    image_error: str = ""


def maintain(shoot: Object, offer: Object, now: datetime, *, forced_only: bool = False) -> Maintenance:
    """Decide the maintenance of a Shoot.

    Args:
        shoot: the Shoot.
        offer: the CloudProfile spec that applies to it.
        now: the time for which versions are classified.
        forced_only: leave out automatic updates, even if the owner has enabled them.
    """
    spec = dict(spec_of(shoot))
    automatic = not forced_only and _auto_update(spec, "machineImageVersion")
    pools, images, image_error = _maintain_images(shoot, offer, now, auto_update=automatic)
    version = (spec.get("kubernetes") or {}).get("version") or ""
    auto_update = not forced_only and _auto_update(spec, "kubernetesVersion")
    versions = kubernetes_versions(offer)
    control_plane = _maintain_kubernetes(versions, version, now, auto_update=auto_update)
    if control_plane.target:
        version = control_plane.target
        spec["kubernetes"] = {**spec["kubernetes"], "version": version}
    kubelets = {}
    for index, pool in enumerate(pools):
        kubernetes = pool.get("kubernetes") or {}
        if not kubernetes.get("version"):
            continue
        step = _maintain_kubernetes(versions, kubernetes["version"], now, auto_update=auto_update, limit=version)
        if step.target:
            pools[index] = {**pool, "kubernetes": {**kubernetes, "version": step.target}}
        if step.update:
            kubelets[pool.get("name") or ""] = step.update
    if pools:
        spec["provider"] = {**spec["provider"], "workers": pools}
    return Maintenance(spec, MaintenanceReport(control_plane.update, kubelets, images), image_error)


def _auto_update(spec: Object, what: str) -> bool:
    """Return whether automatic updates are enabled; they are by default."""
    configured = ((spec.get("maintenance") or {}).get("autoUpdate") or {}).get(what)
    return True if configured is None else bool(configured)


@dataclass(frozen=True, slots=True)
class _Step:
    """The decision on one version: its target, None if it stays, and the update to report."""

    target: str | None = None
    update: MaintenanceUpdate | None = None


def _maintain_kubernetes(
    versions: Sequence[Object], current: str, now: datetime, *, auto_update: bool, limit: str = ""
) -> _Step:
    """Decide one Kubernetes version; ``limit`` is the highest version that a worker may get."""
    try:
        why = due(versions, current, now, auto_update=auto_update)
        if why is None:
            return _Step()
        target = (forced_target if why.forced else auto_target)(versions, current, now)
        if target and limit:
            target = min(target, limit, key=parse)
        goes_up = bool(target) and parse(target or "") > parse(current)
    except ValueError as error:
        return _Step(update=MaintenanceUpdate(False, _no_higher(current, str(error)), "Versions cannot be compared"))
    if target is None and why.forced:
        cause = (
            f"cannot perform forceful update of expired version {json.dumps(current)}. No suitable version found in "
            "CloudProfile - this is most likely a misconfiguration of the CloudProfile"
        )
        return _Step(update=MaintenanceUpdate(False, _no_higher(current, cause), why.reason))
    if target is None or not goes_up:
        return _Step()
    described = f"Updated Kubernetes version from {json.dumps(current)} to {json.dumps(target)}"
    return _Step(target, MaintenanceUpdate(True, described, why.reason))


def _no_higher(current: str, cause: str) -> str:
    return f"could not determine higher suitable version than {json.dumps(current)}: {cause}"


def _maintain_images(
    shoot: Object, offer: Object, now: datetime, *, auto_update: bool
) -> tuple[list[Object], dict[str, MaintenanceUpdate], str]:
    """Return the worker pools afterwards, the updates by pool, and why some pools were not checked."""
    spec = spec_of(shoot)
    pools = list(workers(shoot))
    updates: dict[str, MaintenanceUpdate] = {}
    control_plane = (spec.get("kubernetes") or {}).get("version") or ""
    for index, pool in enumerate(pools):
        machine = pool.get("machine") or {}
        used = machine.get("image") or {}
        if not used.get("version"):
            continue  # no version has been chosen yet
        try:
            image = _fitting_image(pool, offer, control_plane)
        except ValueError as error:
            return pools, updates, str(error)
        step = _maintain_image(image, used, now, auto_update=auto_update)
        if step.update:
            updates[pool.get("name") or ""] = step.update
        if step.target:
            pools[index] = {**pool, "machine": {**machine, "image": {**used, "version": step.target}}}
    return pools, updates, ""


def _maintain_image(image: Object, used: Object, now: datetime, *, auto_update: bool) -> _Step:
    """Decide the version of one pool's image; ``image`` is the profile's, with the versions that fit the pool."""
    name, current = json.dumps(used.get("name") or ""), used["version"]
    reason = "Versions cannot be compared"
    try:
        why = image_due(image, used, now, auto_update=auto_update)
        if why is None:
            return _Step()
        reason = why.reason
        target = image_target(image, current, now, forced=why.forced)
    except ValueError as error:
        return _Step(update=MaintenanceUpdate(False, f"failed to update machine image {name}: {error}", reason))
    if target is None:
        return _Step()
    described = f"Updated machine image {name} from {json.dumps(current)} to {json.dumps(target)}"
    return _Step(target, MaintenanceUpdate(True, described, reason))


def _fitting_image(pool: Object, offer: Object, control_plane: str) -> Object:
    """Return the profile's image that a pool uses, with the versions that fit the pool.

    Raises:
        NotOffered: the profile does not offer the pool's machine type or image.
        InvalidVersion: a version is not a semantic version like 1.2.3.
        InvalidRange: a kubelet constraint of the image is not a range of versions.
    """
    machine = pool.get("machine") or {}
    machine_type, used = machine.get("type"), (machine.get("image") or {}).get("name") or ""
    worker = json.dumps(pool.get("name") or "")
    if machine_type and find_machine_type(offer, machine_type) is None:
        raise NotOffered(f"machine type {json.dumps(machine_type)} of worker {worker} does not exist in cloudprofile")
    image = next((item for item in machine_images(offer) if _same_name(item.get("name") or "", used)), None)
    if image is None:
        raise NotOffered(f"machine image {json.dumps(used)} of worker {worker} does not exist in cloudprofile")
    kubelet = kubelet_version(pool, control_plane)
    return {**image, "versions": fitting_versions(image, pool, offer, kubelet)}


def _same_name(one: str, other: str) -> bool:
    """Return whether two image names are equal except for case; an update still requires the exact spelling."""
    return one.casefold() == other.casefold()


@dataclass(frozen=True, slots=True)
class MaintenancePatches:
    """The patches of a maintenance; each is empty if there is nothing to write.

    Attributes:
        before: the status that announces the changes.
        change: spec and annotations.
        after: the status once the changes are written.
        report: what changes.
        announced: the ``triggeredTime`` in the status that announces the changes.
    """

    before: dict[str, Any]
    change: dict[str, Any]
    after: dict[str, Any]
    report: MaintenanceReport
    announced: str = ""

    def is_written(self, shoot: Object) -> bool:
        """Return whether a Shoot has these changes, and its status still announces them."""
        told = (shoot.get("status") or {}).get("lastMaintenance") or {}
        return bool(self.announced) and told.get("triggeredTime") == self.announced and _has(shoot, self.change)


def maintenance_patches(shoot: Object, plan: Maintenance, now: datetime) -> MaintenancePatches:
    """Return the patches of a maintenance; the second patch of the status applies to the result of the first."""
    had = (shoot.get("status") or {}).get("lastMaintenance") or {}
    told = had if plan.report.is_empty else last_maintenance(plan.report, now)
    done = succeeded(told, plan.report) if told else {}
    spec = merge_patch(spec_of(shoot), plan.spec)
    change = ({"spec": spec} if spec else {}) | withdrawal(shoot)
    announced = told.get("triggeredTime") or ""
    return MaintenancePatches(_status(had, told), change, _status(told, done), plan.report, announced)


def _has(value: Any, change: Any) -> bool:
    """Return whether a merge patch would change nothing."""
    if not isinstance(change, dict):
        return bool(value == change)
    found = value if isinstance(value, dict) else {}
    return all(_has(found.get(name), wanted) for name, wanted in change.items())


def withdrawal(shoot: Object) -> dict[str, Any]:
    """Return the patch that removes the request to maintain the Shoot at once."""
    annotations = annotations_without_request(shoot)
    return {"metadata": {"annotations": annotations}} if annotations else {}


def refused_status(shoot: Object, why: str, now: datetime) -> dict[str, Any]:
    """Return the patch of the status after the API server refused the changes."""
    had = (shoot.get("status") or {}).get("lastMaintenance") or {}
    return _status(had, rejected(why, now))


def _status(had: Object, says: Object) -> dict[str, Any]:
    change = merge_patch(had, says)
    return {"status": {"lastMaintenance": change}} if change else {}

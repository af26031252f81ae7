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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from restow.cloudprofile.maintenance.schedule import withdrawal
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


class UpdatedPart(NamedTuple):
    """The words for a part of a Shoot: for a failed update, before its cause, and the reason of the Events."""

    failed: str
    cause: str
    event: str


CONTROL_PLANE: Final = UpdatedPart(
    "Kubernetes version update failed", "Kubernetes maintenance failure due to: ", "KubernetesVersionMaintenance"
)
KUBELET: Final = CONTROL_PLANE._replace(failed="Kubernetes version maintenance failed")
MACHINE_IMAGE: Final = UpdatedPart("machine image version maintenance failed", "", "MachineImageVersionMaintenance")


@dataclass(frozen=True, slots=True)
class MaintenanceUpdate:
    """One update of a maintenance.

    Attributes:
        successful: whether it was possible.
        description: the change, or why it was not possible.
        reason: why it was due.
        part: the part of the Shoot.
        pool: the name of the worker pool; None for the control plane.
    """

    successful: bool
    description: str
    reason: str
    part: UpdatedPart = CONTROL_PLANE
    pool: str | None = None

    @property
    def subject(self) -> str:
        """The words for what is updated."""
        return "Control Plane" if self.pool is None else f"Worker pool {json.dumps(self.pool)}"

    def __str__(self) -> str:
        """Return the sentence about the update."""
        if self.successful:
            return f"{self.subject}: {self.description}. Reason: {self.reason}"
        return f"{self.subject}: {self.part.failed}. Reason for update: {self.reason}"

    @property
    def event(self) -> ObjectEvent:
        """The event about the update."""
        if self.successful:
            return ObjectEvent("Normal", self.part.event, f"{self}.")
        return ObjectEvent("Warning", self.part.event, f"{self}. Error: {self.description}")


def last_maintenance(updates: Sequence[MaintenanceUpdate], now: datetime) -> dict[str, Any]:
    """Return ``status.lastMaintenance`` for a maintenance whose changes are about to be written.

    The state is Processing, or Failed if an update was not possible; the other updates are still written.
    """
    failed = [update for update in updates if not update.successful]
    lead = f"({len(updates) - len(failed)}/{len(updates)})" if failed else "All"
    description = f"{lead} maintenance operations successful. {', '.join(map(str, updates))}".rstrip()
    status = {"description": description, "triggeredTime": whole_seconds(now), "state": "Processing"}
    if failed:
        causes = (f"{update.subject}: {update.part.cause}{update.description}" for update in failed)
        status |= {"state": "Failed", "failureReason": ", ".join(causes)}
    return status


def succeeded(status: Mapping[str, Any], updates: Sequence[MaintenanceUpdate]) -> dict[str, Any]:
    """Return ``status.lastMaintenance`` after the changes were written, or if there were none to write.

    Processing becomes Succeeded. A failure of an earlier maintenance ends when a maintenance has nothing left to do.
    """
    after = dict(status)
    if not updates and after.get("state") == "Failed":
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
        updates: the changes and the failures, with reasons.
        image_error: why the machine images of some worker pools were not checked; empty if all were.
    """

    spec: dict[str, Any]
    updates: tuple[MaintenanceUpdate, ...]
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
    updates = [] if control_plane.update is None else [control_plane.update]
    for index, pool in enumerate(pools):
        kubernetes = pool.get("kubernetes") or {}
        if not kubernetes.get("version"):
            continue
        step = _maintain_kubernetes(versions, kubernetes["version"], now, auto_update=auto_update, limit=version)
        if step.target:
            pools[index] = {**pool, "kubernetes": {**kubernetes, "version": step.target}}
        if step.update:
            updates.append(replace(step.update, part=KUBELET, pool=pool.get("name") or ""))
    if pools:
        spec["provider"] = {**spec["provider"], "workers": pools}
    return Maintenance(spec, (*updates, *images), image_error)


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
) -> tuple[list[Object], list[MaintenanceUpdate], str]:
    """Return the worker pools afterwards, the updates, and why some pools were not checked."""
    spec = spec_of(shoot)
    pools = list(workers(shoot))
    updates: list[MaintenanceUpdate] = []
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
            updates.append(replace(step.update, part=MACHINE_IMAGE, pool=pool.get("name") or ""))
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
    # Names are equal except for case; an update still requires the exact spelling.
    named = (item for item in machine_images(offer) if (item.get("name") or "").casefold() == used.casefold())
    image = next(named, None)
    if image is None:
        raise NotOffered(f"machine image {json.dumps(used)} of worker {worker} does not exist in cloudprofile")
    kubelet = kubelet_version(pool, control_plane)
    return {**image, "versions": fitting_versions(image, pool, offer, kubelet)}


@dataclass(frozen=True, slots=True)
class MaintenancePatches:
    """The patches of a maintenance; each is empty if there is nothing to write.

    Attributes:
        before: the status that announces the changes.
        change: spec and annotations.
        after: the status once the changes are written.
        updates: what changes.
        announced: the ``triggeredTime`` in the status that announces the changes.
    """

    before: dict[str, Any]
    change: dict[str, Any]
    after: dict[str, Any]
    updates: tuple[MaintenanceUpdate, ...]
    announced: str = ""

    def is_written(self, shoot: Object) -> bool:
        """Return whether a Shoot has these changes, and its status still announces them."""
        told = (shoot.get("status") or {}).get("lastMaintenance") or {}
        return bool(self.announced) and told.get("triggeredTime") == self.announced and _has(shoot, self.change)


def maintenance_patches(shoot: Object, plan: Maintenance, now: datetime) -> MaintenancePatches:
    """Return the patches of a maintenance; the second patch of the status applies to the result of the first."""
    had = (shoot.get("status") or {}).get("lastMaintenance") or {}
    told = last_maintenance(plan.updates, now) if plan.updates else had
    done = succeeded(told, plan.updates) if told else {}
    spec = merge_patch(spec_of(shoot), plan.spec)
    change = ({"spec": spec} if spec else {}) | withdrawal(shoot)
    announced = told.get("triggeredTime") or ""
    return MaintenancePatches(_status(had, told), change, _status(told, done), plan.updates, announced)


def _has(value: Any, change: Any) -> bool:
    """Return whether a merge patch would change nothing."""
    if not isinstance(change, dict):
        return bool(value == change)
    found = value if isinstance(value, dict) else {}
    return all(_has(found.get(name), wanted) for name, wanted in change.items())


def refused_status(shoot: Object, why: str, now: datetime) -> dict[str, Any]:
    """Return the patch of the status after the API server refused the changes; the next window tries again."""
    had = (shoot.get("status") or {}).get("lastMaintenance") or {}
    says = {
        "description": "Maintenance failed",
        "triggeredTime": whole_seconds(now),
        "state": "Failed",
        "failureReason": f"Updates to the Shoot failed to be applied: {why}",
    }
    return _status(had, says)


def _status(had: Object, says: Object) -> dict[str, Any]:
    change = merge_patch(had, says)
    return {"status": {"lastMaintenance": change}} if change else {}

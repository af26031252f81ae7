"""The defaults for a Shoot that leaves versions, images or architectures open. Pure.

- A missing Kubernetes version, or one like ``1`` or ``1.30``, becomes the highest supported version that begins with
  it. A version of three numbers stays, even a preview; validation decides whether the owner may have it.
- A worker pool keeps its image. A new pool, or one that changes its image, gets the first image of the profile that
  fits if it names none, and the latest fitting version if it names none or only ``1`` or ``1.2``: a supported one
  before a deprecated one, never a preview or an unavailable one. If only expired versions are left, it gets the highest
  of them, and validation gives the reason for the refusal. A version that the profile lists in exactly this spelling is
  kept, also a short one.
- The machines' architecture is that of their machine type if it has exactly one, else amd64.

Gardener takes the highest version even if it is expired or not available yet and an active one exists, and then
refuses the Shoot; restow takes the active one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from restow.cloudprofile.findings import ValidationFinding, invalid
from restow.cloudprofile.objects import (
    Object,
    kubernetes_versions,
    machine_image_of,
    machine_images,
    placed_workers,
    spec_of,
    workers,
)
from restow.cloudprofile.shoots.machines import (
    find_image_version,
    is_in_place,
    runnable_versions,
    supports_in_place,
    worker_architecture,
)
from restow.cloudprofile.versions.lifecycle import Classification
from restow.cloudprofile.versions.semver import SemanticVersion
from restow.cloudprofile.versions.updates import candidates, highest, latest


@dataclass(frozen=True, slots=True)
class DefaultedShoot:
    """A Shoot with its open fields filled in.

    Attributes:
        shoot: the whole object; equal to the input if nothing was open.
        findings: the fields that could not be filled in, because the profile offers no value that fits.
    """

    shoot: dict[str, Any]
    findings: tuple[ValidationFinding, ...] = ()


def default_shoot(shoot: Object, old: Object | None, offer: Object, now: datetime) -> DefaultedShoot:
    """Fill in the open fields of a Shoot."""
    defaulting = _Defaulting(offer, now)
    spec = dict(spec_of(shoot))
    spec["kubernetes"] = defaulting.kubernetes(spec.get("kubernetes") or {}, "spec.kubernetes.version")
    if workers(shoot):
        filled = []
        for path, worker, had in placed_workers(shoot, old):
            filled.append(defaulting.machine(defaulting.kubelet(worker, path), had, path))
        spec["provider"] = {**spec["provider"], "workers": filled}
    return DefaultedShoot({**shoot, "spec": spec}, tuple(defaulting.findings))


@dataclass(frozen=True, slots=True)
class _Defaulting:
    """One pass over a Shoot; fields that cannot be filled in stay unchanged and make findings."""

    offer: Object
    now: datetime
    findings: list[ValidationFinding] = field(default_factory=list)

    def kubernetes(self, kubernetes: Object, path: str) -> Object:
        versions = kubernetes_versions(self.offer)
        version = default_kubernetes_version(versions, kubernetes.get("version") or "", path, self.now)
        if isinstance(version, ValidationFinding):
            self.findings.append(version)
            return kubernetes
        return {**kubernetes, "version": version}

    def kubelet(self, worker: Object, path: str) -> Object:
        kubernetes = worker.get("kubernetes") or {}
        if kubernetes.get("version") is None:
            return worker  # the pool runs the control plane's version
        return {**worker, "kubernetes": self.kubernetes(kubernetes, f"{path}.kubernetes.version")}

    def machine(self, worker: Object, old: Object | None, path: str) -> Object:
        machine = worker.get("machine") or {}
        machine = {**machine, "architecture": worker_architecture(worker, self.offer)}
        worker = {**worker, "machine": machine}
        image = _kept_image(machine.get("image"), old) or default_machine_image(worker, self.offer, path, self.now)
        if isinstance(image, ValidationFinding):
            self.findings.append(image)
            return worker
        return {**worker, "machine": {**machine, "image": image}}


def _kept_image(image: Object | None, old: Object | None) -> Object | None:
    """Return the image that an existing worker pool keeps, None if it has none or asks for another.

    Only maintenance updates the image of a pool; a manifest that omits the image must not.
    """
    had = machine_image_of(old or {})
    if not had or not image:
        return had or None
    same_name = image.get("name") in {None, "", had.get("name")}
    if not same_name or image.get("version") not in {None, "", had.get("version")}:
        return None
    return {**image, "name": had.get("name"), "version": had.get("version")}


def default_kubernetes_version(
    versions: Iterable[Object], requested: str, path: str, now: datetime
) -> str | ValidationFinding:
    """Return the Kubernetes version for a request of nothing, ``1``, ``1.30`` or a whole version, which is kept.

    If no version of the profile fits, return a finding at ``path``.
    """
    parts = requested.split(".")
    if len(parts) >= _WHOLE:
        return requested
    wanted = _numbers(parts, path)
    if isinstance(wanted, ValidationFinding):
        return wanted
    best = highest(
        item
        for item in candidates(versions, now)
        if item.classification == Classification.SUPPORTED and _begins_with(item.version, wanted)
    )
    if best is None:
        return invalid(
            path,
            f"couldn't find a suitable version for {requested or 'a Shoot that names none'}: versions that are neither "
            "supported nor spelled out are never chosen",
            requested,
        )
    return best.text


_WHOLE = 3  # numbers of a complete version
_NUMBER = re.compile(r"\d{1,20}", flags=re.ASCII)


def _numbers(parts: Sequence[str], path: str) -> tuple[int, ...] | ValidationFinding:
    """Return the numbers at the start of the requested version, or a finding if a part is not a number."""
    wanted = [part for part in parts if part]
    wrong = next((part for part in wanted if not _NUMBER.fullmatch(part)), None)
    if wrong is not None:
        return invalid(path, "must be a semantic version like 1, 1.2 or 1.2.3", wrong)
    return tuple(int(part) for part in wanted)


def _begins_with(version: SemanticVersion, wanted: tuple[int, ...]) -> bool:
    return version.line[: len(wanted)] == wanted


def default_machine_image(
    worker: Object, offer: Object, path: str, now: datetime
) -> dict[str, Any] | ValidationFinding:
    """Return the machine image of a new worker pool, or of one that asks for another image or version.

    If the profile offers no image that fits, return a finding at ``path``. The worker's architecture has to be set.
    """
    asked = machine_image_of(worker)
    name, version = asked.get("name") or "", asked.get("version") or ""
    images = machine_images(offer)
    fitting = (each for each in images if (each.get("name") == name if name else _fitting(each, worker, offer)))
    image = next(fitting, None)
    if image is None:
        if name:
            return invalid(path, "image is not supported by the cloud profile", name)
        return invalid(
            path,
            "no valid machine image found that supports architecture "
            f"{json.dumps((worker.get('machine') or {}).get('architecture'))}; name one, or another machine type",
        )
    parts = version.removeprefix("v").split(".")
    if len(parts) >= _WHOLE or find_image_version(offer, image["name"], version):
        return {**asked, "name": image["name"]}
    wanted = _numbers(parts, path)
    if isinstance(wanted, ValidationFinding):
        return wanted
    choice = [item for item in candidates(_fitting(image, worker, offer), now) if _begins_with(item.version, wanted)]
    best = latest(choice) or highest(choice)
    if best is None:
        return invalid(
            path,
            "failed to determine latest machine image from cloud profile: of image "
            f"{json.dumps(image['name'])} no version that is available and not in preview fits the worker pool",
            f"{name}@{version}",
        )
    return {**asked, "name": image["name"], "version": best.text}


def _fitting(image: Object, worker: Object, offer: Object) -> list[Object]:
    """Return the versions of an image that fit the worker's architecture, capabilities and update strategy."""
    versions = runnable_versions(image, worker, offer)
    return [version for version in versions if not is_in_place(worker) or supports_in_place(version)]

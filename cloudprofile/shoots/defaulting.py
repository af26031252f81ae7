"""What a Shoot gets that leaves versions, images or architectures open. Pure.

- A Kubernetes version left out, or given as ``1`` or ``1.30``, becomes the highest supported version that begins so.
  Three numbers are what the owner wants, a preview included; whether they may have it, validation says.
- A worker pool keeps the image it has. A new one, or one that changes its image, gets the first image of the profile
  that fits where it names none, and the latest fitting version where it names none or only ``1`` or ``1.2``: a
  supported one before a deprecated one, never a preview or an unavailable one. Where only expired versions are left the
  highest of them is taken, for validation to say why it is refused. A version that the profile lists exactly so is
  kept, also a short one.
- The machines' architecture is that of their machine type if it has exactly one, else amd64.

Gardener takes the highest version even if it is expired or not available yet while an active one is there, and then
refuses the Shoot; here the active one is taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from restow.cloudprofile.capabilities import definitions_of
from restow.cloudprofile.findings import ValidationFinding, invalid
from restow.cloudprofile.objects import (
    Object,
    by_name,
    image_versions,
    is_deleting,
    kubernetes_versions,
    machine_images,
    spec_of,
    workers,
)
from restow.cloudprofile.shoots.machineimages import (
    find_image_version,
    find_machine_type,
    fits_machine_type,
    is_in_place,
    offers_architecture,
    supports_in_place,
    worker_architecture,
)
from restow.cloudprofile.versions.candidates import candidates, highest, latest
from restow.cloudprofile.versions.lifecycle import Classification
from restow.cloudprofile.versions.semver import SemanticVersion

__all__ = [
    "DefaultedShoot",
    "default_kubernetes_version",
    "default_machine_image",
    "default_shoot",
]


@dataclass(frozen=True, slots=True)
class DefaultedShoot:
    """A Shoot with what it left open filled in.

    Attributes:
        shoot: the whole object; equal to what came in where nothing was open.
        findings: what could not be filled in, because the profile offers nothing that fits.
    """

    shoot: dict[str, Any]
    findings: tuple[ValidationFinding, ...] = ()


def default_shoot(shoot: Object, old: Object | None, offer: Object, now: datetime) -> DefaultedShoot:
    """Fill in what a Shoot leaves open.

    Args:
        shoot: as requested.
        old: the Shoot before an update, None on create.
        offer: the CloudProfile spec that holds for it.
        now: the time at which versions are looked at.
    """
    defaulting = _Defaulting(offer, now)
    spec = dict(spec_of(shoot))
    spec["kubernetes"] = defaulting.kubernetes(spec.get("kubernetes") or {}, "spec.kubernetes.version")
    if pools := workers(shoot):
        had = by_name(workers(old or {}))
        filled = []
        for index, worker in enumerate(pools):
            field = f"spec.provider.workers[{index}]"
            new = defaulting.kubelet(worker, field)
            if not is_deleting(shoot):
                new = defaulting.machine(new, had.get(worker.get("name") or ""), field)
            filled.append(new)
        spec["provider"] = {**spec["provider"], "workers": filled}
    return DefaultedShoot({**shoot, "spec": spec}, tuple(defaulting.findings))


@dataclass(frozen=True, slots=True)
class _Defaulting:
    """One pass over a Shoot; what cannot be filled in is noted and left as it was."""

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
            return worker  # the control plane's version holds
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

    Only maintenance moves a pool on; leaving something out of a manifest must not.
    """
    had = ((old or {}).get("machine") or {}).get("image")
    if not had or not image:
        return had or None
    same_name = image.get("name") in {None, "", had.get("name")}
    if not same_name or image.get("version") not in {None, "", had.get("version")}:
        return None
    return {**image, "name": had.get("name"), "version": had.get("version")}


def default_kubernetes_version(
    versions: Iterable[Object], requested: str, path: str, now: datetime
) -> str | ValidationFinding:
    """Return the Kubernetes version for what a Shoot asks for: nothing, ``1``, ``1.30`` or a whole version, which is
    kept.

    A finding, at ``path``, if the profile's versions have none that fits.
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
        )
    return best.text


_WHOLE = 3  # numbers of a version that leaves nothing open


def _numbers(parts: Sequence[str], path: str) -> tuple[int, ...] | ValidationFinding:
    """Return the numbers that the version asked for begins with; a finding if one of them is none."""
    wanted = [part for part in parts if part]
    wrong = next((part for part in wanted if not (part.isascii() and part.isdigit())), None)
    if wrong is not None:
        return invalid(path, f"{json.dumps(wrong)}: must be a semantic version like 1, 1.2 or 1.2.3")
    return tuple(int(part) for part in wanted)


def _begins_with(version: SemanticVersion, wanted: tuple[int, ...]) -> bool:
    return version.line[: len(wanted)] == wanted


def default_machine_image(
    worker: Object, offer: Object, path: str, now: datetime
) -> dict[str, Any] | ValidationFinding:
    """Return the machine image of a new worker pool, or of one that asks for another image or version.

    A finding, at ``path``, if the profile offers none that fits. The worker's architecture has to be set.
    """
    asked = (worker.get("machine") or {}).get("image") or {}
    name, version = asked.get("name") or "", asked.get("version") or ""
    image = _named_image(offer, name) if name else _first_fitting_image(offer, worker)
    if image is None:
        if name:
            return invalid(path, f"{json.dumps(name)}: image is not supported by the cloud profile")
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
            f"{json.dumps(f'{name}@{version}')}: failed to determine latest machine image from cloud profile: of image "
            f"{json.dumps(image['name'])} no version that is available and not in preview fits the worker pool",
        )
    return {**asked, "name": image["name"], "version": best.text}


def _named_image(offer: Object, name: str) -> Object | None:
    return next((image for image in machine_images(offer) if image.get("name") == name), None)


def _first_fitting_image(offer: Object, worker: Object) -> Object | None:
    return next((image for image in machine_images(offer) if _fitting(image, worker, offer)), None)


def _fitting(image: Object, worker: Object, offer: Object) -> list[Object]:
    """Return the versions of an image for the worker's architecture, capabilities and way of updating."""
    definitions, architecture = definitions_of(offer), worker_architecture(worker, offer)
    machine_type = find_machine_type(offer, (worker.get("machine") or {}).get("type")) or {}
    return [
        version
        for version in image_versions(image)
        if offers_architecture(version, architecture, definitions)
        and fits_machine_type(version, machine_type, definitions)
        and (not is_in_place(worker) or supports_in_place(version))
    ]

"""Admission for a Shoot: fill in its open fields, refuse an invalid one, warn of versions that end. Pure.

The functions are asked about requests that change the spec of a Shoot that is not in deletion.

Versioning policy: a deprecated version still works, and its owner gets a warning with its end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from restow.cloudprofile.findings import ValidationFinding, ValidationWarning, denied, invalid
from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    Object,
    by_version,
    kubernetes_version_of,
    kubernetes_versions,
    machine_image_of,
    placed_workers,
    profile_of,
    spec_of,
)
from restow.cloudprofile.shoots.defaulting import DefaultedShoot, default_shoot
from restow.cloudprofile.shoots.machines import find_image_version, is_in_place, place_findings
from restow.cloudprofile.shoots.profile import (
    ShootProfiles,
    disagreement_findings,
    reference_findings,
    transition_findings,
)
from restow.cloudprofile.shoots.versions import skew_findings, version_findings
from restow.cloudprofile.shoots.window import window_findings
from restow.cloudprofile.versions.lifecycle import Classification, classification_or_none, expiration_in, stages


def complete_shoot(shoot: Object, old: Object | None, profiles: ShootProfiles, now: datetime) -> DefaultedShoot:
    """Fill in a Shoot's kind of profile, its versions, images and architectures: the mutating step, at the hub version.

    ``old`` is the Shoot before an update, None on create. A Shoot without an existing profile is left for
    ``shoot_findings`` to refuse. This function reads the field of v1beta1 and never fills it in: see
    ``sync_reference``.
    """
    contradictions = disagreement_findings(shoot, old)
    if contradictions:
        return DefaultedShoot(dict(shoot), contradictions)
    named = _with_kind(shoot)
    offer = profiles.offer_to(named)
    return DefaultedShoot(named) if offer is None else default_shoot(named, old, offer, now)


def _with_kind(shoot: Object) -> dict[str, Any]:
    reference = spec_of(shoot).get("cloudProfile")
    if not reference or reference.get("kind"):
        return dict(shoot)
    return {**shoot, "spec": {**spec_of(shoot), "cloudProfile": {**reference, "kind": CLOUD_PROFILE}}}


def shoot_findings(
    shoot: Object, old: Object | None, profiles: ShootProfiles, now: datetime
) -> tuple[ValidationFinding, ...]:
    """Return why a completed Shoot is refused: the validating step. Do not call it for a deletion.

    If the profile does not exist, or the Shoot may not move to it, only that is returned: all other findings would
    mislead.
    """
    if found := reference_findings(shoot):
        return found
    offer = profiles.offer_to(shoot)
    if offer is None:
        return (invalid("spec.cloudProfile", f"{profile_of(shoot)} not found"),)
    if old is not None and (found := transition_findings(old, shoot, profiles)):
        return found
    wrong = (*window_findings(shoot, old), *skew_findings(shoot, old), *_strategy_findings(shoot, old))
    return (*wrong, *denied((*version_findings(shoot, old, offer, now), *place_findings(shoot, old, offer))))


def _strategy_findings(shoot: Object, old: Object | None) -> Iterator[ValidationFinding]:
    """Yield a finding for each worker pool that begins, or ceases, to update its machines in place.

    Another one for each part of the machines that cannot be updated in place.
    """
    for path, worker, before in placed_workers(shoot, old):
        if before is None:
            continue
        if is_in_place(worker) and worker.get("updateStrategy") == before.get("updateStrategy"):
            yield from _replaced_machines(worker, before, path)
        if is_in_place(worker) != is_in_place(before):
            yield invalid(
                f"{path}.updateStrategy",
                "a worker pool cannot change between AutoRollingUpdate and AutoInPlaceUpdate or ManualInPlaceUpdate: "
                "add another pool",
                worker.get("updateStrategy"),
            )


def _replaced_machines(worker: Object, before: Object, path: str) -> Iterator[ValidationFinding]:
    """Yield a finding for each part of a pool that only other machines can have; Gardener's rules."""
    machine, had = worker.get("machine") or {}, before.get("machine") or {}
    runtime, had_runtime = worker.get("cri"), before.get("cri")
    image, had_image = machine_image_of(worker), machine_image_of(before)
    changed = {
        "machine.type": machine.get("type") != had.get("type"),
        "machine.image.name": image and had_image and image.get("name") != had_image.get("name"),
        "cri.name": runtime and had_runtime and runtime.get("name") != had_runtime.get("name"),
        "volume": (worker.get("volume") or {}) != (before.get("volume") or {}),
    }
    for field, is_changed in changed.items():
        if is_changed:
            detail = "cannot change in a worker pool whose machines are updated in place: add another pool"
            yield invalid(f"{path}.{field}", detail)


def shoot_warnings(shoot: Object, offer: Object, now: datetime) -> Iterator[ValidationWarning]:
    """Yield the warnings about the versions of a Shoot."""
    listed = by_version(kubernetes_versions(offer))
    places = [("spec", spec_of(shoot)), *((path, worker) for path, worker, _ in placed_workers(shoot, None))]
    for path, place in places:
        version = kubernetes_version_of(place)
        yield from _about(f"{path}.kubernetes.version", f"Kubernetes version {version}", listed.get(version), now)
    for path, worker in places[1:]:
        image = machine_image_of(worker)
        name, version = image.get("name") or "", image.get("version") or ""
        found = find_image_version(offer, name, version)
        yield from _about(f"{path}.machine.image.version", f"machine image {name} {version}", found, now)


def _about(path: str, what: str, version: Object | None, now: datetime) -> Iterator[ValidationWarning]:
    classification = None if version is None else classification_or_none(version, now)
    if version is None or classification is None:
        return
    if classification == Classification.DEPRECATED:
        ends = expiration_in(stages(version))
        end = f" and expires {json.dumps(ends.start.isoformat())}" if ends and ends.start else ""
        yield ValidationWarning(path, f"{what} is deprecated{end}")
    elif classification == Classification.EXPIRED:
        yield ValidationWarning(path, f"{what} has expired and is updated in the next maintenance")
    elif classification == Classification.PREVIEW:
        yield ValidationWarning(path, f"{what} is a preview and not meant for production")

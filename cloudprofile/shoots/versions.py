"""The Kubernetes versions that a Shoot may use, by its profile and by Kubernetes' version skew policy. Pure.

A version is checked when it is new in a request; a Shoot keeps its present version, listed or not, expired or not.

- New Shoots and new worker pools need a Kubernetes version that the profile lists and that is active: neither expired
  nor unavailable. Previews and deprecated versions may be chosen.
- Existing ones may also move to an expired version, because forced updates lead over expired ones.
- An unavailable version cannot be referenced at all (GEP-32). Gardener lets updates of Kubernetes go to one.
- No version goes down. The control plane never skips a minor version, and neither do workers whose machines are updated
  in place; a new major counts as skipping. A worker pool is never above its control plane and at most three minors
  behind.

Machine images are in ``restow.cloudprofile.shoots.machines``. The sum of the pools' minimum sizes stays within the
profile's limit; a single maximum may exceed it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime

from restow.cloudprofile.findings import ValidationFinding, forbidden, invalid, not_supported, required
from restow.cloudprofile.objects import (
    Object,
    kubernetes_version_of,
    kubernetes_versions,
    placed_workers,
    spec_of,
    workers,
)
from restow.cloudprofile.shoots.machines import (
    capability_findings,
    image_findings,
    is_in_place,
    kubelet_version,
    machine_type_finding,
    region_of,
    runtime_findings,
)
from restow.cloudprofile.versions.lifecycle import Classification, classification_at
from restow.cloudprofile.versions.semver import InvalidVersion, SemanticVersion, parse_kubernetes


def version_findings(shoot: Object, old: Object | None, offer: Object, now: datetime) -> tuple[ValidationFinding, ...]:
    """Return why a Shoot may not use the versions that it asks for."""
    versions = kubernetes_versions(offer)
    version, before = kubernetes_version_of(spec_of(shoot)), kubernetes_version_of(spec_of(old or {}))
    found = list(
        kubernetes_findings(versions, version, before, now, path="spec.kubernetes.version", is_new=old is None)
    )
    region = region_of(spec_of(shoot), offer)
    for path, worker, old_worker in placed_workers(shoot, old):
        wrong = _machine_findings(worker, old_worker, offer, now, path, region)
        found += wrong
        if not wrong:  # the runtimes of a refused image do not matter
            found += _runtime_findings(worker, old_worker, offer, path, version, before)
        if kubelet := kubernetes_version_of(worker):
            found += kubernetes_findings(
                versions,
                kubelet,
                kubernetes_version_of(old_worker or {}) or before,
                now,
                path=f"{path}.kubernetes.version",
                is_new=old_worker is None,
            )
    found += _limit_findings(shoot, offer)
    return tuple(found)


def _machine_findings(
    worker: Object, old: Object | None, offer: Object, now: datetime, path: str, region: Object | None
) -> tuple[ValidationFinding, ...]:
    """Return the findings about a pool's machines: their type, else their image, else whether both fit each other."""
    if wrong_type := machine_type_finding(worker, old, offer, region, path):
        return (wrong_type,)
    return image_findings(worker, old, offer, now, path) or tuple(capability_findings(worker, offer, path))


def kubernetes_findings(
    versions: Iterable[Object], version: str, before: str, now: datetime, *, path: str, is_new: bool
) -> tuple[ValidationFinding, ...]:
    """Return why a control plane or worker pool may not be on a Kubernetes version.

    ``before`` is the previous one, empty if there was none; a new worker pool has that of its control plane.
    """
    if version == before:
        return ()
    usable = {}
    for item in versions:
        classification = classification_at(item, now)
        if classification.is_active or (classification == Classification.EXPIRED and not is_new):
            usable[item.get("version") or ""] = classification
    if version in usable:
        return ()
    marked = (f"{text} (preview)" if at == Classification.PREVIEW else text for text, at in usable.items())
    return (not_supported(path, version, marked),)


def _runtime_findings(
    worker: Object, old: Object | None, offer: Object, path: str, version: str, before: str
) -> tuple[ValidationFinding, ...]:
    kubelet = _kubelet(worker, version)
    if kubelet is None:
        return (invalid(f"{path}.kubernetes.version", "cannot determine effective Kubernetes version for worker pool"),)
    is_same_kubelet = old is not None and kubelet == _kubelet(old, before)
    return runtime_findings(worker, old, offer, path, kubelet, is_same_kubelet=is_same_kubelet)


def _kubelet(worker: Object, control_plane: str) -> SemanticVersion | None:
    try:
        return kubelet_version(worker, control_plane)
    except InvalidVersion:
        return None


def _limit_findings(shoot: Object, offer: Object) -> Iterator[ValidationFinding]:
    limit = (offer.get("limits") or {}).get("maxNodesTotal")
    minimum = sum(worker.get("minimum") or 0 for worker in workers(shoot))
    if limit is not None and minimum > limit:
        yield forbidden(
            "spec.provider.workers",
            f"the total minimum node count of all worker pools, {minimum}, must not exceed the limit of {limit} "
            "configured in the CloudProfile",
        )


_MAX_MINORS_BEHIND = 3


def skew_findings(shoot: Object, old: Object | None) -> tuple[ValidationFinding, ...]:
    """Return a finding for each Kubernetes version of a Shoot that violates the version skew policy.

    ``old`` is the Shoot before an update, None on create. Versions that the update does not change are not checked.
    """
    control_plane, before = kubernetes_version_of(spec_of(shoot)), kubernetes_version_of(spec_of(old or {}))
    if not control_plane:
        return (required("spec.kubernetes.version", "must name the Kubernetes version of the control plane"),)
    found = list(change_findings(control_plane, before, "spec.kubernetes.version", may_skip_minor=False))
    for below, worker, old_worker in placed_workers(shoot, old):
        path = f"{below}.kubernetes.version"
        version, old_version = kubernetes_version_of(worker), kubernetes_version_of(old_worker or {})
        if old_worker is not None:
            found += change_findings(
                version or control_plane, old_version or before, path, may_skip_minor=not is_in_place(worker)
            )
        if version and (version, control_plane) != (old_version, before):
            found += worker_findings(version, control_plane, path)
    return tuple(dict.fromkeys(found))


def change_findings(new: str, old: str, path: str, *, may_skip_minor: bool) -> tuple[ValidationFinding, ...]:
    """Return why a Kubernetes version may not change from ``old`` to ``new``; ``old`` is empty if there was none."""
    if new == old:
        return ()
    version = _parsed(new, path)
    before = _parsed(old, path) if old else None
    if isinstance(version, ValidationFinding):
        return (version,)
    # An unreadable old version must not block its own correction.
    if before is None or isinstance(before, ValidationFinding):
        return ()
    if version < before:
        fault = "downgrade is not supported"
    elif not may_skip_minor and (version.major != before.major or version.minor > before.minor + 1):
        fault = "upgrade cannot skip a minor version"
    else:
        return ()
    return (forbidden(path, f"kubernetes version {fault}: from {json.dumps(old)} to {json.dumps(new)}"),)


def worker_findings(worker: str, control_plane: str, path: str) -> tuple[ValidationFinding, ...]:
    """Return why a worker pool's Kubernetes version does not fit that of the control plane."""
    version, above = _parsed(worker, path), _parsed(control_plane, "spec.kubernetes.version")
    if isinstance(version, ValidationFinding):
        return (version,)
    if isinstance(above, ValidationFinding):
        return (above,)
    named = json.dumps(worker), json.dumps(control_plane)
    if version > above:
        fault = "not be higher than control plane version: {} is higher than {}"
    elif version.major != above.major or version.minor < above.minor - _MAX_MINORS_BEHIND:
        fault = "be at most three minor versions behind control plane version: {} is too far behind {}"
    else:
        return ()
    return (forbidden(path, f"worker group kubernetes version must {fault.format(*named)}"),)


def _parsed(text: str, path: str) -> SemanticVersion | ValidationFinding:
    try:
        return parse_kubernetes(text)
    except InvalidVersion as error:
        return invalid(path, str(error), text)

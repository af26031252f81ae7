"""Which versions a Shoot may use, by the profile that holds for it. Pure.

A version is looked at when a request brings it in; what a Shoot has it keeps, listed or not, expired or not.

- New Shoots and new worker pools need a Kubernetes version that the profile lists and that is active: neither expired
  nor unavailable. Previews and deprecated versions may be chosen.
- Existing ones may also go to an expired version, since forced updates lead over expired ones (never down, see
  ``restow.cloudprofile.versionskew``).
- An unavailable version cannot be referenced at all (GEP-32). Gardener lets updates of Kubernetes go to one.

Machine images are in ``restow.cloudprofile.workerimage``. The sum of the pools' minimum sizes stays within the
profile's limit; a single maximum may exceed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from restow.cloudprofile.findings import Finding, forbidden, invalid
from restow.cloudprofile.imagefit import kubelet_version
from restow.cloudprofile.lifecycle import Classification, classification_at
from restow.cloudprofile.parts import Object, by_name, kubernetes_versions, spec_of, workers
from restow.cloudprofile.semver import InvalidVersion, Version
from restow.cloudprofile.workerimage import image_findings, runtime_findings, unsupported

__all__ = ["kubernetes_findings", "version_findings"]


def version_findings(shoot: Object, old: Object | None, offer: Object, now: datetime) -> tuple[Finding, ...]:
    """Return why a Shoot may not use the versions that it asks for.

    Args:
        shoot: as requested, defaulted.
        old: the Shoot before an update, None on create.
        offer: the CloudProfile spec that holds for it.
        now: the time at which versions are looked at.

    Raises:
        InvalidRange: validation would refuse the profile.
        InvalidVersion: validation would refuse the profile.
        InvalidTime: validation would refuse the profile.
    """
    versions = kubernetes_versions(offer)
    version, before = _control_plane(shoot), _control_plane(old or {})
    found = list(
        kubernetes_findings(versions, version, before, now, path="spec.kubernetes.version", is_new=old is None)
    )
    had = by_name(workers(old or {}))
    for index, worker in enumerate(workers(shoot)):
        path, old_worker = f"spec.provider.workers[{index}]", had.get(worker.get("name") or "")
        wrong_image = image_findings(worker, old_worker, offer, now, path)
        found += wrong_image
        if not wrong_image:  # what a refused image offers says nothing
            found += _runtime_findings(worker, old_worker, offer, path, version, before)
        if kubelet := _explicit_version(worker):
            found += kubernetes_findings(
                versions,
                kubelet,
                _explicit_version(old_worker or {}) or before,
                now,
                path=f"{path}.kubernetes.version",
                is_new=old_worker is None,
            )
    found += _limit_findings(shoot, offer)
    return tuple(found)


def _control_plane(shoot: Object) -> str:
    return (spec_of(shoot).get("kubernetes") or {}).get("version") or ""


def _explicit_version(worker: Object) -> str:
    return (worker.get("kubernetes") or {}).get("version") or ""


def kubernetes_findings(
    versions: Iterable[Object], version: str, before: str, now: datetime, *, path: str, is_new: bool
) -> tuple[Finding, ...]:
    """Return why a control plane or worker pool may not be on a Kubernetes version.

    Args:
        versions: those of the profile.
        version: the one asked for.
        before: the one it had, empty where there was none; a new worker pool has that of its control plane.
        now: the time at which versions are looked at.
        path: of the version in the Shoot.
        is_new: whether the Shoot or worker pool is being created.
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
    return (unsupported(path, version, marked),)


def _runtime_findings(
    worker: Object, old: Object | None, offer: Object, path: str, version: str, before: str
) -> tuple[Finding, ...]:
    kubelet = _kubelet(worker, version)
    if kubelet is None:
        return (invalid(f"{path}.kubernetes.version", "cannot determine effective Kubernetes version for worker pool"),)
    is_same_kubelet = old is not None and kubelet == _kubelet(old, before)
    return runtime_findings(worker, old, offer, path, kubelet, is_same_kubelet=is_same_kubelet)


def _kubelet(worker: Object, control_plane: str) -> Version | None:
    try:
        return kubelet_version(worker, control_plane)
    except InvalidVersion:
        return None


def _limit_findings(shoot: Object, offer: Object) -> Iterator[Finding]:
    limit = (offer.get("limits") or {}).get("maxNodesTotal")
    minimum = sum(worker.get("minimum") or 0 for worker in workers(shoot))
    if limit is not None and minimum > limit:
        yield forbidden(
            "spec.provider.workers",
            f"the total minimum node count of all worker pools, {minimum}, must not exceed the limit of {limit} "
            "configured in the CloudProfile",
        )

"""How far apart the Kubernetes versions of a Shoot may be: before and after a change, control plane and workers. Pure.

Nothing goes down, the control plane never skips a minor version, and neither do workers whose machines are updated in
place; a new major counts as skipping. A worker pool is never above its control plane and at most three minors behind
(Kubernetes' version skew policy for kubelets).
"""

from __future__ import annotations

import json

from restow.cloudprofile.findings import Finding, forbidden, invalid, required
from restow.cloudprofile.imagefit import is_in_place
from restow.cloudprofile.parts import Object, by_name, spec_of, workers
from restow.cloudprofile.semver import InvalidVersion, Version, parse_kubernetes

__all__ = ["change_findings", "skew_findings", "worker_findings"]

_MAX_MINORS_BEHIND = 3


def skew_findings(shoot: Object, old: Object | None) -> tuple[Finding, ...]:
    """Return where the Kubernetes versions of a Shoot are too far apart.

    ``old`` is the Shoot before an update, None on create. What the update leaves as it was is not looked at.
    """
    control_plane, before = _version(shoot), _version(old or {})
    if not control_plane:
        return (required("spec.kubernetes.version", "must name the Kubernetes version of the control plane"),)
    found = list(change_findings(control_plane, before, "spec.kubernetes.version", may_skip_minor=False))
    had = by_name(workers(old or {}))
    for index, worker in enumerate(workers(shoot)):
        path = f"spec.provider.workers[{index}].kubernetes.version"
        old_worker = had.get(worker.get("name") or "")
        version, old_version = _version_of(worker), _version_of(old_worker or {})
        if old_worker is not None:
            found += change_findings(
                version or control_plane, old_version or before, path, may_skip_minor=not is_in_place(worker)
            )
        if version and (version, control_plane) != (old_version, before):
            found += worker_findings(version, control_plane, path)
    return tuple(dict.fromkeys(found))


def _version(shoot: Object) -> str:
    return (spec_of(shoot).get("kubernetes") or {}).get("version") or ""


def _version_of(worker: Object) -> str:
    return (worker.get("kubernetes") or {}).get("version") or ""


def change_findings(new: str, old: str, path: str, *, may_skip_minor: bool) -> tuple[Finding, ...]:
    """Return why a Kubernetes version may not change so. ``old`` is empty where there was none."""
    if new == old:
        return ()
    version = _parsed(new, path)
    before = _parsed(old, path) if old else None
    if isinstance(version, Finding):
        return (version,)
    if before is None or isinstance(before, Finding):  # what cannot be read any more must not stop its correction
        return ()
    if version < before:
        return (
            forbidden(
                path, f"kubernetes version downgrade is not supported: from {json.dumps(old)} to {json.dumps(new)}"
            ),
        )
    skips = version.major != before.major or version.minor > before.minor + 1
    if skips and not may_skip_minor:
        return (
            forbidden(
                path,
                f"kubernetes version upgrade cannot skip a minor version: from {json.dumps(old)} to {json.dumps(new)}",
            ),
        )
    return ()


def worker_findings(worker: str, control_plane: str, path: str) -> tuple[Finding, ...]:
    """Return why a worker pool's Kubernetes version may not stand beside that of the control plane."""
    version, above = _parsed(worker, path), _parsed(control_plane, "spec.kubernetes.version")
    if isinstance(version, Finding):
        return (version,)
    if isinstance(above, Finding):
        return (above,)
    if version > above:
        return (
            forbidden(
                path,
                f"worker group kubernetes version must not be higher than control plane version: {json.dumps(worker)} "
                f"is higher than {json.dumps(control_plane)}",
            ),
        )
    if version.major != above.major or version.minor < above.minor - _MAX_MINORS_BEHIND:
        return (
            forbidden(
                path,
                "worker group kubernetes version must be at most three minor versions behind control plane version: "
                f"{json.dumps(worker)} is too far behind {json.dumps(control_plane)}",
            ),
        )
    return ()


def _parsed(text: str, path: str) -> Version | Finding:
    try:
        return parse_kubernetes(text)
    except InvalidVersion as error:
        return invalid(path, str(error))

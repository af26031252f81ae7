"""Whether a worker pool of a Shoot may be on the machine image version that it asks for. Pure.

An image version that a request brings in has to be listed, built for the worker's architecture, and active. An existing
pool may also go to an expired version that is not lower than its own, since forced updates lead over expired ones; to
an unavailable one never (GEP-32). Where machines are updated in place, a new pool needs a version that supports it, an
existing one a version that can be reached from its own. The version must admit the kubelet and offer the pool's
container runtimes, looked at when one of them changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime

from restow.cloudprofile.capabilities import definitions_of
from restow.cloudprofile.findings import Finding, FindingType, invalid
from restow.cloudprofile.imagefit import (
    admits_kubelet,
    find_image_version,
    is_in_place,
    offers_architecture,
    release_at_most,
    supports_in_place,
    updates_in_place,
    worker_architecture,
)
from restow.cloudprofile.lifecycle import Classification, classification_at
from restow.cloudprofile.parts import Object, image_versions, machine_images
from restow.cloudprofile.semver import InvalidVersion, Version

__all__ = ["image_findings", "runtime_findings", "unsupported"]


def unsupported(path: str, value: str, supported: Iterable[str]) -> Finding:
    """Return the finding that a value is none of the supported ones, with the value, as apimachinery writes it."""
    values = ", ".join(json.dumps(item) for item in supported)
    return Finding(FindingType.NOT_SUPPORTED, path, f"{json.dumps(value)}: supported values: {values}")


def image_findings(worker: Object, old: Object | None, offer: Object, now: datetime, path: str) -> tuple[Finding, ...]:
    """Return why a worker pool may not be on its machine image version.

    Args:
        worker: as requested, defaulted.
        old: the pool before an update, None for a new one.
        offer: the CloudProfile spec that holds for the Shoot.
        now: the time at which versions are looked at.
        path: of the worker in the Shoot.
    """
    image, architecture = _image(worker), worker_architecture(worker, offer)
    if old is not None and (image, architecture) == (_image(old), worker_architecture(old, offer)):
        return ()
    name, version = image.get("name") or "", image.get("version") or ""
    faults = {
        (listed.get("name"), item.get("version")): tuple(_faults(item, worker, old, offer, now))
        for listed in machine_images(offer)
        if not name or listed.get("name") == name
        for item in image_versions(listed)
    }
    usable = sorted(f"{listed}:{item}" for (listed, item), wrong in faults.items() if not wrong)
    if (name, version) not in faults:
        return (unsupported(f"{path}.machine.image.version", version, usable),)
    if wrong := faults[name, version]:
        return (
            invalid(
                f"{path}.machine.image",
                f"machine image version '{name}:{version}' {', '.join(wrong)}, supported machine image versions are: "
                f"[{' '.join(usable)}]",
            ),
        )
    return ()


def _image(worker: Object) -> Object:
    return (worker.get("machine") or {}).get("image") or {}


def _faults(version: Object, worker: Object, old: Object | None, offer: Object, now: datetime) -> Iterator[str]:
    """Yield why a worker pool may not be on an image version, as phrases."""
    architecture = worker_architecture(worker, offer)
    before = _image(old or {}).get("version") or ""
    if not offers_architecture(version, architecture, definitions_of(offer)):
        yield f"does not support CPU architecture {json.dumps(architecture)}"
    classification = classification_at(version, now)
    if classification == Classification.UNAVAILABLE:
        yield "is not available yet"
    elif classification == Classification.EXPIRED and (old is None or _is_lower(version["version"], before)):
        yield "is expired"
    if is_in_place(worker):
        if old is None and not supports_in_place(version):
            yield "does not support in-place updates"
        elif old is not None and not (before and updates_in_place(version, before)):
            yield "cannot be in-place updated from the current version"


def _is_lower(version: str, before: str) -> bool:
    try:
        return not release_at_most(before, version)
    except InvalidVersion:  # nothing is lower than what cannot be read
        return False


def runtime_findings(
    worker: Object, old: Object | None, offer: Object, path: str, kubelet: Version, *, is_same_kubelet: bool
) -> tuple[Finding, ...]:
    """Return what the image version of a worker pool lacks for its container runtimes and its kubelet.

    Arguments as for ``image_findings``; ``is_same_kubelet`` says whether an update leaves the kubelet's version as it
    was.

    Raises:
        InvalidRange: validation would refuse the profile.
    """
    image, before = _image(worker), old or {}
    version = find_image_version(offer, image.get("name"), image.get("version"))
    if version is None:
        return ()
    name = f"machine image '{image.get('name')}@{image.get('version')}'"
    is_same_image = old is not None and image == _image(old)
    found: list[Finding] = []
    if worker.get("cri") and not (is_same_image and worker["cri"] == before.get("cri")):
        found += _cri_findings(version, worker["cri"], name, f"{path}.cri")
    if not (is_same_image and is_same_kubelet) and not admits_kubelet(version, kubelet):
        found.append(
            invalid(
                f"{path}.machine.image",
                f"{name} does not support kubelet version '{kubelet}', supported kubelet versions by this machine "
                f"image version: '{version['kubeletVersionConstraint']}'",
            )
        )
    return tuple(found)


def _cri_findings(version: Object, wanted: Object, name: str, path: str) -> Iterator[Finding]:
    offered = {cri.get("name") or "": cri for cri in version.get("cri") or ()}
    found = offered.get(wanted.get("name") or "")
    if found is None:
        yield invalid(
            f"{path}.name",
            f"{name} does not support CRI '{wanted.get('name')}', supported values: [{' '.join(offered)}]",
        )
        return
    runtimes = [runtime.get("type") or "" for runtime in found.get("containerRuntimes") or ()]
    for index, runtime in enumerate(wanted.get("containerRuntimes") or ()):
        if runtime.get("type") not in runtimes:
            yield invalid(
                f"{path}.containerRuntimes[{index}].type",
                f"{name} does not support container runtime '{runtime.get('type')}', supported values: "
                f"[{' '.join(runtimes)}]",
            )

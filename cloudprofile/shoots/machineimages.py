"""The versions of a machine image that a worker pool can run, and the check of the requested one. Pure.

If a profile defines capabilities (``spec.machineCapabilities``), an image version lists *flavors*, each a combination
of capability values that it is built for. A capability that a flavor or a machine type does not name has all values of
its definition. An image version fits a machine type if, for one of its flavors, both share a value of every capability;
a version without flavors fits all.

An image version that is new in a request has to be listed, built for the worker's architecture, and active. An existing
pool may also move to an expired version that is not lower than its own, because forced updates lead over expired ones;
never to an unavailable one (GEP-32). If machines are updated in place, a new pool needs a version that supports it, an
existing one a version that can be reached from its own. The version must admit the kubelet and offer the pool's
container runtimes; both are checked when one of them changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime

from restow.cloudprofile.capabilities import (
    AMD64,
    Definitions,
    architecture_of,
    architectures_of,
    definitions_of,
    flavor_architectures,
)
from restow.cloudprofile.findings import ValidationFinding, invalid, not_supported
from restow.cloudprofile.objects import Object, image_versions, machine_images
from restow.cloudprofile.versions.lifecycle import Classification, classification_at
from restow.cloudprofile.versions.semver import InvalidVersion, SemanticVersion, parse, parse_range

_IN_PLACE = frozenset({"AutoInPlaceUpdate", "ManualInPlaceUpdate"})
_DEFAULT_CRI: Object = {"name": "containerd"}


def find_machine_type(spec: Object, name: str | None) -> Object | None:
    """Return the machine type with this name in a CloudProfile's spec, None if there is none."""
    return next((item for item in spec.get("machineTypes") or () if item.get("name") == name), None)


def find_image_version(spec: Object, name: str | None, version: str | None) -> Object | None:
    """Return a version of a machine image in a CloudProfile's spec; both names have to match exactly.

    None if absent.
    """
    images = (image for image in machine_images(spec) if image.get("name") == name)
    versions = (item for image in images for item in image_versions(image))
    return next((item for item in versions if item.get("version") == version), None)


def worker_architecture(worker: Object, spec: Object) -> str:
    """Return the architecture of a worker's machines: its own field, else its machine type's only one, else amd64."""
    machine = worker.get("machine") or {}
    if stated := machine.get("architecture"):
        return str(stated)
    machine_type = find_machine_type(spec, machine.get("type"))
    return architecture_of(machine_type, definitions_of(spec)) if machine_type else AMD64


def offers_architecture(version: Object, architecture: str, definitions: Definitions) -> bool:
    """Return whether an image version is built for an architecture; its flavors take precedence over its field."""
    return architecture in (flavor_architectures(version) or architectures_of(version, definitions))


def fits_machine_type(version: Object, machine_type: Object, definitions: Definitions) -> bool:
    """Return whether a flavor of an image version and a machine type share a value of each defined capability."""
    flavors = version.get("capabilityFlavors")
    if not flavors:
        return True
    had = machine_type.get("capabilities") or {}
    return any(
        all(
            not set(flavor.get(name) or values).isdisjoint(had.get(name) or values)
            for name, values in definitions.items()
        )
        for flavor in flavors
    )


def offers_cri(version: Object, wanted: Object | None) -> bool:
    """Return whether an image version offers a worker's container runtime interface and all its container runtimes.

    A worker that names no interface gets containerd.
    """
    wanted = wanted or _DEFAULT_CRI
    offered = next((cri for cri in version.get("cri") or () if cri.get("name") == wanted.get("name")), None)
    if offered is None:
        return False
    runtimes = {runtime.get("type") for runtime in offered.get("containerRuntimes") or ()}
    return all(runtime.get("type") in runtimes for runtime in wanted.get("containerRuntimes") or ())


def kubelet_version(worker: Object, control_plane: str) -> SemanticVersion:
    """Return the kubelet version of a worker: its own, else the control plane's.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3.
    """
    return parse((worker.get("kubernetes") or {}).get("version") or control_plane)


def admits_kubelet(version: Object, kubelet: SemanticVersion) -> bool:
    """Return whether an image version's ``kubeletVersionConstraint`` admits a kubelet.

    Raises:
        InvalidRange: the constraint is not a range of versions.
    """
    constraint = version.get("kubeletVersionConstraint")
    return not constraint or parse_range(constraint).admits(kubelet)


def is_in_place(worker: Object) -> bool:
    """Return whether the machines of a worker are updated in place instead of being replaced."""
    return worker.get("updateStrategy") in _IN_PLACE


def supports_in_place(version: Object) -> bool:
    """Return whether machines with an image version can be updated in place at all."""
    return bool((version.get("inPlaceUpdates") or {}).get("supported"))


def updates_in_place(version: Object, current: str) -> bool:
    """Return whether machines on the version ``current`` can be updated in place to an image version.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3.
    """
    minimum = (version.get("inPlaceUpdates") or {}).get("minVersionForUpdate")
    return bool(minimum and supports_in_place(version) and release_at_most(minimum, current))


def release_at_most(version: str, bound: str) -> bool:
    """Return whether a version is at most ``bound``, without regard to suffixes, as Gardener compares here.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3.
    """
    return parse(version).release <= parse(bound).release


def fitting_versions(image: Object, worker: Object, spec: Object, kubelet: SemanticVersion) -> Sequence[Object]:
    """Return the versions of an image that the machines of a worker pool may be on after an update.

    With in-place updates these are the current version and those that can be reached from it. If ``spec`` does not list
    the machine type, its capabilities do not restrict the versions.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3; validation refuses such profiles.
        InvalidRange: a kubelet constraint is not a range of versions; validation refuses such profiles.
    """
    machine, definitions = worker.get("machine") or {}, definitions_of(spec)
    architecture = worker_architecture(worker, spec)
    machine_type = find_machine_type(spec, machine.get("type")) or {}
    current = (machine.get("image") or {}).get("version") or ""
    return [
        version
        for version in image_versions(image)
        if offers_architecture(version, architecture, definitions)
        and fits_machine_type(version, machine_type, definitions)
        and offers_cri(version, worker.get("cri"))
        and admits_kubelet(version, kubelet)
        and (not is_in_place(worker) or _reachable_in_place(version, current))
    ]


def _reachable_in_place(version: Object, current: str) -> bool:
    if version["version"] == current:
        return supports_in_place(version)
    return bool(current) and updates_in_place(version, current)


def image_findings(
    worker: Object, old: Object | None, offer: Object, now: datetime, path: str
) -> tuple[ValidationFinding, ...]:
    """Return why a worker pool may not be on its machine image version.

    Args:
        worker: as requested, defaulted.
        old: the pool before an update, None for a new one.
        offer: the CloudProfile spec that applies to the Shoot.
        now: the time for which versions are classified.
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
        return (not_supported(f"{path}.machine.image.version", version, usable),)
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
    except InvalidVersion:  # no version is lower than an unreadable one
        return False


def runtime_findings(
    worker: Object, old: Object | None, offer: Object, path: str, kubelet: SemanticVersion, *, is_same_kubelet: bool
) -> tuple[ValidationFinding, ...]:
    """Return why the image version of a worker pool does not fit its container runtimes and its kubelet.

    Arguments as for ``image_findings``; ``is_same_kubelet`` says whether an update does not change the kubelet's
    version.

    Raises:
        InvalidRange: a kubelet constraint is not a range of versions; validation refuses such profiles.
    """
    image, before = _image(worker), old or {}
    version = find_image_version(offer, image.get("name"), image.get("version"))
    if version is None:
        return ()
    name = f"machine image '{image.get('name')}@{image.get('version')}'"
    is_same_image = old is not None and image == _image(old)
    found: list[ValidationFinding] = []
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


def _cri_findings(version: Object, wanted: Object, name: str, path: str) -> Iterator[ValidationFinding]:
    offered = {cri.get("name") or "": cri for cri in version.get("cri") or ()}
    found = offered.get(wanted.get("name") or "")
    if found is None:
        yield invalid(
            f"{path}.name",
            f"{name} does not support CRI '{wanted.get('name')}', supported values: [{' '.join(offered)}]",
            wanted.get("name"),
        )
        return
    runtimes = [runtime.get("type") or "" for runtime in found.get("containerRuntimes") or ()]
    for index, runtime in enumerate(wanted.get("containerRuntimes") or ()):
        if runtime.get("type") not in runtimes:
            yield invalid(
                f"{path}.containerRuntimes[{index}].type",
                f"{name} does not support container runtime '{runtime.get('type')}', supported values: "
                f"[{' '.join(runtimes)}]",
                runtime.get("type"),
            )

"""Which versions of a machine image fit a worker pool: architecture, capabilities, CRI, kubelet, way of updating. Pure.

Where a profile defines capabilities (``spec.machineCapabilities``), an image version lists *flavors*, each a
combination of capability values that it is built for. What a flavor or a machine type does not name has all values of
the definition. An image version fits a machine type if for one of its flavors both share a value of every capability; a
version without flavors fits all.
"""

from __future__ import annotations

from collections.abc import Sequence

from restow.cloudprofile.capabilities import (
    AMD64,
    Definitions,
    architecture_of,
    architectures_of,
    definitions_of,
    flavor_architectures,
)
from restow.cloudprofile.parts import Object, image_versions, machine_images
from restow.cloudprofile.semver import Version, parse
from restow.cloudprofile.versionrange import parse_range

__all__ = [
    "admits_kubelet",
    "find_image_version",
    "find_machine_type",
    "fits_machine_type",
    "fitting_versions",
    "is_in_place",
    "kubelet_version",
    "offers_architecture",
    "offers_cri",
    "release_at_most",
    "supports_in_place",
    "updates_in_place",
    "worker_architecture",
]

_IN_PLACE = frozenset({"AutoInPlaceUpdate", "ManualInPlaceUpdate"})
_DEFAULT_CRI: Object = {"name": "containerd"}


def find_machine_type(spec: Object, name: str | None) -> Object | None:
    """Return the machine type of that name in a CloudProfile's spec, None if there is none."""
    return next((item for item in spec.get("machineTypes") or () if item.get("name") == name), None)


def find_image_version(spec: Object, name: str | None, version: str | None) -> Object | None:
    """Return a version of a machine image in a CloudProfile's spec, both spelled exactly so; None if there is none."""
    images = (image for image in machine_images(spec) if image.get("name") == name)
    versions = (item for image in images for item in image_versions(image))
    return next((item for item in versions if item.get("version") == version), None)


def worker_architecture(worker: Object, spec: Object) -> str:
    """Return the architecture of a worker's machines: as stated, else the only one of its machine type, else amd64."""
    machine = worker.get("machine") or {}
    if stated := machine.get("architecture"):
        return str(stated)
    machine_type = find_machine_type(spec, machine.get("type"))
    return architecture_of(machine_type, definitions_of(spec)) if machine_type else AMD64


def offers_architecture(version: Object, architecture: str, definitions: Definitions) -> bool:
    """Whether an image version is built for an architecture; its flavors tell more than its plain field."""
    return architecture in (flavor_architectures(version) or architectures_of(version, definitions))


def fits_machine_type(version: Object, machine_type: Object, definitions: Definitions) -> bool:
    """Whether a flavor of an image version and a machine type share a value of each defined capability."""
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
    """Whether an image version offers a worker's container runtime interface and all runtimes it asks for.

    A worker that asks for no interface gets containerd.
    """
    wanted = wanted or _DEFAULT_CRI
    offered = next((cri for cri in version.get("cri") or () if cri.get("name") == wanted.get("name")), None)
    if offered is None:
        return False
    runtimes = {runtime.get("type") for runtime in offered.get("containerRuntimes") or ()}
    return all(runtime.get("type") in runtimes for runtime in wanted.get("containerRuntimes") or ())


def kubelet_version(worker: Object, control_plane: str) -> Version:
    """Return the kubelet version of a worker: its own, else the control plane's.

    Raises:
        InvalidVersion: a version cannot be read.
    """
    return parse((worker.get("kubernetes") or {}).get("version") or control_plane)


def admits_kubelet(version: Object, kubelet: Version) -> bool:
    """Whether an image version's ``kubeletVersionConstraint`` admits a kubelet.

    Raises:
        InvalidRange: a range of versions cannot be read.
    """
    constraint = version.get("kubeletVersionConstraint")
    return not constraint or parse_range(constraint).admits(kubelet)


def is_in_place(worker: Object) -> bool:
    """Whether the machines of a worker are updated in place instead of being replaced."""
    return worker.get("updateStrategy") in _IN_PLACE


def supports_in_place(version: Object) -> bool:
    """Whether machines with an image version can be updated in place at all."""
    return bool((version.get("inPlaceUpdates") or {}).get("supported"))


def updates_in_place(version: Object, current: str) -> bool:
    """Whether machines on the version ``current`` can be updated in place to an image version.

    Raises:
        InvalidVersion: a version cannot be read.
    """
    minimum = (version.get("inPlaceUpdates") or {}).get("minVersionForUpdate")
    return bool(minimum and supports_in_place(version) and release_at_most(minimum, current))


def release_at_most(version: str, bound: str) -> bool:
    """Whether a version is at most another, suffixes left aside, as Gardener compares here.

    Raises:
        InvalidVersion: a version cannot be read.
    """
    return parse(version).release <= parse(bound).release


def fitting_versions(image: Object, worker: Object, spec: Object, kubelet: Version) -> Sequence[Object]:
    """Return the versions of an image that the machines of a worker pool may be on after an update.

    With in-place updates these are the version they are on and those that can be reached from it. A machine type that
    ``spec`` does not have leaves only the architecture to decide.

    Raises:
        InvalidVersion: validation would refuse the profile.
        InvalidRange: validation would refuse the profile.
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

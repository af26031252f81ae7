"""The machines and places that a Shoot may use by its profile: images, machine types, volumes, regions, zones. Pure.

If a profile defines capabilities (``spec.machineCapabilities``), an image version lists *flavors*, each a combination
of capability values that it is built for. A capability that a flavor or a machine type does not name has all values of
its definition. An image version fits a machine type if, for one of its flavors, both share a value of every capability;
a version without flavors fits all.

The rules are those of Gardener's plugin ShootValidator. A value is checked when it is new in a request; a Shoot keeps
its present values, whether the profile lists them or not.

- An image version has to be listed, built for the worker's architecture, and active. An existing pool may also move to
  an expired version that is not lower than its own, because forced updates lead over expired ones. If machines are
  updated in place, a new pool needs a version that supports it, an existing one a version that can be reached from its
  own. The version must admit the kubelet and offer the pool's container runtimes.
- Machine types and volume types have to be listed, usable, and available in every zone of the pool. A machine type has
  to have the pool's architecture, and capabilities that its image is built for. A volume has to be as large as its type
  and the machine type require.
- Gardener's Shoots must name a region and a provider; here a Shoot may omit both where its profile offers no choice, as
  in GEP-25's examples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from restow.cloudprofile.capabilities import (
    AMD64,
    Definitions,
    architecture_of,
    architectures_of,
    definitions_of,
    flavor_architectures,
)
from restow.cloudprofile.findings import ValidationFinding, duplicate, forbidden, invalid, not_supported
from restow.cloudprofile.objects import (
    Object,
    by_name,
    image_versions,
    machine_image_of,
    machine_images,
    placed_workers,
    spec_of,
)
from restow.cloudprofile.validation.formats import quantity_of
from restow.cloudprofile.versions.lifecycle import Classification, classification_at
from restow.cloudprofile.versions.semver import InvalidVersion, SemanticVersion, parse, parse_range

_IN_PLACE = frozenset({"AutoInPlaceUpdate", "ManualInPlaceUpdate"})
_DEFAULT_CRI: Object = {"name": "containerd"}


def find_machine_type(spec: Object, name: str | None) -> Object | None:
    """Return the machine type with this name in a CloudProfile's spec, None if there is none."""
    return next((item for item in spec.get("machineTypes") or () if item.get("name") == name), None)


def find_image_version(spec: Object, name: str | None, version: str | None) -> Object | None:
    """Return a version of a machine image in a CloudProfile's spec, None if none has exactly these names."""
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


def kubelet_version(worker: Object, control_plane: str) -> SemanticVersion:
    """Return the kubelet version of a worker: its own, else the control plane's."""
    return parse((worker.get("kubernetes") or {}).get("version") or control_plane)


def admits_kubelet(version: Object, kubelet: SemanticVersion) -> bool:
    """Return whether an image version's ``kubeletVersionConstraint`` admits a kubelet."""
    constraint = version.get("kubeletVersionConstraint")
    return not constraint or parse_range(constraint).admits(kubelet)


def is_in_place(worker: Object) -> bool:
    """Return whether the machines of a worker are updated in place instead of being replaced."""
    return worker.get("updateStrategy") in _IN_PLACE


def supports_in_place(version: Object) -> bool:
    """Return whether machines with an image version can be updated in place at all."""
    return bool((version.get("inPlaceUpdates") or {}).get("supported"))


def updates_in_place(version: Object, current: str) -> bool:
    """Return whether machines on the version ``current`` can be updated in place to an image version."""
    minimum = (version.get("inPlaceUpdates") or {}).get("minVersionForUpdate")
    return bool(minimum and supports_in_place(version) and release_at_most(minimum, current))


def release_at_most(version: str, bound: str) -> bool:
    """Return whether a version is at most ``bound``, without regard to suffixes, as Gardener compares here."""
    return parse(version).release <= parse(bound).release


def runnable_versions(image: Object, worker: Object, spec: Object) -> list[Object]:
    """Return the versions of an image that the machines of a worker pool can run.

    If ``spec`` does not list the machine type, its capabilities do not restrict the versions.
    """
    definitions, architecture = definitions_of(spec), worker_architecture(worker, spec)
    machine_type = find_machine_type(spec, (worker.get("machine") or {}).get("type")) or {}
    return [
        version
        for version in image_versions(image)
        if offers_architecture(version, architecture, definitions)
        and fits_machine_type(version, machine_type, definitions)
    ]


def fitting_versions(image: Object, worker: Object, spec: Object, kubelet: SemanticVersion) -> Sequence[Object]:
    """Return the versions of an image that the machines of a worker pool may be on after an update.

    With in-place updates these are the current version and those that can be reached from it.
    """
    current = machine_image_of(worker).get("version") or ""
    return [
        version
        for version in runnable_versions(image, worker, spec)
        if next(_cri_findings(version, worker.get("cri") or _DEFAULT_CRI, "", ""), None) is None
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
    """Return why a worker pool may not be on its machine image version."""
    image, architecture = machine_image_of(worker), worker_architecture(worker, offer)
    if old is not None and (image, architecture) == (machine_image_of(old), worker_architecture(old, offer)):
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


def _faults(version: Object, worker: Object, old: Object | None, offer: Object, now: datetime) -> Iterator[str]:
    """Yield why a worker pool may not be on an image version, as phrases."""
    architecture = worker_architecture(worker, offer)
    before = machine_image_of(old or {}).get("version") or ""
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
    """
    image, before = machine_image_of(worker), old or {}
    version = find_image_version(offer, image.get("name"), image.get("version"))
    if version is None:
        return ()
    name = f"machine image '{image.get('name')}@{image.get('version')}'"
    is_same_image = old is not None and image == machine_image_of(old)
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


def place_findings(shoot: Object, old: Object | None, offer: Object) -> Iterator[ValidationFinding]:
    """Yield why a Shoot may not run where it asks to, or have the volumes that it asks for."""
    spec, before = spec_of(shoot), spec_of(old or {})
    yield from _region(spec, before, offer)
    yield from _access_restrictions(spec, before, offer)
    yield from _zone_pinning(spec, before, offer)
    if wrong := list(_provider_type(spec, offer)):
        yield from wrong  # further findings would be about another provider's machines
        return
    region = region_of(spec, offer)
    for path, worker, old_worker in placed_workers(shoot, old):
        yield from _volume(worker, old_worker, offer, region, path)
        yield from _zones(worker, old_worker or {}, spec.get("region") == before.get("region"), spec, region, path)


def region_of(spec: Object, offer: Object) -> Object | None:
    """Return the region of a Shoot's spec as its profile lists it, None if it is not listed."""
    return by_name(offer.get("regions") or ()).get(spec.get("region") or "")


def _region(spec: Object, before: Object, offer: Object) -> Iterator[ValidationFinding]:
    region = spec.get("region") or ""
    names = by_name(offer.get("regions") or ())
    if region and region != before.get("region") and region not in names:
        yield not_supported("spec.region", region, names)


def _access_restrictions(spec: Object, before: Object, offer: Object) -> Iterator[ValidationFinding]:
    wanted = [each.get("name") or "" for each in spec.get("accessRestrictions") or ()]
    if set(wanted) == {each.get("name") or "" for each in before.get("accessRestrictions") or ()}:
        return
    offered = by_name((region_of(spec, offer) or {}).get("accessRestrictions") or ())
    for index, name in enumerate(wanted):
        if name not in offered:
            yield not_supported(f"spec.accessRestrictions[{index}]", name, offered)


def _zone_pinning(spec: Object, before: Object, offer: Object) -> Iterator[ValidationFinding]:
    allowed = (offer.get("controlPlane") or {}).get("allowZonePinning")
    if _control_plane_zones(spec) and not _control_plane_zones(before) and not allowed:
        yield forbidden(
            "spec.controlPlane.zones",
            "spec.controlPlane.zones can only be set when the CloudProfile has spec.controlPlane.allowZonePinning set "
            "to true",
        )


def _control_plane_zones(spec: Object) -> object:
    return (spec.get("controlPlane") or {}).get("zones")


def _provider_type(spec: Object, offer: Object) -> Iterator[ValidationFinding]:
    given, offered = (spec.get("provider") or {}).get("type") or "", offer.get("type") or ""
    if given and offered and given != offered:
        yield invalid(
            "spec.provider.type",
            f"provider type in shoot must equal provider type of referenced CloudProfile: {json.dumps(offered)}",
            given,
        )


def machine_type_finding(
    worker: Object, old: Object | None, offer: Object, region: Object | None, path: str
) -> ValidationFinding | None:
    """Return why a worker pool may not have its machine type, or None if it may.

    ``old`` is the pool before an update, None for a new one; ``region`` is the profile's entry for the Shoot's region.
    """
    machine = worker.get("machine") or {}
    wanted, architecture = machine.get("type") or "", worker_architecture(worker, offer)
    had = (old or {}).get("machine") or {}
    if not wanted or (old is not None and (wanted, architecture) == (had.get("type"), worker_architecture(old, offer))):
        return None
    definitions = definitions_of(offer)

    def faults(machine_type: Object) -> list[str]:
        wrong = list(_usability(machine_type, worker, region, "unavailableMachineTypes"))
        if architecture_of(machine_type, definitions) != architecture:
            wrong.append(f"does not support CPU architecture {json.dumps(architecture)}")
        return wrong

    return _unusable(f"{path}.machine.type", "machine type", wanted, offer.get("machineTypes") or (), faults)


def _usability(item: Object, worker: Object, region: Object | None, lacking: str) -> Iterator[str]:
    if item.get("usable") is False:
        yield "is unusable"
    zones = by_name((region or {}).get("zones") or ())
    if any(item.get("name") in (zones.get(zone, {}).get(lacking) or ()) for zone in worker.get("zones") or ()):
        yield "is unavailable in at least one zone"


def _unusable(
    path: str, what: str, wanted: str, offered: Iterable[Object], faults: Callable[[Object], list[str]]
) -> ValidationFinding | None:
    listed = {item.get("name") or "": faults(item) for item in offered}
    usable = sorted(name for name, wrong in listed.items() if not wrong)
    if wanted not in listed:
        return not_supported(path, wanted, usable)
    if wrong := listed[wanted]:
        detail = f"{what} {json.dumps(wanted)} {', '.join(wrong)}, supported types are [{' '.join(usable)}]"
        return invalid(path, detail, wanted)
    return None


def capability_findings(worker: Object, offer: Object, path: str) -> Iterator[ValidationFinding]:
    """Yield a finding if the machine type of a worker pool does not fit the version of its image."""
    definitions = definitions_of(offer)
    machine = worker.get("machine") or {}
    image, machine_type = machine.get("image") or {}, find_machine_type(offer, machine.get("type"))
    version = find_image_version(offer, image.get("name"), image.get("version"))
    if not definitions or machine_type is None or version is None:
        return
    if not fits_machine_type(version, machine_type, definitions):
        yield invalid(
            f"{path}.machine.image.version",
            f"the capabilities of machine type {json.dumps(machine.get('type'))} are not supported by machine image "
            f"{image.get('name')}:{image.get('version')}",
            image.get("version"),
        )


def _volume(
    worker: Object, old: Object | None, offer: Object, region: Object | None, path: str
) -> Iterator[ValidationFinding]:
    volume = worker.get("volume") or {}
    if not (wanted := volume.get("type")):
        return
    offered = offer.get("volumeTypes") or ()
    if wanted != ((old or {}).get("volume") or {}).get("type"):
        wrong = _unusable(
            f"{path}.volume.type",
            "volume type",
            wanted,
            offered,
            lambda volume_type: list(_usability(volume_type, worker, region, "unavailableVolumeTypes")),
        )
        if wrong:
            yield wrong
            return
    size = quantity_of(volume.get("size"))
    machine_type = find_machine_type(offer, (worker.get("machine") or {}).get("type")) or {}
    storage = machine_type.get("storage") or {}
    least = [storage.get("minSize")] if storage.get("type") == wanted else []
    least.append(by_name(offered).get(wanted, {}).get("minSize"))
    for bound in least:
        limit = quantity_of(bound)
        if size is not None and limit is not None and size < limit:
            yield invalid(f"{path}.volume.size", f"size must be >= {bound}", volume.get("size"))
            return


def _zones(
    worker: Object, old: Object, same_region: bool, spec: Object, region: Object | None, path: str
) -> Iterator[ValidationFinding]:
    zones = worker.get("zones") or ()
    if same_region and list(zones) == list(old.get("zones") or ()):
        return
    offered = by_name((region or {}).get("zones") or ())
    seen: set[str] = set()
    for index, zone in enumerate(zones):
        below = f"{path}.zones[{index}]"
        if not offered:
            yield invalid(below, _NO_ZONES, spec.get("region"))
        elif zone not in offered:
            yield not_supported(below, zone, offered)
        if zone in seen:
            yield duplicate(below, zone)
        seen.add(zone)


_NO_ZONES: Final = "this region does not support availability zones, please do not configure them"

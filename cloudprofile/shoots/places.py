"""The places and machines that a Shoot may use, by its profile: regions, zones, machine and volume types. Pure.

The rules are those of Gardener's plugin ShootValidator. A value is checked when it is new in a request; a Shoot keeps
its present values, whether the profile lists them or not. Machine types and volume types have to be listed, usable
(``usable: false`` keeps them for the Shoots that have them), and available in every zone of the pool. A machine type
has to have the pool's architecture, and capabilities that its image is built for. A volume has to be as large as its
type and the machine type require.

Gardener's Shoots must name a region and a provider; here a Shoot may omit both where its profile offers no choice, as
in GEP-25's examples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from restow.cloudprofile.capabilities import architecture_of, definitions_of
from restow.cloudprofile.findings import ValidationFinding, duplicate, forbidden, invalid, not_supported
from restow.cloudprofile.objects import Object, by_name, spec_of, workers
from restow.cloudprofile.shoots.machineimages import (
    find_image_version,
    find_machine_type,
    fits_machine_type,
    worker_architecture,
)
from restow.cloudprofile.validation.formats import quantity_of


def place_findings(shoot: Object, old: Object | None, offer: Object) -> tuple[ValidationFinding, ...]:
    """Return why a Shoot may not run where it asks to, or have the volumes that it asks for.

    Args:
        shoot: as requested, defaulted.
        old: the Shoot before an update, None on create.
        offer: the CloudProfile spec that applies to it.
    """
    return tuple(_findings(spec_of(shoot), spec_of(old or {}), shoot, old, offer))


def _findings(
    spec: Object, before: Object, shoot: Object, old: Object | None, offer: Object
) -> Iterator[ValidationFinding]:
    yield from _region(spec, before, offer)
    yield from _access_restrictions(spec, before, offer)
    yield from _zone_pinning(spec, before, offer)
    if wrong := list(_provider_type(spec, offer)):
        yield from wrong  # further findings would be about another provider's machines
        return
    had = by_name(workers(old or {}))
    for index, worker in enumerate(workers(shoot)):
        path, old_worker = f"spec.provider.workers[{index}]", had.get(worker.get("name") or "")
        region = region_of(spec, offer)
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
        return [
            *_usability(machine_type, worker, region, "unavailableMachineTypes"),
            *(
                []
                if architecture_of(machine_type, definitions) == architecture
                else [f"does not support CPU architecture {json.dumps(architecture)}"]
            ),
        ]

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

"""CloudProfiles: the whole object, and an update of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from restow.cloudprofile.capabilities import definitions_of
from restow.cloudprofile.findings import Finding, Remark, required
from restow.cloudprofile.parts import Object, by_name, image_versions, kubernetes_versions, machine_images, spec_of
from restow.cloudprofile.validation.bastion import bastion
from restow.cloudprofile.validation.images import complete_images
from restow.cloudprofile.validation.sections import (
    ca_bundle,
    label_selector,
    limits,
    limits_not_lowered,
    machine_capabilities,
    metadata,
    regions,
)
from restow.cloudprofile.validation.types import complete_machine_types, volume_types_in
from restow.cloudprofile.validation.versions import kubernetes, turned_unavailable

__all__ = ["missing_sections", "validate", "validate_update"]

_SECTIONS = {
    "type": "must provide a provider type",
    "machineImages": "must provide at least one machine image",
    "machineTypes": "must provide at least one machine type",
    "regions": "must provide at least one region",
}


def missing_sections(spec: Object, path: str = "spec") -> Iterator[Finding]:
    """Say which sections a CloudProfile lacks without which no Shoot can be made from it.

    Gardener refuses such a profile; GEP-32's examples are of this kind.
    """
    for section, sentence in _SECTIONS.items():
        if not spec.get(section):
            yield required(f"{path}.{section}", sentence)


def validate(profile: Object, now: datetime) -> Iterator[Remark]:
    """Validate a CloudProfile as it stands, ``missing_sections`` included."""
    spec = spec_of(profile)
    definitions = definitions_of(spec)
    yield from metadata(profile, namespaced=False)
    yield from missing_sections(spec)
    yield from machine_capabilities(spec.get("machineCapabilities") or (), "spec.machineCapabilities")
    yield from kubernetes(kubernetes_versions(spec), "spec.kubernetes.versions", now)
    yield from complete_images(machine_images(spec), definitions, "spec.machineImages", now)
    yield from complete_machine_types(spec.get("machineTypes") or (), definitions, "spec.machineTypes")
    yield from volume_types_in(spec.get("volumeTypes") or (), "spec.volumeTypes")
    yield from regions(spec.get("regions") or (), "spec.regions")
    yield from bastion(spec, "spec.bastion", now)
    yield from limits(spec.get("limits"), "spec.limits")
    yield from label_selector(spec.get("seedSelector"), "spec.seedSelector")
    yield from ca_bundle(spec.get("caBundle"), "spec.caBundle")


def validate_update(new: Object, old: Object, now: datetime) -> Iterator[Remark]:
    """Validate a CloudProfile that replaces another, as it stands and against the old one."""
    yield from validate(new, now)
    after, before = spec_of(new), spec_of(old)
    yield from limits_not_lowered(after.get("limits"), before.get("limits"), "spec.limits")
    yield from turned_unavailable(
        kubernetes_versions(after), kubernetes_versions(before), "spec.kubernetes.versions", now
    )
    old_images = by_name(machine_images(before))
    for index, image in enumerate(machine_images(after)):
        old_image = old_images.get(image.get("name") or "", {})
        path = f"spec.machineImages[{index}].versions"
        yield from turned_unavailable(image_versions(image), image_versions(old_image), path, now)

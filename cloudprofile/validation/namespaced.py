"""NamespacedCloudProfiles: what can be said without their parent, and of what the two render to. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from restow.cloudprofile.capabilities import definitions_of
from restow.cloudprofile.findings import Finding, Remark, forbidden, invalid, not_supported, required
from restow.cloudprofile.parts import Object, kubernetes_versions, machine_images, spec_of
from restow.cloudprofile.references import CLOUD_PROFILE
from restow.cloudprofile.validation.images import complete_images, images_in
from restow.cloudprofile.validation.sections import ca_bundle, limits, metadata
from restow.cloudprofile.validation.types import complete_machine_types, machine_types_in, volume_types_in
from restow.cloudprofile.validation.versions import kubernetes, kubernetes_versions_in

__all__ = ["validate_namespaced", "validate_namespaced_update", "validate_rendered"]

_RENDERED = "status.cloudProfileSpec"


def validate_namespaced(profile: Object) -> Iterator[Finding]:
    """Validate a NamespacedCloudProfile as it stands; nothing in it has to be complete but the parent."""
    spec = spec_of(profile)
    yield from metadata(profile, namespaced=True)
    yield from _parent(spec.get("parent") or {}, "spec.parent")
    versions = kubernetes_versions(spec)
    for index, version in enumerate(versions):
        if version.get("classification") is not None:
            yield forbidden(
                f"spec.kubernetes.versions[{index}].classification",
                "must not provide a classification to a Kubernetes version in NamespacedCloudProfile",
            )
    yield from kubernetes_versions_in(versions, "spec.kubernetes.versions")
    yield from images_in(machine_images(spec), {}, "spec.machineImages")
    yield from volume_types_in(spec.get("volumeTypes") or (), "spec.volumeTypes")
    yield from machine_types_in(spec.get("machineTypes") or (), {}, "spec.machineTypes")
    yield from ca_bundle(spec.get("caBundle"), "spec.caBundle")
    yield from limits(spec.get("limits"), "spec.limits")


def _parent(parent: Object, path: str) -> Iterator[Finding]:
    if parent.get("kind") != CLOUD_PROFILE:
        yield not_supported(f"{path}.kind", [CLOUD_PROFILE])
    if not parent.get("name"):
        yield required(f"{path}.name", "must provide a parent name")


def validate_namespaced_update(new: Object, old: Object) -> Iterator[Finding]:
    """Validate a NamespacedCloudProfile that replaces another, as it stands and against the old one."""
    parent = spec_of(old).get("parent")
    if parent and spec_of(new).get("parent") != parent:
        yield invalid("spec.parent", "field is immutable")
    yield from validate_namespaced(new)


def validate_rendered(spec: Object, now: datetime) -> Iterator[Remark]:
    """Validate what a NamespacedCloudProfile renders to, under the path ``status.cloudProfileSpec``."""
    definitions = definitions_of(spec)
    yield from kubernetes(kubernetes_versions(spec), f"{_RENDERED}.kubernetes.versions", now)
    yield from complete_images(machine_images(spec), definitions, f"{_RENDERED}.machineImages", now)
    yield from complete_machine_types(spec.get("machineTypes") or (), definitions, f"{_RENDERED}.machineTypes")
    yield from volume_types_in(spec.get("volumeTypes") or (), f"{_RENDERED}.volumeTypes")

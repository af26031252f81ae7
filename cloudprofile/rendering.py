"""Rendering: the CloudProfile that a NamespacedCloudProfile and its parent make together. Pure.

The result is what ``status.cloudProfileSpec`` holds (GEP-25, "Rendering"). It follows from the two specs alone, without
memory of former ones. The parent's entries come first and keep their places, additions follow; of machine types and
volume types of one name the NamespacedCloudProfile's replaces the parent's; a version of both is overridden
(``restow.cloudprofile.overrides``). Kubernetes versions cannot be added; image versions and images can.

Sections that the NamespacedCloudProfile does not touch are the parent's, unchanged. In images and machine types that
it touches the architectures are written out, so that readers need know nothing of capabilities. ``providerConfig`` is
the parent's: only a provider's extension knows how to merge it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from restow.cloudprofile.capabilities import definitions_of, fill_architectures, in_form_of
from restow.cloudprofile.overrides import overridden
from restow.cloudprofile.parts import (
    Object,
    by_name,
    by_version,
    image_versions,
    kubernetes_versions,
    machine_images,
)

__all__ = ["is_own_version", "render"]

_OWN_FIELDS = ("architectures", "capabilityFlavors", "classification", "cri", "kubeletVersionConstraint")
_END_OF_CERTIFICATE = "-----END CERTIFICATE-----"


def is_own_version(version: Object) -> bool:
    """Whether an image version of a NamespacedCloudProfile stands for itself, rather than overriding the parent's."""
    return any(version.get(field) for field in _OWN_FIELDS)


def render(parent: Object, namespaced: Object) -> dict[str, Any]:
    """Return the CloudProfile spec that the spec of a NamespacedCloudProfile makes of its parent's.

    Raises:
        ValueError: an overridden version's lifecycle is none; validation says where.
    """
    rendered = dict(parent)
    project = in_form_of(namespaced, definitions_of(parent))
    if overrides := by_version(kubernetes_versions(project)):
        rendered |= _kubernetes(parent, overrides)
    if images := machine_images(project):
        rendered["machineImages"] = _merged(machine_images(parent), images, by_name, _image)
    for section in ("machineTypes", "volumeTypes"):
        if items := project.get(section):
            rendered[section] = _merged(parent.get(section) or (), items, by_name, _replaced)
    _fill(rendered, project)
    if bundle := project.get("caBundle"):
        rendered["caBundle"] = _joined(parent.get("caBundle") or "", bundle)
    if (limits := project.get("limits")) is not None:
        rendered["limits"] = _limits(parent.get("limits") or {}, limits)
    return rendered


def _kubernetes(parent: Object, overrides: Mapping[str, Object]) -> dict[str, Any]:
    versions = [
        overridden(version, overrides[name]) if (name := version.get("version") or "") in overrides else version
        for version in kubernetes_versions(parent)
    ]
    return {"kubernetes": {**parent["kubernetes"], "versions": versions}} if versions else {}


def _merged(
    base: Sequence[Object],
    additions: Sequence[Object],
    keyed: Callable[[Sequence[Object]], dict[str, Object]],
    both: Callable[[Object, Object], Object],
) -> list[Object]:
    """Return the items of two lists, those of one key merged at the place of the first."""
    merged = keyed(base)
    for key, item in keyed(additions).items():
        merged[key] = both(merged[key], item) if key in merged else item
    return list(merged.values())


def _replaced(_base: Object, item: Object) -> Object:
    return item


def _image(base: Object, image: Object) -> Object:
    changed = dict(base)
    if strategy := image.get("updateStrategy"):
        changed["updateStrategy"] = strategy
    if versions := image_versions(image):
        changed["versions"] = _merged(image_versions(base), versions, by_version, _image_version)
    return changed


def _image_version(base: Object, version: Object) -> Object:
    return version if is_own_version(version) else overridden(base, version)


def _fill(rendered: dict[str, Any], project: Object) -> None:
    """Write out the architectures of the sections that the project touches."""
    filled = fill_architectures(rendered)
    for section in ("machineImages", "machineTypes"):
        if project.get(section):
            rendered[section] = filled[section]


def _joined(parent: str, project: str) -> str:
    """Return both bundles in one; a last line of the parent's that is not ended would spoil the next certificate."""
    return f"{parent}\n{project}" if parent.endswith(_END_OF_CERTIFICATE) else parent + project


def _limits(parent: Object, project: Object) -> Object:
    maximum = project.get("maxNodesTotal") or 0
    return {**parent, "maxNodesTotal": maximum} if maximum > 0 else dict(parent)

"""Gardener's defaults for a CloudProfile's spec. Pure.

The rules read a CloudProfile with these defaults filled in. A NamespacedCloudProfile gets none: a default in it would
turn an override into a replacement. Not all defaults can be part of a CRD's schema: architectures, for example, have
one only if no capabilities are defined.
"""

from __future__ import annotations

from typing import Any

from restow.cloudprofile.capabilities import AMD64, definitions_of
from restow.cloudprofile.objects import Object, image_versions, machine_images

_CRI = "containerd"
_UPDATE_STRATEGY = "major"


def defaulted(spec: Object) -> dict[str, Any]:
    """Return a CloudProfile's spec with the defaults filled in."""
    filled = dict(spec)
    capabilities = bool(definitions_of(spec))
    if images := machine_images(spec):
        filled["machineImages"] = [_defaulted_image(image, capabilities=capabilities) for image in images]
    if machine_types := spec.get("machineTypes"):
        architecture = {} if capabilities else {"architecture": AMD64}
        filled["machineTypes"] = [_with(item, {"usable": True, **architecture}) for item in machine_types]
    if volume_types := spec.get("volumeTypes"):
        filled["volumeTypes"] = [_with(item, {"usable": True}) for item in volume_types]
    return filled


def _defaulted_image(image: Object, *, capabilities: bool) -> dict[str, Any]:
    filled = _with(image, {"updateStrategy": _UPDATE_STRATEGY})
    if versions := image_versions(image):
        filled["versions"] = [defaulted_image_version(version, capabilities=capabilities) for version in versions]
    return filled


def defaulted_image_version(version: Object, *, capabilities: bool) -> dict[str, Any]:
    """Return an image version with the defaults filled in, with or without ``capabilities`` in its profile."""
    return _with(version, {"cri": [{"name": _CRI}]} | ({} if capabilities else {"architectures": [AMD64]}))


def _with(item: Object, defaults: Object) -> dict[str, Any]:
    """Return an item with its unset or empty fields set to the defaults."""
    unset = {field: value for field, value in defaults.items() if item.get(field) in (None, "", [])}
    return {**item, **unset}

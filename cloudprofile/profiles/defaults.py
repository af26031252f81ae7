"""Gardener's defaults for a CloudProfile's spec. Pure.

What is left out of a CloudProfile means this, wherever the rules read one. A NamespacedCloudProfile gets none: a
default in it would turn an override into a replacement. Not all can be defaults of a CRD's schema: architectures have
one only where no capabilities are defined.
"""

from __future__ import annotations

from typing import Any

from restow.cloudprofile.capabilities import AMD64, definitions_of
from restow.cloudprofile.objects import Object, image_versions, machine_images

__all__ = ["defaulted", "defaulted_image_version"]


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
    """Return an image version with the defaults filled in, for a profile that defines capabilities or does not."""
    return _with(version, {"cri": [{"name": _CRI}]} | ({} if capabilities else {"architectures": [AMD64]}))


def _with(item: Object, defaults: Object) -> dict[str, Any]:
    """Return an item with what is unset or empty in it set."""
    unset = {field: value for field, value in defaults.items() if item.get(field) in (None, "", [])}
    return {**item, **unset}

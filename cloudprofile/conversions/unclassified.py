"""The versions of a CloudProfile that are ``supported`` only because v1beta1 names no classification. Pure."""

from __future__ import annotations

from typing import Final

from restow.cloudprofile.conversions.lifecycle import CLASSIFICATION, LIFECYCLE, name_of, stages_of
from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    GROUP,
    OLD,
    Object,
    by_version,
    image_versions,
    kubernetes_versions,
    machine_images,
    spec_of,
)
from restow.cloudprofile.validation.supported import VersionKey
from restow.cloudprofile.versions.lifecycle import Classification
from restow.conversion import Graph

__all__ = ["unclassified"]

_OLD: Final = f"{GROUP}/{OLD}"


def unclassified(graph: Graph, profile: Object) -> frozenset[VersionKey]:
    """Return the versions of a CloudProfile of v1beta2 that have a stage ``supported`` that no client wrote.

    Conversion gives that stage to a version of v1beta1 that has an ``expirationDate`` and no ``classification``; its
    stash records that. Gardener counts such a version as supported, but refuses no other version because of it.

    Raises:
        ObjectError: a rule fails on the profile.
    """
    key = graph.kind(GROUP, CLOUD_PROFILE).stash_key
    if key not in ((profile.get("metadata") or {}).get("annotations") or {}):
        return frozenset()
    shown = _by_key(graph.convert(dict(profile), _OLD))
    return frozenset(
        key
        for key, version in _by_key(profile).items()
        if key in shown
        and not shown[key].get(CLASSIFICATION)
        and any(name_of(stage) == Classification.SUPPORTED for stage in stages_of(version.get(LIFECYCLE)))
    )


def _by_key(profile: Object) -> dict[VersionKey, Object]:
    spec = spec_of(profile)
    lists = [("", kubernetes_versions(spec))]
    lists += [(image.get("name") or "", image_versions(image)) for image in machine_images(spec)]
    return {(image, name): version for image, versions in lists for name, version in by_version(versions).items()}

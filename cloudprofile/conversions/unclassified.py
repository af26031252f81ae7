"""The versions of a CloudProfile that are ``supported`` only because v1beta1 names no classification. Pure."""

from __future__ import annotations

from typing import Final

from restow.cloudprofile.conversions.lifecycle import CLASSIFICATION, LIFECYCLE, name_of, stages_of
from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    GROUP,
    OLD,
    Object,
    VersionKey,
    spec_of,
    versions_by_key,
)
from restow.cloudprofile.versions.lifecycle import Classification
from restow.conversion import Graph

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
    shown = versions_by_key(spec_of(graph.convert(dict(profile), _OLD)))
    return frozenset(
        key
        for key, version in versions_by_key(spec_of(profile)).items()
        if key in shown
        and not shown[key].get(CLASSIFICATION)
        and any(name_of(stage) == Classification.SUPPORTED for stage in stages_of(version.get(LIFECYCLE)))
    )

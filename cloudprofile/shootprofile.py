"""The profile of a Shoot: what it offers, and the two fields that name it, defaulted from each other. Pure.

A Shoot of v1beta1 has ``spec.cloudProfile`` (kind and name) and the deprecated ``spec.cloudProfileName`` (GEP-25). By
its Kubernetes version: below 1.33 both are kept, at 1.33 the old one is no longer filled in, from 1.34 on it is removed
where it says the same and refused where it does not. Gardener overwrites a deprecated name that disagrees; here the
request that brings one in is refused, since nothing is dropped in silence. Fields that agree are accepted on create
too: an object that was read at v1beta1 has both.

What a NamespacedCloudProfile offers is what was rendered into its status: an unreconciled one offers nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from restow.cloudprofile.findings import Finding, forbidden, invalid, not_supported, required
from restow.cloudprofile.parts import Object, is_deleting, spec_of
from restow.cloudprofile.references import (
    CLOUD_PROFILE,
    NAMESPACED_CLOUD_PROFILE,
    ProfileReference,
    parent_of,
    profile_of,
    reference_to,
)
from restow.cloudprofile.semver import InvalidVersion, parse

__all__ = ["Profiles", "disagreement_findings", "reference_findings", "sync_reference"]


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles that Shoots can refer to.

    Attributes:
        objects: CloudProfiles and NamespacedCloudProfiles.
    """

    objects: Mapping[ProfileReference, Object]

    @classmethod
    def of(cls, cloud_profiles: Iterable[Object] = (), namespaced: Iterable[Object] = ()) -> Profiles:
        """Return the profiles of two lists of objects."""
        objects = {reference_to(CLOUD_PROFILE, profile): profile for profile in cloud_profiles}
        return cls(objects | {reference_to(NAMESPACED_CLOUD_PROFILE, profile): profile for profile in namespaced})

    def offer(self, reference: ProfileReference) -> Object | None:
        """Return the CloudProfile spec that holds for Shoots with this profile, None if it does not exist."""
        profile = self.objects.get(reference)
        if profile is None:
            return None
        if reference.kind == NAMESPACED_CLOUD_PROFILE:
            return (profile.get("status") or {}).get("cloudProfileSpec") or {}
        return spec_of(profile)

    def root(self, reference: ProfileReference) -> str | None:
        """Return the name of the CloudProfile that a profile stems from; a CloudProfile is its own, existing or not.

        None where a NamespacedCloudProfile does not exist.
        """
        if reference.kind != NAMESPACED_CLOUD_PROFILE:
            return reference.name
        profile = self.objects.get(reference)
        return parent_of(profile).name if profile is not None else None


def sync_reference(shoot: Object, old: Object | None) -> dict[str, Any]:
    """Return a Shoot of v1beta1 with the two fields of its profile defaulted from each other.

    ``old`` is the Shoot before an update, None on create. A Shoot in deletion is left as it is.
    """
    if is_deleting(shoot):
        return dict(shoot)
    spec = dict(spec_of(shoot))
    reference, name = dict(spec.get("cloudProfile") or {}), spec.get("cloudProfileName")
    line = _kubernetes_line(spec)
    if not reference and name and line < (1, 34):
        reference["name"] = name
    if not reference:
        return {**shoot, "spec": spec}
    spec["cloudProfile"] = {**reference, "kind": reference.get("kind") or CLOUD_PROFILE}
    if kept := _synced_name(spec, spec_of(old or {}).get("cloudProfileName"), line):
        spec["cloudProfileName"] = kept
    else:
        spec.pop("cloudProfileName", None)
    return {**shoot, "spec": spec}


def _synced_name(spec: Object, before: str | None, line: tuple[int, int]) -> str | None:
    """Return what ``cloudProfileName`` becomes beside ``cloudProfile``, None if it goes."""
    name, reference = spec.get("cloudProfileName"), spec["cloudProfile"]
    same_kind = reference["kind"] == CLOUD_PROFILE
    if line >= (1, 34):
        return None if same_kind and name == before == reference.get("name") else name
    return reference.get("name") if same_kind and (name or line < (1, 33)) else None


def _kubernetes_line(spec: Object) -> tuple[int, int]:
    """Return major and minor of a Shoot's Kubernetes version, zeros where it has none that can be read."""
    try:
        return parse((spec.get("kubernetes") or {}).get("version") or "").line
    except InvalidVersion:
        return 0, 0


def reference_findings(shoot: Object) -> tuple[Finding, ...]:
    """Return what is wrong with the profile fields of a Shoot by themselves."""
    spec = spec_of(shoot)
    found = []
    reference = profile_of(shoot)
    if reference is not None and reference.kind not in {CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE}:
        found.append(not_supported("spec.cloudProfile.kind", (CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE)))
    if reference is None or not reference.name:
        found.append(required("spec.cloudProfile.name", "must specify a cloud profile"))
    if spec.get("cloudProfileName") and _kubernetes_line(spec) >= (1, 34):
        found.append(
            forbidden("spec.cloudProfileName", "is not supported for Kubernetes >= 1.34; use spec.cloudProfile instead")
        )
    return tuple(found)


def disagreement_findings(shoot: Object, old: Object | None) -> tuple[Finding, ...]:
    """Return whether a request brings in a ``cloudProfileName`` that ``cloudProfile`` contradicts.

    To be asked before the fields are synced. An update that only moves ``cloudProfile`` may leave the deprecated name
    as it was; syncing brings it in line or removes it.
    """
    name, reference = spec_of(shoot).get("cloudProfileName"), profile_of(shoot)
    if not name or reference is None or reference == ProfileReference(CLOUD_PROFILE, name):
        return ()
    if old is not None and spec_of(old).get("cloudProfileName") == name:
        return ()
    return (
        invalid(
            "spec.cloudProfileName",
            f"{json.dumps(name)} contradicts spec.cloudProfile, which refers to {reference}; leave the deprecated "
            "spec.cloudProfileName out",
        ),
    )

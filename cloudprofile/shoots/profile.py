"""The profile of a Shoot: the two fields that name it, what it offers, and which other one the Shoot may move to. Pure.

A Shoot of v1beta1 has ``spec.cloudProfile`` (kind and name) and the deprecated ``spec.cloudProfileName`` (GEP-25). By
its Kubernetes version: below 1.33 both are kept, at 1.33 the old one is no longer filled in, from 1.34 on it is removed
where it says the same and refused where it does not. Gardener overwrites a deprecated name that disagrees; here the
request that brings one in is refused, since no field is dropped silently. Fields that agree are accepted on create too:
an object that was read at v1beta1 has both. A NamespacedCloudProfile offers what was rendered into its status: one that
is not reconciled yet offers nothing.

Moves stay in the family of one CloudProfile, its root: from it to a NamespacedCloudProfile with it as parent, back, and
between two such siblings. The new profile has to offer what the worker pools use: machine types, volume types, and the
machine image versions that the old one offers. The Kubernetes version is left out on purpose, since the next
maintenance updates it.

Nothing new may refer to a profile in deletion. Such a profile stays as long as it is used
(``profiles.reconciliation``): it would never go if new users could come. Who uses it already keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from restow.cloudprofile.findings import ValidationFinding, forbidden, invalid, not_supported, required
from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    NAMESPACED_CLOUD_PROFILE,
    Object,
    ProfileReference,
    by_name,
    is_deleting,
    parent_of,
    profile_of,
    reference_to,
    spec_of,
    workers,
)
from restow.cloudprofile.profiles.defaults import defaulted
from restow.cloudprofile.shoots.machineimages import find_image_version, find_machine_type
from restow.cloudprofile.versions.semver import InvalidVersion, parse

__all__ = [
    "ShootProfiles",
    "deleting_parent_findings",
    "deleting_profile_findings",
    "disagreement_findings",
    "offering",
    "reference_findings",
    "sync_reference",
    "transition_findings",
]


@dataclass(frozen=True, slots=True)
class ShootProfiles:
    """The profiles that Shoots can refer to.

    Attributes:
        objects: CloudProfiles and NamespacedCloudProfiles.
    """

    objects: Mapping[ProfileReference, Object]

    @classmethod
    def of(cls, cloud_profiles: Iterable[Object] = (), namespaced: Iterable[Object] = ()) -> ShootProfiles:
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
    """Return the ``cloudProfileName`` that goes with ``cloudProfile``, or None if it is removed."""
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


def reference_findings(shoot: Object) -> tuple[ValidationFinding, ...]:
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


def disagreement_findings(shoot: Object, old: Object | None) -> tuple[ValidationFinding, ...]:
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


def offering(profiles: Mapping[ProfileReference, Object]) -> ShootProfiles:
    """Return profiles as Shoots are to see them; those of a NamespacedCloudProfile are what was rendered."""
    return ShootProfiles({reference: _offered(reference.kind, profile) for reference, profile in profiles.items()})


def _offered(kind: str, profile: Object) -> Object:
    if kind != NAMESPACED_CLOUD_PROFILE:
        return {**profile, "spec": defaulted(spec_of(profile))}
    status = profile.get("status") or {}
    return {**profile, "status": {**status, "cloudProfileSpec": defaulted(status.get("cloudProfileSpec") or {})}}


def deleting_profile_findings(
    shoot: Object, old: Object | None, profiles: ShootProfiles
) -> tuple[ValidationFinding, ...]:
    """Return why a Shoot may not begin to use its profile; ``old`` is the Shoot before an update, None on create."""
    reference = profile_of(shoot)
    if reference is None or (old is not None and profile_of(old) == reference):
        return ()
    profile = profiles.objects.get(reference)
    return _refused("spec.cloudProfile", reference) if profile is not None and is_deleting(profile) else ()


def deleting_parent_findings(
    profile: Object, old: Object | None, parent: Object | None
) -> tuple[ValidationFinding, ...]:
    """Return why a NamespacedCloudProfile may not begin to inherit from its parent, None where there is none."""
    if old is not None or parent is None or not is_deleting(parent):
        return ()
    return _refused("spec.parent.name", parent_of(profile))


def _refused(field: str, reference: ProfileReference) -> tuple[ValidationFinding, ...]:
    return (forbidden(field, f"{reference} is being deleted; choose another profile"),)


def transition_findings(old: Object, new: Object, profiles: ShootProfiles) -> tuple[ValidationFinding, ...]:
    """Return why a Shoot may not be moved from the profile of ``old`` to that of ``new``; nothing if it is the same."""
    before, after = profile_of(old), profile_of(new)
    if before is None or after is None or before == after:
        return ()
    roots = []
    for reference in (before, after):
        root = profiles.root(reference)
        if root is None:
            return (invalid("spec.cloudProfile", f"{reference} not found"),)
        roots.append(root)
    if roots[0] != roots[1]:
        return (
            forbidden(
                "spec.cloudProfile",
                "cloud profile reference change is invalid: cannot change from "
                f"{_described(before, roots[0])} to {_described(after, roots[1])}. A Shoot stays with the same root "
                "CloudProfile or one of its NamespacedCloudProfiles",
            ),
        )
    offer = profiles.offer(after)
    if offer is None:
        return (invalid("spec.cloudProfile", f"{after} not found"),)
    return tuple(_unoffered(new, profiles.offer(before) or {}, offer))


def _described(reference: ProfileReference, root: str) -> str:
    name = json.dumps(reference.name)
    return f"{name} (root: {json.dumps(root)})" if reference.kind == NAMESPACED_CLOUD_PROFILE else name


def _unoffered(shoot: Object, old: Object, new: Object) -> Iterator[ValidationFinding]:
    """Yield what the worker pools of a Shoot use and the new profile does not offer."""
    volume_types = by_name(new.get("volumeTypes") or ())
    for index, worker in enumerate(workers(shoot)):
        field, user = f"spec.provider.workers[{index}]", json.dumps(worker.get("name") or "")
        machine = worker.get("machine") or {}
        image = machine.get("image") or {}
        used = image.get("name") or "", image.get("version") or ""
        if find_image_version(old, *used) and not find_image_version(new, *used):
            yield _lacks(f"{field}.machine.image", "machine image version", "@".join(used), user)
        machine_type = machine.get("type")
        if machine_type and find_machine_type(new, machine_type) is None:
            yield _lacks(f"{field}.machine.type", "machine type", machine_type, user)
        volume_type = (worker.get("volume") or {}).get("type")
        if volume_type and volume_type not in volume_types:
            yield _lacks(f"{field}.volume.type", "volume type", volume_type, user)


def _lacks(field: str, what: str, name: str, user: str) -> ValidationFinding:
    return invalid(
        field,
        f"newly referenced cloud profile does not contain the {what} {json.dumps(name)} currently in use by worker "
        f"{user}",
    )

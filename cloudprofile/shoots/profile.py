"""The profile of a Shoot: the two fields that name it, its offer, and the profiles that the Shoot may move to. Pure.

A Shoot of v1beta1 has ``spec.cloudProfile`` (kind and name) and the deprecated ``spec.cloudProfileName`` (GEP-25). The
handling depends on its Kubernetes version. Below 1.33 both fields are kept; at 1.33 the old one is no longer filled in.
From 1.34 on the old one is removed if it names the same profile, and a request that sets it alone is refused. Gardener
overwrites a deprecated name that disagrees; restow refuses the request that sets it, because it drops no field
silently. Fields that agree are accepted on create too: an object that was read at v1beta1 has both. A
NamespacedCloudProfile offers the rendered profile in its status: one that is not reconciled yet offers nothing.

Moves stay in the family of one CloudProfile, its root: from the root to a NamespacedCloudProfile with it as parent,
back, and between two such siblings. The new profile has to offer the parts that the worker pools use: machine types,
volume types, and the machine image versions that the old profile offers. The Kubernetes version is not checked on
purpose, because the next maintenance updates it.

A new object may not refer to a profile in deletion. Such a profile stays as long as it is used
(``profiles.reconciliation``), so new users could keep it forever. Existing users keep it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from restow.cloudprofile.capabilities import defaulted
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
    spec_of,
    workers,
)
from restow.cloudprofile.shoots.machines import find_image_version, find_machine_type
from restow.cloudprofile.versions.semver import InvalidVersion, parse


@dataclass(frozen=True, slots=True)
class ShootProfiles:
    """The CloudProfiles and NamespacedCloudProfiles that Shoots can refer to."""

    objects: Mapping[ProfileReference, Object]

    def offer(self, reference: ProfileReference) -> Object | None:
        """Return the CloudProfile spec that applies to Shoots with this profile, None if it does not exist."""
        profile = self.objects.get(reference)
        if profile is None:
            return None
        if reference.kind == NAMESPACED_CLOUD_PROFILE:
            return (profile.get("status") or {}).get("cloudProfileSpec") or {}
        return spec_of(profile)

    def offer_to(self, shoot: Object) -> Object | None:
        """Return the CloudProfile spec that applies to a Shoot, None if it names no profile, or none that exists."""
        reference = profile_of(shoot)
        return self.offer(reference) if reference else None

    def root(self, reference: ProfileReference) -> str | None:
        """Return the name of the CloudProfile at the root of a profile.

        A CloudProfile is its own root, existing or not. None if a NamespacedCloudProfile does not exist.
        """
        if reference.kind != NAMESPACED_CLOUD_PROFILE:
            return reference.name
        profile = self.objects.get(reference)
        return parent_of(profile).name if profile is not None else None


def sync_reference(shoot: Object, old: Object | None) -> dict[str, Any]:
    """Return a Shoot of v1beta1 with the two fields of its profile defaulted from each other.

    ``old`` is the Shoot before an update, None on create.
    """
    spec = dict(spec_of(shoot))
    reference, name = dict(spec.get("cloudProfile") or {}), spec.get("cloudProfileName")
    line = _kubernetes_line(spec)
    if not reference and name and (line < _WITHOUT_NAME or name == spec_of(old or {}).get("cloudProfileName")):
        reference["name"] = name
    if not reference:
        return {**shoot, "spec": spec}
    spec["cloudProfile"] = {**reference, "kind": reference.get("kind") or CLOUD_PROFILE}
    if kept := _synced_name(spec, line):
        spec["cloudProfileName"] = kept
    else:
        spec.pop("cloudProfileName", None)
    return {**shoot, "spec": spec}


_WITHOUT_NAME: Final = (1, 34)
"""The first minor version of Kubernetes whose Shoots have no ``cloudProfileName``."""


def _synced_name(spec: Object, line: tuple[int, int]) -> str | None:
    """Return the ``cloudProfileName`` that matches ``cloudProfile``, or None if it has to be removed."""
    name, reference = spec.get("cloudProfileName"), spec["cloudProfile"]
    same_kind = reference["kind"] == CLOUD_PROFILE
    if line >= _WITHOUT_NAME:
        return None if same_kind and name == reference.get("name") else name
    return reference.get("name") if same_kind and (name or line < (1, 33)) else None


def _kubernetes_line(spec: Object) -> tuple[int, int]:
    """Return major and minor of a Shoot's Kubernetes version, zeros if it is missing or unreadable."""
    try:
        return parse((spec.get("kubernetes") or {}).get("version") or "").line
    except InvalidVersion:
        return 0, 0


def reference_findings(shoot: Object) -> tuple[ValidationFinding, ...]:
    """Return the findings about the profile fields of a Shoot by themselves."""
    spec = spec_of(shoot)
    found = []
    reference = profile_of(shoot)
    if reference is not None and reference.kind not in {CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE}:
        found.append(not_supported("spec.cloudProfile.kind", reference.kind, (CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE)))
    if reference is None or not reference.name:
        found.append(required("spec.cloudProfile.name", "must specify a cloud profile"))
    return (*found, *name_findings(spec))


def name_findings(spec: Object) -> tuple[ValidationFinding, ...]:
    """Return a finding if a Shoot's spec has the deprecated name and a Kubernetes version that does not allow it."""
    if not spec.get("cloudProfileName") or _kubernetes_line(spec) < _WITHOUT_NAME:
        return ()
    text = "is not supported for Kubernetes >= 1.34; use spec.cloudProfile instead"
    return (forbidden("spec.cloudProfileName", text),)


def disagreement_findings(shoot: Object, old: Object | None) -> tuple[ValidationFinding, ...]:
    """Return a finding if a request sets a ``cloudProfileName`` that contradicts ``cloudProfile``.

    Call this before ``sync_reference``. An update that only changes ``cloudProfile`` may leave the deprecated name
    unchanged; syncing updates or removes it.
    """
    name, reference = spec_of(shoot).get("cloudProfileName"), profile_of(shoot)
    if not name or reference is None or reference == ProfileReference(CLOUD_PROFILE, name):
        return ()
    if old is not None and spec_of(old).get("cloudProfileName") == name:
        return ()
    return (
        invalid(
            "spec.cloudProfileName",
            f"contradicts spec.cloudProfile, which refers to {reference}; leave the deprecated "
            "spec.cloudProfileName out",
            name,
        ),
    )


def offering(profiles: Mapping[ProfileReference, Object]) -> ShootProfiles:
    """Return profiles in the form that Shoots use; a NamespacedCloudProfile offers its rendered spec."""
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
    """Return why a NamespacedCloudProfile may not begin to inherit from ``parent``, None if that does not exist."""
    if old is not None or parent is None or not is_deleting(parent):
        return ()
    return _refused("spec.parent.name", parent_of(profile))


def _refused(field: str, reference: ProfileReference) -> tuple[ValidationFinding, ...]:
    return (forbidden(field, f"{reference} is being deleted; choose another profile"),)


def transition_findings(old: Object, new: Object, profiles: ShootProfiles) -> tuple[ValidationFinding, ...]:
    """Return why a Shoot may not move from the profile of ``old`` to that of ``new``; empty if it is the same."""
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
    """Yield a finding for each part that the worker pools of a Shoot use and the new profile does not offer."""
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
        name,
    )

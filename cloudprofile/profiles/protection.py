"""Protection: the parts of a profile that may not be removed while other objects use them. Pure.

The rules are those of Gardener's resource reference manager, and GEP-32's: as long as a NamespacedCloudProfile
overrides a stage, its parent keeps that stage. Objects in deletion do not protect anything here
(``restow.cloudprofile.profiles.reconciliation`` decides whether the profile itself may be deleted).

A CloudProfile keeps the Kubernetes versions, images and image versions that Shoots or NamespacedCloudProfiles use, the
overridden stages, and the capabilities that NamespacedCloudProfiles need; it may not add an image that one of them
defines itself. Unlike in Gardener, worker pools with a Kubernetes version of their own count as users. A
NamespacedCloudProfile keeps the overrides without which a version in use would have expired, and its own images in
use. The rules compare the rendered profile before and after, because an override can be withdrawn by its removal or by
naming another stage. Both kinds keep their limits at or above the sizes of their Shoots.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from restow.cloudprofile.capabilities import ARCHITECTURE, definitions_of
from restow.cloudprofile.findings import ProfileUser, ValidationFinding, forbidden
from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    NAMESPACED_CLOUD_PROFILE,
    Object,
    ProfileReference,
    VersionKey,
    by_name,
    by_version,
    image_versions,
    is_deleting,
    kubernetes_version_of,
    kubernetes_versions,
    machine_image_of,
    machine_images,
    parent_of,
    placed_versions,
    profile_of,
    qualified_name_of,
    reference_to,
    spec_of,
    versions_by_key,
    workers,
)
from restow.cloudprofile.profiles.rendering import is_own_version, render
from restow.cloudprofile.versions.lifecycle import Classification, classification_or_none, stages_or_none


def protect(
    new: Object, old: Object, children: Iterable[Object], shoots: Iterable[Object]
) -> Iterator[ValidationFinding]:
    """Check an update of a CloudProfile against the objects that use it."""
    me = reference_to(CLOUD_PROFILE, new)
    related = [child for child in children if parent_of(child) == me and not is_deleting(child)]
    family = {me, *(reference_to(NAMESPACED_CLOUD_PROFILE, child) for child in related)}
    users = [shoot for shoot in shoots if profile_of(shoot) in family and not is_deleting(shoot)]
    change = _Change(me, spec_of(new), spec_of(old))
    for child in related:
        yield from change.for_child(child)
    for shoot in users:
        yield from change.for_shoot(shoot)
    if change.limits_changed:
        yield from _within_limits((spec_of(new).get("limits") or {}).get("maxNodesTotal"), users)


class _Change:
    """The parts that an update removes from a CloudProfile, and the findings for the objects that use them."""

    def __init__(self, me: ProfileReference, new: Object, old: Object) -> None:
        self._me = me
        self._new, self._old = new, old
        self._images, self._old_images = by_name(machine_images(new)), by_name(machine_images(old))
        self._gone = versions_by_key(old).keys() - versions_by_key(new).keys()
        self._gone_stages = tuple(_gone_stages(new, old))
        self._gone_capabilities = _gone_capabilities(definitions_of(new), definitions_of(old))
        self.limits_changed = (new.get("limits") or {}) != (old.get("limits") or {})

    def for_shoot(self, shoot: Object) -> Iterator[ValidationFinding]:
        for key, worker in _used_by(shoot):
            if key in self._gone:
                yield _in_use(self._me, key, _shoot(shoot, worker))

    def for_child(self, child: Object) -> Iterator[ValidationFinding]:
        name, spec = qualified_name_of(child), spec_of(child)
        user = ProfileUser(NAMESPACED_CLOUD_PROFILE, name, f"{NAMESPACED_CLOUD_PROFILE} '{name}'")
        for version in by_version(kubernetes_versions(spec)):
            if ("", version) in self._gone:
                yield _in_use(self._me, ("", version), user)
        yield from self._images_for_child(child, user)
        yield from self._capabilities_for_child(spec, user)
        yield from self._stages_for_child(spec, user)

    def _images_for_child(self, child: Object, user: ProfileUser) -> Iterator[ValidationFinding]:
        for image in machine_images(spec_of(child)):
            name = image.get("name") or ""
            if name in self._images and name not in self._old_images:
                definer = replace(user, text=f"{user.kind} {json.dumps(user.name)}")
                yield forbidden(
                    "spec.machineImages",
                    f'unable to add MachineImage "{name}" to {self._me} - MachineImage is already defined by {definer}',
                    definer,
                )
            if name in self._old_images and name not in self._images:
                yield forbidden(
                    "spec.machineImages",
                    f'unable to delete MachineImage "{name}" from {self._me} - MachineImage is still in use by {user}',
                    user,
                )
            for version in image_versions(image):
                if (key := (name, version.get("version") or "")) in self._gone:
                    yield _in_use(self._me, key, user)

    def _capabilities_for_child(self, spec: Object, user: ProfileUser) -> Iterator[ValidationFinding]:
        needed = _capabilities_of(spec)
        if not definitions_of(self._new) and set(needed) <= {ARCHITECTURE}:
            return  # the profile returns to plain architecture fields, which have the same meaning
        for name, values in self._gone_capabilities.items():
            if missing := [value for value in values if value in needed.get(name, ())]:
                yield forbidden(
                    "spec.machineCapabilities",
                    f'unable to delete MachineCapability "{name}" with values [{" ".join(missing)}] from {self._me} - '
                    f"capability values are still in use by {user}",
                    user,
                )

    def _stages_for_child(self, spec: Object, user: ProfileUser) -> Iterator[ValidationFinding]:
        """Yield a finding for each stage that the update removes from a version and that an override moves."""
        overrides = versions_by_key(spec)
        for key, stages, path in self._gone_stages:
            override = overrides.get(key)
            if override is None or (key[0] and is_own_version(override)):
                continue
            for stage in sorted(stages & _overridden_stages(override)):
                yield forbidden(
                    path,
                    f"unable to delete the stage {stage} of version {key[1]}: it is overridden by {user}, and as "
                    "long as it is, it cannot be deleted from the parent (it can be moved)",
                    user,
                )


def _gone_stages(new: Object, old: Object) -> Iterator[tuple[VersionKey, set[Classification], str]]:
    """Yield the versions that lose stages, which ones and their paths; once for all children of a profile."""
    before = versions_by_key(old)
    for key, path, version in placed_versions(new):
        if gone := _stage_names(before.get(key)) - _stage_names(version):
            yield key, gone, f"{path}.lifecycle"


def _stage_names(version: Object | None) -> set[Classification]:
    return {stage.classification for stage in stages_or_none(version) or ()}


def _overridden_stages(override: Object) -> set[Classification]:
    if override.get("lifecycle"):
        return _stage_names(override)
    return {Classification.EXPIRED} if override.get("expirationDate") else set()


def _gone_capabilities(new: Mapping[str, Sequence[str]], old: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: [value for value in values if value not in new.get(name, ())] for name, values in old.items()}


def _capabilities_of(spec: Object) -> dict[str, set[str]]:
    """Return the capability values that the images and machine types of a NamespacedCloudProfile need."""
    needed: dict[str, set[str]] = {}
    needs = [machine_type.get("capabilities") or {} for machine_type in spec.get("machineTypes") or ()]
    for image in machine_images(spec):
        for version in image_versions(image):
            needs.extend(version.get("capabilityFlavors") or ())
    for need in needs:
        for name, values in need.items():
            needed.setdefault(name, set()).update(values or ())
    return needed


def protect_namespaced(
    new: Object, old: Object, parent: Object, shoots: Iterable[Object], now: datetime
) -> Iterator[ValidationFinding]:
    """Check an update of a NamespacedCloudProfile against the Shoots that use it."""
    me = reference_to(NAMESPACED_CLOUD_PROFILE, new)
    users = [shoot for shoot in shoots if profile_of(shoot) == me and not is_deleting(shoot)]
    after, before, base = spec_of(new), spec_of(old), spec_of(parent)
    listed = versions_by_key(base)
    gone = {
        key
        for key in versions_by_key(before).keys() - versions_by_key(after).keys()
        # A Kubernetes version that the parent no longer lists was not on offer with the override either.
        if (_has_expired(listed[key], now) if key in listed else key[0])
    }
    for shoot in users:
        for key, worker in _used_by(shoot):
            if key in gone:
                yield _in_use(me, key, _shoot(shoot, worker), image="Machine image")
    yield from _expiring_at_once(me, after, before, base, users, now)
    if (after.get("limits") or {}) != (before.get("limits") or {}):
        limit = (after.get("limits") or {}).get("maxNodesTotal") or (base.get("limits") or {}).get("maxNodesTotal")
        yield from _within_limits(limit, users)


def _expiring_at_once(
    me: ProfileReference, after: Object, before: Object, base: Object, users: Sequence[Object], now: datetime
) -> Iterator[ValidationFinding]:
    """Yield a finding for each version in use that expires because its entry changed."""
    try:
        shown, was = versions_by_key(render(base, after)), versions_by_key(render(base, before))
    except ValueError:
        return  # a lifecycle cannot be read, which validation refuses
    entries = {key: path for key, path, _ in placed_versions(after)}
    for shoot in users:
        for key, worker in _used_by(shoot):
            if key in entries and key in was and not _has_expired(was[key], now) and _has_expired(shown[key], now):
                user = _shoot(shoot, worker)
                yield forbidden(
                    f"{entries[key]}.lifecycle",
                    f"unable to withdraw the extension of {_described(key, 'Machine image')} in {me} - version would "
                    f"expire at once, and is still in use by {user}",
                    user,
                )


def _in_use(me: ProfileReference, key: VersionKey, user: ProfileUser, image: str = "MachineImage") -> ValidationFinding:
    """Return the finding that a version in use cannot go; Gardener writes ``image`` in two ways."""
    return forbidden(
        "spec.machineImages" if key[0] else "spec.kubernetes.versions",
        f"unable to delete {_described(key, image)} from {me} - version is still in use by {user}",
        user,
    )


def _described(key: VersionKey, image: str) -> str:
    return f"{image} version '{key[0]}/{key[1]}'" if key[0] else f'Kubernetes version "{key[1]}"'


def _shoot(shoot: Object, worker: str | None = None) -> ProfileUser:
    """Return a Shoot, or one of its worker pools, as the user that blocks a change."""
    name = qualified_name_of(shoot)
    pool = "" if worker is None else f" by worker {json.dumps(worker)}"
    return ProfileUser("shoot", name, f"shoot '{name}'{pool}")


def _has_expired(version: Object, now: datetime) -> bool:
    return classification_or_none(version, now) is Classification.EXPIRED


def _used_by(shoot: Object) -> Iterator[tuple[VersionKey, str | None]]:
    """Yield the Kubernetes versions that a Shoot runs, each once, then each pool's image version with the pool."""
    versions = map(kubernetes_version_of, (spec_of(shoot), *workers(shoot)))
    for version in dict.fromkeys(filter(None, versions)):
        yield ("", version), None
    for worker in workers(shoot):
        if image := machine_image_of(worker):
            yield (image.get("name") or "", image.get("version") or ""), worker.get("name") or ""


def _within_limits(limit: int | None, shoots: Iterable[Object]) -> Iterator[ValidationFinding]:
    if limit is None:
        return
    for shoot in shoots:
        total = sum(worker.get("minimum") or 0 for worker in workers(shoot))
        if total > limit:
            name = qualified_name_of(shoot)
            user = ProfileUser("shoot", name, f"shoot {json.dumps(name)}", aside=f"; it is {total}")
            yield forbidden(
                "spec.limits.maxNodesTotal",
                f"total minimum node count of all worker pools of {user} must not exceed the limit of {limit} total "
                f"nodes configured in the cloud profile{user.aside}",
                user,
            )

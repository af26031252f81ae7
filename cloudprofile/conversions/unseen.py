"""The versions that a client of v1beta1 leaves out of a profile without having seen them. Pure.

v1beta1 hides a version until the status says that it has begun. A client that read a list before that does not know the
version, and neither does a file that was written from the list. Each way of writing that replaces a list removes the
version: a merge patch, a JSON patch, a replacement, ``kubectl apply``. A request does not show what its client has
read, or when: after a merge patch, the object has the stash and the resourceVersion of the stored one. So the rule asks
only the stored object and the clock:

- a version that v1beta1 shows from its beginning is removed, because every client has seen it;
- a version that v1beta1 can have hidden stays until it has expired and is shown as such. Only then does a client of
  v1beta1 remove it;
- if its whole image is removed, only a version that can be used stays, and its image with it. The client has seen the
  image.

v1beta1 can hide a version of which no stage but ``unavailable`` lacks a start. It can hide an override if that is also
true of the rendered version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from restow.cloudprofile.conversions.lifecycle import is_override_unavailable, is_unavailable
from restow.cloudprofile.objects import (
    NAMESPACED_CLOUD_PROFILE,
    Object,
    VersionKey,
    by_name,
    image_versions,
    kubernetes_versions,
    machine_images,
    spec_of,
    versions_by_key,
)
from restow.cloudprofile.versions.lifecycle import Classification, classification_or_none
from restow.conversion import ABSENT


def with_unseen(old: Object, new: Object, now: datetime) -> tuple[Object, tuple[VersionKey, ...]]:
    """Return a profile of v1beta2 with the versions that its author cannot mean to remove, and their keys.

    ``old`` is the stored profile with its status, ``new`` the profile that a client of v1beta1 wants to store.
    """
    stay = tuple(_staying(old, spec_of(new), now))
    return ({**new, "spec": _with_versions(spec_of(new), spec_of(old), stay)} if stay else new), stay


def _staying(old: Object, after: Object, now: datetime) -> Iterator[VersionKey]:
    status = old.get("status") or {}
    is_override = old.get("kind") == NAMESPACED_CLOUD_PROFILE
    hides = is_override_unavailable if is_override else is_unavailable
    whole = versions_by_key(status.get("cloudProfileSpec") or {}) if is_override else versions_by_key(spec_of(old))
    says = {key: each.get("classification") for key, each in versions_by_key(status).items()}
    kept, images = versions_by_key(after), by_name(machine_images(after))
    for key, version in versions_by_key(spec_of(old)).items():
        if key in kept or key not in whole or not is_unavailable(whole[key], ABSENT):
            continue
        if not hides(version, Classification.UNAVAILABLE):
            continue
        classification = classification_or_none(whole[key], now)
        if key[0] and key[0] not in images:
            stays = classification is not None and classification.is_active
        else:
            stays = classification is not Classification.EXPIRED or hides(version, says.get(key, ABSENT))
        if stays:
            yield key


def _with_versions(spec: Object, before: Object, stay: Collection[VersionKey]) -> Object:
    """Return a spec with further versions of the spec before, each behind the one that it followed there."""
    of_image: dict[str, set[str]] = {}
    for image, version in stay:
        of_image.setdefault(image, set()).add(version)
    changed = {**spec}
    if versions := of_image.pop("", None):
        listed = _merged(kubernetes_versions(spec), kubernetes_versions(before), versions, "version")
        changed["kubernetes"] = {**(spec.get("kubernetes") or {}), "versions": listed}
    if of_image:
        gone = {name: {**each, "versions": []} for name, each in by_name(machine_images(before)).items()}
        images = _merged(machine_images(spec), list(gone.values()), of_image, "name")
        sources = by_name(machine_images(before))
        changed["machineImages"] = [_with_image_versions(image, sources, of_image) for image in images]
    return changed


def _with_image_versions(image: Object, sources: Mapping[str, Object], stay: Mapping[str, Collection[str]]) -> Object:
    name = image.get("name") or ""
    if name not in stay:
        return image
    return {**image, "versions": _merged(image_versions(image), image_versions(sources[name]), stay[name], "version")}


def _merged(items: Sequence[Object], before: Sequence[Object], stay: Collection[str], key: str) -> list[Any]:
    """Return a list with further items of the list before, each behind the nearest item that it followed there."""
    merged, place = list(items), 0
    for item in before:
        at = next((index for index, each in enumerate(merged) if each.get(key) == item.get(key)), None)
        if at is not None:
            place = at + 1
        elif item.get(key) in stay:
            merged.insert(place, item)
            place += 1
    return merged

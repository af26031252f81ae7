"""The objects of the CloudProfile family as JSON dicts: their parts, resources and references. Pure.

The spec and everything below it may be missing or null; the accessors return empty parts then. A Shoot's
``cloudProfile`` wins over the deprecated ``cloudProfileName``, which always names a CloudProfile; an empty kind means
CloudProfile (GEP-25, "Adjusting Shoots cloudProfileName field"). A NamespacedCloudProfile is looked up in the Shoot's
own namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from restow.kube import resources
from restow.kube.resources import Resource, qualified_name

Object: TypeAlias = resources.Object


def spec_of(obj: Object) -> Object:
    """Return an object's spec."""
    return obj.get("spec") or {}


def kubernetes_versions(spec: Object) -> Sequence[Object]:
    """Return the Kubernetes versions of a profile's spec."""
    return (spec.get("kubernetes") or {}).get("versions") or ()


def machine_images(spec: Object) -> Sequence[Object]:
    """Return the machine images of a profile's spec."""
    return spec.get("machineImages") or ()


def image_versions(image: Object) -> Sequence[Object]:
    """Return the versions of a machine image."""
    return image.get("versions") or ()


def workers(shoot: Object) -> Sequence[Object]:
    """Return the worker pools of a Shoot."""
    return (spec_of(shoot).get("provider") or {}).get("workers") or ()


class PlacedWorker(NamedTuple):
    """A worker pool of a Shoot with its path, and the pool of this name before an update."""

    path: str
    worker: Object
    old: Object | None


def placed_workers(shoot: Object, old: Object | None) -> Iterator[PlacedWorker]:
    """Yield the worker pools of a Shoot; ``old`` is the Shoot before an update, None on create."""
    had = by_name(workers(old or {}))
    for index, worker in enumerate(workers(shoot)):
        yield PlacedWorker(f"spec.provider.workers[{index}]", worker, had.get(worker.get("name") or ""))


def kubernetes_version_of(part: Object) -> str:
    """Return the Kubernetes version that a Shoot's spec or a worker pool names, empty if none."""
    return (part.get("kubernetes") or {}).get("version") or ""


def machine_image_of(worker: Object) -> Object:
    """Return the machine image of a worker pool: name and version, as far as it names them."""
    return (worker.get("machine") or {}).get("image") or {}


def by_name(items: Iterable[Object]) -> dict[str, Object]:
    """Return list items by their ``name``; of equal names the last."""
    return {item.get("name") or "": item for item in items}


def by_version(versions: Iterable[Object]) -> dict[str, Object]:
    """Return versions by their ``version``, as spelled; of equal ones the last."""
    return {version.get("version") or "": version for version in versions}


VersionKey: TypeAlias = tuple[str, str]
"""A version of a profile: the name of its machine image, empty for Kubernetes, and the version as spelled."""


def version_name(key: VersionKey) -> str:
    """Return the name of a version for a person, such as ``Kubernetes 1.30.1``."""
    return f"{key[0] or 'Kubernetes'} {key[1]}"


class PlacedVersion(NamedTuple):
    """A version of a profile with its key and its path."""

    key: VersionKey
    path: str
    version: Object


def placed_versions(spec: Object, path: str = "spec") -> Iterator[PlacedVersion]:
    """Yield all versions of a spec, of Kubernetes and then image by image; a profile's status has the same lists."""
    for index, version in enumerate(kubernetes_versions(spec)):
        yield PlacedVersion(("", version.get("version") or ""), f"{path}.kubernetes.versions[{index}]", version)
    for place, image in enumerate(machine_images(spec)):
        name, below = image.get("name") or "", f"{path}.machineImages[{place}].versions"
        for index, version in enumerate(image_versions(image)):
            yield PlacedVersion((name, version.get("version") or ""), f"{below}[{index}]", version)


def versions_by_key(spec: Object) -> dict[VersionKey, Object]:
    """Return the same versions by their keys; of equal keys the last version counts."""
    return {key: version for key, _, version in placed_versions(spec)}


def with_versions(spec: Object, changed: Callable[[VersionKey, Object], Object]) -> dict[str, Any]:
    """Return a spec with all its versions changed; only the lists on the way to them are copied."""

    def all_of(name: str, versions: Sequence[Object]) -> list[Object]:
        return [changed((name, version.get("version") or ""), version) for version in versions]

    result = dict(spec)
    if versions := kubernetes_versions(spec):
        result["kubernetes"] = {**spec["kubernetes"], "versions": all_of("", versions)}
    if images := machine_images(spec):
        result["machineImages"] = [
            {**image, "versions": all_of(image.get("name") or "", versions)}
            if (versions := image_versions(image))
            else image
            for image in images
        ]
    return result


def qualified_name_of(obj: Object) -> str:
    """Return ``namespace/name`` of a namespaced object."""
    metadata = obj.get("metadata") or {}
    return qualified_name(metadata.get("namespace"), metadata.get("name"))


def is_deleting(obj: Object) -> bool:
    """Return whether an object is in deletion."""
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))


def with_condition(conditions: Iterable[Object], says: Object, at: str) -> list[Object]:
    """Return conditions with one of them, by its type, brought up to date; ``at`` is when its status changes."""
    listed = list(conditions)
    known = next((each for each in listed if each.get("type") == says["type"]), None)
    since = {} if known and known.get("status") == says["status"] else {"lastTransitionTime": at}
    changed = {**(known or {}), **says, **since}
    return [changed if each is known else each for each in listed] + ([] if known else [changed])


CLOUD_PROFILE = "CloudProfile"
NAMESPACED_CLOUD_PROFILE = "NamespacedCloudProfile"


@dataclass(frozen=True, slots=True)
class ProfileReference:
    """A reference to a profile.

    Attributes:
        kind: CloudProfile or NamespacedCloudProfile.
        name: its name.
        namespace: that of a NamespacedCloudProfile; empty for a CloudProfile.
    """

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        """Return the kind with the (qualified) name in quotes."""
        name = qualified_name(self.namespace, self.name) if self.kind == NAMESPACED_CLOUD_PROFILE else self.name
        return f'{self.kind} "{name}"'


def reference_to(kind: str, profile: Object) -> ProfileReference:
    """Return the reference to a profile object of this kind."""
    metadata = profile.get("metadata") or {}
    namespace = metadata.get("namespace") or "" if kind == NAMESPACED_CLOUD_PROFILE else ""
    return ProfileReference(kind, metadata.get("name") or "", namespace)


def profile_of(shoot: Object) -> ProfileReference | None:
    """Return the profile that a Shoot uses; None if it names none."""
    spec = spec_of(shoot)
    if reference := spec.get("cloudProfile"):
        kind = reference.get("kind") or CLOUD_PROFILE
        namespace = (shoot.get("metadata") or {}).get("namespace") or "" if kind == NAMESPACED_CLOUD_PROFILE else ""
        return ProfileReference(kind, reference.get("name") or "", namespace)
    if name := spec.get("cloudProfileName"):
        return ProfileReference(CLOUD_PROFILE, name)
    return None


def parent_of(profile: Object) -> ProfileReference:
    """Return the CloudProfile that a NamespacedCloudProfile inherits from."""
    parent = spec_of(profile).get("parent") or {}
    return ProfileReference(parent.get("kind") or CLOUD_PROFILE, parent.get("name") or "")


GROUP: Final = "core.gardener.cloud"
HUB: Final = "v1beta2"
OLD: Final = "v1beta1"
"""The deprecated version, used by clients that do not know lifecycles."""

SHOOT: Final = "Shoot"

CLOUD_PROFILES: Final = Resource(GROUP, HUB, "cloudprofiles", namespaced=False)
NAMESPACED_CLOUD_PROFILES: Final = Resource(GROUP, HUB, "namespacedcloudprofiles", namespaced=True)
SHOOTS: Final = Resource(GROUP, HUB, "shoots", namespaced=True)

RESOURCES: Final = {
    CLOUD_PROFILE: CLOUD_PROFILES,
    NAMESPACED_CLOUD_PROFILE: NAMESPACED_CLOUD_PROFILES,
    SHOOT: SHOOTS,
}
"""The resources of the family by kind."""


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """One Kubernetes event about a profile or a Shoot: its type (Normal or Warning), reason and message."""

    type: str
    reason: str
    message: str

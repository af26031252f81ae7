"""The index of the controllers: all profiles and Shoots in memory, by key and by reference.

A profile is kept without ``managedFields``, which are about half of its size. The status of a NamespacedCloudProfile
repeats its parent's spec, which takes a megabyte for 4,000 image versions and eight megabytes as Python objects. So
the index keeps the status as compressed JSON and decodes it when the profile is read. Of a Shoot the index keeps only
the fields that decisions need: its profile and its maintenance. A Shoot's heartbeats change none of these fields, so
they trigger no reconcile.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from restow.cloudprofile.maintenance.plan import WINDOW_CONDITION
from restow.cloudprofile.maintenance.schedule import OPERATION_ANNOTATION
from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    CLOUD_PROFILES,
    NAMESPACED_CLOUD_PROFILE,
    NAMESPACED_CLOUD_PROFILES,
    SHOOTS,
    Object,
    ProfileReference,
    is_deleting,
    parent_of,
    profile_of,
    reference_to,
)
from restow.cloudprofile.shoots.profile import offering
from restow.kube.clock import Clock
from restow.kube.cluster import Cluster
from restow.kube.listwatch import Key
from restow.kube.store import Informer, Store
from restow.kube.watchevents import Item

_FAST: Final = 1  # the level of compression; higher levels hardly shrink repeated stages further
_FEW_CHANGES: Final = 64  # each holds a whole CloudProfile, and a reader that is further behind lists again
_encode = msgspec.json.Encoder().encode

_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp")


def transform_profile(obj: Object) -> dict[str, Any]:
    """Return a CloudProfile or NamespacedCloudProfile without its ``managedFields``."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def transform_namespaced(obj: Object) -> dict[str, Any]:
    """Return a NamespacedCloudProfile as the store keeps it: without ``managedFields``, its status compressed."""
    kept = transform_profile(obj)
    return {**kept, "status": zlib.compress(_encode(kept["status"]), _FAST)} if "status" in kept else kept


def _readable(profile: Object) -> Object:
    """Return a profile from a store with its status decoded."""
    status = profile.get("status")
    return {**profile, "status": msgspec.json.decode(zlib.decompress(status))} if isinstance(status, bytes) else profile


def transform_shoot(obj: Object) -> dict[str, Any]:
    """Return the fields of a Shoot that the controllers need."""
    metadata = obj.get("metadata") or {}
    requested = _only(metadata.get("annotations") or {}, (OPERATION_ANNOTATION,))
    status = obj.get("status") or {}
    conditions = [each for each in status.get("conditions") or () if each.get("type") == WINDOW_CONDITION]
    return {
        "metadata": _only(metadata, _IDENTITY) | ({"annotations": requested} if requested else {}),
        "spec": _only(obj.get("spec") or {}, ("cloudProfile", "cloudProfileName", "maintenance")),
        "status": _only(status, ("lastMaintenance",)) | ({"conditions": conditions} if conditions else {}),
    }


def _only(part: Object, names: Iterable[str]) -> dict[str, Any]:
    return {name: part[name] for name in names if name in part}


@dataclass(frozen=True, slots=True)
class ProfileIndex:
    """An index of all CloudProfiles, of NamespacedCloudProfiles by their parents, and of Shoots by their profiles."""

    profiles: Store = field(default_factory=lambda: Store(transform_profile, kept_changes=_FEW_CHANGES))
    namespaced: Store = field(default_factory=lambda: Store(transform_namespaced, parent_of))
    shoots: Store = field(default_factory=lambda: Store(transform_shoot, profile_of))

    def informer(self, cluster: Cluster, clock: Clock, chance: Callable[[], float] = random.random) -> Informer:
        """Return the informer that keeps this index up to date."""
        stores = {
            CLOUD_PROFILES: self.profiles,
            NAMESPACED_CLOUD_PROFILES: self.namespaced,
            SHOOTS: self.shoots,
        }
        return Informer(cluster, stores, clock=clock, chance=chance)

    def store(self, kind: str) -> Store:
        """Return the store of a kind of profile; its NamespacedCloudProfiles have compressed statuses."""
        return self.namespaced if kind == NAMESPACED_CLOUD_PROFILE else self.profiles

    def profile(self, kind: str, key: Key) -> Object | None:
        """Return a profile of a kind, or None if it does not exist."""
        found = self.store(kind).get(key)
        return None if found is None else _readable(found)

    def parent(self, profile: Object) -> Object | None:
        """Return the CloudProfile that a NamespacedCloudProfile inherits from, or None if it does not exist."""
        return self.profiles.get(key_of_reference(parent_of(profile)))

    def children(self, kind: str, profile: Object) -> list[Object]:
        """Return the NamespacedCloudProfiles that inherit from a profile of this kind, with compressed statuses."""
        return self.namespaced.by_index(reference_to(kind, profile)) if kind == CLOUD_PROFILE else []

    def users(self, kind: str, profile: Object) -> list[Object]:
        """Return the Shoots that use a profile of this kind."""
        return self.shoots.by_index(reference_to(kind, profile))

    def offered_spec(self, shoot: Object) -> Object | None:
        """Return the CloudProfile spec that applies to a Shoot, or None if its profile does not exist."""
        reference = profile_of(shoot)
        profile = self.profile(reference.kind, key_of_reference(reference)) if reference else None
        return None if reference is None or profile is None else offering({reference: profile}).offer(reference)

    def keys_of_children(self, parent: Item) -> Iterator[Key]:
        """Yield the keys of the NamespacedCloudProfiles that inherit from a CloudProfile."""
        for child in self.namespaced.by_index(ProfileReference(CLOUD_PROFILE, parent.metadata.name)):
            yield Key(child["metadata"]["namespace"], child["metadata"]["name"])

    def keys_of_deleted_parent(self, child: Item) -> tuple[Key, ...]:
        """Return the key of the CloudProfile whose deletion waits for this NamespacedCloudProfile.

        Other CloudProfiles need no reconcile, because their status does not depend on the profiles that inherit from
        them.
        """
        return self._if_deleting(parent_of(child.json()))

    def keys_of_deleted_profile(self, kind: str, shoot: Item) -> tuple[Key, ...]:
        """Return the key of the profile of this kind whose deletion waits for this Shoot."""
        reference = profile_of(shoot.json())
        return self._if_deleting(reference) if reference is not None and reference.kind == kind else ()

    def _if_deleting(self, reference: ProfileReference) -> tuple[Key, ...]:
        key = key_of_reference(reference)
        profile = self.store(reference.kind).get(key)
        return (key,) if profile is not None and is_deleting(profile) else ()


def key_of_reference(reference: ProfileReference) -> Key:
    """Return the key of a profile."""
    return Key(reference.namespace or None, reference.name)

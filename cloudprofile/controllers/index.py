"""The index of the controllers: all profiles and Shoots in memory, by key and by reference.

A profile is kept without ``managedFields``, which are about half of its size. Of a Shoot only the fields that decisions
need are kept: the profile that it uses, and its maintenance. A Shoot's heartbeats change none of these, so they trigger
no reconcile.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from restow.cloudprofile.maintenance.schedule import OPERATION_ANNOTATION
from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    CLOUD_PROFILES,
    NAMESPACED_CLOUD_PROFILE,
    NAMESPACED_CLOUD_PROFILES,
    SHOOTS,
    Object,
    ProfileReference,
    parent_of,
    profile_of,
    reference_to,
)
from restow.cloudprofile.shoots.profile import offering
from restow.kube.clock import Clock
from restow.kube.cluster import Cluster
from restow.kube.store import Informer, Store
from restow.kube.watch import Key
from restow.kube.watchevents import Item

__all__ = [
    "ProfileIndex",
    "key_of_reference",
    "transform_profile",
    "transform_shoot",
]


_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp")


def transform_profile(obj: Object) -> dict[str, Any]:
    """Return a CloudProfile or NamespacedCloudProfile without its ``managedFields``."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def transform_shoot(obj: Object) -> dict[str, Any]:
    """Return the fields of a Shoot that the controllers need."""
    metadata = obj.get("metadata") or {}
    requested = _only(metadata.get("annotations") or {}, (OPERATION_ANNOTATION,))
    return {
        "metadata": _only(metadata, _IDENTITY) | ({"annotations": requested} if requested else {}),
        "spec": _only(obj.get("spec") or {}, ("cloudProfile", "cloudProfileName", "maintenance")),
        "status": _only(obj.get("status") or {}, ("lastMaintenance",)),
    }


def _only(part: Object, names: Iterable[str]) -> dict[str, Any]:
    return {name: part[name] for name in names if name in part}


def _profiles() -> Store:
    return Store(transform_profile)


def _children() -> Store:
    return Store(transform_profile, parent_of)


def _shoots() -> Store:
    return Store(transform_shoot, profile_of)


@dataclass(frozen=True, slots=True)
class ProfileIndex:
    """All CloudProfiles; NamespacedCloudProfiles by their parents; Shoots by their profiles."""

    profiles: Store = field(default_factory=_profiles)
    namespaced: Store = field(default_factory=_children)
    shoots: Store = field(default_factory=_shoots)

    def informer(self, cluster: Cluster, clock: Clock, chance: Callable[[], float] = random.random) -> Informer:
        """Return the informer that keeps this index up to date."""
        stores = {
            CLOUD_PROFILES: self.profiles,
            NAMESPACED_CLOUD_PROFILES: self.namespaced,
            SHOOTS: self.shoots,
        }
        return Informer(cluster, stores, clock=clock, chance=chance)

    def store(self, kind: str) -> Store:
        """Return the profiles of a kind."""
        return self.namespaced if kind == NAMESPACED_CLOUD_PROFILE else self.profiles

    def parent(self, profile: Object) -> Object | None:
        """Return the CloudProfile that a NamespacedCloudProfile inherits from, or None if it does not exist."""
        return self.profiles.get(key_of_reference(parent_of(profile)))

    def children(self, kind: str, profile: Object) -> list[Object]:
        """Return the NamespacedCloudProfiles that inherit from a profile of this kind."""
        return self.namespaced.by_index(reference_to(kind, profile)) if kind == CLOUD_PROFILE else []

    def users(self, kind: str, profile: Object) -> list[Object]:
        """Return the Shoots that use a profile of this kind."""
        return self.shoots.by_index(reference_to(kind, profile))

    def offered_spec(self, shoot: Object) -> Object | None:
        """Return the CloudProfile spec that applies to a Shoot, or None if its profile does not exist."""
        reference = profile_of(shoot)
        profile = self.store(reference.kind).get(key_of_reference(reference)) if reference else None
        if reference is None or profile is None:
            return None
        return offering({reference: profile}).offer(reference)

    def keys_of_children(self, parent: Item) -> Iterator[Key]:
        """Yield the keys of the NamespacedCloudProfiles that inherit from a CloudProfile."""
        for child in self.namespaced.by_index(ProfileReference(CLOUD_PROFILE, parent.metadata.name)):
            yield Key(child["metadata"]["namespace"], child["metadata"]["name"])


def key_of_reference(reference: ProfileReference) -> Key:
    """Return the key of a profile."""
    return Key(reference.namespace or None, reference.name)

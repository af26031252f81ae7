"""What the controllers know of all profiles and Shoots: lookups in memory, by key and by who refers to whom."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from restow.cloudprofile.controllers import trimming
from restow.cloudprofile.controllers.mirror import Mirror
from restow.cloudprofile.controllers.shelf import Shelf
from restow.cloudprofile.offers import offering
from restow.cloudprofile.parts import Object
from restow.cloudprofile.references import (
    CLOUD_PROFILE,
    NAMESPACED_CLOUD_PROFILE,
    ProfileReference,
    parent_of,
    profile_of,
    reference_to,
)
from restow.cloudprofile.resources import CLOUD_PROFILES, NAMESPACED_CLOUD_PROFILES, SHOOTS
from restow.kube.clock import Clock
from restow.kube.cluster import Cluster
from restow.kube.sources import Key
from restow.kube.watchevents import Item

__all__ = ["Landscape", "key_of_reference"]


def _profiles() -> Shelf:
    return Shelf(trimming.profile)


def _children() -> Shelf:
    return Shelf(trimming.profile, parent_of)


def _shoots() -> Shelf:
    return Shelf(trimming.shoot, profile_of)


@dataclass(frozen=True, slots=True)
class Landscape:
    """All CloudProfiles; NamespacedCloudProfiles by their parents; Shoots by their profiles."""

    profiles: Shelf = field(default_factory=_profiles)
    namespaced: Shelf = field(default_factory=_children)
    shoots: Shelf = field(default_factory=_shoots)

    def mirror(self, cluster: Cluster, clock: Clock, chance: Callable[[], float] = random.random) -> Mirror:
        """Return the cluster that keeps this up to date."""
        shelves = {
            CLOUD_PROFILES: self.profiles,
            NAMESPACED_CLOUD_PROFILES: self.namespaced,
            SHOOTS: self.shoots,
        }
        return Mirror(cluster, shelves, clock=clock, chance=chance)

    def shelf(self, kind: str) -> Shelf:
        """Return the profiles of a kind."""
        return self.namespaced if kind == NAMESPACED_CLOUD_PROFILE else self.profiles

    def parent(self, profile: Object) -> Object | None:
        """Return the CloudProfile that a NamespacedCloudProfile inherits from, None where there is none."""
        return self.profiles.get(key_of_reference(parent_of(profile)))

    def children(self, kind: str, profile: Object) -> list[Object]:
        """Return the NamespacedCloudProfiles that inherit from a profile of this kind."""
        return self.namespaced.group(reference_to(kind, profile)) if kind == CLOUD_PROFILE else []

    def users(self, kind: str, profile: Object) -> list[Object]:
        """Return the Shoots that use a profile of this kind."""
        return self.shoots.group(reference_to(kind, profile))

    def offer(self, shoot: Object) -> Object | None:
        """Return the CloudProfile spec that holds for a Shoot, None where its profile does not exist."""
        reference = profile_of(shoot)
        profile = self.shelf(reference.kind).get(key_of_reference(reference)) if reference else None
        if reference is None or profile is None:
            return None
        return offering({reference: profile}).offer(reference)

    def keys_of_children(self, parent: Item) -> Iterator[Key]:
        """Yield the keys of the NamespacedCloudProfiles that inherit from a CloudProfile."""
        for child in self.namespaced.group(ProfileReference(CLOUD_PROFILE, parent.metadata.name)):
            yield Key(child["metadata"]["namespace"], child["metadata"]["name"])


def key_of_reference(reference: ProfileReference) -> Key:
    """Return the key of a profile."""
    return Key(reference.namespace or None, reference.name)

"""Which profile a Shoot uses, and which one a NamespacedCloudProfile inherits from. Pure.

A Shoot's ``cloudProfile`` wins over the deprecated ``cloudProfileName``, which only ever names a CloudProfile; an empty
kind means CloudProfile (GEP-25, "Adjusting Shoots cloudProfileName field"). A NamespacedCloudProfile is looked up in
the Shoot's own namespace.
"""

from __future__ import annotations

from dataclasses import dataclass

from restow.cloudprofile.parts import Object, spec_of
from restow.kube.resources import qualified_name

__all__ = ["CLOUD_PROFILE", "NAMESPACED_CLOUD_PROFILE", "ProfileReference", "parent_of", "profile_of", "reference_to"]

CLOUD_PROFILE = "CloudProfile"
NAMESPACED_CLOUD_PROFILE = "NamespacedCloudProfile"


@dataclass(frozen=True, slots=True)
class ProfileReference:
    """One profile.

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
    """Return the profile that a Shoot uses; None where it names none."""
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

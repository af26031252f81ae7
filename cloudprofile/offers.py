"""What profiles offer to Shoots, with what is left out filled in as it is meant. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from restow.cloudprofile.defaults import defaulted
from restow.cloudprofile.parts import Object, spec_of
from restow.cloudprofile.references import NAMESPACED_CLOUD_PROFILE, ProfileReference
from restow.cloudprofile.shootprofile import Profiles

__all__ = ["offering"]


def offering(profiles: Mapping[ProfileReference, Object]) -> Profiles:
    """Return profiles as Shoots are to see them; those of a NamespacedCloudProfile are what was rendered."""
    return Profiles({reference: _offered(reference.kind, profile) for reference, profile in profiles.items()})


def _offered(kind: str, profile: Object) -> Object:
    if kind != NAMESPACED_CLOUD_PROFILE:
        return {**profile, "spec": defaulted(spec_of(profile))}
    status = profile.get("status") or {}
    return {**profile, "status": {**status, "cloudProfileSpec": defaulted(status.get("cloudProfileSpec") or {})}}

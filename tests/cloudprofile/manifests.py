"""Manifests in the form that the rules read: JSON, times as written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from restow.cloudprofile.objects import CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE, Object, reference_to
from restow.cloudprofile.shoots.profile import ShootProfiles
from restow.crds.documents import load_documents

__all__ = ["manifest", "shoot_profiles"]


def manifest(text: str) -> Any:
    """Return the object that a YAML document describes."""
    [document] = load_documents(text)
    return document


def shoot_profiles(cloud_profiles: Iterable[Object] = (), namespaced: Iterable[Object] = ()) -> ShootProfiles:
    """Return the profiles in two lists of objects."""
    objects = {reference_to(CLOUD_PROFILE, profile): profile for profile in cloud_profiles}
    return ShootProfiles(objects | {reference_to(NAMESPACED_CLOUD_PROFILE, profile): profile for profile in namespaced})

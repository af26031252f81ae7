"""Whether a profile may go: a finalizer keeps it for as long as something refers to it. Pure.

A CloudProfile stays while a NamespacedCloudProfile has it as parent (one in deletion counts too) or a Shoot uses it; a
NamespacedCloudProfile while a Shoot of its namespace does (GEP-25, "Preventing deletion").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from restow.cloudprofile.parts import Object, is_deleting, qualified_name
from restow.cloudprofile.references import CLOUD_PROFILE, parent_of, profile_of, reference_to

__all__ = ["FINALIZER", "Finalization", "finalization"]

FINALIZER = "gardener"
"""The finalizer that Gardener puts on profiles; objects that come from there have it already."""


@dataclass(frozen=True, slots=True)
class Finalization:
    """What is to be done about a profile's finalizers.

    Attributes:
        finalizers: those it is to have; equal to those it has where nothing is to be done.
        blocked: why a deletion has to wait, as a sentence; empty where it does not.
    """

    finalizers: tuple[str, ...]
    blocked: str = ""


def finalization(
    kind: str, profile: Object, shoots: Iterable[Object], namespaced: Iterable[Object] = ()
) -> Finalization:
    """Decide the finalizers of a profile of this kind, given the Shoots and NamespacedCloudProfiles there are."""
    finalizers = tuple((profile.get("metadata") or {}).get("finalizers") or ())
    if not is_deleting(profile):
        return Finalization(finalizers if FINALIZER in finalizers else (*finalizers, FINALIZER))
    if FINALIZER not in finalizers:
        return Finalization(finalizers)
    if blocked := _blocked(kind, profile, shoots, namespaced):
        return Finalization(finalizers, blocked)
    return Finalization(tuple(name for name in finalizers if name != FINALIZER))


def _blocked(kind: str, profile: Object, shoots: Iterable[Object], namespaced: Iterable[Object]) -> str:
    reference = reference_to(kind, profile)
    children = [child for child in namespaced if parent_of(child) == reference] if kind == CLOUD_PROFILE else []
    users = children or [shoot for shoot in shoots if profile_of(shoot) == reference]
    if not users:
        return ""
    what = "NamespacedCloudProfiles" if children else "Shoots"
    names = " ".join(sorted(qualified_name(user) for user in users))
    return f"Cannot delete {reference}, because the following {what} are still referencing it: [{names}]"

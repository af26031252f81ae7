"""The decisions of reconciling a profile: its status, its finalizer, and when to reconcile it again. Pure.

The status follows from the spec, the parent's spec and the time; a status that is right already is left alone.
``observedGeneration`` is for readers and decides nothing, since a write at an old version of the API can change the
stored object without a new generation. A NamespacedCloudProfile whose parent does not exist keeps the status that it
has, and waits: what its Shoots were offered does not vanish because a parent is being replaced.

The finalizer keeps a profile for as long as something refers to it (GEP-25, "Preventing deletion"). A CloudProfile
stays while a NamespacedCloudProfile has it as parent (one in deletion counts too) or a Shoot uses it; a
NamespacedCloudProfile while a Shoot of its namespace does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    Object,
    is_deleting,
    merge_patch,
    parent_of,
    profile_of,
    qualified_name_of,
    reference_to,
    spec_of,
)
from restow.cloudprofile.profiles.rendering import render
from restow.cloudprofile.versions.lifecycle import next_transition_of, status_of

__all__ = [
    "FINALIZER",
    "FinalizerDecision",
    "StatusDecision",
    "decide_finalizers",
    "decide_namespaced_status",
    "decide_status",
]


_OURS = ("kubernetes", "machineImages", "cloudProfileSpec", "observedGeneration")


@dataclass(frozen=True, slots=True)
class StatusDecision:
    """The status that a profile needs.

    Attributes:
        patch: the merge patch of the status; empty if it is up to date.
        next_change: when the status changes next by the passing of time; None for never.
    """

    patch: Mapping[str, Any]
    next_change: datetime | None


def decide_status(profile: Object, now: datetime) -> StatusDecision:
    """Decide the status of a CloudProfile.

    Raises:
        ValueError: a classification is unknown, or a time has a wrong form; validation refuses such profiles.
    """
    return _decide_status(profile, status_of(spec_of(profile), now), spec_of(profile), now)


def decide_namespaced_status(profile: Object, parent: Object | None, now: datetime) -> StatusDecision:
    """Decide the status of a NamespacedCloudProfile; ``parent`` is None where there is none.

    Raises:
        ValueError: a classification is unknown, or a time has a wrong form; validation refuses such profiles.
    """
    if parent is None:
        return StatusDecision({}, None)
    rendered = render(spec_of(parent), spec_of(profile))
    return _decide_status(profile, {"cloudProfileSpec": rendered, **status_of(rendered, now)}, rendered, now)


def _decide_status(profile: Object, says: dict[str, Any], spec: Object, now: datetime) -> StatusDecision:
    generation = (profile.get("metadata") or {}).get("generation")
    if generation is not None:
        says["observedGeneration"] = generation
    before = profile.get("status") or {}
    others = {name: value for name, value in before.items() if name not in _OURS}
    return StatusDecision(merge_patch(before, others | says), next_transition_of(spec, now))


FINALIZER = "gardener"
"""The finalizer that Gardener puts on profiles; objects that come from there have it already."""


@dataclass(frozen=True, slots=True)
class FinalizerDecision:
    """The finalizers that a profile needs.

    Attributes:
        finalizers: the finalizers that it needs; equal to those it has if nothing changes.
        blocked: why its deletion waits, as a sentence; empty if it does not wait.
    """

    finalizers: tuple[str, ...]
    blocked: str = ""


def decide_finalizers(
    kind: str, profile: Object, shoots: Iterable[Object], namespaced: Iterable[Object] = ()
) -> FinalizerDecision:
    """Decide the finalizers of a profile of this kind, given the Shoots and NamespacedCloudProfiles there are."""
    finalizers = tuple((profile.get("metadata") or {}).get("finalizers") or ())
    if not is_deleting(profile):
        return FinalizerDecision(finalizers if FINALIZER in finalizers else (*finalizers, FINALIZER))
    if FINALIZER not in finalizers:
        return FinalizerDecision(finalizers)
    if blocked := _blocked(kind, profile, shoots, namespaced):
        return FinalizerDecision(finalizers, blocked)
    return FinalizerDecision(tuple(name for name in finalizers if name != FINALIZER))


def _blocked(kind: str, profile: Object, shoots: Iterable[Object], namespaced: Iterable[Object]) -> str:
    reference = reference_to(kind, profile)
    children = [child for child in namespaced if parent_of(child) == reference] if kind == CLOUD_PROFILE else []
    users = children or [shoot for shoot in shoots if profile_of(shoot) == reference]
    if not users:
        return ""
    what = "NamespacedCloudProfiles" if children else "Shoots"
    names = " ".join(sorted(qualified_name_of(user) for user in users))
    return f"Cannot delete {reference}, because the following {what} are still referencing it: [{names}]"

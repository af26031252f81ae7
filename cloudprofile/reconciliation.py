"""What a profile's status is to say, and when it is to be looked at again. Pure.

The status follows from the spec, that of the parent, and the time; a status that says so already is left alone. That
is what decides whether to write: ``observedGeneration`` is told to readers and decides nothing, since a write at an old
version of the API can change the stored object without a new generation.

A NamespacedCloudProfile whose parent does not exist keeps the status that it has, and waits: what its Shoots were
offered does not vanish because a parent is being replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from restow.cloudprofile.lifecycle import next_transition_of, status_of
from restow.cloudprofile.mergepatch import merge_patch
from restow.cloudprofile.parts import Object, spec_of
from restow.cloudprofile.rendering import render

__all__ = ["Outlook", "namespaced_outlook", "outlook"]

_OURS = ("kubernetes", "machineImages", "cloudProfileSpec", "observedGeneration")


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is to be done about a profile's status.

    Attributes:
        patch: the merge patch of the status; empty where it is as it should be.
        next_change: when it will no longer be, by itself; None for never.
    """

    patch: Mapping[str, Any]
    next_change: datetime | None


def outlook(profile: Object, now: datetime) -> Outlook:
    """Decide the status of a CloudProfile.

    Raises:
        ValueError: validation would refuse the lifecycle.
    """
    return _outlook(profile, status_of(spec_of(profile), now), spec_of(profile), now)


def namespaced_outlook(profile: Object, parent: Object | None, now: datetime) -> Outlook:
    """Decide the status of a NamespacedCloudProfile; ``parent`` is None where there is none.

    Raises:
        ValueError: validation would refuse the lifecycle.
    """
    if parent is None:
        return Outlook({}, None)
    rendered = render(spec_of(parent), spec_of(profile))
    return _outlook(profile, {"cloudProfileSpec": rendered, **status_of(rendered, now)}, rendered, now)


def _outlook(profile: Object, says: dict[str, Any], spec: Object, now: datetime) -> Outlook:
    generation = (profile.get("metadata") or {}).get("generation")
    if generation is not None:
        says["observedGeneration"] = generation
    before = profile.get("status") or {}
    others = {name: value for name, value in before.items() if name not in _OURS}
    return Outlook(merge_patch(before, others | says), next_transition_of(spec, now))

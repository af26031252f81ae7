"""The decisions of reconciling a profile: its status, its finalizer, and when to reconcile it again. Pure.

The status follows from the spec, the parent's spec and the time; a correct status is not written again.
``observedGeneration`` is for readers and decides nothing, because a write at an old version of the API can change the
stored object without a new generation. A NamespacedCloudProfile whose parent does not exist keeps its status and
waits: the offer to its Shoots must not vanish while a parent is being replaced.

A gap in the Kubernetes versions, which leaves Shoots on an expired version, is a condition of the status. The status
also has the next transition, and a transition that passed is an Event. The reconcile that writes a classification
writes the Event about its stage, so the status remembers which Events were written.

The finalizer keeps a profile for as long as an object refers to it (GEP-25, "Preventing deletion"). A CloudProfile
stays while a NamespacedCloudProfile has it as parent (one in deletion counts too) or a Shoot uses it; a
NamespacedCloudProfile while a Shoot of its namespace does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    Object,
    ObjectEvent,
    VersionKey,
    is_deleting,
    kubernetes_versions,
    parent_of,
    profile_of,
    qualified_name_of,
    reference_to,
    spec_of,
    version_name,
    versions_by_key,
    with_condition,
)
from restow.cloudprofile.profiles.rendering import render
from restow.cloudprofile.versions.lifecycle import (
    Classification,
    active,
    next_transition_of,
    parse_time,
    stages,
    status_of,
    whole_seconds,
)
from restow.cloudprofile.versions.updates import gap_warnings
from restow.kube.resources import merge_patch

_OURS = ("kubernetes", "machineImages", "cloudProfileSpec", "conditions", "nextTransition", "observedGeneration")


@dataclass(frozen=True, slots=True)
class StatusDecision:
    """The status that a profile needs.

    Attributes:
        patch: the merge patch of the status; empty if it is up to date.
        next_change: when the passing of time next changes the status; None for never.
        events: the Events to write once the status is written.
    """

    patch: Mapping[str, Any]
    next_change: datetime | None
    events: tuple[ObjectEvent, ...] = ()


def decide_status(profile: Object, now: datetime) -> StatusDecision:
    """Decide the status of a CloudProfile."""
    return _decide_status(profile, status_of(spec_of(profile), now), spec_of(profile), now)


def decide_namespaced_status(profile: Object, parent: Object | None, now: datetime) -> StatusDecision:
    """Decide the status of a NamespacedCloudProfile; ``parent`` is None if it does not exist."""
    if parent is None:
        return StatusDecision({}, None)
    rendered = render(spec_of(parent), spec_of(profile))
    return _decide_status(profile, {"cloudProfileSpec": rendered, **status_of(rendered, now)}, rendered, now)


def _decide_status(profile: Object, says: dict[str, Any], spec: Object, now: datetime) -> StatusDecision:
    metadata, before = profile.get("metadata") or {}, profile.get("status") or {}
    if (generation := metadata.get("generation")) is not None:
        says["observedGeneration"] = generation
    says["conditions"] = _conditions(before.get("conditions") or (), spec, now)
    following = next_transition_of(spec, now)
    if following is not None:
        says["nextTransition"] = described_transition(says, spec, following)
    others = {name: value for name, value in before.items() if name not in _OURS}
    patch = merge_patch(before, others | says)
    if not patch:
        return StatusDecision({}, following)
    if not before and (created := metadata.get("creationTimestamp")):
        before = status_of(spec, parse_time(created))  # a stage may have started before a controller saw the profile
    return StatusDecision(patch, following, stage_events(before, says, spec, spec_of(profile), now))


UPDATE_PATH = "UpdatePathComplete"
"""The condition that says whether Shoots can leave every Kubernetes version that expires for another version.

Every status has it, so that a client can wait for it.
"""

_LONGEST_MESSAGE = 2000


def _conditions(before: Sequence[Object], spec: Object, now: datetime) -> list[Object]:
    gaps = gap_warnings(kubernetes_versions(spec), "spec.kubernetes.versions", now)
    message = "; ".join(dict.fromkeys(gap.detail for gap in gaps))[:_LONGEST_MESSAGE]
    says = {
        "type": UPDATE_PATH,
        "status": "False" if gaps else "True",
        "reason": "Gap" if gaps else "Complete",
        "message": message or "every version that expires can be updated",
    }
    return with_condition(before, says, whole_seconds(now))


FINALIZER = "gardener"
"""The finalizer that Gardener puts on profiles; objects that come from Gardener have it already."""


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
    """Decide the finalizers of a profile of this kind, given all Shoots and NamespacedCloudProfiles that may use it."""
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


_MOST_EVENTS: Final = 25  # as many as client-go's recorder lets through at once for one object


def described_transition(status: Object, spec: Object, at: datetime) -> dict[str, Any]:
    """Return ``status.nextTransition``: ``at``, and the versions whose classification in a status changes then."""
    known = _classifications(status)
    changes = [
        f"{version_name(key)} {classification}"
        for key, classification in _classifications(status_of(spec, at)).items()
        if known.get(key) != classification
    ]
    more = f", and {len(changes) - 1} more" if len(changes) > 1 else ""
    return {"startTime": _written(at), "description": f"{changes[0]}{more}" if changes else "no classification changes"}


def stage_events(before: Object, after: Object, spec: Object, own: Object, now: datetime) -> tuple[ObjectEvent, ...]:
    """Return an Event for each stage that began between two statuses of a profile.

    A version that is new has no such stage.

    Args:
        before: the classifications that the profile had.
        after: the classifications at ``now``.
        spec: the rendered spec.
        own: the spec of the object: it names the versions whose stages are not those of its parent.
        now: the time.
    """
    known, current = _classifications(before), _classifications(after)
    mine = versions_by_key(own)
    found: list[str] = []
    for key, version in versions_by_key(spec).items():
        if key in mine and key in known and known[key] != current[key]:
            found += _begun(version_name(key), version, Classification(known[key]), now)
    if len(found) > _MOST_EVENTS:
        left_out = len(found) - _MOST_EVENTS + 1
        found[-left_out:] = [f"{left_out} more stages started: see the classifications in the status"]
    return tuple(ObjectEvent("Normal", "StageStarted", note) for note in found)


def _begun(name: str, version: Object, known: Classification, now: datetime) -> Iterator[str]:
    listed = stages(version)
    for stage in listed:
        if stage.start is None or not stage.begun(now) or stage.classification <= known:
            continue
        if active(listed, stage.start) == stage.classification:
            yield f"{name}: the stage {stage.classification} started at {_written(stage.start)}"


def _classifications(part: Object) -> dict[VersionKey, str]:
    return {key: version.get("classification") or "" for key, version in versions_by_key(part).items()}


def _written(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")

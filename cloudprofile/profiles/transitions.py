"""Transitions of a profile's versions for its readers: the next one in its status, those that passed as Events. Pure.

Both come from comparing classifications: those of a status with those of the spec at a time. An Event about a stage is
written by the reconcile that writes the classification, so the status remembers which Events were written.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from restow.cloudprofile.objects import Object, ObjectEvent, VersionKey, version_name, versions_by_key
from restow.cloudprofile.versions.lifecycle import Classification, active, stages, status_of

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
    notes = found if len(found) <= _MOST_EVENTS else [*found[: _MOST_EVENTS - 1], _rest(len(found))]
    return tuple(ObjectEvent("Normal", "StageStarted", note) for note in notes)


def _begun(name: str, version: Object, known: Classification, now: datetime) -> Iterator[str]:
    listed = stages(version)
    for stage in listed:
        if stage.start is None or not stage.begun(now) or stage.classification <= known:
            continue
        if active(listed, stage.start) == stage.classification:
            yield f"{name}: the stage {stage.classification} started at {_written(stage.start)}"


def _rest(count: int) -> str:
    return f"{count - _MOST_EVENTS + 1} more stages started: see the classifications in the status"


def _classifications(part: Object) -> dict[VersionKey, str]:
    return {key: version.get("classification") or "" for key, version in versions_by_key(part).items()}


def _written(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")

"""The Kubernetes version to which the next maintenance updates a Shoot, automatically or by force. Pure.

An *automatic* update stays inside the minor version: it chooses the highest newer patch, a supported one before a
deprecated one. An update is *forced*, whatever the owner has configured, once the version is expired or no longer in
the profile. It chooses a newer patch in the same way if there is one, else a version of the next consecutive minor,
and an expired version there only if the minor has no other. It never skips a minor version, and is repeated until the
version is not expired (versioning policy, "Forceful migration of expired versions"). The chain breaks off if the next
minor version is missing, or offers only previews and versions that are not available yet. Such a gap is a warning to
the author of the profile, and no fault of the Shoot.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from restow.cloudprofile.findings import ValidationFinding, ValidationWarning, invalid
from restow.cloudprofile.objects import Object
from restow.cloudprofile.versions.candidates import (
    DueUpdate,
    ListedVersion,
    UpdateCandidate,
    candidates,
    candidates_at,
    highest,
    latest,
)
from restow.cloudprofile.versions.lifecycle import Classification, classification_at
from restow.cloudprofile.versions.semver import SemanticVersion, parse


@dataclass(frozen=True, slots=True)
class ForcedUpdateChain:
    """The forced updates of a Shoot, one for each maintenance.

    Attributes:
        steps: the versions that it moves to, in order; empty if no update is forced.
        gap: why no update leads on from the last version although it is expired; None if the chain is complete.
    """

    steps: tuple[str, ...] = ()
    gap: ValidationFinding | None = None


def due(versions: Iterable[Object], current: str, now: datetime, *, auto_update: bool) -> DueUpdate | None:
    """Return why a Shoot on the version ``current`` has to be updated, None if it stays.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3.
    """
    at = parse(current)
    listed = next((item for item in versions if parse(item["version"]) == at), None)
    if listed is None:
        return DueUpdate("Version does not exist in CloudProfile", forced=True)
    if classification_at(listed, now) == Classification.EXPIRED:
        return DueUpdate("Kubernetes version expired - force update required", forced=True)
    if auto_update:
        return DueUpdate("Automatic update of Kubernetes version configured", forced=False)
    return None


def auto_target(versions: Iterable[Object], current: str, now: datetime) -> str | None:
    """Return the patch version that an automatic update chooses, None if there is no better one.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3.
    """
    best = _newer_patch(_by_line(candidates(versions, now)), parse(current))
    return best.text if best else None


_Lines = Mapping[tuple[int, int], Sequence[UpdateCandidate]]
"""Candidates by their major and minor version."""


def _by_line(choice: Iterable[UpdateCandidate]) -> _Lines:
    lines: dict[tuple[int, int], list[UpdateCandidate]] = {}
    for item in choice:
        lines.setdefault(item.version.line, []).append(item)
    return lines


def _newer_patch(choice: _Lines, at: SemanticVersion) -> UpdateCandidate | None:
    return latest(item for item in choice.get(at.line, ()) if item.version > at)


def consecutive_minor_target(versions: Iterable[Object], current: str, now: datetime) -> str | None:
    """Return the version of the next minor that a forced update chooses, an expired one if it has no other.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3.
    """
    best = _next_minor(_by_line(candidates(versions, now)), parse(current))
    return best.text if best else None


def _next_minor(choice: _Lines, at: SemanticVersion) -> UpdateCandidate | None:
    minor = choice.get((at.major, at.minor + 1), ())
    return latest(minor) or highest(minor)


def forced_target(versions: Sequence[Object], current: str, now: datetime) -> str | None:
    """Return the version that a forced update chooses, None if the profile has none.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3.
    """
    return auto_target(versions, current, now) or consecutive_minor_target(versions, current, now)


def forced_chain(versions: Sequence[Object], current: str, now: datetime) -> ForcedUpdateChain:
    """Return the forced updates of a Shoot on the version ``current`` until it is on one that is not expired.

    Every step classifies the versions at ``now``.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3.
    """
    if not due(versions, current, now, auto_update=False):
        return ForcedUpdateChain()
    listed = [ListedVersion.of(item) for item in versions]
    return _chain(listed, _by_line(candidates_at(listed, now)), parse(current), current)


def _chain(listed: Sequence[ListedVersion], choice: _Lines, at: SemanticVersion, current: str) -> ForcedUpdateChain:
    """Return the forced updates that lead on from a version that is expired or gone."""
    steps: list[str] = []
    while True:
        target = _next_step(choice, at)
        if target is None:
            return ForcedUpdateChain(tuple(steps), _gap(listed, at, current))
        steps.append(target.text)
        if not target.is_expired:
            return ForcedUpdateChain(tuple(steps))
        at, current = target.version, target.text


def _next_step(choice: _Lines, at: SemanticVersion) -> UpdateCandidate | None:
    return _newer_patch(choice, at) or _next_minor(choice, at)


def gap_warnings(versions: Sequence[Object], path: str, now: datetime) -> tuple[ValidationWarning, ...]:
    """Return a warning for each Kubernetes version that expires and leaves its Shoots no version to move to.

    ``path`` is the path of the list.

    Each version is checked at the start of its own ``expired`` stage, or at ``now`` if that has begun, so the warning
    comes before the gap has an effect. A version of the highest minor that expires is such a version, a version from
    which forced updates lead on to another expired one is not. A profile whose versions cannot be read gets no
    warnings, because validation refuses it.
    """
    try:
        listed = [ListedVersion.of(item) for item in versions]
    except (KeyError, ValueError):
        return ()
    choices: dict[datetime, _Lines] = {}
    found = []
    for index, item in enumerate(listed):
        expired = next((stage for stage in item.stages if stage.classification == Classification.EXPIRED), None)
        if expired is None:
            continue
        then = max(now, expired.start or now)
        if then not in choices:
            choices[then] = _by_line(candidates_at(listed, then))
        if _next_step(choices[then], item.version) is None:
            gap = _gap(listed, item.version, item.text)
            found.append(ValidationWarning(f"{path}[{index}]", gap.detail))
    return tuple(found)


def _gap(listed: Iterable[ListedVersion], at: SemanticVersion, current: str) -> ValidationFinding:
    line = f"{at.major}.{at.minor + 1}"
    present = any(item.version.line == (at.major, at.minor + 1) for item in listed)
    offer = "only previews or versions that are not available yet" if present else "nothing"
    return invalid(
        "spec.kubernetes.versions",
        f"Shoots whose version {json.dumps(current)} is expired or gone cannot be moved on: updates never skip a minor "
        f"version, and of {line} the profile offers {offer}; add a version of {line}",
    )

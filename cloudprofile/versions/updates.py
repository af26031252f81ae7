"""The version to which the next maintenance updates Kubernetes or a machine image, automatically or by force. Pure.

A preview is not yet trusted and an unavailable version cannot be referenced, so neither is ever a candidate, automatic
or forced (versioning policy, GEP-32). A supported version is better than a deprecated one, even if much older. Among
equals the highest wins, and of versions that differ only in spelling the first listed. An expired version is a
candidate, but only callers that ask for expired ones choose it.

An *automatic* update of Kubernetes stays inside the minor version: it chooses the highest newer patch, a supported one
before a deprecated one. An update is *forced*, whatever the owner has configured, once the version is expired or no
longer in the profile. It chooses a newer patch in the same way if there is one, else a version of the next consecutive
minor, and an expired version there only if the minor has no other. It never skips a minor version, and is repeated
until the version is not expired (versioning policy, "Forceful migration of expired versions"). The chain breaks off if
the next minor version is missing, or offers only previews and versions that are not available yet. Such a gap is a
warning to the author of the profile, and no fault of the Shoot.

An update of a machine image is *forced* for the same reasons. Its ``updateStrategy`` decides how far an update goes:

| ``updateStrategy`` | automatic update, always the newest patch of the minor version first | forced, if there is none |
|---|---|---|
| ``patch`` | a newer patch of the minor version | the next higher minor version of the same major |
| ``minor`` | a newer version of the same major | the next higher major version |
| ``major`` | any newer version | none: the image reaches its end of life |
| none | the latest version at once (versioning policy) | none: the image reaches its end of life |

"Next higher" is the next one that the profile lists; images have gaps. A forced update takes an expired version only
if it would otherwise skip a minor (major) version. No update goes down. The image versions passed in are those that fit
the worker pool (``restow.cloudprofile.shoots.machines``): a version that no longer fits counts as gone, which forces an
update.

Of builds of one version (``1.1.0`` and ``1.1.0+b1``) an update to the next higher takes the one that is listed last, as
Gardener does. Any other update takes the one that is listed first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from operator import attrgetter

from restow.cloudprofile.findings import ValidationFinding, ValidationWarning, invalid
from restow.cloudprofile.objects import Object, image_versions
from restow.cloudprofile.versions.lifecycle import (
    Classification,
    LifecycleStage,
    active,
    classification_at,
    expiration_in,
    stages,
)
from restow.cloudprofile.versions.semver import SemanticVersion, parse


@dataclass(frozen=True, slots=True)
class UpdateCandidate:
    """A version that a Shoot may move to: supported, deprecated or expired; ``text`` as the profile writes it."""

    version: SemanticVersion
    text: str
    classification: Classification

    @property
    def is_expired(self) -> bool:
        """Whether only a forced update may choose this version."""
        return self.classification == Classification.EXPIRED


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """A version of a profile, parsed; ``text`` as the profile writes it."""

    version: SemanticVersion
    text: str
    stages: tuple[LifecycleStage, ...]

    @classmethod
    def of(cls, item: Object) -> ListedVersion:
        """Read a version of a profile."""
        return cls(parse(item["version"]), item["version"], stages(item))


def candidates(versions: Iterable[Object], now: datetime) -> tuple[UpdateCandidate, ...]:
    """Return the versions of a profile that are supported, deprecated or expired at ``now``, in the order as listed."""
    return candidates_at([ListedVersion.of(item) for item in versions], now)


def candidates_at(listed: Iterable[ListedVersion], now: datetime) -> tuple[UpdateCandidate, ...]:
    """Return the same as ``candidates`` for parsed versions, for callers that ask at many times."""
    return tuple(
        UpdateCandidate(item.version, item.text, classification)
        for item in listed
        if (classification := active(item.stages, now)) >= Classification.SUPPORTED
    )


def latest(choice: Iterable[UpdateCandidate]) -> UpdateCandidate | None:
    """Return the highest supported candidate, else the highest deprecated one; None if all are expired."""
    fresh = [candidate for candidate in choice if not candidate.is_expired]
    supported = [candidate for candidate in fresh if candidate.classification == Classification.SUPPORTED]
    return highest(supported or fresh)


def highest(choice: Iterable[UpdateCandidate]) -> UpdateCandidate | None:
    """Return the highest candidate, expired ones included; None if there is none."""
    return max(choice, key=attrgetter("version"), default=None)


@dataclass(frozen=True, slots=True)
class DueUpdate:
    """An update that is due, with the reason for ``status.lastMaintenance``; a forced one ignores the owner's wish."""

    reason: str
    forced: bool


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
    """Return why a Shoot on the version ``current`` has to be updated, None if it stays."""
    at = parse(current)
    listed = next((item for item in versions if parse(item["version"]) == at), None)
    expired, automatic = "Kubernetes version expired", "Automatic update of Kubernetes version configured"
    return _due(listed, f"{expired} - force update required", automatic if auto_update else "", now)


def _due(listed: Object | None, expired: str, automatic: str, now: datetime) -> DueUpdate | None:
    """Return why a version has to be updated; ``automatic`` is empty if the owner has opted out."""
    if listed is None:
        return DueUpdate("Version does not exist in CloudProfile", forced=True)
    if classification_at(listed, now) == Classification.EXPIRED:
        return DueUpdate(expired, forced=True)
    return DueUpdate(automatic, forced=False) if automatic else None


def auto_target(versions: Iterable[Object], current: str, now: datetime) -> str | None:
    """Return the patch version that an automatic update chooses, None if there is no better one."""
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
    """Return the version of the next minor that a forced update chooses, an expired one if it has no other."""
    best = _next_minor(_by_line(candidates(versions, now)), parse(current))
    return best.text if best else None


def _next_minor(choice: _Lines, at: SemanticVersion) -> UpdateCandidate | None:
    minor = choice.get((at.major, at.minor + 1), ())
    return latest(minor) or highest(minor)


def forced_target(versions: Sequence[Object], current: str, now: datetime) -> str | None:
    """Return the version that a forced update chooses, None if the profile has none."""
    return auto_target(versions, current, now) or consecutive_minor_target(versions, current, now)


def forced_chain(versions: Sequence[Object], current: str, now: datetime) -> ForcedUpdateChain:
    """Return the forced updates of a Shoot on the version ``current`` until it is on one that is not expired.

    Every step classifies the versions at ``now``.
    """
    if not due(versions, current, now, auto_update=False):
        return ForcedUpdateChain()
    listed, at = [ListedVersion.of(item) for item in versions], parse(current)
    choice = _by_line(candidates_at(listed, now))
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
        expired = expiration_in(item.stages)
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


class UpdateStrategy(StrEnum):
    """How far an update of a machine image may go."""

    PATCH = "patch"
    MINOR = "minor"
    MAJOR = "major"


class NoUpdateTarget(ValueError):
    """An error: a forced update is due, and no version can be its target."""


def image_due(image: Object, used: Object, now: datetime, *, auto_update: bool) -> DueUpdate | None:
    """Return why a worker pool on the image ``used`` (name and version) has to be updated, or None if it stays.

    ``image`` is the profile's image with the versions that fit the pool. Names and versions are compared as spelled: a
    pool that writes the image's name in another case is on an unlisted version.
    """
    strategy = f"(image update strategy: {image.get('updateStrategy') or 'none'})"
    same = image.get("name") == used.get("name")
    versions = image_versions(image)
    listed = next((item for item in versions if same and item.get("version") == used.get("version")), None)
    automatic = f"Automatic update of the machine image version is configured {strategy}" if auto_update else ""
    return _due(listed, f"Machine image version expired - force update required {strategy}", automatic, now)


def image_target(image: Object, current: str, now: datetime, *, forced: bool) -> str | None:
    """Return the version that a worker pool on the version ``current`` of an image is updated to, None if it stays.

    ``image`` is the profile's image with the versions that fit the pool.

    Raises:
        NoUpdateTarget: a forced update is due and the image has no version for it.
        InvalidVersion: a version is not a semantic version like 1.2.3.
        ValueError: the image has an unknown update strategy.
    """
    strategy = UpdateStrategy(image["updateStrategy"]) if image.get("updateStrategy") else None
    versions = image_versions(image)
    at = parse(current)
    target = _auto(candidates(versions, now), at, strategy)
    if target is None and forced:
        target = _forced(versions, at, strategy, now)
        if target is None:
            raise NoUpdateTarget(_no_target(image, current, strategy))
    return target.text if target else None


def _auto(
    choice: Iterable[UpdateCandidate], at: SemanticVersion, strategy: UpdateStrategy | None
) -> UpdateCandidate | None:
    newer = [item for item in choice if item.version > at]
    patch = [item for item in newer if item.version.line == at.line]
    match strategy:
        case UpdateStrategy.PATCH:
            return latest(patch)
        case UpdateStrategy.MINOR:
            return latest(patch) or latest(item for item in newer if item.version.major == at.major)
        case UpdateStrategy.MAJOR:
            return latest(patch) or latest(newer)
        case _:
            return latest(newer)


def _forced(
    versions: Sequence[Object], at: SemanticVersion, strategy: UpdateStrategy | None, now: datetime
) -> UpdateCandidate | None:
    if strategy == UpdateStrategy.PATCH:
        unit: Callable[[SemanticVersion], int] = attrgetter("minor")
        in_scope = [item for item in candidates(versions, now) if item.version.major == at.major]
    elif strategy == UpdateStrategy.MINOR:
        unit = attrgetter("major")
        in_scope = list(candidates(versions, now))
    else:
        return None
    found = _highest_of_next(in_scope, at, unit, expired=False)
    if found is None or unit(found.version) > _next_listed(versions, at, unit, now):
        found = _highest_of_next(in_scope, at, unit, expired=True)
    return found


def _next_listed(
    versions: Iterable[Object], at: SemanticVersion, unit: Callable[[SemanticVersion], int], now: datetime
) -> int:
    """Return the next higher minor (major) that the profile lists at all, 0 if there is none.

    Previews count, and so do minors of other majors: Gardener decides in this way whether an update would skip one.
    """
    listed = (item for item in versions if classification_at(item, now) != Classification.UNAVAILABLE)
    numbers = (unit(parse(item["version"])) for item in listed)
    return min((number for number in numbers if number > unit(at)), default=0)


def _highest_of_next(
    choice: Iterable[UpdateCandidate], at: SemanticVersion, unit: Callable[[SemanticVersion], int], *, expired: bool
) -> UpdateCandidate | None:
    above = [item for item in choice if unit(item.version) > unit(at) and (expired or not item.is_expired)]
    following = min((unit(item.version) for item in above), default=0)
    return highest(item for item in reversed(above) if unit(item.version) == following)


def _no_target(image: Object, current: str, strategy: UpdateStrategy | None) -> str:
    name = json.dumps(image.get("name", ""))
    failed = (
        f"failed to determine the target version for maintenance of machine image {name} with strategy "
        f"{json.dumps(strategy or 'none')}: "
    )
    if strategy in {UpdateStrategy.PATCH, UpdateStrategy.MINOR}:
        return (
            f"{failed}cannot perform forceful update of expired version {json.dumps(current)}. No suitable version "
            "found in CloudProfile - this is most likely a misconfiguration of the CloudProfile"
        )
    return (
        f"{failed}either the machine image {name} is reaching end of life and migration to another machine image is "
        "required, or the CloudProfile lacks a version of it that is neither expired nor in preview and higher than "
        f"{json.dumps(current)}"
    )

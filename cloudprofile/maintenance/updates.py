"""The version to which the next maintenance updates Kubernetes or a machine image, automatically or by force. Pure.

Kubernetes: an *automatic* update stays inside the minor version: the highest newer patch, a supported one before a
deprecated one. An update is *forced*, whatever the owner has configured, once the version is expired or no longer in
the profile. It takes the same patch if there is one, else the next consecutive minor version in the same way, and there
an expired version where the minor has no other. It never skips a minor version, and is repeated until the version is
not expired (versioning policy, "Forceful migration of expired versions"). That breaks off where the next minor version
is missing, or offers only previews and versions that are not available yet: such a gap is a finding against the
profile, not against the Shoot.

Machine images, by the image's ``updateStrategy``:

| ``updateStrategy`` | automatic update, always the newest patch of the minor version first | forced, if there is none |
|---|---|---|
| ``patch`` | a newer patch of the minor version | the next higher minor version of the same major |
| ``minor`` | a newer version of the same major | the next higher major version |
| ``major`` | any newer version | none: the image reaches its end of life |
| none | the latest version at once (versioning policy) | none: the image reaches its end of life |

"Next higher" is the next one that the profile lists; images have gaps. An expired version is taken only by force, and
rather than to skip a minor (major) version. Previews and unavailable versions are never taken, expired ones never by an
automatic update, and no update goes down. The image versions handed in are those that fit the worker pool
(``restow.cloudprofile.shoots.machineimages``): a version that no longer fits counts as gone, which forces an update.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from operator import attrgetter

from restow.cloudprofile.findings import ValidationFinding, invalid
from restow.cloudprofile.objects import Object, image_versions, kubernetes_versions
from restow.cloudprofile.versions.candidates import UpdateCandidate, candidates, highest, latest
from restow.cloudprofile.versions.lifecycle import Classification, classification_at, stages
from restow.cloudprofile.versions.semver import SemanticVersion, parse

__all__ = [
    "DueUpdate",
    "ForcedUpdateChain",
    "NoUpdateTarget",
    "UpdateStrategy",
    "auto_target",
    "consecutive_minor_target",
    "due",
    "forced_chain",
    "forced_target",
    "gap_findings",
    "image_due",
    "image_target",
]


@dataclass(frozen=True, slots=True)
class ForcedUpdateChain:
    """The forced updates of a Shoot, one a maintenance.

    Attributes:
        steps: the versions it is moved to, in order; empty where no update is forced.
        gap: why the last version is left although it is expired; None where the chain ends well.
    """

    steps: tuple[str, ...] = ()
    gap: ValidationFinding | None = None


def due(versions: Iterable[Object], current: str, now: datetime, *, auto_update: bool) -> DueUpdate | None:
    """Return why a Shoot on the version ``current`` is to be updated, None if it is to be left.

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
    """Return the patch version that an automatic update goes to, None if there is no better one.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3.
    """
    at = parse(current)
    best = latest(item for item in candidates(versions, now) if item.version.line == at.line and item.version > at)
    return best.text if best else None


def consecutive_minor_target(versions: Iterable[Object], current: str, now: datetime) -> str | None:
    """Return the version of the next minor that a forced update goes to, an expired one where it has no other.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3.
    """
    at = parse(current)
    minor = [item for item in candidates(versions, now) if item.version.line == (at.major, at.minor + 1)]
    best = latest(minor) or highest(minor)
    return best.text if best else None


def forced_target(versions: Sequence[Object], current: str, now: datetime) -> str | None:
    """Return the version that a forced update goes to, None if the profile has none.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3.
    """
    return auto_target(versions, current, now) or consecutive_minor_target(versions, current, now)


def forced_chain(versions: Sequence[Object], current: str, now: datetime) -> ForcedUpdateChain:
    """Return the forced updates of a Shoot on the version ``current`` until it is on one that is not expired.

    The lifecycle of the profile is read as it is at ``now`` for every step.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3.
    """
    steps: list[str] = []
    while due(versions, current, now, auto_update=False):
        target = forced_target(versions, current, now)
        if target is None:
            return ForcedUpdateChain(tuple(steps), _gap(versions, current))
        steps.append(target)
        current = target
    return ForcedUpdateChain(tuple(steps))


def gap_findings(spec: Object, now: datetime) -> tuple[ValidationFinding, ...]:
    """Return each Kubernetes version of a profile that expires into a gap: from then on its Shoots cannot move on.

    Each version is looked at as of its own ``expired`` stage, ``now`` if that has begun, so a gap is found before it is
    met. A version that is the highest of all and expires is such a version.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3.
    """
    versions = kubernetes_versions(spec)
    found = []
    for index, version in enumerate(versions):
        expired = next((stage for stage in stages(version) if stage.classification == Classification.EXPIRED), None)
        if expired is None:
            continue
        gap = forced_chain(versions, version["version"], max(now, expired.start or now)).gap
        if gap:
            found.append(ValidationFinding(gap.type, f"spec.kubernetes.versions[{index}]", gap.detail))
    return tuple(found)


def _gap(versions: Iterable[Object], current: str) -> ValidationFinding:
    at = parse(current)
    line = f"{at.major}.{at.minor + 1}"
    present = any(parse(item["version"]).line == (at.major, at.minor + 1) for item in versions)
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
    """A forced update is due, and no version can be its target."""


def image_due(image: Object, used: Object, now: datetime, *, auto_update: bool) -> DueUpdate | None:
    """Return why a worker pool on the image ``used`` (name and version) is to be updated, None if it is to be left.

    ``image`` is the profile's image with the versions that fit the pool. Names and versions are compared as they are
    spelled: a pool that writes the image's name in another case is on an unlisted version.
    """
    strategy = f"(image update strategy: {image.get('updateStrategy') or 'none'})"
    same = image.get("name") == used.get("name")
    versions = image_versions(image)
    listed = next((item for item in versions if same and item.get("version") == used.get("version")), None)
    if listed is None:
        return DueUpdate("Version does not exist in CloudProfile", forced=True)
    if classification_at(listed, now) == Classification.EXPIRED:
        return DueUpdate(f"Machine image version expired - force update required {strategy}", forced=True)
    if auto_update:
        return DueUpdate(f"Automatic update of the machine image version is configured {strategy}", forced=False)
    return None


def image_target(image: Object, current: str, now: datetime, *, forced: bool) -> str | None:
    """Return the version that a worker pool on the version ``current`` of an image goes to, None if it stays.

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
    """Return the next higher minor (major) that is listed at all, 0 if there is none.

    Previews count, and so do minors of other majors: Gardener's way of seeing whether one would be skipped.
    """
    listed = (item for item in versions if classification_at(item, now) != Classification.UNAVAILABLE)
    numbers = (unit(parse(item["version"])) for item in listed)
    return min((number for number in numbers if number > unit(at)), default=0)


def _highest_of_next(
    choice: Iterable[UpdateCandidate], at: SemanticVersion, unit: Callable[[SemanticVersion], int], *, expired: bool
) -> UpdateCandidate | None:
    above = [item for item in choice if unit(item.version) > unit(at) and (expired or not item.is_expired)]
    following = min((unit(item.version) for item in above), default=0)
    return highest(item for item in above if unit(item.version) == following)


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


@dataclass(frozen=True, slots=True)
class DueUpdate:
    """An update that is due.

    Attributes:
        reason: why, as ``status.lastMaintenance`` says it.
        forced: whether it happens although the owner may have opted out.
    """

    reason: str
    forced: bool

"""The version to which the next maintenance updates a machine image, automatically or by force. Pure.

An update is *forced*, whatever the owner has configured, once the version is expired or no longer in the profile. The
image's ``updateStrategy`` decides how far an update goes:

| ``updateStrategy`` | automatic update, always the newest patch of the minor version first | forced, if there is none |
|---|---|---|
| ``patch`` | a newer patch of the minor version | the next higher minor version of the same major |
| ``minor`` | a newer version of the same major | the next higher major version |
| ``major`` | any newer version | none: the image reaches its end of life |
| none | the latest version at once (versioning policy) | none: the image reaches its end of life |

"Next higher" is the next one that the profile lists; images have gaps. Only a forced update takes an expired version,
and only if it would otherwise skip a minor (major) version. No update takes a preview or an unavailable version, and
no update goes down. The image versions passed in are those that fit the worker pool
(``restow.cloudprofile.shoots.machineimages``): a version that no longer fits counts as gone, which forces an update.

Of builds of one version (``1.1.0`` and ``1.1.0+b1``) an update to the next higher takes the one that is listed last, as
Gardener does. Any other update takes the one that is listed first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from operator import attrgetter

from restow.cloudprofile.objects import Object, image_versions
from restow.cloudprofile.versions.candidates import DueUpdate, UpdateCandidate, candidates, highest, latest
from restow.cloudprofile.versions.lifecycle import Classification, classification_at
from restow.cloudprofile.versions.semver import SemanticVersion, parse


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
    if listed is None:
        return DueUpdate("Version does not exist in CloudProfile", forced=True)
    if classification_at(listed, now) == Classification.EXPIRED:
        return DueUpdate(f"Machine image version expired - force update required {strategy}", forced=True)
    if auto_update:
        return DueUpdate(f"Automatic update of the machine image version is configured {strategy}", forced=False)
    return None


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

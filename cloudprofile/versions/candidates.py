"""The common part of updates of Kubernetes and machine images: the versions to choose from, and the best of them. Pure.

A preview is not yet trusted and an unavailable version cannot be referenced, so neither is ever a candidate, automatic
or forced (versioning policy, GEP-32). A supported version is better than a deprecated one, even if much older. Among
equals the highest wins, and of versions that differ only in spelling the first listed. An expired version is a
candidate, but only callers that ask for expired ones choose it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from restow.cloudprofile.objects import Object
from restow.cloudprofile.versions.lifecycle import Classification, LifecycleStage, active, stages
from restow.cloudprofile.versions.semver import SemanticVersion, parse


@dataclass(frozen=True, slots=True)
class UpdateCandidate:
    """A version that a Shoot may move to.

    Attributes:
        version: for comparison.
        text: the version as the profile writes it.
        classification: supported, deprecated or expired.
    """

    version: SemanticVersion
    text: str
    classification: Classification

    @property
    def is_expired(self) -> bool:
        """Whether only a forced update may choose this version."""
        return self.classification == Classification.EXPIRED


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """A version of a profile, parsed.

    Attributes:
        version: for comparison.
        text: the version as the profile writes it.
        stages: its lifecycle.
    """

    version: SemanticVersion
    text: str
    stages: tuple[LifecycleStage, ...]

    @classmethod
    def of(cls, item: Object) -> ListedVersion:
        """Read a version of a profile.

        Raises:
            InvalidVersion: the version is not a semantic version like 1.2.3.
            ValueError: a classification is unknown, or a time is not in the form of RFC 3339.
        """
        return cls(parse(item["version"]), item["version"], stages(item))


def candidates(versions: Iterable[Object], now: datetime) -> tuple[UpdateCandidate, ...]:
    """Return the versions of a profile that are supported, deprecated or expired at ``now``, in the order as listed.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3.
    """
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
    """An update that is due.

    Attributes:
        reason: why, in the words of ``status.lastMaintenance``.
        forced: whether it happens although the owner may have opted out.
    """

    reason: str
    forced: bool

"""What updates of Kubernetes and machine images have in common: which versions may be taken, and which is best. Pure.

A preview is not yet trusted and an unavailable version cannot be referenced: neither is ever a candidate, automatic or
forced (versioning policy, GEP-32). Of the others a supported one is better than a deprecated one, however much older;
among equals the highest wins, and of versions that are only spelled differently the first listed. An expired version
is a candidate, but only for who asks for one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from restow.cloudprofile.objects import Object
from restow.cloudprofile.versions.lifecycle import Classification, classification_at
from restow.cloudprofile.versions.semver import SemanticVersion, parse

__all__ = [
    "UpdateCandidate",
    "candidates",
    "highest",
    "latest",
]


@dataclass(frozen=True, slots=True)
class UpdateCandidate:
    """A version that a Shoot may be moved to.

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
        """Whether only a forced update may go to it."""
        return self.classification == Classification.EXPIRED


def candidates(versions: Iterable[Object], now: datetime) -> tuple[UpdateCandidate, ...]:
    """Return the versions of a profile that are supported, deprecated or expired at ``now``, in the order as listed.

    Raises:
        InvalidVersion: a version is not a semantic version like 1.2.3.
    """
    listed = (
        UpdateCandidate(parse(item["version"]), item["version"], classification_at(item, now)) for item in versions
    )
    return tuple(candidate for candidate in listed if candidate.classification >= Classification.SUPPORTED)


def latest(choice: Iterable[UpdateCandidate]) -> UpdateCandidate | None:
    """Return the highest supported candidate, else the highest deprecated one; None where all are expired."""
    fresh = [candidate for candidate in choice if not candidate.is_expired]
    supported = [candidate for candidate in fresh if candidate.classification == Classification.SUPPORTED]
    return highest(supported or fresh)


def highest(choice: Iterable[UpdateCandidate]) -> UpdateCandidate | None:
    """Return the highest candidate, expired ones included; None where there is none."""
    return max(choice, key=attrgetter("version"), default=None)

"""The lifecycle of a version: its stages, its classification at a time, and its next change. Pure.

A version (of Kubernetes or of a machine image) has a *lifecycle*: stages in the order unavailable < preview <
supported < deprecated < expired, each with an optional start time (GEP-32). The rules:

- a stage is active from its start on (t >= start); no start means that it has already begun;
- of all active stages the one listed last counts, so equal starts favour the later stage;
- none active: the version is ``unavailable``; no lifecycle at all: it is ``supported``.

A version of v1beta1 has ``classification`` and ``expirationDate`` instead: a leading stage without start
(``supported`` if it names none) and an ``expired`` stage at the date. A lifecycle wins over them; validation refuses
the combination. Times are RFC 3339 strings and stay as written; they are parsed for comparison only.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from restow.cloudprofile.objects import Object, image_versions, kubernetes_versions, machine_images, placed_versions
from restow.cloudprofile.versions import semver
from restow.cloudprofile.versions.semver import SemanticVersion


class Classification(StrEnum):
    """The classification of a version, which compares by rank and not by spelling."""

    UNAVAILABLE = "unavailable"
    PREVIEW = "preview"
    SUPPORTED = "supported"
    DEPRECATED = "deprecated"
    EXPIRED = "expired"

    @property
    def rank(self) -> int:
        """The position in the order of a lifecycle, 0 for unavailable."""
        return _RANKS[self]

    @property
    def is_active(self) -> bool:
        """Whether a new Shoot or pool may choose a version of this classification: neither unavailable nor expired."""
        return self not in {Classification.UNAVAILABLE, Classification.EXPIRED}

    def __lt__(self, other: str) -> bool:
        return self.rank < Classification(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= Classification(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > Classification(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= Classification(other).rank


_RANKS = {classification: rank for rank, classification in enumerate(Classification)}


class InvalidTime(ValueError):
    """An error: a string is not an RFC 3339 time."""


@dataclass(frozen=True, slots=True)
class LifecycleStage:
    """One stage of a lifecycle.

    Attributes:
        classification: of the version from the stage's start on.
        start: when it begins, with a time zone; None if it has always begun.
    """

    classification: Classification
    start: datetime | None = None

    def begun(self, now: datetime) -> bool:
        """Return whether the stage has begun."""
        return self.start is None or self.start <= now


@functools.lru_cache(maxsize=16384)  # a profile and all profiles that inherit from it have the same times
def parse_time(text: str) -> datetime:
    """Return the point in time that an RFC 3339 string names, truncated to microseconds.

    Raises:
        InvalidTime: a time is not in the form of RFC 3339.
    """
    if not _RFC3339.fullmatch(text):
        raise InvalidTime(f"{text!r} is not a time like 2025-03-01T00:00:00Z (RFC 3339)")
    try:
        return datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise InvalidTime(f"{text!r} is not a time like 2025-03-01T00:00:00Z: {error}") from error


def whole_seconds(at: datetime) -> str:
    """Return a time as RFC 3339 in UTC, in whole seconds and never later than ``at``."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# Stricter than fromisoformat, which also takes week dates, times without seconds and times without a zone.
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt](?:[01]\d|2[0-3]):\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", flags=re.ASCII)


def stages(version: Mapping[str, Any]) -> tuple[LifecycleStage, ...]:
    """Return the stages of a version as listed, including those of the legacy fields; never empty.

    A stage that names no classification counts as ``supported``, like a version that names none.
    """
    return tuple(
        LifecycleStage(classification_of(stage), parse_time(start) if (start := stage.get("startTime")) else None)
        for stage in written_stages(version)
    )


def written_stages(version: Mapping[str, Any]) -> list[Object]:
    """Return the stages of a version as JSON, including those that the plain fields stand for; never empty."""
    if lifecycle := version.get("lifecycle"):
        return list(lifecycle)
    leading = {"classification": version.get("classification") or Classification.SUPPORTED.value}
    if expires := version.get("expirationDate"):
        return [leading, {"classification": Classification.EXPIRED.value, "startTime": expires}]
    return [leading]


def classification_of(stage: Object) -> Classification:
    """Return the classification of a stage as JSON."""
    return Classification(stage.get("classification") or Classification.SUPPORTED)


def names_supported(version: Object) -> bool:
    """Return whether a lifecycle names the stage ``supported``, which a version without one has by default."""
    return any(stage.get("classification") == Classification.SUPPORTED for stage in version.get("lifecycle") or ())


def expiration_in(listed: Iterable[LifecycleStage]) -> LifecycleStage | None:
    """Return the stage in which a version expires, if it ever does."""
    return next((stage for stage in listed if stage.classification == Classification.EXPIRED), None)


def classification_at(version: Mapping[str, Any], now: datetime) -> Classification:
    """Return the classification of a version at ``now``."""
    return active(stages(version), now)


def active(listed: Iterable[LifecycleStage], now: datetime) -> Classification:
    """Return the classification of the last stage that has begun."""
    found = Classification.UNAVAILABLE
    for stage in listed:
        if stage.begun(now):
            found = stage.classification
    return found


def next_transition(version: Mapping[str, Any], now: datetime) -> datetime | None:
    """Return the time of a version's next change of classification; None if it never changes again.

    In a lifecycle that validation would refuse, a start need not change anything. The start of a stage that names no
    classification always counts, because its effect is not known.
    """
    listed = stages(version)
    ahead = sorted({stage.start for stage in listed if stage.start is not None and stage.start > now})
    if any(not stage.get("classification") for stage in version.get("lifecycle") or ()):
        return ahead[0] if ahead else None
    current = active(listed, now)
    return next((start for start in ahead if active(listed, start) != current), None)


def status_of(spec: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the part of a profile's status about the versions of its spec: the classification of each at ``now``.

    ``{"kubernetes": {"versions": [...]}, "machineImages": [{"name", "versions": [...]}]}``, items ``{"version",
    "classification"}``, in the order of the spec; a part without entries is left out (GEP-32).
    """
    status: dict[str, Any] = {}
    if versions := kubernetes_versions(spec):
        status["kubernetes"] = {"versions": _classified(versions, now)}
    if images := machine_images(spec):
        status["machineImages"] = [
            {"name": image.get("name") or "", "versions": _classified(image_versions(image), now)} for image in images
        ]
    return status


def _classified(versions: Iterable[Mapping[str, Any]], now: datetime) -> list[dict[str, str]]:
    return [
        {"version": version.get("version") or "", "classification": classification_at(version, now).value}
        for version in versions
    ]


_BEGINNING = datetime.min.replace(tzinfo=UTC)


def past_instants(versions: Iterable[Object], now: datetime) -> list[datetime]:
    """Return one time for each state that versions have had until now, including the time before every start."""
    listed = [stage.start for version in versions for stage in stages_or_none(version) or ()]
    starts = {start for start in listed if start is not None and start <= now}
    return [_BEGINNING, *sorted(starts)] if starts else []


def next_transition_of(spec: Mapping[str, Any], now: datetime) -> datetime | None:
    """Return the time of the next change of classification of a version of a spec; None if there is none."""
    transitions = (next_transition(version, now) for _, _, version in placed_versions(spec))
    return min((at for at in transitions if at), default=None)


def number_or_none(version: Object) -> SemanticVersion | None:
    """Return a version's number, or None if it cannot be read."""
    try:
        return semver.parse(version.get("version") or "")
    except semver.InvalidVersion:
        return None


def stages_or_none(version: Object | None) -> tuple[LifecycleStage, ...] | None:
    """Return the stages of a version, or None if there is no version or its stages cannot be read."""
    try:
        return None if version is None else stages(version)
    except ValueError:
        return None


def classification_or_none(version: Object, now: datetime) -> Classification | None:
    """Return the classification of a version at ``now``, or None if its stages cannot be read."""
    try:
        return classification_at(version, now)
    except ValueError:
        return None

"""At most one version of a minor is supported at a time, of Kubernetes and of each machine image. Pure.

Sources: the versioning policy ("Makes sure there is only one 'supported version'") and Gardener's validation. The rule
applies now and after each later transition, so a successor may be planned: its stage ``supported`` begins when the
stage ``deprecated`` of its predecessor does. Past stages do not count.

Only a written stage counts. A version without stages is supported by default, and Gardener refuses no profile because
of it; the same applies to a version that only has an expiration date at v1beta1
(``restow.cloudprofile.conversions.unclassified``). Versions that a request does not change only cause a warning,
because the profile may have been stored before the rule existed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from restow.cloudprofile.findings import Remark, ValidationWarning, forbidden
from restow.cloudprofile.objects import (
    Object,
    VersionKey,
    by_name,
    by_version,
    image_versions,
    kubernetes_versions,
    machine_images,
)
from restow.cloudprofile.versions.lifecycle import Classification, classification_at, number_or_none, stages_or_none
from restow.cloudprofile.versions.semver import SemanticVersion

_MOST_OTHERS = 10  # named for one version


def supported_once(
    spec: Object, path: str, now: datetime, *, before: Object, unclassified: Collection[VersionKey] = ()
) -> Iterator[Remark]:
    """Check that at most one version of each minor in a profile's spec is supported at a time.

    Args:
        spec: the spec.
        path: its path, for the findings.
        now: the time.
        before: the spec that it replaces; empty if it is created.
        unclassified: versions whose stage ``supported`` their author did not write.
    """
    listed, old = kubernetes_versions(spec), by_version(kubernetes_versions(before))
    yield from _once(_periods("", listed, unclassified, now), old, f"{path}.kubernetes.versions")
    old_images = by_name(machine_images(before))
    for index, image in enumerate(machine_images(spec)):
        name = image.get("name") or ""
        periods = _periods(name, image_versions(image), unclassified, now)
        yield from _once(
            periods, by_version(image_versions(old_images.get(name, {}))), f"{path}.machineImages[{index}].versions"
        )


@dataclass(frozen=True, slots=True)
class _Period:
    """The time in which a version is supported, from now on, without ``end`` itself, which is None if it never ends."""

    index: int
    version: Object
    number: SemanticVersion
    begin: datetime
    end: datetime | None
    is_now: bool

    def overlaps(self, other: _Period) -> bool:
        return (self.end is None or other.begin < self.end) and (other.end is None or self.begin < other.end)


def _periods(
    image: str, versions: Sequence[Object], unclassified: Collection[VersionKey], now: datetime
) -> Iterator[_Period]:
    for index, version in enumerate(versions):
        number, listed = number_or_none(version), stages_or_none(version)
        says = any(stage.get("classification") == Classification.SUPPORTED for stage in version.get("lifecycle") or ())
        if number is None or listed is None or not says or (image, version.get("version") or "") in unclassified:
            continue
        changes = [now, *sorted({stage.start for stage in listed if stage.start is not None and stage.start > now})]
        supported = [classification_at(version, at) is Classification.SUPPORTED for at in changes]
        if any(supported):
            first = supported.index(True)
            last = len(supported) - supported[::-1].index(True)
            end = changes[last] if last < len(changes) else None
            yield _Period(index, version, number, changes[first], end, first == 0)


def _once(periods: Iterator[_Period], old: dict[str, Object], path: str) -> Iterator[Remark]:
    minors: dict[object, list[_Period]] = {}
    for period in periods:
        minors.setdefault(period.number.line, []).append(period)
    found = [pair for minor in minors.values() for pair in _overlapping(minor)]
    for one, other in sorted(found, key=lambda pair: (pair[0].index, pair[1].index)):
        below = f"{path}[{one.index}]"
        if _is_left(one.version, old) and _is_left(other.version, old):
            if one.index < other.index:
                yield ValidationWarning(below, _TWICE.format(**_names(one, other)))
        else:
            yield forbidden(below, _ADDED_TWICE.format(**_names(one, other)))


def _overlapping(minor: list[_Period]) -> Iterator[tuple[_Period, _Period]]:
    """Yield pairs of different versions that are supported at the same time, in both orders, some for each version."""
    begun: list[_Period] = []
    named: dict[int, int] = {}
    for period in sorted(minor, key=lambda each: each.begin):
        begun = [each for each in begun if each.end is None or each.end > period.begin]
        for other in begun[:_MOST_OTHERS]:
            if other.number != period.number and period.overlaps(other):
                yield period, other
                named[other.index] = named.get(other.index, 0) + 1
                if named[other.index] <= _MOST_OTHERS:
                    yield other, period
        begun.append(period)


def _is_left(version: Object, old: dict[str, Object]) -> bool:
    """Return whether a request does not change the stages of a version."""
    replaced = old.get(version.get("version") or "")
    return replaced is not None and stages_or_none(replaced) == stages_or_none(version)


_TWICE = '"{version}" and "{other}" of one minor version are both supported{when}: deprecate the lower one'
_ADDED_TWICE = (
    'unable to add version "{version}" with classification "supported": "supported" lifecycle stages must not overlap '
    'per minor version, and "{other}" has one{when}'
)


def _names(one: _Period, other: _Period) -> dict[str, str]:
    later = max(one, other, key=lambda each: each.begin)
    when = "" if later.is_now else f" from {later.begin.isoformat().replace('+00:00', 'Z')} on"
    return {"version": one.version["version"], "other": other.version["version"], "when": when}

"""Versions that expire: the form of their numbers and lifecycles, and the stages to which they cannot return. Pure.

At most one version of a minor is supported at a time, of Kubernetes and of each machine image (versioning policy, and
Gardener's validation). The rule applies now and after each later transition, so a successor may be planned: its stage
``supported`` begins when the stage ``deprecated`` of its predecessor does. Past stages do not count.

Only a written stage counts. A version without stages is supported by default, and Gardener refuses no profile because
of it; the same applies to the versions that are ``unclassified``. Versions that a request does not change only cause a
warning, because the profile may have been stored before the rule existed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from restow.cloudprofile.findings import (
    Remark,
    ValidationFinding,
    ValidationWarning,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from restow.cloudprofile.objects import (
    Object,
    VersionKey,
    by_name,
    by_version,
    image_versions,
    kubernetes_versions,
    machine_images,
    placed_versions,
    versions_by_key,
)
from restow.cloudprofile.versions.lifecycle import (
    Classification,
    InvalidTime,
    classification_at,
    classification_or_none,
    names_supported,
    number_or_none,
    parse_time,
    stages_or_none,
)
from restow.cloudprofile.versions.semver import InvalidVersion, SemanticVersion, parse_kubernetes
from restow.cloudprofile.versions.updates import gap_warnings

_STAGES = tuple(Classification)
_CLASSIFICATIONS = _STAGES[1:-1]  # v1beta1 hides unavailable versions, and names the expiration date of expired ones


def kubernetes(versions: Sequence[Object], path: str, now: datetime) -> Iterator[Remark]:
    """Validate the Kubernetes versions of a CloudProfile or of a rendered one; ``path`` is the path of the list."""
    numbers = [number_or_none(version) for version in versions]
    if not versions:
        yield required(path, "must provide at least one Kubernetes version")
    if not versions or None in numbers:
        yield invalid(path, "failed to determine the latest kubernetes version from the cloud profile")
    else:
        yield from gap_warnings(versions, path, now)
    yield from kubernetes_versions_in(versions, path)


def kubernetes_versions_in(versions: Sequence[Object], path: str) -> Iterator[ValidationFinding]:
    """Validate each Kubernetes version of a list, also of a list of overrides in a NamespacedCloudProfile."""
    seen = set()
    for index, version in enumerate(versions):
        below, name = f"{path}[{index}]", version.get("version") or ""
        try:
            number = parse_kubernetes(name)
        except InvalidVersion as error:
            yield invalid(
                below, f"all Kubernetes versions must match the regex ^([0-9]+\\.){{2}}[0-9]+$: {error}", name
            )
        else:
            if number in seen:  # 1.30.01 is another spelling of 1.30.1
                yield duplicate(f"{below}.version", name)
            seen.add(number)
        yield from expirable(version, below)


def expirable(version: Object, path: str) -> Iterator[ValidationFinding]:
    """Validate the classification, expiration date and lifecycle of one version of Kubernetes or of an image."""
    lifecycle = version.get("lifecycle") or ()
    classification, expiration = version.get("classification"), version.get("expirationDate")
    if classification == Classification.EXPIRED:
        yield forbidden(
            f"{path}.classification", "cannot specify `classification` expired: set `expirationDate`, or a lifecycle"
        )
    elif classification is not None and classification not in _CLASSIFICATIONS:
        yield not_supported(f"{path}.classification", classification, _CLASSIFICATIONS)
    if lifecycle and not (classification is None and expiration is None):
        yield forbidden(path, "cannot specify `classification` or `expirationDate` in combination with `lifecycle`")
    yield from _time(expiration, f"{path}.expirationDate")
    yield from _classifications(lifecycle, f"{path}.lifecycle")
    yield from _start_times(lifecycle, f"{path}.lifecycle")


def _classifications(lifecycle: Sequence[Object], path: str) -> Iterator[ValidationFinding]:
    names = [stage.get("classification") or "" for stage in lifecycle]
    for index, name in enumerate(names):
        below = f"{path}[{index}].classification"
        if name not in _STAGES:
            yield not_supported(below, name, _STAGES)
        if name in names[:index]:
            yield duplicate(below, name)
        previous = names[index - 1] if index else ""
        if previous in _STAGES and name in _STAGES and Classification(name) < previous:
            yield invalid(
                below,
                f"lifecycle classifications not in expected order ({', '.join(_STAGES)}): "
                f"{name} must be before {previous}",
                name,
            )


def _start_times(lifecycle: Sequence[Object], path: str) -> Iterator[ValidationFinding]:
    previous = None
    for index, stage in enumerate(lifecycle):
        below, written = f"{path}[{index}]", stage.get("startTime")
        if not written:
            if previous is not None:
                yield required(below, "only the leading lifecycle elements can have the start time optional")
            continue
        yield from _time(written, f"{below}.startTime")
        try:
            start = parse_time(written)
        except InvalidTime:
            continue
        if previous is not None and start < previous:
            yield invalid(below, "lifecycle start times must be monotonically increasing", written)
        previous = start


def _time(written: str | None, path: str) -> Iterator[ValidationFinding]:
    if written is not None:
        try:
            parse_time(written)
        except InvalidTime as error:
            yield invalid(path, str(error), written)


def turned_unavailable(new: Object, old: Object, path: str, now: datetime) -> Iterator[ValidationFinding]:
    """Check a spec at ``path`` against the one before: no version that was available becomes unavailable."""
    before = versions_by_key(old)
    for key, below, version in placed_versions(new, path):
        if key not in before or classification_or_none(version, now) is not Classification.UNAVAILABLE:
            continue
        if classification_or_none(before[key], now) is not Classification.UNAVAILABLE:
            yield forbidden(
                below, "a version cannot be turned unavailable if it was already moved into a later lifecycle stage"
            )


_MOST_OTHERS = 10  # named for one version


def supported_once(
    spec: Object, path: str, now: datetime, *, before: Object, unclassified: Collection[VersionKey] = ()
) -> Iterator[Remark]:
    """Check that at most one version of each minor in a profile's spec is supported at a time."""
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
        says = names_supported(version) and (image, version.get("version") or "") not in unclassified
        if number is None or listed is None or not says:
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

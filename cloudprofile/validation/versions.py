"""Versions that expire: the form of their lifecycles, and how many of one minor may be supported. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from restow.cloudprofile.objects import Object, by_version
from restow.cloudprofile.versions.lifecycle import (
    Classification,
    InvalidTime,
    classification_or_none,
    number_or_none,
    parse_time,
)
from restow.cloudprofile.versions.semver import InvalidVersion, parse, parse_kubernetes

__all__ = [
    "expirable",
    "kubernetes",
    "kubernetes_versions_in",
    "supported_once",
    "turned_unavailable",
]


_WRITTEN = tuple(Classification)[1:]  # unavailable is derived, never written


def kubernetes(versions: Sequence[Object], path: str, now: datetime) -> Iterator[Remark]:
    """Validate the Kubernetes versions of a CloudProfile or of a rendered one; ``path`` is that of the list."""
    numbers = [number_or_none(version) for version in versions]
    if not versions:
        yield required(path, "must provide at least one Kubernetes version")
    if not versions or None in numbers:
        yield invalid(path, "failed to determine the latest kubernetes version from the cloud profile")
    else:
        yield from _latest(versions, path)
    yield from kubernetes_versions_in(versions, path)
    for index, version in enumerate(versions):
        yield from supported_once(version, versions, f"{path}[{index}]", now)


def kubernetes_versions_in(versions: Sequence[Object], path: str) -> Iterator[ValidationFinding]:
    """Validate each Kubernetes version of a list, which a NamespacedCloudProfile's overrides are as well."""
    seen = set()
    for index, version in enumerate(versions):
        below, name = f"{path}[{index}]", version.get("version") or ""
        try:
            parse_kubernetes(name)
        except InvalidVersion as error:
            yield invalid(below, f"all Kubernetes versions must match the regex ^([0-9]+\\.){{2}}[0-9]+$: {error}")
        else:
            if name in seen:
                yield duplicate(f"{below}.version", name)
            seen.add(name)
        yield from expirable(version, below)


def _latest(versions: Sequence[Object], path: str) -> Iterator[ValidationWarning]:
    """Warn where the latest version ends: Gardener refuses that, yet the examples of GEP-25 and GEP-32 do it."""
    index, version = max(enumerate(versions), key=lambda item: parse(item[1]["version"]))
    last = (version.get("lifecycle") or [{}])[-1]
    if version.get("expirationDate") or last.get("classification") == Classification.EXPIRED:
        yield ValidationWarning(
            f"{path}[{index}]",
            f"the latest Kubernetes version {version['version']} has an expiration: once it has expired there is "
            "no version left to update to",
        )


def expirable(version: Object, path: str) -> Iterator[ValidationFinding]:
    """Validate the classification, expiration date and lifecycle of one version of Kubernetes or of an image."""
    lifecycle = version.get("lifecycle") or ()
    classification, expiration = version.get("classification"), version.get("expirationDate")
    if classification is not None and classification not in _WRITTEN:
        yield not_supported(f"{path}.classification", _WRITTEN)
    if classification == Classification.EXPIRED and not lifecycle:
        yield forbidden(
            f"{path}.classification", "cannot specify `classification` expired: set `expirationDate`, or a lifecycle"
        )
    if lifecycle and not (classification is None and expiration is None):
        yield forbidden(path, "cannot specify `classification` or `expirationDate` in combination with `lifecycle`")
    yield from _time(expiration, f"{path}.expirationDate")
    yield from _classifications(lifecycle, f"{path}.lifecycle")
    yield from _start_times(lifecycle, f"{path}.lifecycle")


def _classifications(lifecycle: Sequence[Object], path: str) -> Iterator[ValidationFinding]:
    names = [stage.get("classification") or "" for stage in lifecycle]
    for index, name in enumerate(names):
        below = f"{path}[{index}].classification"
        if name not in _WRITTEN:
            yield not_supported(below, _WRITTEN)
        if name in names[:index]:
            yield duplicate(below, name)
        previous = names[index - 1] if index else ""
        if previous in _WRITTEN and name in _WRITTEN and Classification(name) < previous:
            yield invalid(
                below,
                f"lifecycle classifications not in expected order ({', '.join(_WRITTEN)}): "
                f"{name} must be before {previous}",
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
            yield invalid(below, "lifecycle start times must be monotonically increasing")
        previous = start


def _time(written: str | None, path: str) -> Iterator[ValidationFinding]:
    if written is not None:
        try:
            parse_time(written)
        except InvalidTime as error:
            yield invalid(path, str(error))


def supported_once(version: Object, versions: Sequence[Object], path: str, now: datetime) -> Iterator[Remark]:
    """Hold a version against the others of its minor: only one may be supported.

    Gardener refuses two where the one says so in the plain field ``classification`` (a version without any is only
    supported for want of a word); of lifecycles that overlap it accepts both, which is warned of.
    """
    number = number_or_none(version)
    if number is None or classification_or_none(version, now) is not Classification.SUPPORTED:
        return
    for other in versions:
        other_number = number_or_none(other)
        if other_number is None or other_number.line != number.line or other_number == number:
            continue
        if version.get("classification") is not None:
            if _ever_said_supported(other):
                yield forbidden(path, _SUPPORTED_TWICE.format(version=version["version"], other=other["version"]))
        elif other_number > number and _says_supported(version) and _says_supported_at(other, now):
            yield ValidationWarning(
                path,
                f"version {version['version']} is supported at the same time as {other['version']}: only one version "
                "of a minor should be; deprecate the lower one when the higher one becomes supported",
            )


_SUPPORTED_TWICE = (
    'unable to add version "{version}" with classification "supported": "supported" lifecycle stages must not overlap '
    'per minor version, and "{other}" has one'
)


def _says_supported(version: Object) -> bool:
    return any(stage.get("classification") == Classification.SUPPORTED for stage in version.get("lifecycle") or ())


def _says_supported_at(version: Object, now: datetime) -> bool:
    return _says_supported(version) and classification_or_none(version, now) is Classification.SUPPORTED


def _ever_said_supported(version: Object) -> bool:
    return version.get("classification") == Classification.SUPPORTED or _says_supported(version)


def turned_unavailable(
    new: Sequence[Object], old: Sequence[Object], path: str, now: datetime
) -> Iterator[ValidationFinding]:
    """Hold versions against those that they replace: what has been available does not become unavailable."""
    before = by_version(old)
    for index, version in enumerate(new):
        replaced = before.get(version.get("version") or "")
        if replaced is None or classification_or_none(version, now) is not Classification.UNAVAILABLE:
            continue
        if classification_or_none(replaced, now) is not Classification.UNAVAILABLE:
            yield forbidden(
                f"{path}[{index}]",
                "a version cannot be turned unavailable if it was already moved into a later lifecycle stage",
            )

"""Versions that expire: the form of their numbers and lifecycles, and the stages to which they cannot return. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from restow.cloudprofile.findings import (
    Remark,
    ValidationFinding,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from restow.cloudprofile.objects import Object, by_version
from restow.cloudprofile.versions.kubernetesupdates import gap_warnings
from restow.cloudprofile.versions.lifecycle import (
    Classification,
    InvalidTime,
    classification_or_none,
    number_or_none,
    parse_time,
)
from restow.cloudprofile.versions.semver import InvalidVersion, parse_kubernetes

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


def turned_unavailable(
    new: Sequence[Object], old: Sequence[Object], path: str, now: datetime
) -> Iterator[ValidationFinding]:
    """Check versions against those that they replace: a version that was available must not become unavailable."""
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

"""Where the next maintenance takes a Kubernetes version, and whether a forced update can go on from there. Pure.

An *automatic* update stays inside the minor version: the highest newer patch, a supported one before a deprecated one.
An update is *forced*, whatever the owner has configured, once the version is expired or no longer in the profile. It
takes the same patch if there is one, else the next consecutive minor version in the same way, and there an expired
version where the minor has no other. It never skips a minor version, and is repeated until the version is not expired
(versioning policy, "Forceful migration of expired versions").

That breaks off where the next minor version is missing, or offers only previews and versions that are not available
yet: such a gap is a finding against the profile, not against the Shoot.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from restow.cloudprofile.findings import Finding, invalid
from restow.cloudprofile.lifecycle import Classification, classification_at, stages
from restow.cloudprofile.parts import Object, kubernetes_versions
from restow.cloudprofile.semver import parse
from restow.cloudprofile.updates import Due, candidates, highest, latest

__all__ = [
    "Chain",
    "auto_target",
    "consecutive_minor_target",
    "due",
    "forced_chain",
    "forced_target",
    "gap_findings",
]


@dataclass(frozen=True, slots=True)
class Chain:
    """The forced updates of a Shoot, one a maintenance.

    Attributes:
        steps: the versions it is moved to, in order; empty where no update is forced.
        gap: why the last version is left although it is expired; None where the chain ends well.
    """

    steps: tuple[str, ...] = ()
    gap: Finding | None = None


def due(versions: Iterable[Object], current: str, now: datetime, *, auto_update: bool) -> Due | None:
    """Return why a Shoot on the version ``current`` is to be updated, None if it is to be left.

    Raises:
        InvalidVersion: a version cannot be read.
    """
    at = parse(current)
    listed = next((item for item in versions if parse(item["version"]) == at), None)
    if listed is None:
        return Due("Version does not exist in CloudProfile", forced=True)
    if classification_at(listed, now) == Classification.EXPIRED:
        return Due("Kubernetes version expired - force update required", forced=True)
    if auto_update:
        return Due("Automatic update of Kubernetes version configured", forced=False)
    return None


def auto_target(versions: Iterable[Object], current: str, now: datetime) -> str | None:
    """Return the patch version that an automatic update goes to, None if there is no better one.

    Raises:
        InvalidVersion: a version cannot be read.
    """
    at = parse(current)
    best = latest(item for item in candidates(versions, now) if item.version.line == at.line and item.version > at)
    return best.text if best else None


def consecutive_minor_target(versions: Iterable[Object], current: str, now: datetime) -> str | None:
    """Return the version of the next minor that a forced update goes to, an expired one where it has no other.

    Raises:
        InvalidVersion: a version cannot be read.
    """
    at = parse(current)
    minor = [item for item in candidates(versions, now) if item.version.line == (at.major, at.minor + 1)]
    best = latest(minor) or highest(minor)
    return best.text if best else None


def forced_target(versions: Sequence[Object], current: str, now: datetime) -> str | None:
    """Return the version that a forced update goes to, None if the profile has none.

    Raises:
        InvalidVersion: a version cannot be read.
    """
    return auto_target(versions, current, now) or consecutive_minor_target(versions, current, now)


def forced_chain(versions: Sequence[Object], current: str, now: datetime) -> Chain:
    """Return the forced updates of a Shoot on the version ``current`` until it is on one that is not expired.

    The lifecycle of the profile is read as it is at ``now`` for every step.

    Raises:
        InvalidVersion: a version cannot be read.
    """
    steps: list[str] = []
    while due(versions, current, now, auto_update=False):
        target = forced_target(versions, current, now)
        if target is None:
            return Chain(tuple(steps), _gap(versions, current))
        steps.append(target)
        current = target
    return Chain(tuple(steps))


def gap_findings(spec: Object, now: datetime) -> tuple[Finding, ...]:
    """Return each Kubernetes version of a profile that expires into a gap: from then on its Shoots cannot move on.

    Each version is looked at as of its own ``expired`` stage, ``now`` if that has begun, so a gap is found before it is
    met. A version that is the highest of all and expires is such a version.

    Raises:
        InvalidVersion: a version cannot be read.
    """
    versions = kubernetes_versions(spec)
    found = []
    for index, version in enumerate(versions):
        expired = next((stage for stage in stages(version) if stage.classification == Classification.EXPIRED), None)
        if expired is None:
            continue
        gap = forced_chain(versions, version["version"], max(now, expired.start or now)).gap
        if gap:
            found.append(Finding(gap.type, f"spec.kubernetes.versions[{index}]", gap.detail))
    return tuple(found)


def _gap(versions: Iterable[Object], current: str) -> Finding:
    at = parse(current)
    line = f"{at.major}.{at.minor + 1}"
    present = any(parse(item["version"]).line == (at.major, at.minor + 1) for item in versions)
    offer = "only previews or versions that are not available yet" if present else "nothing"
    return invalid(
        "spec.kubernetes.versions",
        f"Shoots whose version {json.dumps(current)} is expired or gone cannot be moved on: updates never skip a minor "
        f"version, and of {line} the profile offers {offer}; add a version of {line}",
    )

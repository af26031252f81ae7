"""Compute the release of each step of a version by the policy, and the versions in CRDs of a release or a live cluster.

Both become a table with a row per release and a column per version, as in the issue of Cluster API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from restow.crds import Crd
from restow.migrator.timeline.policy import EARLIER, TimelinePolicy, VersionEntry


@dataclass(frozen=True, slots=True)
class VersionState:
    """The state of a version in one release. A missing version is neither served nor stored."""

    there: bool = True
    served: bool = False
    storage: bool = False


ABSENT: Final = VersionState(there=False)


@dataclass(frozen=True, slots=True)
class ObservedVersions:
    """One CRD in its known releases.

    Attributes:
        places: the states by the release's index in the policy's list, then by version.
        stored: versions that cannot be removed before a migration, by the same keys; empty for manifests.
    """

    crd: str
    places: Mapping[int, Mapping[str, VersionState]]
    stored: Mapping[int, tuple[str, ...]]

    @property
    def first(self) -> int:
        """The index of the first known release."""
        return min(self.places)

    def place(self, version: str, release: int) -> VersionState | None:
        """Return the state of a version in a release, None if the release is unknown."""
        known = self.places.get(release)
        return None if known is None else known.get(version, ABSENT)

    def ever(self, version: str) -> bool:
        """Return whether any known release has the version."""
        return any(version in places for places in self.places.values())


def observe(
    crds: Iterable[tuple[int, Crd]], may_be_stored: Callable[[Crd], Iterable[str]]
) -> tuple[ObservedVersions, ...]:
    """Group CRDs, each with its release's index in the policy's list, by name.

    An API server refuses to remove a version that ``status.storedVersions`` names, but removes an unserved version with
    objects that it does not name. Therefore ``may_be_stored`` (``decide.proof``) decides about unserved versions.
    """
    places: dict[str, dict[int, Mapping[str, VersionState]]] = {}
    stored: dict[str, dict[int, tuple[str, ...]]] = {}
    for release, crd in crds:
        places.setdefault(crd.name, {})[release] = MappingProxyType(
            {version.name: VersionState(served=version.served, storage=version.storage) for version in crd.versions}
        )
        unserved = [name for name in may_be_stored(crd) if name not in crd.served] if crd.uid else []
        stored.setdefault(crd.name, {})[release] = tuple(dict.fromkeys((*crd.stored_versions, *unserved)))
    return tuple(
        ObservedVersions(name, MappingProxyType(found), MappingProxyType(stored[name]))
        for name, found in sorted(places.items())
    )


What = Literal["added", "storage", "unserved", "removed"]


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """A step of a version.

    ``release`` is an index in the policy's list: -1 means before the list, an index beyond its end means after it.
    """

    version: str
    what: What
    release: int


@dataclass(frozen=True, slots=True)
class VersionSchedule:
    """The steps of every version, by version and step, without steps that never come.

    ``promised`` has, by version, the first release in which it need no longer be served, None if there is none.
    """

    policy: TimelinePolicy
    steps: Mapping[str, Mapping[What, TimelineStep]]
    promised: Mapping[str, int | None]

    def release(self, version: str, what: What) -> int | None:
        """Return the index of the release of a step, None if the step never comes."""
        step = self.steps[version].get(what)
        return None if step is None else step.release

    def name(self, release: int) -> str:
        """Return the name of a release, or a description if it is not in the list."""
        if release < 0:
            return EARLIER
        if release < len(self.policy.releases):
            return self.policy.releases[release].name
        return f"{release - len(self.policy.releases) + 1} after {self.policy.releases[-1].name}"

    def place(self, version: str, release: int) -> VersionState:
        """Return the state of a version in a release."""

        def reached(what: What) -> bool:
            at = self.release(version, what)
            return at is not None and at <= release

        if not reached("added") or reached("removed"):
            return ABSENT
        later = [each.name for each in self.policy.versions[self._position(version) + 1 :]]
        superseded = any(at is not None and at <= release for at in (self.release(name, "storage") for name in later))
        return VersionState(served=not reached("unserved"), storage=reached("storage") and not superseded)

    def _position(self, version: str) -> int:
        return next(index for index, each in enumerate(self.policy.versions) if each.name == version)


def schedule(policy: TimelinePolicy) -> VersionSchedule:
    """Return the schedule of all versions."""
    added = {version.name: policy.index(version.added) for version in policy.versions}
    storage = {
        version.name: added[version.name] + policy.storage_after_added
        if version.storage is None
        else policy.index(version.storage)
        for version in policy.versions
    }
    steps: dict[str, Mapping[What, TimelineStep]] = {}
    promised: dict[str, int | None] = {}
    for position, version in enumerate(policy.versions):
        name, successor = version.name, version.successor or _next(policy, position)
        promised[name] = None if successor is None else added[successor] + policy.served_after_successor
        unserved = promised[name] if version.unserved is None else policy.index(version.unserved)
        removed = _removed(policy, version, unserved, None if successor is None else storage[successor])
        at: dict[What, int | None] = {
            "added": added[name],
            "storage": storage[name],
            "unserved": unserved,
            "removed": removed,
        }
        steps[name] = MappingProxyType(
            {what: TimelineStep(name, what, release) for what, release in at.items() if release is not None}
        )
    return VersionSchedule(policy, MappingProxyType(steps), MappingProxyType(promised))


def _next(policy: TimelinePolicy, position: int) -> str | None:
    later = policy.versions[position + 1 :]
    return later[0].name if later else None


def _removed(
    policy: TimelinePolicy, version: VersionEntry, unserved: int | None, successor_stored: int | None
) -> int | None:
    if version.removed is not None:
        return policy.index(version.removed)
    if unserved is None or successor_stored is None or policy.migrator_since is None:
        return None
    clean = max(unserved + policy.buffer_releases, successor_stored, policy.index(policy.migrator_since))
    return clean + policy.kept


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table: its versions, and a cell for each release."""

    versions: tuple[str, ...]
    cells: tuple[str, ...]

    @property
    def title(self) -> str:
        """The heading of the column."""
        return " + ".join(self.versions)


def columns(schedule: VersionSchedule, first: int = 0) -> tuple[Column, ...]:
    """Return the columns of all versions that exist in any release from ``first`` on."""
    releases = range(first, len(schedule.policy.releases))
    found: dict[tuple[VersionState, ...], list[str]] = {}
    for version in schedule.policy.versions:
        places = tuple(schedule.place(version.name, release) for release in releases)
        if any(place.there for place in places):
            found.setdefault(places, []).append(version.name)
    return tuple(Column(tuple(names), tuple(map(_cell, places))) for places, names in found.items())


def notes(schedule: VersionSchedule, release: int) -> str:
    """Return the events of a release: versions added, unserved and removed, and the first migrator."""
    policy = schedule.policy
    happened = []
    if policy.migrator_since is not None and policy.index(policy.migrator_since) == release:
        happened.append("migrator added")
    for what in ("added", "unserved", "removed"):
        names = [version.name for version in policy.versions if schedule.release(version.name, what) == release]
        if names:
            happened.append(f"{_together(names)} {what}")
    return ", ".join(happened)


def _together(names: Sequence[str]) -> str:
    return " + ".join(names)


def _cell(place: VersionState) -> str:
    if not place.there:
        return ""
    return f"Served: {'true' if place.served else 'false'}" + (", Storage" if place.storage else "")

"""Plan the removal of API versions: find steps that are due, missing or unsafe in each release of a project.

A policy file describes the releases and promises of a project (``parse_policy``)::

    upgradeSkew: 3             # an upgrade may skip releases: n-3 -> n is supported
    servedAfterSuccessor: 3    # releases in which a version is served along with its successor
    bufferReleases: 1          # releases after unserving in which a user may serve it again
    migratorSince: v1.10       # the first release that runs a storage-version and managedFields migrator
    releases:
      - {name: v1.9, date: Dec 24}
      - {name: v1.10, date: April 25}
    versions:
      - {name: v1beta1}
      - {name: v1beta2, added: v1.11}

Releases are listed in their order, versions from the oldest to the newest. A version's ``added``, ``storage``,
``unserved`` and ``removed`` name releases; ``earlier`` means before the first listed one. Omitted steps follow from the
promises.

``schedule`` computes the release in which each version is added, stored, unserved and removed. ``observe`` has the
versions in CRDs of several releases, or of a live cluster. Both become a table with a row per release and a column per
version, as in the issue of Cluster API. ``check`` compares the two:

- *unsafe*: an upgrade that the policy supports would lose data or owners, or break clients too early;
- *due*: the policy requires a step by this release, and it is not done;
- *missing*: a prerequisite of the migration, such as a migrator or a version, does not exist.

The check assumes that releases without known CRDs follow the plan. Every rule comes from Cluster API's issue about
storage version migration (kubernetes-sigs/cluster-api#11894) and the Kubernetes deprecation policy. The tests reproduce
the issue's two tables.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from restow.crds import Crd

__all__ = [
    "Column",
    "ObservedVersions",
    "PolicyError",
    "TimelineFinding",
    "TimelinePolicy",
    "TimelineStep",
    "VersionSchedule",
    "VersionState",
    "check",
    "columns",
    "notes",
    "observe",
    "parse_policy",
    "schedule",
]

#: Replaces the name of a release, and means before the first one of the list.
EARLIER: Final = "earlier"


class PolicyError(ValueError):
    """The policy file is invalid; the message has a sentence for each defect, with its place."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class ReleaseEntry(_Model):
    """A release; ``date`` is displayed unchanged."""

    name: str = Field(min_length=1)
    date: str = ""


class VersionEntry(_Model):
    """A version of the API, and the releases of those steps that do not follow from the promises.

    ``successor`` is the version that clients should use instead; it defaults to the next one of the list.
    """

    name: str = Field(min_length=1)
    added: str = EARLIER
    storage: str | None = None
    unserved: str | None = None
    removed: str | None = None
    successor: str | None = None


class TimelinePolicy(_Model):
    """A policy; see the module. Counts are numbers of releases."""

    upgrade_skew: int = Field(alias="upgradeSkew", ge=1)
    served_after_successor: int = Field(alias="servedAfterSuccessor", ge=0)
    kept_after_unserved: int | None = Field(alias="keptAfterUnserved", default=None, ge=0)
    buffer_releases: int = Field(alias="bufferReleases", default=0, ge=0)
    storage_after_added: int = Field(alias="storageAfterAdded", default=0, ge=0)
    migrator_since: str | None = Field(alias="migratorSince", default=None)
    releases: tuple[ReleaseEntry, ...] = Field(min_length=1)
    versions: tuple[VersionEntry, ...] = Field(min_length=1)

    @property
    def kept(self) -> int:
        """The releases for which a version is kept once no object can have it any more: at least the upgrade skew."""
        return self.upgrade_skew if self.kept_after_unserved is None else self.kept_after_unserved

    def index(self, release: str) -> int:
        """Return the index of a release in the list, -1 for ``earlier``.

        Raises:
            PolicyError: the policy has no such release.
        """
        if release == EARLIER:
            return -1
        for index, each in enumerate(self.releases):
            if each.name == release:
                return index
        known = ", ".join(each.name for each in self.releases)
        message = f"{release} is no release of the policy, which has {known}"
        raise PolicyError(message)

    @model_validator(mode="after")
    def _names(self) -> Self:
        for what, names in (
            ("release", [each.name for each in self.releases]),
            ("version", [each.name for each in self.versions]),
        ):
            if twice := sorted({name for name in names if names.count(name) > 1}):
                message = f"the {what} {', '.join(twice)} is listed twice"
                raise ValueError(message)
        known = {each.name for each in self.releases} | {EARLIER}
        for version in self.versions:
            for step in ("added", "storage", "unserved", "removed"):
                release = getattr(version, step)
                if release is not None and release not in known:
                    message = f"{version.name}.{step} names {release}, which is not among the releases"
                    raise ValueError(message)
            if version.successor is not None and version.successor not in {each.name for each in self.versions}:
                message = f"{version.name}.successor names {version.successor}, which is not among the versions"
                raise ValueError(message)
        if self.migrator_since is not None and self.migrator_since not in known:
            message = f"migratorSince names {self.migrator_since}, which is not among the releases"
            raise ValueError(message)
        return self


def parse_policy(document: Any) -> TimelinePolicy:
    """Return the policy of a decoded YAML or JSON document.

    Raises:
        PolicyError: the document is not a valid policy; the message lists every defect.
    """
    try:
        return TimelinePolicy.model_validate(document)
    except ValidationError as error:
        raise PolicyError("; ".join(_sentence(each) for each in error.errors())) from error


def _sentence(error: Any) -> str:
    place = ".".join(str(step) for step in error["loc"])
    text = str(error["msg"]).removeprefix("Value error, ")
    return f"{place}: {text}" if place else text


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


Level = Literal["unsafe", "due", "missing"]


@dataclass(frozen=True, slots=True)
class TimelineFinding:
    """One finding.

    ``crd`` is empty for the plan itself, ``release`` is the release's name, ``problem`` and ``fix`` are sentences.
    """

    level: Level
    crd: str
    release: str
    version: str
    problem: str
    fix: str


def check(schedule: VersionSchedule, observed: Sequence[ObservedVersions] = ()) -> tuple[TimelineFinding, ...]:
    """Return all findings, by CRD, release and version; without CRDs, those of the plan itself."""
    checked = [_Check(schedule, each) for each in observed] or [_Check(schedule, None)]
    return tuple(dict.fromkeys(finding for each in checked for finding in each.findings()))


@dataclass(frozen=True, slots=True)
class _Check:
    schedule: VersionSchedule
    observed: ObservedVersions | None

    def findings(self) -> Iterator[TimelineFinding]:
        """Yield the findings, release by release."""
        policy = self.schedule.policy
        if policy.migrator_since is None:
            first = policy.releases[0].name
            problem = "no release runs a migrator, so no version can ever be removed safely"
            yield TimelineFinding(
                "missing", self._crd, first, "", problem, "Ship one, and set migratorSince to its release"
            )
        for release in self._releases():
            yield from self._storage(release)
            for version in self._versions():
                yield from self._missing(version, release)
                yield from self._serving(version, release)
                yield from self._removal(version, release)
                yield from self._stored(version, release)

    @property
    def _crd(self) -> str:
        return "" if self.observed is None else self.observed.crd

    def _releases(self) -> Sequence[int]:
        if self.observed is None:
            return range(len(self.schedule.policy.releases))
        return sorted(self.observed.places)

    def _versions(self) -> list[str]:
        """Return the versions to check for this CRD, which need not add or remove versions that it never had."""
        names = [version.name for version in self.schedule.policy.versions]
        if self.observed is None:
            return names
        first = self.observed.first
        return [
            name for name in names if self.observed.ever(name) or (self.schedule.release(name, "added") or 0) > first
        ]

    def _place(self, version: str, release: int) -> VersionState:
        known = None if self.observed is None else self.observed.place(version, release)
        return self.schedule.place(version, release) if known is None else known

    def _finding(self, level: Level, release: int, version: str, problem: str, fix: str) -> TimelineFinding:
        return TimelineFinding(level, self._crd, self.schedule.name(release), version, problem, fix)

    def _storage(self, release: int) -> Iterator[TimelineFinding]:
        unknown = set() if self.observed is None else {*self.observed.places[release]}
        known = [version.name for version in self.schedule.policy.versions]
        for name in sorted(unknown - {*known}):
            problem = f"{name} is in the CRD and not in the policy"
            yield self._finding("missing", release, name, problem, "List it under versions, oldest first")
        for name in known:
            place = self._place(name, release)
            if place.storage and not place.served:
                problem = f"{name} is the storage version and not served, so no object can be listed or migrated"
                fix = "Serve it, or make a served version the storage version"
                yield self._finding("unsafe", release, name, problem, fix)
        before = [name for name in known if release > 0 and self._place(name, release - 1).storage]
        now = [name for name in known if self._place(name, release).storage]
        if before and now and known.index(now[0]) < known.index(before[0]):
            problem = f"the storage version goes back from {before[0]} to {now[0]}"
            fix = f"Keep {before[0]}: what it alone can say would be lost or stashed at every write"
            yield self._finding("unsafe", release, now[0], problem, fix)

    def _missing(self, version: str, release: int) -> Iterator[TimelineFinding]:
        expected, place = self.schedule.place(version, release), self._place(version, release)
        if not expected.there or place.there:
            return
        if not any(self._place(version, earlier).there for earlier in range(release)):
            at = self.schedule.name(self.schedule.release(version, "added") or 0)
            problem = f"{version} was to be added in {at} and is not there"
            yield self._finding("missing", release, version, problem, f"Add {version}, or correct the policy")

    def _serving(self, version: str, release: int) -> Iterator[TimelineFinding]:
        place = self._place(version, release)
        due, promised = self.schedule.release(version, "unserved"), self.schedule.promised[version]
        if place.served and due is not None and release >= due:
            when = "now" if release == due else f"since {self.schedule.name(due)}"
            problem = f"{version} is still served; unserving it is due {when}"
            fix = f"Set served: false for {version}, and let the migrator clean managedFields"
            yield self._finding("due", release, version, problem, fix)
        elif (
            not place.served and promised is not None and release < promised and self._was_served(version, release - 1)
        ):
            count = self.schedule.policy.served_after_successor
            problem = f"{version} is unserved before its clients had the {count} releases that the policy promises"
            yield self._finding("unsafe", release, version, problem, f"Serve it until {self.schedule.name(promised)}")

    def _was_served(self, version: str, release: int) -> bool:
        return release >= 0 and self._place(version, release).served

    def _removal(self, version: str, release: int) -> Iterator[TimelineFinding]:
        place, due = self._place(version, release), self.schedule.release(version, "removed")
        if place.there:
            if due is not None and release >= due and not place.served:
                when = "now" if release == due else f"since {self.schedule.name(due)}"
                problem = f"{version} is still there; removing it is due {when}"
                yield self._finding("due", release, version, problem, f"Remove {version} from spec.versions")
            return
        if release == 0 or not self._place(version, release - 1).there:
            return
        unclean = [start for start in self._starts(release) if not self._is_clean(version, start)]
        if unclean:
            names = ", ".join(self.schedule.name(start) for start in unclean)
            problem = (
                f"{version} is removed, but clusters that upgrade from {names} may still have objects or managedFields "
                "entries of it: objects could not be read, and server-side apply would fail"
            )
            yield self._finding("unsafe", release, version, problem, self._keep(version, release))

    def _keep(self, version: str, release: int) -> str:
        last = max(start for start in self._starts(release) if not self._is_clean(version, start))
        until = self.schedule.name(last + self.schedule.policy.upgrade_skew + 1)
        return f"Keep {version} unserved, together with a migrator, until {until} at least"

    def _starts(self, release: int) -> range:
        """Return the releases from which an upgrade to this one is supported."""
        return range(max(0, release - self.schedule.policy.upgrade_skew), release)

    def _is_clean(self, version: str, release: int) -> bool:
        """Return whether no cluster with this release can still have data of the version."""
        policy = self.schedule.policy
        if policy.migrator_since is None or release < policy.index(policy.migrator_since):
            return False
        place = self._place(version, release)
        if place.served or place.storage:
            return False
        span = range(max(0, release - policy.buffer_releases), release)
        served_lately = any(self._place(version, earlier).served for earlier in span)
        return not served_lately

    def _stored(self, version: str, release: int) -> Iterator[TimelineFinding]:
        stored = () if self.observed is None else self.observed.stored.get(release, ())
        if version in stored and not self._place(version, release).storage:
            problem = (
                f"{version} cannot be removed yet: status.storedVersions names it, or no proof shows that no object is "
                "stored at it"
            )
            fix = f"Run restow migrate {self._crd}"
            yield self._finding("due", release, version, problem, fix)

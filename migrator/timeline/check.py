"""Find steps that are due, missing or unsafe, in the plan itself or in the CRDs of some releases.

- *unsafe*: an upgrade that the policy supports would lose data or owners, or break clients too early;
- *due*: the policy requires a step by this release, and it is not done;
- *missing*: a prerequisite of the migration, such as a migrator or a version, does not exist.

The check assumes that releases without known CRDs follow the plan.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from restow.migrator.timeline.schedule import ObservedVersions, VersionSchedule, VersionState

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

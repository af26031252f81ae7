"""When each step of a version's life is due, as the policy has it.

- It is stored from the release that adds it on (``storageAfterAdded`` releases later), until its successor is.
- It is unserved ``servedAfterSuccessor`` releases after the one that adds its successor (Kubernetes deprecation
  policy).
- It is removed once nobody who upgrades from as far back as is supported can still have objects or managedFields
  entries of it. Those go when a release with a migrator runs while the version is neither served nor stored; while it
  may be served again (``bufferReleases``) clients may write new ones. From the first release after that on it is kept
  for as many releases as an upgrade may skip (``upgradeSkew``).

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from restow.migrator.timeline.observed import ABSENT, Place
from restow.migrator.timeline.policy import EARLIER, Policy, VersionEntry

__all__ = ["Schedule", "Step", "schedule"]

What = Literal["added", "storage", "unserved", "removed"]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a version's life.

    ``release`` is its place in the policy's list: -1 before it, more than it has after.
    """

    version: str
    what: What
    release: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of every version, by version and step; a step that never comes is not there.

    ``promised`` has, by version, the first release in which it need not be served any more, None if there is none.
    """

    policy: Policy
    steps: Mapping[str, Mapping[What, Step]]
    promised: Mapping[str, int | None]

    def release(self, version: str, what: What) -> int | None:
        """Return the place of the release of a step, None if it never comes."""
        step = self.steps[version].get(what)
        return None if step is None else step.release

    def name(self, release: int) -> str:
        """Return the name of a release, in words where it is not in the list."""
        if release < 0:
            return EARLIER
        if release < len(self.policy.releases):
            return self.policy.releases[release].name
        return f"{release - len(self.policy.releases) + 1} after {self.policy.releases[-1].name}"

    def place(self, version: str, release: int) -> Place:
        """Return what a version is in a release."""

        def reached(what: What) -> bool:
            at = self.release(version, what)
            return at is not None and at <= release

        if not reached("added") or reached("removed"):
            return ABSENT
        later = [each.name for each in self.policy.versions[self._position(version) + 1 :]]
        superseded = any(at is not None and at <= release for at in (self.release(name, "storage") for name in later))
        return Place(served=not reached("unserved"), storage=reached("storage") and not superseded)

    def _position(self, version: str) -> int:
        return next(index for index, each in enumerate(self.policy.versions) if each.name == version)


def schedule(policy: Policy) -> Schedule:
    """Return the schedule of all versions."""
    added = {version.name: policy.index(version.added) for version in policy.versions}
    storage = {
        version.name: added[version.name] + policy.storage_after_added
        if version.storage is None
        else policy.index(version.storage)
        for version in policy.versions
    }
    steps: dict[str, Mapping[What, Step]] = {}
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
            {what: Step(name, what, release) for what, release in at.items() if release is not None}
        )
    return Schedule(policy, MappingProxyType(steps), MappingProxyType(promised))


def _next(policy: Policy, position: int) -> str | None:
    later = policy.versions[position + 1 :]
    return later[0].name if later else None


def _removed(policy: Policy, version: VersionEntry, unserved: int | None, successor_stored: int | None) -> int | None:
    if version.removed is not None:
        return policy.index(version.removed)
    if unserved is None or successor_stored is None or policy.migrator_since is None:
        return None
    clean = max(unserved + policy.buffer_releases, successor_stored, policy.index(policy.migrator_since))
    return clean + policy.kept

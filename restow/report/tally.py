"""Counting who owns fields at which version, over any number of objects in a bounded space. Pure.

Managers' names are the clients' own, and some make up a new one with every write: beyond a bound they are counted
together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from restow.migrator.managedfields.entries import Entry

__all__ = ["MOST_OWNERS", "Owner", "Tally"]

MOST_OWNERS = 500
"""Pairs of manager and version that are counted one by one, for each CRD."""

_MOST_VERSIONS = 100


@dataclass(slots=True)
class Owner:
    """How many objects have an entry of one manager at one version, and when the newest was written."""

    objects: int = 0
    newest: str = ""

    def add(self, time: str) -> None:
        """Count an object. Times are RFC 3339 in UTC, which compare as text."""
        self.objects += 1
        self.newest = max(self.newest, time)


@dataclass(slots=True)
class Tally:
    """The counts of one CRD.

    Attributes:
        storage: apiVersion of the storage version.
        objects: all of them.
        old: those with an entry at another version.
        by_version: objects with an entry, by apiVersion.
        owners: by (manager, apiVersion), for all but the storage version.
        others: entries of managers beyond the bound, by apiVersion.
    """

    storage: str
    objects: int = 0
    old: int = 0
    by_version: Counter[str] = field(default_factory=Counter)
    owners: dict[tuple[str, str], Owner] = field(default_factory=dict)
    others: dict[str, Owner] = field(default_factory=dict)

    def add(self, entries: Iterable[Entry]) -> None:
        """Count an object by its managedFields."""
        newest: dict[tuple[str, str], str] = {}
        for entry in entries:
            key = (entry.manager, entry.api_version)
            newest[key] = max(newest.get(key, ""), entry.time)
        self.objects += 1
        for version in {version for _, version in newest}:
            if version in self.by_version or len(self.by_version) < _MOST_VERSIONS:
                self.by_version[version] += 1
        old = {key: time for key, time in newest.items() if key[1] != self.storage}
        self.old += bool(old)
        for key, time in old.items():
            self._owner(key).add(time)

    def _owner(self, key: tuple[str, str]) -> Owner:
        if key in self.owners or len(self.owners) < MOST_OWNERS:
            return self.owners.setdefault(key, Owner())
        version = key[1] if key[1] in self.others or len(self.others) < _MOST_VERSIONS else ""
        return self.others.setdefault(version, Owner())

"""Is a reason against a removal true? Each sentence of ``restow ready`` names a fact, which etcd can prove.

A sentence that nothing here knows counts as untrue: whoever adds a reason says here how it is checked. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is so when the question is asked.

    Attributes:
        crd: the CRD, as etcd holds it.
        stored: the objects, as etcd holds them, by name.
        version: the version that is asked about.
        lagging: whether an API server that the question can reach encodes objects at another version than the CRD says.
        native_at_work: whether a StorageVersionMigration of the cluster is at work on it.
    """

    crd: Document
    stored: dict[str, Document]
    version: str
    lagging: bool
    native_at_work: bool = False

    @property
    def storage(self) -> str:
        """The storage version."""
        return str(next(each["name"] for each in self.crd["spec"]["versions"] if each["storage"]))

    @property
    def stored_at(self) -> list[str]:
        """The objects that are stored at the version."""
        return [name for name, found in self.stored.items() if _version(found["apiVersion"]) == self.version]

    @property
    def owned_at(self) -> list[str]:
        """The objects with managedFields entries at the version."""
        return [
            name
            for name, found in self.stored.items()
            if any(
                _version(entry["apiVersion"]) == self.version for entry in found["metadata"].get("managedFields", ())
            )
        ]

    @property
    def stored_versions(self) -> list[str]:
        """``status.storedVersions``."""
        return list(self.crd["status"]["storedVersions"])

    @property
    def annotations(self) -> dict[str, str]:
        """The CRD's annotations."""
        return self.crd["metadata"].get("annotations") or {}

    @property
    def migrating(self) -> dict[str, str]:
        """The condition StorageMigrating, or nothing."""
        conditions = self.crd["status"].get("conditions", ())
        return next((each for each in conditions if each["type"] == "StorageMigrating"), {})


_CHECKS: tuple[tuple[str, Callable[[Facts], bool]], ...] = (
    ("is the storage version", lambda facts: facts.version == facts.storage),
    ("no other version is served", lambda facts: _served(facts) <= {facts.version}),
    ("storedVersions names", lambda facts: facts.version in facts.stored_versions),
    ("managedFields entries are at", lambda facts: bool(facts.owned_at)),
    ("is not served", lambda facts: facts.storage not in _served(facts)),
    ("StorageVersionMigration is at work", lambda facts: facts.native_at_work),
)


def untrue(reason: str, facts: Facts) -> str:
    """Say why a reason is not true; an empty string where it is."""
    for pattern, holds in _CHECKS:
        if re.search(pattern, reason):
            return "" if holds(facts) else "that is not so"
    return "nothing knows how to check that"


def _version(api_version: str) -> str:
    return api_version.rpartition("/")[2]


def _served(facts: Facts) -> set[str]:
    return {each["name"] for each in facts.crd["spec"]["versions"] if each["served"]}

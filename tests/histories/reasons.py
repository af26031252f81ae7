"""Is a reason against a removal true? Each sentence of ``restow ready`` names a fact, which etcd can prove.

A sentence that nothing here knows counts as untrue: whoever adds a reason says here how it is checked. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]

ABOUT_ENTRIES = "once it is gone, server-side apply of these objects would fail"
_ANNOTATION = "restow.dev/migrated"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is so when the question is asked.

    Attributes:
        crd: the CRD, as etcd holds it.
        stored: the objects, as etcd holds them, by name.
        version: the version that is asked about.
        lagging: whether an API server has not heard of the last change of the CRD.
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
    def mark(self) -> str:
        """What restow has written down on the CRD."""
        return str((self.crd["metadata"].get("annotations") or {}).get(_ANNOTATION, ""))

    @property
    def proof(self) -> Document:
        """The same, as a proof; empty where it is none."""
        try:
            found = json.loads(self.mark)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def ours(self) -> bool:
        """Whether restow's field manager owns that annotation."""
        return any(
            entry["manager"] == "restow-migrator"
            and f"f:{_ANNOTATION}" in entry["fieldsV1"].get("f:metadata", {}).get("f:annotations", {})
            for entry in self.crd["metadata"].get("managedFields", ())
        )

    @property
    def jump(self) -> int:
        """Generations since the proof."""
        return int(self.crd["metadata"]["generation"]) - int(self.proof.get("generation", 0))

    @property
    def migrating(self) -> dict[str, str]:
        """The condition StorageMigrating, or nothing."""
        conditions = self.crd["status"].get("conditions", ())
        return next((each for each in conditions if each["type"] == "StorageMigrating"), {})


_CHECKS: tuple[tuple[str, Callable[[Facts], bool]], ...] = (
    ("is the storage version", lambda facts: facts.version == facts.storage),
    ("no other version is served", lambda facts: _served(facts) <= {facts.version}),
    ("storedVersions names", lambda facts: facts.version in facts.stored_versions),
    (ABOUT_ENTRIES, lambda facts: bool(facts.owned_at)),
    ("is not served", lambda facts: facts.storage not in _served(facts)),
    ("StorageVersionMigration is at work", lambda facts: facts.native_at_work),
    ("has not seen the last change", lambda facts: facts.lagging),
    ("does not store .* yet, as its discovery shows", lambda facts: facts.lagging),
    ("no run of restow has proved", lambda facts: not facts.mark),
    ("did not finish every object", lambda facts: facts.mark.startswith("unfinished")),
    ("of another release, or was edited", lambda facts: bool(facts.mark) and not facts.proof),
    ("was written there by another field manager", lambda facts: bool(facts.mark) and not facts.ours),
    ("was deleted and created again", lambda facts: facts.proof.get("uid") != facts.crd["metadata"]["uid"]),
    ("went back from generation", lambda facts: facts.jump < 0),
    ("storage version of .* changed from", lambda facts: facts.proof.get("storage") != facts.storage),
    ("was changed .* times after the last complete run", lambda facts: facts.jump > 1),
    ("left the storage phase out", lambda facts: bool(facts.proof) and not facts.proof.get("objects")),
    ("StorageVersionMigration of .* failed", lambda facts: facts.migrating.get("reason") == "MigrationFailed"),
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

"""Who is in the demo: the databases by number, the managers that write them, and what each of them writes. Pure.

Every database has a number, and its number alone decides who has a hand in it (``ShardRun``), so a run of any size is
repeatable and every later act knows its objects without looking them up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from demo.crd import GROUP, KIND

__all__ = [
    "APPLIED_AGAIN",
    "APPLIED_MEANWHILE",
    "BACKED_UP",
    "BACKUP",
    "CONTROLLER",
    "CREATED_FROM",
    "DELETED_MEANWHILE",
    "DELETING",
    "EDITED",
    "EDITOR",
    "FINALIZER",
    "NAMESPACES",
    "OLD_MANIFESTS",
    "PLATFORM",
    "PROTECTED",
    "WATCHED",
    "Database",
    "Share",
    "backup_manifest",
    "edit_patch",
    "manifest",
    "platform_manifest",
    "status_manifest",
    "storage_of",
]

NAMESPACES = ("billing", "orders", "reports", "search")
FINALIZER = "demo.restow.dev/last-backup"

PLATFORM = "platform"
"""Applies every database: engine, version, storage, its item of the keyed list ``users``, sometimes a finalizer."""
BACKUP = "backup-operator"
"""Applies ``backup`` and another item of ``users``."""
CONTROLLER = "database-controller"
"""Applies the status, through the subresource: conditions are one atomic list in v1alpha1, a keyed one in v1beta1."""
EDITOR = "kubectl-edit"
"""Sends merge patches: an Update entry, bound to the version it wrote at."""


@dataclass(frozen=True, slots=True)
class Share:
    """Every ``every``-th number, from ``first`` on."""

    every: int
    first: int

    def __contains__(self, number: int) -> bool:
        return number % self.every == self.first

    def of(self, members: Iterable[Database]) -> list[Database]:
        """Return those of this share."""
        return [member for member in members if member.number in self]


BACKED_UP = Share(4, 0)
WATCHED = Share(3, 0)
EDITED = Share(10, 0)
PROTECTED = Share(10, 5)
DELETING = Share(50, 5)
APPLIED_MEANWHILE = Share(20, 1)
DELETED_MEANWHILE = Share(25, 2)
OLD_MANIFESTS = Share(10, 4)
APPLIED_AGAIN = Share(3, 0)
CREATED_FROM = 1_000_000
"""Databases that a client creates during the migration are numbered from here."""


@dataclass(frozen=True, slots=True)
class Database:
    """One database."""

    number: int

    @property
    def namespace(self) -> str:
        """The team that it belongs to."""
        return NAMESPACES[self.number % len(NAMESPACES)]

    @property
    def name(self) -> str:
        """Its name; unique without the namespace too."""
        return f"db-{self.number:05}"

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def storage_of(number: int) -> int:
    """Return the GiB that a database is created with."""
    return 10 + number % 90


def manifest(database: Database, version: str, *, group: str = GROUP, **more: Any) -> dict[str, Any]:
    """Return a manifest with nothing but what is given beside its address."""
    metadata = {"name": database.name, "namespace": database.namespace, **more.pop("metadata", {})}
    return {"apiVersion": f"{group}/{version}", "kind": KIND, "metadata": metadata, **more}


def platform_manifest(
    database: Database, version: str, *, storage: int | None = None, group: str = GROUP
) -> dict[str, Any]:
    """Return what the platform applies; ``storage`` where it is not the first size any more."""
    spec = {
        "engine": "postgres",
        "version": "17.5",
        "storageGiB": storage or storage_of(database.number),
        "users": [{"name": "app", "role": "owner"}],
    }
    metadata: dict[str, Any] = {"labels": {"team": database.namespace}}
    if database.number in PROTECTED:
        metadata["finalizers"] = [FINALIZER]
    return manifest(database, version, group=group, metadata=metadata, spec=spec)


def backup_manifest(database: Database, version: str, *, group: str = GROUP) -> dict[str, Any]:
    """Return what the backup operator applies."""
    spec = {
        "backup": {"schedule": "0 3 * * *", "keep": 14},
        "users": [{"name": "backup", "role": "readOnly"}],
    }
    return manifest(database, version, group=group, spec=spec)


def status_manifest(database: Database, version: str, *, group: str = GROUP) -> dict[str, Any]:
    """Return what the controller applies to the status."""
    status = {
        "phase": "Ready",
        "endpoint": f"{database.name}.{database.namespace}.svc:5432",
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Serving"},
            {"type": "BackedUp", "status": "Unknown", "reason": "NoBackupYet"},
        ],
    }
    return manifest(database, version, group=group, status=status)


def edit_patch(connections: int) -> dict[str, Any]:
    """Return the merge patch of somebody who tunes a database by hand."""
    return {
        "metadata": {"annotations": {"demo.restow.dev/tuned-by": "dba"}},
        "spec": {"parameters": {"max_connections": str(connections)}},
    }

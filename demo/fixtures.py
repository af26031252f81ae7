"""The fixtures of the demo: the CRD in each stage, the databases, their managers and their manifests. Pure.

Two properties of v1beta1, common in practice, make the change of version difficult: it has a field with a default that
v1alpha1 does not declare, and its conditions are a keyed list, where v1alpha1 has one atomic list.

Every database has a number. The number alone decides which managers write it (``Share``). Therefore a run of any size
is repeatable, and every later step knows its databases without a look-up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from restow.kube import Resource

__all__ = [
    "APPLIED_AGAIN",
    "APPLIED_MEANWHILE",
    "BACKED_UP",
    "BACKUP",
    "CONFIGURED",
    "CONTROLLER",
    "CREATED_FROM",
    "DEFAULT_POLICY",
    "DELETED_MEANWHILE",
    "DELETING",
    "EDITED",
    "EDITOR",
    "FAULTS_GROUP",
    "FINALIZER",
    "GROUP",
    "KIND",
    "NAMESPACES",
    "NEW",
    "OLD",
    "OLD_MANIFESTS",
    "PLATFORM",
    "PLURAL",
    "PROTECTED",
    "WATCHED",
    "Apply",
    "CrdStage",
    "Database",
    "Share",
    "applies",
    "backup_manifest",
    "config_map",
    "crd",
    "crd_name",
    "databases",
    "edit_patch",
    "manifest",
    "platform_manifest",
    "status_manifest",
    "storage_of",
]

GROUP = "demo.restow.dev"
FAULTS_GROUP = "without.restow.dev"
KIND, PLURAL = "Database", "databases"
OLD, NEW = "v1alpha1", "v1beta1"
DEFAULT_POLICY = "Retain"


class CrdStage(Enum):
    """The stages of the CRD, by the state of v1alpha1."""

    ALONE = "the only version"
    SUCCEEDED = "served together with v1beta1, which is the storage version"
    UNSERVED = "not served any more"
    REMOVED = "gone from the CRD"


def crd_name(group: str) -> str:
    """Return the CRD's name."""
    return f"{PLURAL}.{group}"


def databases(group: str, version: str) -> Resource:
    """Return the resource of databases at a version."""
    return Resource(group, version, PLURAL, namespaced=True)


def crd(group: str, stage: CrdStage) -> dict[str, Any]:
    """Return the manifest of the CRD."""
    old = _version(OLD, served=stage is not CrdStage.UNSERVED, storage=stage is CrdStage.ALONE, spec={}, conditions={})
    new = _version(NEW, served=True, storage=True, spec=_NEW_FIELDS, conditions=_KEYED_BY_TYPE)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": crd_name(group)},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": PLURAL,
                "singular": "database",
                "kind": KIND,
                "listKind": f"{KIND}List",
                "shortNames": ["db"],
            },
            "versions": [old] if stage is CrdStage.ALONE else [new] if stage is CrdStage.REMOVED else [new, old],
        },
    }


def _version(
    name: str, *, served: bool, storage: bool, spec: dict[str, Any], conditions: dict[str, Any]
) -> dict[str, Any]:
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": _SPEC | {"properties": _FIELDS | spec},
            "status": {
                "type": "object",
                "properties": {"phase": _TEXT, "endpoint": _TEXT, "conditions": _CONDITIONS | conditions},
            },
        },
    }
    return {
        "name": name,
        "served": served,
        "storage": storage,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Engine", "type": "string", "jsonPath": ".spec.engine"},
            {"name": "Version", "type": "string", "jsonPath": ".spec.version"},
            {"name": "GiB", "type": "integer", "jsonPath": ".spec.storageGiB"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        ],
        "schema": {"openAPIV3Schema": schema},
    }


_TEXT = {"type": "string", "maxLength": 256}

_FIELDS: dict[str, Any] = {
    "engine": {"type": "string", "enum": ["postgres", "mysql", "mariadb"]},
    "version": {"type": "string", "pattern": r"^\d+(\.\d+)*$"},
    "storageGiB": {"type": "integer", "minimum": 1},
    "parameters": {"type": "object", "maxProperties": 64, "additionalProperties": _TEXT},
    "users": {
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": _TEXT, "role": {"type": "string", "enum": ["owner", "readWrite", "readOnly"]}},
        },
    },
    "backup": {
        "type": "object",
        "properties": {"schedule": _TEXT, "keep": {"type": "integer", "minimum": 1}},
    },
}

_SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["engine"],
    "x-kubernetes-validations": [
        {"rule": "self.engine == oldSelf.engine", "message": "the engine of a database cannot be changed"}
    ],
}

_NEW_FIELDS = {"deletionPolicy": {"type": "string", "enum": [DEFAULT_POLICY, "Delete"], "default": DEFAULT_POLICY}}

_CONDITIONS: dict[str, Any] = {
    "type": "array",
    "maxItems": 16,
    "items": {
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": _TEXT,
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": _TEXT,
            "message": _TEXT,
        },
    },
}

_KEYED_BY_TYPE = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}


NAMESPACES = ("billing", "orders", "reports", "search")
FINALIZER = "demo.restow.dev/last-backup"

PLATFORM = "platform"
"""Applies every database: engine, version, storage, its item of the keyed list ``users``, sometimes a finalizer."""
BACKUP = "backup-operator"
"""Applies ``backup`` and another item of ``users``."""
CONTROLLER = "database-controller"
"""Applies the status, through the subresource: conditions are one atomic list in v1alpha1, a keyed one in v1beta1."""
EDITOR = "kubectl-edit"
"""Sends merge patches, which give an Update entry, bound to the version of the write."""


@dataclass(frozen=True, slots=True)
class Share:
    """Every ``every``-th number, from ``first`` on."""

    every: int
    first: int

    def __contains__(self, number: int) -> bool:
        return number % self.every == self.first

    def of(self, databases: Iterable[Database]) -> list[Database]:
        """Return the databases of this share."""
        return [database for database in databases if database.number in self]


BACKED_UP = Share(4, 0)
WATCHED = Share(3, 0)
CONFIGURED = Share(300, 0)
"""The databases, which exist to the end, for which the controller also keeps a ConfigMap that the database owns."""
EDITED = Share(10, 0)
PROTECTED = Share(10, 5)
DELETING = Share(50, 5)
APPLIED_MEANWHILE = Share(20, 1)
DELETED_MEANWHILE = Share(25, 2)
OLD_MANIFESTS = Share(10, 4)
APPLIED_AGAIN = Share(3, 0)
CREATED_FROM = 1_000_000
"""The first number of databases that a client creates during the migration."""


@dataclass(frozen=True, slots=True)
class Database:
    """One database."""

    number: int

    @property
    def namespace(self) -> str:
        """The namespace, one per team."""
        return NAMESPACES[self.number % len(NAMESPACES)]

    @property
    def name(self) -> str:
        """The name, unique across namespaces."""
        return f"db-{self.number:05}"

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def storage_of(number: int) -> int:
    """Return the initial storage of a database in GiB."""
    return 10 + number % 90


def manifest(database: Database, version: str, *, group: str = GROUP, **more: Any) -> dict[str, Any]:
    """Return a manifest with the identity of the database and the given members."""
    metadata = {"name": database.name, "namespace": database.namespace, **more.pop("metadata", {})}
    return {"apiVersion": f"{group}/{version}", "kind": KIND, "metadata": metadata, **more}


def platform_manifest(
    database: Database, version: str, *, storage: int | None = None, group: str = GROUP
) -> dict[str, Any]:
    """Return the platform's manifest; ``storage`` is the present size if a client has changed it."""
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
    """Return the backup operator's manifest."""
    spec = {
        "backup": {"schedule": "0 3 * * *", "keep": 14},
        "users": [{"name": "backup", "role": "readOnly"}],
    }
    return manifest(database, version, group=group, spec=spec)


def status_manifest(database: Database, version: str, *, group: str = GROUP) -> dict[str, Any]:
    """Return the controller's manifest of the status."""
    status = {
        "phase": "Ready",
        "endpoint": f"{database.name}.{database.namespace}.svc:5432",
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Serving"},
            {"type": "BackedUp", "status": "Unknown", "reason": "NoBackupYet"},
        ],
    }
    return manifest(database, version, group=group, status=status)


def config_map(database: Database, uid: str) -> dict[str, Any]:
    """Return the ConfigMap of a database, with an ownerReference as the controller writes it at v1alpha1."""
    owner = {"apiVersion": f"{GROUP}/{OLD}", "kind": KIND, "name": database.name, "uid": uid, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": database.name, "namespace": database.namespace, "ownerReferences": [owner]},
        "data": {"endpoint": f"{database.name}.{database.namespace}.svc:5432"},
    }


def edit_patch(connections: int) -> dict[str, Any]:
    """Return the merge patch of an administrator who changes a database by hand."""
    return {
        "metadata": {"annotations": {"demo.restow.dev/tuned-by": "dba"}},
        "spec": {"parameters": {"max_connections": str(connections)}},
    }


@dataclass(frozen=True, slots=True)
class Apply:
    """One server-side apply."""

    database: Database
    manager: str
    manifest: Mapping[str, Any]
    status: bool = False


def applies(databases: Sequence[Database], version: str, storage: Mapping[int, int]) -> Iterator[Apply]:
    """Yield the applies of every manager that applies; ``storage`` has the sizes that clients changed."""
    for each in databases:
        number = each.number
        manifest = platform_manifest(each, version, storage=storage.get(number))
        yield Apply(each, PLATFORM, manifest)
        if number >= CREATED_FROM:
            continue
        if number in BACKED_UP:
            yield Apply(each, BACKUP, backup_manifest(each, version))
        if number in WATCHED:
            yield Apply(each, CONTROLLER, status_manifest(each, version), status=True)

"""The CustomResourceDefinition of the demo at each stage of v1alpha1's life. Pure.

Two things about v1beta1 make the change a hard one, and an ordinary one: a field with a default that v1alpha1 does not
declare, and conditions that are one atomic list in v1alpha1 and a keyed list in v1beta1.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from restow.kube import Resource

__all__ = [
    "DEFAULT_POLICY",
    "GROUP",
    "KIND",
    "NEW",
    "OLD",
    "PLURAL",
    "TROUBLE_GROUP",
    "Life",
    "crd",
    "crd_name",
    "databases",
]

GROUP = "demo.restow.dev"
TROUBLE_GROUP = "without.restow.dev"
KIND, PLURAL = "Database", "databases"
OLD, NEW = "v1alpha1", "v1beta1"
DEFAULT_POLICY = "Retain"


class Life(Enum):
    """Where v1alpha1 is in its life."""

    ALONE = "the only version"
    SUCCEEDED = "served beside v1beta1, which is the storage version"
    UNSERVED = "not served any more"
    REMOVED = "gone from the CRD"


def crd_name(group: str) -> str:
    """Return the CRD's name."""
    return f"{PLURAL}.{group}"


def databases(group: str, version: str) -> Resource:
    """Return how databases are addressed at a version."""
    return Resource(group, version, PLURAL, namespaced=True)


def crd(group: str, life: Life) -> dict[str, Any]:
    """Return the CRD as one would apply it."""
    old = _version(OLD, served=life is not Life.UNSERVED, storage=life is Life.ALONE, spec={}, conditions={})
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
            "versions": [old] if life is Life.ALONE else [new] if life is Life.REMOVED else [new, old],
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

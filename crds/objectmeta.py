"""The schema nodes that the API server adds to every CRD and no CRD declares: apiVersion, kind, metadata.

Every custom resource, and every ``x-kubernetes-embedded-resource`` inside one, has these fields. Their list types
decide who owns a finalizer or an owner reference in managedFields.
Source: ``io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta`` in the API server's published OpenAPI (1.36). The CRD type
converter uses it instead of a CRD's own ``metadata`` schema.

Pure: constants, never to be mutated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_STRING: Final = {"type": "string"}
_INTEGER: Final = {"type": "integer", "format": "int64"}
_BOOLEAN: Final = {"type": "boolean"}
_TIME: Final = {"type": "string", "format": "date-time"}
_STRING_MAP: Final = {"type": "object", "additionalProperties": _STRING}

_OWNER_REFERENCE: Final = {
    "type": "object",
    "x-kubernetes-map-type": "atomic",
    "required": ["apiVersion", "kind", "name", "uid"],
    "properties": {
        "apiVersion": _STRING,
        "blockOwnerDeletion": _BOOLEAN,
        "controller": _BOOLEAN,
        "kind": _STRING,
        "name": _STRING,
        "uid": _STRING,
    },
}

_MANAGED_FIELDS_ENTRY: Final = {
    "type": "object",
    "properties": {
        "apiVersion": _STRING,
        "fieldsType": _STRING,
        "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "manager": _STRING,
        "operation": _STRING,
        "subresource": _STRING,
        "time": _TIME,
    },
}

OBJECT_META: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "annotations": _STRING_MAP,
        "creationTimestamp": _TIME,
        "deletionGracePeriodSeconds": _INTEGER,
        "deletionTimestamp": _TIME,
        "finalizers": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set"},
        "generateName": _STRING,
        "generation": _INTEGER,
        "labels": _STRING_MAP,
        "managedFields": {
            "type": "array",
            "items": _MANAGED_FIELDS_ENTRY,
            "x-kubernetes-list-type": "atomic",
        },
        "name": _STRING,
        "namespace": _STRING,
        "ownerReferences": {
            "type": "array",
            "items": _OWNER_REFERENCE,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
        },
        "resourceVersion": _STRING,
        "selfLink": _STRING,
        "uid": _STRING,
    },
}

IMPLICIT_PROPERTIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "apiVersion": _STRING,
    "kind": _STRING,
    "metadata": OBJECT_META,
}

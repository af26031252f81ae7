"""CRDs, managedFields entries and schemas in few words, so that a test shows only what it is about."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from restow.crds import Crd
from restow.crds.fieldpath import FieldSet
from restow.migrator.decide.proof import ANNOTATION, proof_of_run
from restow.migrator.model.options import Options
from restow.migrator.ownership.entries import FIELD_MANAGER, ManagedFieldsEntry

Node: TypeAlias = dict[str, Any]

GROUP = "example.com"
STRING: Node = {"type": "string"}
INTEGER: Node = {"type": "integer"}
ANYTHING: Node = {"x-kubernetes-preserve-unknown-fields": True}
EVERYTHING_KEPT: Node = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def struct(**properties: Node) -> Node:
    """An object with these fields, owned field by field."""
    return {"type": "object", "properties": properties}


def mapping(values: Node) -> Node:
    """An object with any keys, owned key by key."""
    return {"type": "object", "additionalProperties": values}


def atomic(node: Node) -> Node:
    """The same object, owned as a whole."""
    return node | {"x-kubernetes-map-type": "atomic"}


def atomic_list(items: Node) -> Node:
    """A list owned as a whole."""
    return {"type": "array", "items": items, "x-kubernetes-list-type": "atomic"}


def set_list(items: Node) -> Node:
    """A list owned value by value."""
    return {"type": "array", "items": items, "x-kubernetes-list-type": "set"}


def keyed_list(items: Node, *keys: str) -> Node:
    """A list owned item by item, told apart by these fields."""
    return {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
    }


def crd_document(
    versions: Sequence[str] = ("v1", "v2"),
    *,
    storage: str = "v2",
    unserved: Iterable[str] = (),
    stored: Sequence[str] | None = None,
    schemas: Mapping[str, Node] | None = None,
    webhook: bool = False,
    uid: str = "uid-1",
    generation: int = 1,
    annotations: Mapping[str, str] | None = None,
    managed_fields: Sequence[Mapping[str, Any]] = (),
    terminating: bool = False,
    conditions: Mapping[str, str] | None = None,
    ca_bundle: str = "",
) -> Node:
    """The document of a CRD ``widgets.example.com``; ``stored`` is the storage version alone unless said otherwise.

    Args:
        versions: its versions, all of them served but those in ``unserved``.
        schemas: by version; a version without one keeps every field of ``spec`` and ``status``.
        conditions: status by type, e.g. ``{"StorageMigrating": "True"}``; Established unless said otherwise.
    """
    conversion: dict[str, Any] = {"strategy": "None"}
    if webhook:
        conversion = {
            "strategy": "Webhook",
            "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://localhost/convert", "caBundle": ca_bundle},
            },
        }
    default = struct(spec=EVERYTHING_KEPT, status=EVERYTHING_KEPT)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"widgets.{GROUP}",
            "uid": uid,
            "generation": generation,
            "resourceVersion": "7",
            "annotations": dict(annotations or {}),
            "managedFields": list(managed_fields),
        }
        | ({"deletionTimestamp": "2024-05-01T10:00:00Z"} if terminating else {}),
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "conversion": conversion,
            "versions": [
                {
                    "name": name,
                    "served": name not in set(unserved),
                    "storage": name == storage,
                    "schema": {"openAPIV3Schema": (schemas or {}).get(name, default)},
                }
                for name in versions
            ],
        },
        "status": {
            "storedVersions": [storage] if stored is None else list(stored),
            "conditions": [
                {"type": kind, "status": status, "reason": "Told", "message": f"told {kind}"}
                for kind, status in ({"Established": "True"} | dict(conditions or {})).items()
            ],
        },
    }


def crd(versions: Sequence[str] = ("v1", "v2"), **more: Any) -> Crd:
    """The CRD of ``crd_document``, which takes the same arguments."""
    return Crd.from_document(crd_document(versions, **more))


def proved(crd: Crd, options: Options | None = None, *, by: Crd | None = None) -> Crd:
    """The CRD with the proof that a run with these options left on it, or on another state of it (``by``)."""
    proof = proof_of_run(by or crd, by or crd, options or Options())
    assert proof is not None
    return with_mark(crd, proof.encode())


def with_mark(crd: Crd, value: str, manager: str = FIELD_MANAGER) -> Crd:
    """The CRD with an annotation of restow's, written by a field manager."""
    fields = {"f:metadata": {"f:annotations": {f"f:{ANNOTATION}": {}}}}
    entry = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "apiextensions.k8s.io/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    others = [each for each in crd.managed_fields if each.get("fieldsV1") != fields]
    annotations = {**crd.annotations, ANNOTATION: value}
    return dataclasses.replace(crd, annotations=annotations, managed_fields=(*others, entry))


def api_version(version: str) -> str:
    """``example.com/<version>``."""
    return f"{GROUP}/{version}"


def raw(fields: FieldSet) -> msgspec.Raw:
    """A field set as on the wire, encoded by another encoder than the one under test."""
    return msgspec.Raw(json.dumps(fields).encode())


def entry(
    manager: str = "alice",
    version: str = "v1",
    fields: FieldSet | None = None,
    *,
    operation: str = "Apply",
    subresource: str = "",
    time: str = "2024-05-01T10:00:00Z",
) -> ManagedFieldsEntry:
    """A managedFields entry; it owns ``spec.size`` unless said otherwise."""
    return ManagedFieldsEntry(
        manager=manager,
        operation=operation,
        api_version=api_version(version),
        time=time,
        fields_type="FieldsV1",
        fields=raw({"f:spec": {"f:size": {}}} if fields is None else fields),
        subresource=subresource,
    )


def fields_of(one: ManagedFieldsEntry) -> FieldSet:
    """The decoded field set of an entry, by another decoder than the one under test."""
    decoded: FieldSet = json.loads(bytes(one.fields))
    return decoded

"""The custom resource that is migrated: its CRD in three variants, and what two appliers say of an object."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

__all__ = ["APPLIERS", "GROUP", "VERSIONS", "Variant", "applied_by", "crd", "versions"]

GROUP = "bench.restow.dev"
VERSIONS = ("v1", "v2")
APPLIERS = ("gitops", "autoscaler")


class Variant(StrEnum):
    """What distinguishes a set of objects.

    - ``plain``: v1 and v2 have the same schema; two appliers own the objects.
    - ``untracked``: the same without managedFields, which only the empty patch migrates without adding any.
    - ``defaulted``: v2 has a default that v1 does not know.
    """

    PLAIN = "plain"
    UNTRACKED = "untracked"
    DEFAULTED = "defaulted"


def crd(plural: str, variant: Variant, storage: str) -> dict[str, Any]:
    """Return the CRD, namespaced, with strategy None."""
    singular = plural.removesuffix("s")
    kind = singular.capitalize()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": kind, "listKind": f"{kind}List"},
            "versions": versions(variant, storage),
        },
    }


def versions(variant: Variant, storage: str) -> list[dict[str, Any]]:
    """Return ``spec.versions`` with this storage version."""
    return [
        {
            "name": name,
            "served": True,
            "storage": name == storage,
            "schema": {"openAPIV3Schema": _schema(with_default=variant is Variant.DEFAULTED and name == "v2")},
            "subresources": {"status": {}},
        }
        for name in VERSIONS
    ]


def applied_by(manager: str, name: str) -> dict[str, Any]:
    """Return what one applier says of an object, besides its type."""
    if manager == "autoscaler":
        return {"metadata": {"name": name, "annotations": {"autoscaler/decided": "3"}}, "spec": {"replicas": 3}}
    return {
        "metadata": {"name": name, "labels": {"app": "shop", "tier": "backend", "team": "orders"}},
        "spec": {
            "image": "registry.example/shop/backend:1.42.0",
            "paused": False,
            "settings": {f"setting-{number}": f"value {number}" for number in range(6)},
            "ports": [{"name": "http", "port": 8080}, {"name": "metrics", "port": 9090}],
            "strategy": {"maxSurge": 2, "maxUnavailable": 1},
        },
    }


def _schema(*, with_default: bool) -> dict[str, Any]:
    text, number = {"type": "string"}, {"type": "integer"}
    spec: dict[str, Any] = {
        "image": text,
        "paused": {"type": "boolean"},
        "replicas": number,
        "settings": {"type": "object", "additionalProperties": text},
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": text, "port": number}},
        },
        "strategy": {"type": "object", "properties": {"maxSurge": number, "maxUnavailable": number}},
    }
    if with_default:
        spec["revisionHistoryLimit"] = {"type": "integer", "default": 10}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}, "status": status}}

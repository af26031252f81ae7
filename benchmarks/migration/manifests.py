"""The custom resource that is migrated: its CRD in four variants, and the manifests of two appliers."""

from __future__ import annotations

import base64
from enum import StrEnum
from typing import Any, TypeAlias

__all__ = [
    "APPLIERS",
    "CONVERTED",
    "GROUP",
    "VERSIONS",
    "Json",
    "Variant",
    "applied_by",
    "conversion",
    "crd",
    "versions",
]

Json: TypeAlias = dict[str, Any]

GROUP = "bench.restow.dev"
VERSIONS = ("v1", "v2")
APPLIERS = ("gitops", "autoscaler")
CONVERTED = ("image", "containerImage")  # the name of a field at v1, and at v2 of the converted variant


class Variant(StrEnum):
    """The variant of a set of objects.

    - ``plain``: v1 and v2 have the same schema; two appliers own the objects.
    - ``untracked``: the same without managedFields; only the empty patch migrates them without adding any.
    - ``defaulted``: v2 has a default that v1 does not have.
    - ``converted``: v2 has another name for a field, and a webhook converts.
    """

    PLAIN = "plain"
    UNTRACKED = "untracked"
    DEFAULTED = "defaulted"
    CONVERTED = "converted"


def conversion(url: str, ca: bytes) -> Json:
    """Return ``spec.conversion`` of a CRD that the webhook at this URL converts."""
    client = {"url": url, "caBundle": base64.b64encode(ca).decode()}
    return {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}}


def crd(plural: str, variant: Variant, storage: str, converted_by: Json | None = None) -> Json:
    """Return the namespaced CRD, with strategy None unless ``converted_by`` is given."""
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
            "conversion": converted_by or {"strategy": "None"},
        },
    }


def versions(variant: Variant, storage: str) -> list[Json]:
    """Return ``spec.versions`` with this storage version."""
    return [
        {
            "name": name,
            "served": True,
            "storage": name == storage,
            "schema": {"openAPIV3Schema": _schema(variant if name == "v2" else Variant.PLAIN)},
            "subresources": {"status": {}},
        }
        for name in VERSIONS
    ]


def applied_by(manager: str, name: str) -> Json:
    """Return one applier's manifest of an object, without its type."""
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


def _schema(variant: Variant) -> Json:
    text, number = {"type": "string"}, {"type": "integer"}
    spec: Json = {
        CONVERTED[variant is Variant.CONVERTED]: text,
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
    if variant is Variant.DEFAULTED:
        spec["revisionHistoryLimit"] = {"type": "integer", "default": 10}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}, "status": status}}

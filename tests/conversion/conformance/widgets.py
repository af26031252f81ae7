"""A conversion webhook written by hand, without restow, as a project in any language would run one.

Widgets at three versions; nothing of a version is lost in another one: v1alpha1 says ``spec.host``, and ``title`` and
``weight`` of its ports; v1beta1 and v1 say ``spec.address``, ``name`` and ``load``; v1 also says ``spec.label`` where
the others say ``spec.tag``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from restow.crds import Crd

Json = dict[str, Any]

GROUP = "widgets.example.dev"
VERSIONS = ("v1alpha1", "v1beta1", "v1")

#: What each version calls a field of the spec, and of an item of its ports.
SPEC: Mapping[str, Mapping[str, str]] = {
    "v1alpha1": {"host": "host", "tag": "tag"},
    "v1beta1": {"host": "address", "tag": "tag"},
    "v1": {"host": "address", "tag": "label"},
}
PORT: Mapping[str, Mapping[str, str]] = {
    "v1alpha1": {"name": "title", "load": "weight"},
    "v1beta1": {"name": "name", "load": "load"},
    "v1": {"name": "name", "load": "load"},
}


class Refusal(Exception):
    """An object that cannot be converted."""


def convert(obj: Json, desired: str) -> Json:
    """Convert one object; raises Refusal."""
    source, target = (text.removeprefix(f"{GROUP}/") for text in (str(obj["apiVersion"]), desired))
    if obj["kind"] != "Widget" or source not in VERSIONS or target not in VERSIONS:
        name = (obj.get("metadata") or {}).get("name", "")
        raise Refusal(f"cannot convert {name} from {source} to {target}")
    converted = {**obj, "apiVersion": desired, "metadata": obj.get("metadata") or {}}
    spec = obj.get("spec")
    if isinstance(spec, dict):
        converted["spec"] = renamed(spec, SPEC[source], SPEC[target])
        if isinstance(spec.get("ports"), list):
            converted["spec"]["ports"] = [renamed(port, PORT[source], PORT[target]) for port in spec["ports"]]
    return converted


def renamed(fields: Json, source: Mapping[str, str], target: Mapping[str, str]) -> Json:
    """Rename fields from one version's names to another's."""
    names = {source[meaning]: target[meaning] for meaning in source}
    return {names.get(name, name): value for name, value in fields.items()}


def crd() -> Crd:
    """The CRD."""
    return Crd.from_document(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"widgets.{GROUP}"},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
                "versions": [
                    {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema(name)}}
                    for name in VERSIONS
                ],
            },
        }
    )


def schema(version: str) -> Json:
    """The schema of a version."""
    port = {
        "type": "object",
        "required": [PORT[version]["name"]],
        "properties": {
            PORT[version]["name"]: {"type": "string"},
            PORT[version]["load"]: {"type": "integer"},
        },
    }
    spec = {
        SPEC[version]["host"]: {"type": "string"},
        SPEC[version]["tag"]: {"type": "string"},
        "size": {"type": "integer"},
        "on": {"type": "boolean"},
        "ports": {
            "type": "array",
            "items": port,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": [PORT[version]["name"]],
        },
    }
    return {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": spec},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }

"""Catalogs: a custom resource whose versions differ in structure, and the converter of their provider.

v1 says of each version ``classification`` and ``expirationDate`` where v2 has a ``lifecycle`` of stages; ``host``,
``suspended`` and ``status.phase`` have other names in v2, conditions are a list of type map there, and ``debug`` is
gone. What one version cannot say is kept in an annotation on objects of it.
"""

from __future__ import annotations

import json

from tests.apiserver.kind import Document, struct
from tests.apiserver.webhook import ConvertedKind

STASH = "example.com/stash"
"""The annotation that holds what the version of an object cannot say."""

_RENAMED = {"host": "address", "suspended": "paused"}


def converted(found: Document, desired: str) -> Document:
    """An object at another apiVersion: what is absent there is absent here."""
    if found["apiVersion"] == desired:
        return found
    return _to_v2(found, desired) if desired.endswith("v2") else _to_v1(found, desired)


def typed(found: Document, desired: str) -> Document:
    """The same, as a converter over typed structs does it: what is absent comes out as its type's empty value."""
    made = converted(found, desired)
    paused = "paused" if desired.endswith("v2") else "suspended"
    spec = made.get("spec", {})
    endpoint = {"name": "", "port": 0} | spec.get("endpoint", {})
    return made | {"spec": {"size": 0, paused: False} | spec | {"endpoint": endpoint}, "status": made.get("status", {})}


def _to_v2(found: Document, desired: str) -> Document:
    kept, made = _unsealed(found, desired)
    if "spec" in made:
        spec = {_RENAMED.get(name, name): value for name, value in made["spec"].items()}
        debug = {name: spec.pop(name) for name in ("debug",) if name in spec}
        if "versions" in spec:
            stages = kept.get("lifecycles", {})
            spec["versions"] = [_with_lifecycle(item, stages.get(item.get("version"))) for item in spec["versions"]]
        made["spec"] = spec
        _seal(made, debug)
    if "phase" in made.get("status", {}):
        made["status"] = {"state" if name == "phase" else name: value for name, value in made["status"].items()}
    return made


def _to_v1(found: Document, desired: str) -> Document:
    kept, made = _unsealed(found, desired)
    if "spec" in made:
        back = {new: old for old, new in _RENAMED.items()}
        spec = {back.get(name, name): value for name, value in made["spec"].items()} | kept
        lifecycles = {}
        if "versions" in spec:
            spec["versions"] = [_with_classification(item) for item in spec["versions"]]
            for item, shown in zip(made["spec"]["versions"], spec["versions"], strict=True):
                if _with_lifecycle(shown, None) != item:
                    lifecycles[item["version"]] = item["lifecycle"]
        made["spec"] = spec
        _seal(made, {"lifecycles": lifecycles} if lifecycles else {})
    if "state" in made.get("status", {}):
        made["status"] = {"phase" if name == "state" else name: value for name, value in made["status"].items()}
    return made


def _with_lifecycle(item: Document, kept: list[Document] | None) -> Document:
    plain = {name: value for name, value in item.items() if name not in ("classification", "expirationDate")}
    stages = [{"classification": item["classification"]}] if "classification" in item else []
    if "expirationDate" in item:
        stages.append({"classification": "expired", "startTime": item["expirationDate"]})
    if kept is not None and _with_classification(plain | {"lifecycle": kept}) == item:
        stages = kept
    return plain | ({"lifecycle": stages} if stages else {})


def _with_classification(item: Document) -> Document:
    plain = {name: value for name, value in item.items() if name != "lifecycle"}
    for stage in item.get("lifecycle", []):
        if stage["classification"] == "expired":
            plain |= {"expirationDate": stage["startTime"]} if "startTime" in stage else {}
        elif "classification" not in plain:
            plain["classification"] = stage["classification"]
    return plain


def _unsealed(found: Document, desired: str) -> tuple[Document, Document]:
    annotations = dict(found["metadata"].get("annotations") or {})
    kept = json.loads(annotations.pop(STASH, "{}"))
    metadata = {name: value for name, value in found["metadata"].items() if name != "annotations"}
    return kept, found | {
        "apiVersion": desired,
        "metadata": metadata | ({"annotations": annotations} if annotations else {}),
    }


def _seal(made: Document, kept: Document) -> None:
    if kept:
        annotations = made["metadata"].get("annotations", {})
        made["metadata"]["annotations"] = annotations | {STASH: json.dumps(kept, sort_keys=True)}


_TEXT: Document = {"type": "string"}


def _keyed(items: Document, key: str) -> Document:
    keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return {"type": "array", "items": items | {"required": [key]}} | keys


_ENDPOINT = struct(name=_TEXT, port={"type": "integer"})
_CONDITION = struct(type=_TEXT, status=_TEXT) | {"required": ["type"]}
_ZONES = {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"}

SCHEMAS: dict[str, Document] = {
    "v1": struct(
        spec=struct(
            size={"type": "integer"},
            host=_TEXT,
            suspended={"type": "boolean"},
            debug=_TEXT,
            endpoint=_ENDPOINT,
            zones=_ZONES,
            versions=_keyed(struct(version=_TEXT, classification=_TEXT, expirationDate=_TEXT), "version"),
        ),
        status=struct(phase=_TEXT, conditions={"type": "array", "items": _CONDITION}),
    ),
    "v2": struct(
        spec=struct(
            size={"type": "integer"},
            address=_TEXT,
            paused={"type": "boolean"},
            endpoint=_ENDPOINT,
            zones=_ZONES,
            versions=_keyed(
                struct(
                    version=_TEXT,
                    lifecycle=_keyed(struct(classification=_TEXT, startTime=_TEXT), "classification"),
                ),
                "version",
            ),
        ),
        status=struct(state=_TEXT, conditions=_keyed(_CONDITION, "type")),
    ),
}


class CatalogKind(ConvertedKind):
    """Catalogs at v1 and v2 with strategy Webhook."""

    schemas = SCHEMAS
    converts = staticmethod(converted)

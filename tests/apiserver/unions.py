"""Unions: a custom resource in which one field tells the place of another, and the converter of their provider.

v1 says ``type`` and ``value`` where v2 has the value below the type, ``a.value`` or ``b.value``; also ``level`` of
the status. ``parts`` is a list keyed by name in v1 and a map in v2. ``debug`` is gone from v2; it is kept in an
annotation on objects of v2.
"""

from __future__ import annotations

from tests.apiserver.kind import Document, struct
from tests.apiserver.webhook import ConvertedKind

DEBUG = "example.com/debug"
"""The annotation that holds what v2 cannot say."""

SIDES = ("a", "b")


def converted(found: Document, desired: str) -> Document:
    """An object at another apiVersion; a value whose type is not there has no place in v2."""
    if found["apiVersion"] == desired:
        return found
    made = found | {"apiVersion": desired}
    made["metadata"] = dict(found["metadata"])
    annotations = dict(made["metadata"].pop("annotations", None) or {})
    kept = annotations.pop(DEBUG, None)
    to_v2 = desired.endswith("v2")
    if "spec" in found:
        spec = dict(found["spec"])
        (_sorted_out if to_v2 else _put_together)(spec, "value")
        if "parts" in spec:
            spec["parts"] = _map(spec["parts"]) if to_v2 else _list(spec["parts"])
        if to_v2 and "debug" in spec:
            annotations[DEBUG] = spec.pop("debug")
        elif not to_v2 and kept is not None:
            spec["debug"] = kept
        made["spec"] = spec
    if "status" in found:
        made["status"] = dict(found["status"])
        (_sorted_out if to_v2 else _put_together)(made["status"], "level")
    if annotations:
        made["metadata"]["annotations"] = annotations
    return made


def defaulting(found: Document, desired: str) -> Document:
    """The same, as a converter does it that fills in what is absent: a type comes with a value, and so does b."""
    made = converted(found, desired)
    if desired.endswith("v2"):
        sides = {side: {"value": "none"} for side in (made.get("spec", {}).get("type"), "b") if side in SIDES}
        made["spec"] = sides | made.get("spec", {})
    return made


def _sorted_out(part: Document, name: str) -> None:
    """Put a value below its type."""
    value = part.pop(name, None)
    if value is not None and part.get("type") in SIDES:
        part[part["type"]] = {name: value}


def _put_together(part: Document, name: str) -> None:
    """Put a value next to its type."""
    below = {side: part.pop(side, {}) for side in SIDES}
    value = below.get(part.get("type", ""), {}).get(name)
    if value is not None:
        part[name] = value


def _map(items: list[Document]) -> Document:
    return {item["name"]: {key: value for key, value in item.items() if key != "name"} for item in items}


def _list(items: Document) -> list[Document]:
    return [{"name": name} | item for name, item in sorted(items.items())]


_TEXT: Document = {"type": "string"}
_COUNT: Document = {"type": "integer"}


_PARTS = {
    "type": "array",
    "items": struct(name=_TEXT, count=_COUNT) | {"required": ["name"]},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
}
_SIDE = struct(value=_TEXT)
_LEVEL = struct(level=_COUNT)

SCHEMAS: dict[str, Document] = {
    "v1": struct(
        spec=struct(type=_TEXT, value=_TEXT, size=_COUNT, debug=_TEXT, parts=_PARTS),
        status=struct(type=_TEXT, level=_COUNT),
    ),
    "v2": struct(
        spec=struct(
            type=_TEXT,
            a=_SIDE,
            b=_SIDE,
            size=_COUNT,
            parts={"type": "object", "additionalProperties": struct(count=_COUNT)},
        ),
        status=struct(type=_TEXT, a=_LEVEL, b=_LEVEL),
    ),
}


class UnionKind(ConvertedKind):
    """Unions at v1 and v2 with strategy Webhook."""

    schemas = SCHEMAS
    converts = staticmethod(converted)

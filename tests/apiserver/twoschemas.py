"""What of an object, and of who owns it, two raw OpenAPI schemas both know: computed without restow.

A node is a schema as it stands in a CRD. What a schema does not describe it does not know, unless it says
``x-kubernetes-preserve-unknown-fields``. The rules of ownership are those of server-side apply: a scalar, and an atomic
list or map, is owned as one; a keyed list item by item; any other object field by field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.apiserver.kind import Document, Owned

_ANY: Document = {"x-kubernetes-preserve-unknown-fields": True}
_TEXTS: Document = {"type": "object", "additionalProperties": {"type": "string"}}
_FINALIZERS: Document = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
_METADATA: Document = {
    "type": "object",
    "properties": {"labels": _TEXTS, "annotations": _TEXTS, "finalizers": _FINALIZERS},
    **_ANY,
}


def rooted(schema: Document) -> Document:
    """A version's schema with what every object has."""
    implied = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": _METADATA}
    return schema | {"properties": schema["properties"] | implied}


def known(value: Any, node: Document) -> Any:
    """The part of a value that a schema knows."""
    if isinstance(value, dict):
        return {key: known(child, below) for key, child in value.items() if (below := _field(node, key)) is not None}
    if isinstance(value, list):
        return [known(item, _items(node)) for item in value]
    return value


def restricted(value: Any, node: Document) -> Any:
    """As ``known``, for a manifest: an object of which nothing is left is left out, or its ``{}`` would be owned."""
    if isinstance(value, dict):
        below = {key: (child, _field(node, key)) for key, child in value.items()}
        kept = {key: (child, restricted(child, field)) for key, (child, field) in below.items() if field is not None}
        return {key: left for key, (child, left) in kept.items() if left or not child}
    if isinstance(value, list):
        return [restricted(item, _items(node)) for item in value]
    return value


def unknown(value: Any, node: Document, path: str = "") -> Iterator[str]:
    """The uppermost fields of a value that a schema does not know: ``.spec.list[].field``."""
    if isinstance(value, dict):
        for key, child in value.items():
            below = _field(node, key)
            if below is None:
                yield f"{path}.{key}"
            else:
                yield from unknown(child, below, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from unknown(item, _items(node), f"{path}[]")


def must_own(document: Document, old: Document, new: Document) -> Owned:
    """Who has to own which paths under ``new`` of an object stored under ``old``, as far as both know them.

    Entries of one manager at several versions count together.
    """
    return _owned(document, old, new, expand=True)


def owns(document: Document, old: Document, new: Document) -> Owned:
    """Who owns which paths of an object, as far as both schemas know them."""
    return _owned(document, old, new, expand=False)


def _owned(document: Document, old: Document, new: Document, *, expand: bool) -> Owned:
    found: Owned = {}
    for entry in document["metadata"].get("managedFields", []):
        owner = (entry["manager"], entry["operation"], entry.get("subresource", ""))
        older = expand and entry["apiVersion"] == document["apiVersion"]
        paths = _members(entry["fieldsV1"], old, new, document, "", expand=older)
        found[owner] = found.get(owner, frozenset()) | frozenset(paths)
    return found


def _members(fields: Document, old: Document, new: Document, live: Any, path: str, *, expand: bool) -> Iterator[str]:
    for element, node in fields.items():
        if element == ".":
            continue
        was, now = _at(old, element), _at(new, element)
        if was is None or now is None:
            continue
        value, here = _value(live, element), f"{path}/{element}"
        leaf = not node or set(node) == {"."}
        if expand and leaf and _is_one(was) and not _is_one(now):
            yield from _everything(value, now, here)
        elif leaf or "." in node:
            yield here
        yield from _members(node, was, now, value, here, expand=expand)


def _everything(value: Any, node: Document, path: str) -> Iterator[str]:
    """The paths that whoever owns all of a value owns."""
    if _is_one(node) or not value:
        yield path
    elif isinstance(value, list):
        for item in value:
            keys = {key: item[key] for key in node["x-kubernetes-list-map-keys"]}
            here = f"{path}/k:{json.dumps(keys, separators=(',', ':'), sort_keys=True)}"
            yield here
            yield from _everything(item, node["items"], here)
    else:
        for key, child in value.items():
            below = _field(node, key)
            if below is not None:
                if key not in node.get("properties", {}):
                    yield f"{path}/f:{key}"
                yield from _everything(child, below, f"{path}/f:{key}")


def _is_one(node: Document) -> bool:
    """Whether a value here is owned as one."""
    if node.get("type") == "array":
        return bool(node.get("x-kubernetes-list-type", "atomic") == "atomic")
    if node.get("type") == "object" or "x-kubernetes-preserve-unknown-fields" in node:
        return bool(node.get("x-kubernetes-map-type") == "atomic")
    return True


def _at(node: Document, element: str) -> Document | None:
    return _field(node, element[2:]) if element.startswith("f:") else _items(node)


def _field(node: Document, key: str) -> Document | None:
    if key in node.get("properties", {}):
        found: Document = node["properties"][key]
        return found
    if isinstance(node.get("additionalProperties"), dict):
        values: Document = node["additionalProperties"]
        return values
    return _ANY if node.get("x-kubernetes-preserve-unknown-fields") else None


def _items(node: Document) -> Document:
    return node.get("items") or (_ANY if node.get("x-kubernetes-preserve-unknown-fields") else {})


def _value(live: Any, element: str) -> Any:
    """The value that a path element names; None where there is none any more."""
    if element.startswith("f:"):
        return live.get(element[2:]) if isinstance(live, dict) else None
    wanted = json.loads(element[2:])
    if not isinstance(live, list) or element.startswith("v:"):
        return wanted
    found = (item for item in live if isinstance(item, dict))
    return next((item for item in found if all(item.get(key) == text for key, text in wanted.items())), None)

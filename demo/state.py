"""The stored state: objects as etcd stores them, and the owners of their fields. Pure.

The API server converts every object that it returns; only the bytes in etcd show the version that an object is stored
at. This module decodes and compares these bytes. It shares no code with the migrator, so that both cannot be wrong in
the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeAlias

from demo.fixtures import DEFAULT_POLICY, PLURAL

__all__ = [
    "Owner",
    "Path",
    "StoredEntry",
    "StoredObject",
    "StoredObjects",
    "items_owned",
    "key_prefix",
    "owned_paths",
    "owners",
    "stored",
]

Path: TypeAlias = tuple[str, ...]
"""A member of a field set: its path elements in the FieldsV1 notation, with the JSON in them in one canonical form."""

Owner: TypeAlias = tuple[str, str, str]
"""Manager, operation, subresource."""

StoredObjects: TypeAlias = Mapping[str, "StoredObject"]
"""All stored objects by ``namespace/name``."""

CONDITIONS: Path = ("f:status", "f:conditions")


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One managedFields entry."""

    owner: Owner
    api_version: str
    paths: frozenset[Path]


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object as etcd stores it.

    Attributes:
        content: the fields that people and programs wrote: spec (with v1beta1's default if it is absent), status,
            labels, annotations, finalizers, and the times of creation and deletion.
        digest: the SHA-256 of the bytes.
    """

    uid: str
    api_version: str
    generation: int
    entries: tuple[StoredEntry, ...]
    content: Mapping[str, Any]
    digest: str


def key_prefix(group: str) -> str:
    """Return the prefix of all databases' keys in etcd."""
    return f"/registry/{group}/{PLURAL}/"


def stored(value: bytes) -> StoredObject:
    """Decode an object from the bytes in etcd."""
    document: dict[str, Any] = json.loads(value)
    metadata = document["metadata"]
    kept = ("labels", "annotations", "finalizers", "creationTimestamp", "deletionTimestamp", "ownerReferences")
    content = {
        "spec": {"deletionPolicy": DEFAULT_POLICY} | document.get("spec", {}),
        "status": document.get("status"),
        **{name: metadata.get(name) for name in kept},
    }
    return StoredObject(
        uid=metadata["uid"],
        api_version=document["apiVersion"],
        generation=metadata.get("generation", 0),
        entries=tuple(_entry(each) for each in metadata.get("managedFields", [])),
        content=content,
        digest=sha256(value).hexdigest(),
    )


def _entry(entry: Mapping[str, Any]) -> StoredEntry:
    return StoredEntry(
        owner=(entry["manager"], entry["operation"], entry.get("subresource", "")),
        api_version=entry["apiVersion"],
        paths=owned_paths(entry.get("fieldsV1", {})),
    )


def owned_paths(fields: Mapping[str, Any]) -> frozenset[Path]:
    """Return the members of a field set: every node that is empty or has the member ``.``."""
    return frozenset(_members(fields, ()))


def _members(node: Mapping[str, Any], path: Path) -> Iterator[Path]:
    if path and (not node or "." in node):
        yield path
    for element, child in node.items():
        if element != ".":
            yield from _members(child, (*path, _spelt(element)))


def _spelt(element: str) -> str:
    kind, _, rest = element.partition(":")
    if kind not in ("k", "v"):
        return element
    return f"{kind}:{json.dumps(json.loads(rest), sort_keys=True)}"


def owners(each: StoredObject) -> dict[Owner, frozenset[Path]]:
    """Return the fields of each owner in all of its entries (Update managers have one entry per version)."""
    owned: dict[Owner, frozenset[Path]] = {}
    for entry in each.entries:
        owned[entry.owner] = owned.get(entry.owner, frozenset()) | entry.paths
    return owned


def items_owned(paths: frozenset[Path], content: Mapping[str, Any]) -> frozenset[Path]:
    """Return a field set of v1alpha1 as the field set with the same meaning in v1beta1.

    Only the conditions differ: the owner of the atomic list now owns each of its items, and every field of each item.
    """
    if CONDITIONS not in paths:
        return paths
    items: set[Path] = set()
    for condition in (content["status"] or {}).get("conditions", []):
        item = (*CONDITIONS, _spelt("k:" + json.dumps({"type": condition["type"]})))
        items |= {item, *((*item, f"f:{name}") for name in condition)}
    return (paths - {CONDITIONS}) | items

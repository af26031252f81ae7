"""Who manages which field of a CRD's `spec.conversion`, read from its managedFields.

Why it exists: restow owns only the fields that it has to write. What it owns once must stay in every later apply of
it (a field that its only owner leaves out is removed by the server), and what somebody else applies must not be taken
away: their next apply would conflict, or write back and forth.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from restow.crds import Crd

__all__ = ["FIELD_MANAGER", "appliers", "is_ours", "sole_owner"]

#: The field manager under which restow wires CRDs.
FIELD_MANAGER: Final = "restow-wiring"

FieldPath = tuple[str, ...]


def is_ours(crd: Crd, path: FieldPath) -> bool:
    """Say whether restow owns the field at a path below `spec.conversion`."""
    return any(_is_own(entry) for entry in _owners(crd, path))


def sole_owner(crd: Crd, path: FieldPath) -> bool:
    """Say whether restow is the only one that owns the field: leaving it out of an apply then removes it."""
    owners = list(_owners(crd, path))
    return bool(owners) and all(_is_own(entry) for entry in owners)


def appliers(crd: Crd, path: FieldPath) -> tuple[str, ...]:
    """Return the other managers that apply the field (server-side apply), and so mean to keep it as it is.

    Managers of plain updates are left out: the server's own defaults count as the creator's update too.
    """
    owners = [entry for entry in _owners(crd, path) if entry.get("operation") == "Apply" and not _is_own(entry)]
    return tuple(dict.fromkeys(str(entry.get("manager") or "unknown") for entry in owners))


def _is_own(entry: Mapping[str, Any]) -> bool:
    return entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply"


def _owners(crd: Crd, path: FieldPath) -> Iterator[Mapping[str, Any]]:
    for entry in crd.managed_fields:
        node: Any = entry.get("fieldsV1") or {}
        for name in ("spec", "conversion", *path):
            node = node.get(f"f:{name}") if isinstance(node, Mapping) else None
        if node is not None:
            yield entry

"""Finds the managers of each field of an object that names a webhook, from its managedFields.

restow owns only the fields that it has to write. A field that it once owned must stay in each of its later applies,
because the server removes a field that its only owner leaves out. A field that another manager applies must not be
taken over: that manager's next apply would conflict, or both would overwrite each other repeatedly.

A path is spelled as managedFields spell it: ``("f:spec", "f:conversion", "f:strategy")``.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

#: The field manager of restow's wiring.
FIELD_MANAGER: Final = "restow-wiring"

#: The label (key, value) of the Secrets that restow fills.
MANAGED_BY: Final = ("app.kubernetes.io/managed-by", "restow")

FieldPath = tuple[str, ...]
Entries = Sequence[Mapping[str, Any]]


def is_ours(entries: Entries, path: FieldPath) -> bool:
    """Return whether restow owns the field at a path, or a field below it."""
    return any(_is_own(entry) for entry in _owning(entries, path))


def wrote(entries: Entries, path: FieldPath) -> bool:
    """Return whether restow owns the field at a path by any operation: an apply, or the patch of a takeover."""
    return any(entry.get("manager") == FIELD_MANAGER for entry in _owning(entries, path))


def sole_owner(entries: Entries, path: FieldPath) -> bool:
    """Return whether restow is the only owner of the field: an apply without the field then removes it."""
    found = list(_owning(entries, path))
    return bool(found) and all(_is_own(entry) for entry in found)


def appliers(entries: Entries, path: FieldPath) -> tuple[str, ...]:
    """Return the other managers that apply the field (server-side apply), and so intend to keep its value.

    Managers of plain updates are left out, because the server's own defaults also count as the creator's update.
    """
    return _names(entry for entry in _owning(entries, path) if entry.get("operation") == "Apply")


def owners(entries: Entries, path: FieldPath) -> tuple[str, ...]:
    """Return all other managers of the field, however they wrote it."""
    return _names(_owning(entries, path))


def last_writer(entries: Entries) -> str:
    """Return the manager that wrote last, except restow; empty if no entry shows it.

    This is a hint: a client that only removes a field leaves no entry.
    """
    others = [entry for entry in entries if not _is_own(entry) and entry.get("subresource") != "status"]
    latest = max(others, key=lambda entry: str(entry.get("time") or ""), default={})
    return str(latest.get("manager") or "")


def _names(entries: Iterator[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(entry.get("manager") or "unknown") for entry in entries if not _is_own(entry)))


def _is_own(entry: Mapping[str, Any]) -> bool:
    return entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply"


def _owning(entries: Entries, path: FieldPath) -> Iterator[Mapping[str, Any]]:
    for entry in entries:
        node: Any = entry.get("fieldsV1") or {}
        for name in path:
            node = node.get(name) if isinstance(node, Mapping) else None
        if node is not None:
            yield entry

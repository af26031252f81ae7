"""Who owns which field of an object, decided as the API server decides it, in few lines.

An update takes what it changed from every other owner and gives it to the writer; an apply owns what it sends, loses
what it no longer sends, and conflicts with other owners of a value that it changes. Source: ``fieldmanager`` of
apimachinery and ``merge/update.go`` of structured-merge-diff. Lists that change their type are not reconciled here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from restow.crds import Schema
from restow.crds.fieldpath import FieldSet, Path, from_paths
from restow.crds.ownedpaths import Members

__all__ = ["CannotConvert", "Conflicting", "Document", "Owner", "Version", "apply", "is_reset", "update"]

Document = dict[str, Any]
Version = Callable[[str], Callable[[Document], Members]]
"""Gives for an apiVersion how an object is seen at it; ``CannotConvert`` where it cannot."""

_NOT_OWNED = frozenset(
    ("f:metadata", f"f:{name}")
    for name in ("name", "namespace", "creationTimestamp", "uid", "generation", "managedFields", "resourceVersion")
)
_BEFORE_FIRST_APPLY = "before-first-apply"


class CannotConvert(Exception):
    """An object has a field that a version lacks, or a version is none of the CRD."""


class Conflicting(Exception):
    """An apply changes values that others own; the message names one of them."""


@dataclass(frozen=True)
class Owner:
    """One entry of managedFields."""

    manager: str
    operation: str
    api_version: str
    subresource: str = ""
    time: str = ""
    paths: frozenset[Path] = frozenset()

    @classmethod
    def read(cls, entry: Document) -> Owner:
        """Read an entry as it is on the wire."""
        return cls(
            entry["manager"],
            entry["operation"],
            entry["apiVersion"],
            entry.get("subresource", ""),
            entry.get("time", ""),
            frozenset(_paths(entry.get("fieldsV1") or {})),
        )

    def entry(self) -> Document:
        """Write the entry as it is on the wire."""
        return {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": from_paths(sorted(self.paths)),
        } | ({"subresource": self.subresource} if self.subresource else {})

    def same(self, other: Owner) -> bool:
        """Whether both are one entry: an applier has one for all versions, an updater one for each."""
        mine, theirs = ((each.manager, each.operation, each.subresource) for each in (self, other))
        return mine == theirs and (self.operation == "Apply" or self.api_version == other.api_version)


def is_reset(entries: object) -> bool:
    """Whether a request asks for an empty managedFields: one entry without content."""
    return isinstance(entries, list) and len(entries) == 1 and not any(entries[0].values())


def update(live: Document, new: Document, owners: Sequence[Owner], writer: Owner, at: Version) -> list[Owner]:
    """Return the owners after a create or a write that replaces values; none are made for an object without any."""
    if not owners and "uid" in live.get("metadata", {}):
        return []
    kept, compared = _without_changes(live, new, owners, at, force=True)
    before = next((each.paths for each in kept if each.same(writer)), frozenset())
    return _put(kept, replace(writer, paths=before | compared)) if compared else kept


def apply(
    live: Document,
    config: Document,
    owners: Sequence[Owner],
    writer: Owner,
    at: Version,
    schema: Schema,
    *,
    force: bool,
) -> tuple[Document, list[Owner]]:
    """Return the object and its owners after a server-side apply."""
    if not owners and live:
        first = replace(writer, manager=_BEFORE_FIRST_APPLY, operation="Update", subresource="")
        owners = [replace(first, paths=frozenset(_members(live, at(first.api_version))))]
    last = next((each.paths for each in owners if each.same(writer)), frozenset())
    others = [each for each in owners if not each.same(writer)]
    mine = frozenset(_members(config, at(writer.api_version)))
    new = _merged(live, config, schema)
    still = mine.union(*(each.paths for each in others))
    for path in sorted(last - still, key=len):
        if not any(each[: len(path)] == path for each in still):
            _remove(new, path, schema)
    kept, _changed = _without_changes(live, new, others, at, force=force)
    before = next((each for each in owners if each.same(writer)), None)
    if before is not None and before.paths == mine and before.api_version == writer.api_version and new == live:
        writer = replace(writer, time=before.time)
    return new, _put(kept, replace(writer, paths=mine))


def _without_changes(
    live: Document, new: Document, owners: Sequence[Owner], at: Version, *, force: bool
) -> tuple[list[Owner], frozenset[Path]]:
    """Take what changed from the owners; return them, and what was added or modified at the writer's version."""
    kept = []
    for each in owners:
        added, removed = _compared(live, new, at(each.api_version))
        if not force and each.paths & added:
            raise Conflicting(f'conflict with "{each.manager}" using {each.api_version}')
        if paths := each.paths - added - removed:
            kept.append(replace(each, paths=paths))
    return kept, _compared(live, new, at(new["apiVersion"]))[0]


def _compared(
    live: Document, new: Document, view: Callable[[Document], Members]
) -> tuple[frozenset[Path], frozenset[Path]]:
    """What was added or changed, and what was removed; a map or list that is new is itself added."""
    before, after = _members(live, view), _members(new, view)
    changed = {path for path in after if path not in before or before[path] != after[path]}
    around_before, around_after = _around(before), _around(after)
    return frozenset(changed | (around_after - around_before)), frozenset(
        (before.keys() - after.keys()) | (around_before - around_after)
    )


def _around(members: Members) -> set[Path]:
    """The maps and lists that hold something, but the metadata."""
    return {path[:end] for path in members for end in range(1, len(path))} - {("f:metadata",)}


def _members(found: Document, view: Callable[[Document], Members]) -> Members:
    if not found:
        return {}
    return {path: value for path, value in view(found).items() if path[:2] not in _NOT_OWNED}


def _put(owners: Sequence[Owner], one: Owner) -> list[Owner]:
    return [each for each in owners if not each.same(one)] + ([one] if one.paths else [])


def _paths(node: FieldSet, path: Path = ()) -> Iterator[Path]:
    if path and (not node or "." in node):
        yield path
    for key, child in node.items():
        if key != ".":
            yield from _paths(child, (*path, key))


def _merged(live: Any, config: Any, schema: Schema | None) -> Any:
    if schema is None or schema.is_whole(config) or type(live) is not type(config):
        return copy.deepcopy(config)
    if isinstance(config, dict):
        merged = dict(live)
        for name, value in config.items():
            merged[name] = _merged(live.get(name), value, schema.field(name))
        return merged
    items = {schema.element(item): item for item in live}
    for item in config:
        name = schema.element(item)
        items[name] = _merged(items.get(name), item, schema.items)
    return list(items.values())


def _remove(found: Any, path: Path, schema: Schema | None) -> None:
    """Remove what a path names, if it is there."""
    head, *rest = path
    if schema is None:
        return
    if isinstance(found, list):
        place = next((index for index, item in enumerate(found) if schema.element(item) == head), None)
        if place is None:
            return
        if rest:
            _remove(found[place], tuple(rest), schema.items)
        else:
            del found[place]
    elif isinstance(found, dict) and (name := head[2:]) in found:
        if rest:
            _remove(found[name], tuple(rest), schema.field(name))
        else:
            del found[name]

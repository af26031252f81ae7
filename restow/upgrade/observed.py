"""What an upgrade does to stored objects, from what the API server shows before and after it.

Objects are compared field by field, and their owners by the fields that each manager owns. A finding names objects and
fields, never a value. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from restow.crds.crddiff import CrdFinding
from restow.crds.fieldpath import FieldSet, is_leaf
from restow.crds.objectdiff import PlaceChange, object_changes
from restow.crds.paths import ROOT, field_path, items_path
from restow.crds.schemachanges import ChangeVerdict
from restow.kube.resources import Object, qualified_name

_SHOWN: Final = 3
_MOST_NAMED: Final = 100
_MOST_PLACES: Final = 200
"""The most places of one check: below a map, every object may have other fields."""

_CHECKS: Final = {
    PlaceChange.GONE: "object-pruned",
    PlaceChange.NEW: "object-defaulted",
    PlaceChange.CHANGED: "object-changed",
}

Owner: TypeAlias = tuple[str, str, str]
"""Manager, operation and subresource of a managedFields entry."""

#: Each check about objects: what it means, and what ``{count} objects`` do, as singular and plural.
_SAID: Final[Mapping[str, tuple[ChangeVerdict, str, str]]] = {
    "object-unreadable": (ChangeVerdict.BREAKING, "cannot be read", "cannot be read"),
    "object-refused": (ChangeVerdict.BREAKING, "is refused", "are refused"),
    "object-pruned": (ChangeVerdict.BREAKING, "loses the field", "lose the field"),
    "object-changed": (ChangeVerdict.BREAKING, "gets another value", "get another value"),
    "object-defaulted": (ChangeVerdict.NOTICE, "gets the field", "get the field"),
    "object-failed": (ChangeVerdict.BREAKING, "cannot be migrated", "cannot be migrated"),
    "owner-lost": (ChangeVerdict.BREAKING, "loses its owner", "lose their owner"),
    "apply-refused": (ChangeVerdict.BREAKING, "refuses the next apply", "refuse the next apply"),
    "owner-conflict": (ChangeVerdict.BREAKING, "gets a conflict at the next apply", "get a conflict at the next apply"),
}


@dataclass(slots=True)
class _Objects:
    count: int = 0
    names: list[str] = field(default_factory=list)
    last: str = ""

    def add(self, where: str) -> None:
        if where == self.last:
            return  # another item of its list
        self.last = where
        self.count += 1
        if len(self.names) < _MOST_NAMED:
            self.names.append(where)

    def sentence(self, one: str, many: str, why: str) -> str:
        names = ", ".join(self.names[:_SHOWN])
        more = f" and {self.count - _SHOWN} more" if self.count > _SHOWN else ""
        said = f"1 object {one}" if self.count == 1 else f"{self.count} objects {many}"
        return f"{said}{f' ({why})' if why else ''}: {names}{more}"


_Place: TypeAlias = tuple[str, str, str, str]


class ObjectFindings:
    """Collects what happens to the objects of one CRD, by check, version, place and reason."""

    def __init__(self, crd: str) -> None:
        self._crd = crd
        self._found: dict[_Place, _Objects] = {}
        self._beyond = 0

    def add(self, check: str, version: str, path: str, where: str, why: str = "") -> None:
        """Note that something happens to an object (``namespace/name``) at a place; ``why`` holds no value."""
        key = (check, version, path, why)
        if key not in self._found and sum(each[0] == check for each in self._found) >= _MOST_PLACES:
            self._beyond += 1
            return
        self._found.setdefault(key, _Objects()).add(where)

    def compare(self, version: str, before: Object, after: Object, ignored: str = "") -> None:
        """Note how an object differs; ``ignored`` is the annotation that conversions keep for themselves."""
        for change, path in object_changes(before, after, ignored):
            self.add(_CHECKS[change], version, path, where_of(before))

    def results(self) -> Iterator[CrdFinding]:
        """Yield one finding for each check, version and place."""
        for (check, version, path, why), objects in self._found.items():
            severity, one, many = _SAID[check]
            what = objects.sentence(one, many, why)
            yield CrdFinding(self._crd, version, check, severity, path, what, objects=tuple(objects.names))
        if self._beyond:
            what = f"{self._beyond} further places of objects differ"
            yield CrdFinding(self._crd, "", "object-changed", ChangeVerdict.BREAKING, ROOT, what)


def where_of(obj: Object) -> str:
    """Return ``namespace/name`` of an object, or its name."""
    return qualified_name(obj["metadata"].get("namespace"), obj["metadata"]["name"])


def owners_of(obj: Object) -> dict[Owner, list[Mapping[str, Any]]]:
    """Return the managedFields entries of an object by their owner."""
    found: dict[Owner, list[Mapping[str, Any]]] = {}
    for entry in obj["metadata"].get("managedFields") or ():
        owner = (entry.get("manager", ""), entry.get("operation", ""), entry.get("subresource", ""))
        found.setdefault(owner, []).append(entry)
    return found


def lost_owners(before: Object, after: Object, *, renamed: bool, gone: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield manager and place of each field that the manager owned and owns no longer.

    ``renamed`` says that conversion changes only the apiVersion, so that fields of entries of two versions compare.
    Fields in ``gone`` have left the object. A list may be owned item by item afterwards, or as a whole.
    """
    now, gone = owners_of(after), tuple(gone)
    for owner, entries in owners_of(before).items():
        kept = now.get(owner, [])
        if not kept:
            left = {path for entry in entries for path in owned_paths(entry) if not _within(path, gone)}
            if left:
                yield owner[0], min(left) if len(left) == 1 else ROOT
            continue
        versions = {entry.get("apiVersion") for entry in (*entries, *kept)}
        if not renamed and len(versions) > 1:
            continue
        paths = {path for entry in kept for path in owned_paths(entry)}
        for path in dict.fromkeys(path for entry in entries for path in owned_paths(entry)):
            if not _within(path, gone) and not any(_related(path, each) for each in paths):
                yield owner[0], path


def _within(path: str, above: Iterable[str]) -> bool:
    return any(is_below(path, each) for each in above)


def is_below(path: str, above: str) -> bool:
    """Return whether a place is the other one, or below it."""
    return path == above or (path.startswith(above) and path[len(above)] in ".[{")


def _related(one: str, other: str) -> bool:
    return is_below(one, other) or is_below(other, one)


def owned_paths(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the places that a managedFields entry owns."""
    return tuple(dict.fromkeys(_owned(entry.get("fieldsV1") or {}, ROOT)))


def _owned(node: FieldSet, path: str) -> Iterator[str]:
    if path != ROOT and (is_leaf(node) or "." in node):
        yield path
    for element, below in node.items():
        if element.startswith("f:"):
            yield from _owned(below, field_path(path, element[2:]))
        elif element != ".":
            yield from _owned(below, items_path(path))

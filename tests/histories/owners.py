"""Who owns which values of an object, and what a conversion makes of them: computed without restow. Pure.

Version vN has its text in the field pN, and all versions have all of these fields. The webhook renames them in turn,
so that each conversion is the reverse of another one, and none loses anything. With strategy None they stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

Document = dict[str, Any]
Owner = tuple[str, str, str]

_NO_OWNER = "before-first-apply"
"""The manager that an API server invents for fields without an owner."""

FIELDS = ("p1", "p2", "p3")


def field_of(version: str) -> str:
    """The field in which a version has its text."""
    return f"p{version[1:]}"


def rotated(spec: Document, source: str, target: str) -> Document:
    """The fields of an object as another version has them."""
    turn = int(target[1:]) - int(source[1:])
    names = {name: FIELDS[(place + turn) % len(FIELDS)] for place, name in enumerate(FIELDS)}
    return {names.get(name, name): value for name, value in spec.items()}


def converted(found: Document, desired: str) -> Document:
    """What the webhook answers; objects can be partial."""
    source, target = (each.rpartition("/")[2] for each in (found["apiVersion"], desired))
    spec = {"spec": rotated(found["spec"], source, target)} if found.get("spec") else {}
    return found | {"apiVersion": desired} | spec


def shown_wrongly(found: Document, versions: Collection[str]) -> list[str]:
    """The versions at which strategy None shows something else of a stored object than the webhook."""
    stored = found["apiVersion"].rpartition("/")[2]
    return [version for version in versions if rotated(found["spec"], stored, version) != found["spec"]]


def lost(before: Document, after: Document, wired: Collection[bool]) -> str:
    """Say which owner of a stored object no longer owns a value that is still there; empty if there is none.

    Args:
        before, after: the object as etcd has it.
        wired: whether the webhook was asked, at each of the times in between. An entry at another version than the
            object's is left out if that changed: it does not say which field it means. Its owner is not judged
            either if the entry is in ``after``.
    """
    had, has = _owned(before, wired), _owned(after, wired)
    there = set(_values(after["spec"]))
    unclear = {
        _owner(entry) for entry in after["metadata"].get("managedFields", ()) if _is_unclear(after, entry, wired)
    }
    for owner, values in had.items():
        if owner in unclear:
            continue
        if gone := sorted(map(str, (values & there) - has.get(owner, frozenset()))):
            return f"{owner[0]} ({owner[1]}) no longer owns {', '.join(gone)}"
    return ""


def _owned(found: Document, wired: Collection[bool]) -> dict[Owner, frozenset[Any]]:
    owned: dict[Owner, frozenset[Any]] = {}
    for entry in found["metadata"].get("managedFields", ()):
        if entry["manager"] == _NO_OWNER or _is_unclear(found, entry, wired):
            continue
        stored, version = (each["apiVersion"].rpartition("/")[2] for each in (found, entry))
        spec = rotated(found["spec"], stored, version) if any(wired) else found["spec"]
        owner = _owner(entry)
        values = frozenset(_under(entry["fieldsV1"].get("f:spec", {}), spec))
        owned[owner] = owned.get(owner, frozenset()) | values
    return owned


def _is_unclear(found: Document, entry: Document, wired: Collection[bool]) -> bool:
    return len(set(wired)) > 1 and found["apiVersion"] != entry["apiVersion"]


def _owner(entry: Document) -> Owner:
    return entry["manager"], entry["operation"], entry.get("subresource", "")


def _under(fields: Document, value: Any) -> Iterator[Any]:
    """The values of which a tree of fields has the paths; a leaf has everything below it."""
    if not set(fields) - {"."}:
        yield from _values(value)
        return
    for element, below in fields.items():
        name = element.removeprefix("f:")
        if element != "." and isinstance(value, dict) and name in value:
            yield from _under(below, value[name])


def _values(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _values(each)
    else:
        yield value

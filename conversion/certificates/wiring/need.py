"""Decides whether a CRD needs its webhook, or may return to the conversion strategy None.

If a CRD names a removed webhook, its objects can neither be read nor deleted at other versions than the storage
version, and its namespaces hang. With the strategy None the server only renames apiVersion: this is right if nothing
has to be converted, and otherwise corrupts objects.

None is safe for a CRD if only one version is served and stored, or if the schemas of all served and stored versions are
equal except for descriptions. If they differ, and all objects are stored at the storage version, None is safe for
objects that have nothing at the differing places. A webhook may also convert between equal schemas; this cannot be seen
here.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any, Final

from restow.crds import Crd, sort_versions
from restow.crds.paths import ROOT, field_path, items_path, values_path
from restow.kube.resources import qualified_name

__all__ = ["SchemaDifference", "WebhookNeed", "differences_from_storage", "unknown_stored_version", "why_not_none"]


class _Every(Enum):
    """A step of a place that stands for all items of a list, or all values of a map."""

    ITEM = "[]"
    VALUE = "{}"


_Place = tuple[str | _Every, ...]
_ANNOTATIONS: Final = frozenset({"description", "title", "example", "externalDocs"})
_ABSENT: Final = object()
_NAMED: Final = 5  # the most objects that a reason names


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """One place at which the schemas of two versions differ.

    Attributes:
        place: the steps to it.
        version: the version compared with the storage version.
        parents: whether an object counts if it only has the parent of the place: with a default, one version shows a
            value that is not stored.
        missing: names that one version requires: an object that lacks one of them there counts.
    """

    place: _Place
    version: str
    parents: bool = False
    missing: frozenset[str] = frozenset()

    @property
    def path(self) -> str:
        """The place in the notation of ``restow.crds.paths``."""
        return _path(self.place)

    def concerns(self, obj: Mapping[str, Any]) -> bool:
        """Return whether an object has a value at the place, so that the strategy None could show it wrongly."""
        if self.missing:
            found = _values(obj, self.place)
            return any(isinstance(value, Mapping) and not self.missing <= value.keys() for value in found)
        place = self.place[:-1] if self.parents else self.place
        return next(_values(obj, place), _ABSENT) is not _ABSENT


def why_not_none(crd: Crd) -> str:
    """Return why the strategy None could be wrong for objects of a CRD, as a sentence; empty if it is always safe."""
    unknown = unknown_stored_version(crd)
    if unknown:
        return f"{crd.name} may hold objects stored at {unknown}, which it does not have any more"
    names = sort_versions({*crd.stored_versions, crd.storage.name, *crd.served})
    for left, right in pairwise([version for name in names if (version := crd.version(name)) is not None]):
        found = next(_differences(left.schema.node, right.schema.node, ()), None)
        if found is not None:
            return (
                f"{crd.name} needs its webhook: {_path(found.place)} differs between {left.name} and {right.name}. "
                f"Migrate its objects to {crd.storage.name} (restow migrate {crd.name}) and stop serving the other "
                "versions first"
            )
    return ""


def unknown_stored_version(crd: Crd) -> str:
    """Return the first version of status.storedVersions that the CRD does not have; empty if it has all."""
    return next((name for name in sort_versions(crd.stored_versions) if crd.version(name) is None), "")


def differences_from_storage(crd: Crd) -> tuple[SchemaDifference, ...]:
    """Return the places where the schemas of the other served versions differ from that of the storage version."""
    others = [version for version in map(crd.version, crd.served) if version is not None and not version.storage]
    return tuple(
        SchemaDifference(found.place, other.name, found.parents, found.missing)
        for other in others
        for found in _differences(crd.storage.schema.node, other.schema.node, ())
    )


class WebhookNeed:
    """Whether a CRD needs its webhook, as far as its schemas and the seen objects show.

    Attributes:
        depends_on_objects: whether the stored objects decide; if so, pass all of them to ``see``.
    """

    def __init__(self, crd: Crd) -> None:
        self._crd = crd
        self._reason = why_not_none(crd)
        all_at_storage = not unknown_stored_version(crd) and {*crd.stored_versions} == {crd.storage.name}
        self.depends_on_objects: Final = bool(self._reason) and all_at_storage
        self._differences = differences_from_storage(crd) if self.depends_on_objects else ()
        self._number = self._concerned = 0
        self._first: SchemaDifference | None = None
        self._named: list[str] = []

    def see(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Take objects into account."""
        for obj in objects:
            self._number += 1
            found = next((each for each in self._differences if each.concerns(obj)), None)
            if found is None:
                continue
            self._first, self._concerned = self._first or found, self._concerned + 1
            if len(self._named) < _NAMED:
                metadata = obj.get("metadata") or {}
                self._named.append(qualified_name(metadata.get("namespace"), metadata.get("name")))

    @property
    def reason(self) -> str:
        """Why the CRD needs its webhook, as a sentence; empty if it does not."""
        if not self.depends_on_objects:
            return self._reason
        first, crd = self._first, self._crd
        if first is None:
            return ""
        which = ", ".join(self._named) + (", …" if self._concerned > len(self._named) else "")
        where = "their root" if first.path == "." else first.path
        return (
            f"{crd.name} needs its webhook: {self._concerned} of {self._number} objects ({which}) have fields that the "
            f"served versions declare differently, for example at {where} ({crd.storage.name} and {first.version}). "
            f"Stop serving {first.version} first: restow ready {crd.name} --drop {first.version} says whether it may go"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """The consequences of the strategy None, each a sentence."""
        if not self.depends_on_objects or self._first is not None:
            return ()
        found = self._differences[0]
        note = (
            f"none of the {self._number} objects of {self._crd.name} has {found.path} or another field that "
            f"{found.version} declares differently. Objects that get one from now on lose it to clients of "
            f"{found.version}: stop serving it"
        )
        return (note,)


def _path(place: _Place) -> str:
    path = ROOT
    for step in place:
        if isinstance(step, str):
            path = field_path(path, step)
        else:
            path = items_path(path) if step is _Every.ITEM else values_path(path)
    return path


def _values(value: Any, place: _Place) -> Iterator[Any]:
    """Yield the values of an object at a place."""
    if not place:
        yield value
        return
    step, rest = place[0], place[1:]
    if isinstance(step, str):
        below = [value[step]] if isinstance(value, Mapping) and step in value else []
    elif step is _Every.ITEM:
        below = value if isinstance(value, list) else []
    else:
        below = list(value.values()) if isinstance(value, Mapping) else []
    for each in below:
        yield from _values(each, rest)


def _differences(left: Any, right: Any, place: _Place) -> Iterator[SchemaDifference]:
    """Yield the places where two schema nodes differ, the first place first."""
    if not isinstance(left, Mapping) or not isinstance(right, Mapping):
        if left != right:
            yield SchemaDifference(place, "", parents=_has_default(left, right))
        return
    for name in dict.fromkeys((*left, *right)):
        if name in _ANNOTATIONS:
            continue
        ours, theirs = left.get(name), right.get(name)
        if name == "properties":
            yield from _differing_fields(ours or {}, theirs or {}, place)
        elif name == "items":
            yield from _differences(ours, theirs, (*place, _Every.ITEM))
        elif name == "additionalProperties":
            yield from _differences(ours, theirs, (*place, _Every.VALUE))
        elif ours != theirs:
            missing = frozenset(ours or ()) ^ frozenset(theirs or ()) if name == "required" else frozenset[str]()
            yield SchemaDifference(place, "", parents=name == "default" and bool(place), missing=missing)


def _differing_fields(left: Mapping[str, Any], right: Mapping[str, Any], place: _Place) -> Iterator[SchemaDifference]:
    for name in dict.fromkeys((*left, *right)):
        below = (*place, name)
        if name not in left or name not in right:
            yield SchemaDifference(below, "", parents=_has_default(left.get(name), right.get(name)))
        else:
            yield from _differences(left[name], right[name], below)


def _has_default(*nodes: Any) -> bool:
    return any(isinstance(node, Mapping) and "default" in node for node in nodes)

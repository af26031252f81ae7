"""The walk through two schemas at once: each place that either of them keeps, with both views of it.

A function that compares schemas says which places it enters (``Enters``) and what it reports of each one. Each walk
ends, because it follows declared nodes and a document has finitely many.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from restow.crds.paths import ROOT, field_path, items_path, values_path
from restow.crds.schema import Schema


@dataclass(frozen=True, slots=True)
class OneSidedPlace:
    """A field, or the items or values of a place, that only one of the two schemas keeps."""

    path: str
    parents: tuple[Schema, Schema]
    old: Schema | None
    new: Schema | None


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """A place that both schemas keep."""

    path: str
    old: Schema
    new: Schema

    @property
    def is_same(self) -> bool:
        """Whether nothing can differ here and below: it is one node of one document, seen alike."""
        old, new = self.old, self.new
        return old.node is new.node and (old.unpruned, old.legacy) == (new.unpruned, new.legacy)


#: Whether the walk enters the items, and the fields and values, of a place that both schemas keep.
Enters: TypeAlias = Callable[[Schema, Schema], tuple[bool, bool]]


def walk(old: Schema, new: Schema, enters: Enters, path: str = ROOT) -> Iterator[SharedPlace | OneSidedPlace]:
    """Yield the place itself and those below it, in the order of the documents; nothing where both are the same node.

    A field that one schema declares is compared with the values of a map of the other.
    """
    place = SharedPlace(path, old, new)
    if place.is_same:
        return
    yield place
    items, fields = enters(old, new)
    for below, ours, theirs in _children(old, new, path, items=items, fields=fields):
        if ours is not None and theirs is not None:
            yield from walk(ours, theirs, enters, below)
        elif ours is not None or theirs is not None:
            yield OneSidedPlace(below, (old, new), ours, theirs)


def shared(old: Schema, new: Schema, enters: Enters, path: str = ROOT) -> Iterator[SharedPlace]:
    """Yield only the places that both schemas keep."""
    return (place for place in walk(old, new, enters, path) if isinstance(place, SharedPlace))


def common(old: Schema, new: Schema) -> tuple[bool, bool]:
    """Enter what both schemas admit: the items of lists, the fields and values of objects."""
    return old.admits_list and new.admits_list, old.admits_map and new.admits_map


def names(old: Schema, new: Schema) -> dict[str, None]:
    """Return the names that either schema declares, each once, those of ``old`` first."""
    return dict.fromkeys((*old.properties, *new.properties))


def _children(
    old: Schema, new: Schema, path: str, *, items: bool, fields: bool
) -> Iterator[tuple[str, Schema | None, Schema | None]]:
    if items:
        yield items_path(path), old.items, new.items
    for name in names(old, new) if fields else ():
        yield field_path(path, name), old.field(name), new.field(name)
    if fields:
        yield values_path(path), old.values, new.values

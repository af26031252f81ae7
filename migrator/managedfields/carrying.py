"""Carry what one entry owns through a conversion: the image of the owned part is what is owned of the new version.

For an entry of another version, under strategy Webhook (``docs/migrating.md``, *Through a conversion webhook*):

1. the live object, converted to the entry's version, is cut down to the part that the entry owns;
2. that part alone is converted to the storage version. Its fields that the live object has, too, are owned there;
3. where fields came out that the entry does not name, the part is converted once more without what is owned in it.
   What comes out all the same is no image of anything owned: typed converters make up empty values;
4. where fields that the entry names did not come out, the new part is converted back. What does not show then was not
   carried over (the storage version cannot say it, or only together with fields of others: ``leaveout``).

Conversions are asked for by generators: they yield what is to be converted and are sent the answers, so that whoever
drives them can send those of many entries together. Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

from restow.crds import Schema
from restow.crds.fieldpath import FieldSet, Path, from_paths, without
from restow.crds.typed import Members, owned
from restow.migrator.converters.converter import Answer, Json, Unconverted
from restow.migrator.managedfields.ownership import Unknown
from restow.migrator.managedfields.projection import Projection, project

__all__ = [
    "METADATA",
    "NOBODYS",
    "Carried",
    "Conversion",
    "Live",
    "Passage",
    "Steps",
    "body_of",
    "carry",
    "members_of",
    "same",
    "shows",
    "texts_of",
]

_T = TypeVar("_T")

METADATA = "f:metadata"
"""The part of a set that needs no conversion: labels, finalizers and the like are the same in every version."""

NOBODYS = frozenset({"apiVersion", "kind", "metadata"})
"""The parts of an object that are not converted field by field."""


class Conversion(NamedTuple):
    """An object, and the version (``group/version``) that it is wanted at."""

    obj: Json
    api_version: str


Steps: TypeAlias = Generator[list[Conversion], Sequence[Answer], _T]
"""A piece of work that asks for conversions, batch by batch, and is sent the answers in the same order."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What became of one entry.

    Attributes:
        fields: what it owns at the storage version (metadata not among it).
        complete: everything that it owns of the object is among it.
        failure: why that could not be found out, or empty.
        lost: what is not among it, by its path at the entry's version.
    """

    fields: FieldSet = field(default_factory=dict)
    complete: bool = True
    failure: str = ""
    lost: Members = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Passage:
    """From where to where: versions (``group/version``) and their schemas."""

    source: str
    target: str
    old: Schema | Unknown
    new: Schema


class Live:
    """The live object at the storage version, and what there is to own of it."""

    def __init__(self, obj: Json, schema: Schema) -> None:
        self.obj = obj
        self.body = body_of(obj)
        self.members = members_of(self.body, schema)

    @functools.cached_property
    def spots(self) -> frozenset[Path]:
        """Where something is owned, or anything within."""
        return frozenset(path[:length] for path in self.members for length in range(1, len(path) + 1))


class _NoAnswer(Exception):
    """The converter neither converted a part nor refused it."""


def carry(fields: FieldSet, whole: Json, live: Live, passage: Passage) -> Steps[Carried]:
    """Find out what one entry owns at the storage version.

    Args:
        fields: what it owns at its version.
        whole: the live object at that version.
        live: the live object.
        passage: the two versions.
    """
    mine = project(without(fields, METADATA), body_of(whole), passage.old)
    places = _places(mine, live, passage)
    if not mine.owned:
        return Carried(from_paths(places))
    try:
        images = yield from _images(fields, whole, mine, live, passage)
        if images is None:
            return Carried(complete=False, lost=mine.owned)
        carried = images | places
        lost = yield from _lost(fields, mine, carried, live, passage)
    except _NoAnswer as no:
        return Carried(complete=False, failure=str(no))
    return Carried(from_paths(carried), complete=not lost, lost=lost)


def _ask(obj: Json, api_version: str) -> Steps[Json | None]:
    """Ask for one object; None where it is refused."""
    [answer] = yield [Conversion(obj, api_version)]
    if isinstance(answer, Unconverted):
        if answer.refused:
            return None
        raise _NoAnswer(answer.message)
    return answer


def _images(fields: FieldSet, whole: Json, mine: Projection, live: Live, passage: Passage) -> Steps[set[Path] | None]:
    """Steps 2 and 3: what becomes of the part; None where it is refused."""
    image = yield from _ask(_shown(whole, fields, mine.part), passage.target)
    if image is None:
        return None
    members = members_of(body_of(image), passage.new)
    said = {text for value in mine.owned.values() for text in texts_of(value)}

    def is_image(path: Path, value: Any) -> bool:
        """An empty value in the place of another one is none, nor is another value that says nothing of the part."""
        if path in mine.owned or same(value, live.members[path]):
            return shows(members, path, live.members[path])
        return shows(members, path, live.members[path]) and not said.isdisjoint(texts_of(value))

    found = {path for path, value in members.items() if path in live.members and is_image(path, value)}
    if found <= mine.owned.keys():
        return found
    bare = yield from _ask(_shown(whole, {}, mine.bare), passage.target)
    if bare is None:
        return found
    old = {} if isinstance(passage.old, Unknown) else members_of(body_of(whole), passage.old)
    return found - _made_up(members, members_of(body_of(bare), passage.new), mine.owned, old, live.members)


def _lost(fields: FieldSet, mine: Projection, carried: set[Path], live: Live, passage: Passage) -> Steps[Members]:
    """Step 4: what of the part is nowhere in what was carried over."""
    missing = {path: value for path, value in mine.owned.items() if path not in carried}
    if not missing or not carried:
        return missing
    part = project(from_paths(carried), live.body, passage.new).part
    back = yield from _ask(_shown(live.obj, fields, part), passage.source)
    shown = {} if back is None else project(without(fields, METADATA), body_of(back), passage.old).owned
    return {path: value for path, value in missing.items() if not shows(shown, path, value)}


def _shown(obj: Json, fields: FieldSet, part: Json) -> Json:
    """A part of an object, with the labels and annotations that are owned with it: they may mean a field elsewhere."""
    metadata = obj.get("metadata") or {}
    shown = {key: metadata[key] for key in ("name", "namespace", "uid") if key in metadata}
    for key in ("labels", "annotations"):
        names = fields.get(METADATA, {}).get(f"f:{key}", {})
        texts = {name: text for name, text in (metadata.get(key) or {}).items() if f"f:{name}" in names}
        shown |= {key: texts} if texts else {}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": shown, **part}


def body_of(obj: Json) -> Json:
    """Return an object without the fields that no manager can own (apiVersion, kind and most of metadata)."""
    return {key: value for key, value in obj.items() if key not in NOBODYS}


def members_of(body: Json, schema: Schema) -> Members:
    """What there is to own; a list that is empty among it, which an entry may name all the same."""
    return owned(body, schema, empty_lists=True)


def _places(mine: Projection, live: Live, passage: Passage) -> set[Path]:
    """Objects that are owned as places only, as far as they have the same place in the storage version."""
    if not mine.places:
        return set()
    there = project(from_paths(mine.places), live.body, passage.new)
    return (there.places | {path for path, value in there.owned.items() if value == {}}) & live.spots


def _made_up(members: Members, bare: Members, mine: Members, old: Members, live: Members) -> set[Path]:
    """What comes out without anything owned going in, and is not the same as something owned.

    A list item comes out with its keys alone, and an owned value can be just the empty one that is made up: that is
    owned if it is so at this path or, where the old version has nothing there, by having moved: the live object has it,
    and something owned of that value is no longer where it was.
    """
    moved = {text for path, value in mine.items() if path not in members for text in texts_of(value)}

    def is_owned(path: Path, value: Any) -> bool:
        if path in mine or path in old:
            return path in mine
        return same(value, live.get(path)) and not moved.isdisjoint(texts_of(value))

    unmoved = {path for path, value in members.items() if path in bare and same(value, bare[path])}
    return {path for path in unmoved if not is_owned(path, members[path])}


def shows(shown: Members, path: Path, value: Any) -> bool:
    """Whether a field is there with a value, or with one that stands in its place; but none that says nothing."""
    return path in shown and (any(text for _, text in texts_of(shown[path])) or same(shown[path], value))


def texts_of(value: Any) -> Iterator[tuple[bool, Any]]:
    """The scalars of a value; true and 1 are two."""
    if isinstance(value, dict):
        for child in value.values():
            yield from texts_of(child)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    else:
        yield isinstance(value, bool), value


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same; true and 1 are not."""
    return bool(one == other) and list(texts_of(one)) == list(texts_of(other))

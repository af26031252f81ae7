"""Find the fields that a managedFields entry owns at the storage version, by converting the owned part of the object.

For an entry of another version, under strategy Webhook (``docs/migrating.md``, *Through a conversion webhook*),
``convert_entry`` converts only the owned part:

1. It converts the live object to the entry's version and reduces it to the part that the entry owns.
2. It converts this part to the storage version. The entry owns the resulting fields that the live object has too.
3. If the result has fields that the entry does not name, and they do not have the value of an owned field that moved,
   it converts the part again without the owned values. A field that appears again does not come from an owned field:
   typed converters add empty values.
4. If the result lacks fields that the entry names, it converts the result back. A field that is then still missing was
   not carried over.

The place of a field may depend on a field of another manager (a discriminated union), or a conversion may make one
field of two. The owned part, converted alone, then lacks the field. For such fields ``leave_one_out`` converts the
whole object:

1. It converts the whole object from the entry's version to the storage version twice: with and without the lost fields.
   The lost fields own the differences. They do not own values that only moved: the place of a field may depend on
   another field, but its value is still present in the object without that field.
2. The conversion back is the proof: it converts the live object, without the differences, to the entry's version. Lost
   fields that do not change by this are not carried over.

If several managers own one field, each of them gets the differences, because without the field they disappear for all.
Both conversions leave out labels and annotations that a conversion wrote, because they could restore the removed
fields.

The functions are generators that request conversions: they yield objects to convert and receive the answers, so that
the caller can send the conversions of many entries together.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

from restow.crds import Schema
from restow.crds.fieldpath import FieldSet, Path, from_paths, union
from restow.crds.ownedpaths import Members, owned
from restow.migrator.model.converter import Answer, Json, Unconverted
from restow.migrator.ownership.projection import Projection, leave_out, project
from restow.migrator.ownership.reconcile import Unknown

_T = TypeVar("_T")

METADATA = "f:metadata"
"""The part of a set that needs no conversion: labels, finalizers and so on are the same in every version."""

NOBODYS = frozenset({"apiVersion", "kind", "metadata"})
"""The parts of an object that are not converted field by field."""


class Conversion(NamedTuple):
    """An object to convert, and the target version (``group/version``)."""

    obj: Json
    api_version: str


Steps: TypeAlias = Generator[list[Conversion], Sequence[Answer], _T]
"""A generator that yields batches of conversions, and receives their answers in the same order."""


@dataclass(frozen=True, slots=True)
class ConvertedEntry:
    """The result for one entry.

    Attributes:
        fields: the fields that it owns at the storage version, without metadata.
        complete: whether ``fields`` covers everything that it owns of the object.
        failure: why the fields could not be determined, or empty.
        lost: the owned values that ``fields`` does not cover, by their path at the entry's version.
    """

    fields: FieldSet = field(default_factory=dict)
    complete: bool = True
    failure: str = ""
    lost: Members = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class VersionConverter:
    """The source and target versions (``group/version``) and their schemas."""

    source: str
    target: str
    old: Schema | Unknown
    new: Schema


class Live:
    """The live object at the storage version, with its fields that can be owned."""

    def __init__(self, obj: Json, schema: Schema) -> None:
        self.obj = obj
        self.body = body_of(obj)
        self.members = members_of(self.body, schema)

    @functools.cached_property
    def spots(self) -> frozenset[Path]:
        """The paths of fields that can be owned, and of all their parents."""
        return frozenset(path[:length] for path in self.members for length in range(1, len(path) + 1))


class _NoAnswer(Exception):
    """The converter neither converted a part nor refused it."""


def convert_entry(fields: FieldSet, whole: Json, live: Live, versions: VersionConverter) -> Steps[ConvertedEntry]:
    """Find the fields that one entry owns at the storage version.

    Args:
        fields: the fields that it owns at its version.
        whole: the live object at that version.
        live: the live object at the storage version.
        versions: the two versions.
    """
    mine = project(fields, body_of(whole), versions.old)
    places = _places(mine, live, versions)
    if not mine.owned:
        return ConvertedEntry(from_paths(places))
    try:
        images = yield from _images(fields, whole, mine, live, versions)
        if images is None:
            return ConvertedEntry(complete=False, lost=mine.owned)
        converted = images | places
        lost = yield from _lost(fields, mine, converted, live, versions)
    except _NoAnswer as no:
        return ConvertedEntry(complete=False, failure=str(no))
    return ConvertedEntry(from_paths(converted), complete=not lost, lost=lost)


def _ask(obj: Json, api_version: str) -> Steps[Json | None]:
    """Convert one object; return None if the converter refuses it."""
    [answer] = yield [Conversion(obj, api_version)]
    if isinstance(answer, Unconverted):
        if answer.refused:
            return None
        raise _NoAnswer(answer.message)
    return answer


def _images(
    fields: FieldSet, whole: Json, mine: Projection, live: Live, versions: VersionConverter
) -> Steps[set[Path] | None]:
    """Return the image of the owned part (steps 2 and 3); None if the converter refuses the part."""
    image = yield from _ask(_shown(whole, fields, mine.part), versions.target)
    if image is None:
        return None
    members = members_of(body_of(image), versions.new)
    there, own = live.members, mine.owned
    said: set[_Text] | None = None  # computed on demand, because most entries need it for no field
    found = set()
    for path, value in members.items():
        # An empty value in place of another one does not count, nor does a value that contains nothing of the part.
        if path not in there or not shows(members, path, there[path]):
            continue
        if path not in own and not same(value, there[path]):
            said = _texts(own.values()) if said is None else said
            if said.isdisjoint(texts_of(value)):
                continue
        found.add(path)
    gained = found - own.keys()
    if gained:
        gained -= _moved(gained, members, own, whole, live, versions)
    if not gained:
        return found
    bare = yield from _ask(_shown(whole, {}, mine.bare), versions.target)
    if bare is None:
        return found
    without_it = members_of(body_of(bare), versions.new)
    lists = _lists_with_items(without_it)
    return found - {path for path in gained if _is_independent(path, members[path], without_it, lists)}


def _is_independent(path: Path, value: Any, without_it: Members, lists: frozenset[Path]) -> bool:
    """Return whether a field does not come from the owned values: it is there without them too.

    A list item with owned values as keys has other keys without them, so its fields cannot be compared. An empty value
    in it counts as independent, because nothing shows that it comes from an owned one.

    Args:
        path: of the field at the storage version.
        value: its value.
        without_it: the fields of the result without the owned values.
        lists: the lists that have items there, see ``_lists_with_items``.
    """
    if path in without_it:
        return same(value, without_it[path])
    if any(text for _, text in texts_of(value)):
        return False
    items = (path[: place + 1] for place, element in enumerate(path) if element.startswith("k:"))
    return any(item not in without_it and item[:-1] in lists for item in items)


def _lists_with_items(members: Members) -> frozenset[Path]:
    """Return the paths of the lists of type map that have an item among these members."""
    return frozenset(path[:-1] for path in members if path[-1].startswith("k:"))


def _lost(
    fields: FieldSet, mine: Projection, converted: set[Path], live: Live, versions: VersionConverter
) -> Steps[Members]:
    """Return the values of the part that were not carried over (step 4)."""
    missing = {path: value for path, value in mine.owned.items() if path not in converted}
    if not missing or not converted:
        return missing
    part = project(from_paths(converted), live.body, versions.new).part
    back = yield from _ask(_shown(live.obj, fields, part), versions.source)
    shown = {} if back is None else project(fields, body_of(back), versions.old).owned
    return {path: value for path, value in missing.items() if not shows(shown, path, value)}


def _shown(obj: Json, fields: FieldSet, part: Json) -> Json:
    """Return a part of an object with its owned labels and annotations, which another version may have as fields."""
    metadata = obj.get("metadata") or {}
    shown = {key: metadata[key] for key in ("name", "namespace", "uid") if key in metadata}
    about = fields.get(METADATA, {})
    for key in ("labels", "annotations"):
        if names := about.get(f"f:{key}"):
            texts = {name: text for name, text in (metadata.get(key) or {}).items() if f"f:{name}" in names}
            shown |= {key: texts} if texts else {}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": shown, **part}


def body_of(obj: Json) -> Json:
    """Return an object without the fields that no manager can own (apiVersion, kind and most of metadata)."""
    return {key: value for key, value in obj.items() if key not in NOBODYS}


def members_of(body: Json, schema: Schema) -> Members:
    """Return the fields that can be owned, including empty lists, which an entry may name too."""
    return owned(body, schema, empty_lists=True)


def _places(mine: Projection, live: Live, versions: VersionConverter) -> set[Path]:
    """Return the objects that are owned only as places and have the same place in the storage version."""
    if not mine.places:
        return set()
    there = project(from_paths(mine.places), live.body, versions.new)
    same_place = {path for path, value in there.owned.items() if value in ({}, {"": path[-1][2:]})}  # or a map's key
    return (there.places | same_place) & live.spots


def _moved(
    gained: set[Path], members: Members, mine: Members, whole: Json, live: Live, versions: VersionConverter
) -> set[Path]:
    """Return the paths that come from owned values, although the conversion yields them without owned values too.

    An owned value can equal the empty value that a converter adds. Such a value has moved if the old version has
    nothing at the path, the live object has the value, and an owned field with that value is no longer at its place.

    Args:
        gained: paths of the result that are not owned at the old version.
        members: the fields of the result with all owned values.
        mine: the owned fields at the old version.
        whole: the live object at the old version.
        live: the live object at the storage version.
        versions: the two versions.
    """
    gone = _texts(value for path, value in mine.items() if path not in members)
    alike = {path for path in gained if same(members[path], live.members.get(path))}
    moved = {path for path in alike if not gone.isdisjoint(texts_of(members[path]))}
    if not moved or isinstance(versions.old, Unknown):
        return moved
    return moved - members_of(body_of(whole), versions.old).keys()


def shows(shown: Members, path: Path, value: Any) -> bool:
    """Return whether a field has this value, or another, non-empty value in its place."""
    if path not in shown:
        return False
    found = shown[path]
    if not isinstance(found, dict | list):
        return bool(found) or same(found, value)
    return any(text for _, text in texts_of(found)) or same(found, value)


_Text: TypeAlias = tuple[bool, Any]


def texts_of(value: Any) -> Iterator[_Text]:
    """Yield the scalars of a value; true and 1 are different."""
    if isinstance(value, dict):
        for child in value.values():
            yield from texts_of(child)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    else:
        yield isinstance(value, bool), value


def _texts(values: Iterable[Any]) -> set[_Text]:
    """Return the scalars of several values."""
    return {text for value in values for text in texts_of(value)}


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; true and 1 are not."""
    if one != other:
        return False
    if isinstance(one, dict | list):
        return list(texts_of(one)) == list(texts_of(other))
    return isinstance(one, bool) == isinstance(other, bool)


_STATUS = "f:status"


class Lacking(NamedTuple):
    """An entry that was not carried over completely: its fields at its version, and its result so far."""

    fields: FieldSet
    converted: ConvertedEntry


class _LostFields(NamedTuple):
    """The fields of the storage version that depend on an entry's lost fields."""

    lacking: Lacking
    paths: frozenset[Path]


def leave_one_out(
    entries: Sequence[Lacking], whole: Json, live: Live, versions: VersionConverter
) -> Steps[list[ConvertedEntry]]:
    """Find the further fields that entries of one version own at the storage version through their lost fields.

    Args:
        entries: the entries that lost fields.
        whole: the live object at their version.
        live: the live object at the storage version.
        versions: the two versions.
    """
    stated = _stated(whole, live.obj)
    body = body_of(stated)
    rests = [leave_out(from_paths(each.converted.lost), body, versions.old) for each in entries]
    asked = [stated, *(_with_body(stated, rest) for rest in rests)]
    image, *images = yield [Conversion(obj, versions.target) for obj in asked]
    results = [_unanswered(each.converted, answer) for each, answer in zip(entries, images, strict=True)]
    if isinstance(image, Unconverted):
        return [_unanswered(each.converted, image) for each in entries]
    found: dict[int, _LostFields] = {}
    for number, (each, rest, answer) in enumerate(zip(entries, rests, images, strict=True)):
        if not isinstance(answer, Unconverted):
            paths = _differing(each.converted.lost, rest, body_of(image), body_of(answer), live, versions)
            if paths:
                found[number] = _LostFields(each, frozenset(paths))
    if found:
        proven = yield from _proven(list(found.values()), whole, live, versions)
        for number, converted in zip(found, proven, strict=True):
            results[number] = converted
    return results


def _differing(
    lost: Members, rest: Json, image: Json, without_it: Json, live: Live, versions: VersionConverter
) -> set[Path]:
    """Return the fields of the storage version that are missing, or have another value, without the lost fields."""
    members, others = members_of(image, versions.new), members_of(without_it, versions.new)
    said = {text for value in lost.values() for text in texts_of(value)}
    there, here = Counter(_words(image)), Counter(_words(rest))
    status = {path[0] == _STATUS for path in lost}
    lists = _lists_with_items(others)

    def moved(value: Any) -> bool:
        texts = set(texts_of(value))
        return bool(texts) and texts.isdisjoint(said) and all(there[text] <= here[text] for text in texts)

    return {
        path
        for path, value in members.items()
        if path in live.members
        and (path[0] == _STATUS) in status
        and shows(members, path, live.members[path])
        and not _is_independent(path, value, others, lists)
        and not moved(value)
    }


def _proven(
    found: Sequence[_LostFields], whole: Json, live: Live, versions: VersionConverter
) -> Steps[list[ConvertedEntry]]:
    """Carry over the lost fields that change when the fields that depend on them are removed."""
    stated = _stated(live.obj, whole)
    base = [] if stated["metadata"] == live.obj["metadata"] else [stated]
    asked = [_with_body(stated, leave_out(from_paths(each.paths), live.body, versions.new)) for each in found]
    answers = yield [Conversion(obj, versions.source) for obj in (*base, *asked)]
    before: Answer = answers[0] if base else whole
    results = []
    for each, after in zip(found, answers[len(base) :], strict=True):
        converted = each.lacking.converted
        if isinstance(before, Unconverted) or isinstance(after, Unconverted):
            no = before if isinstance(before, Unconverted) else after
            results.append(_unanswered(converted, no))
            continue
        shown, left = (project(each.lacking.fields, body_of(obj), versions.old).owned for obj in (before, after))
        lost = {
            path: value
            for path, value in converted.lost.items()
            if path not in shown or (path in left and same(left[path], shown[path]))
        }
        if len(lost) < len(converted.lost):
            gained = union(converted.fields, from_paths(each.paths))
            converted = replace(converted, fields=gained, complete=not lost, lost=lost)
        results.append(converted)
    return results


def _stated(obj: Json, other: Json) -> Json:
    """Return an object with only those labels and annotations that the other version has too."""
    metadata, theirs = obj.get("metadata") or {}, other.get("metadata") or {}
    stated = {key: value for key, value in metadata.items() if key not in ("labels", "annotations")}
    for key in ("labels", "annotations"):
        known = theirs.get(key) or {}
        texts = {name: text for name, text in (metadata.get(key) or {}).items() if known.get(name) == text}
        stated |= {key: texts} if texts else {}
    return obj | {"metadata": stated}


def _with_body(obj: Json, body: Json) -> Json:
    return {key: value for key, value in obj.items() if key in NOBODYS} | body


def _words(value: Any) -> Iterator[tuple[bool, Any]]:
    """Yield the scalars and field names of a value: a list's key can be a field name in the other version."""
    if isinstance(value, dict):
        for name, child in value.items():
            yield False, name
            yield from _words(child)
    elif isinstance(value, list):
        for item in value:
            yield from _words(item)
    else:
        yield from texts_of(value)


def _unanswered(converted: ConvertedEntry, answer: Answer) -> ConvertedEntry:
    """Return the result so far; without an answer, a failure, because a later run may get one."""
    if isinstance(answer, Unconverted) and not answer.refused:
        return replace(converted, complete=False, failure=answer.message)
    return converted

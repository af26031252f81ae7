"""Find what one managedFields entry owns at the storage version, by converting the part of the object that it owns.

For an entry of another version, under strategy Webhook (``docs/migrating.md``, *Through a conversion webhook*),
``convert_entry`` converts the owned part alone:

1. the live object, converted to the entry's version, is cut down to the part that the entry owns;
2. that part alone is converted to the storage version. Its fields that the live object has, too, are owned there;
3. if the result has fields that the entry does not name, and they do not hold the value of an owned field that is no
   longer where it was, the part is converted once more without what is owned in it. A field that appears again comes
   from nothing owned: typed converters make up empty values;
4. if the result lacks fields that the entry names, it is converted back. A field that is still missing then was not
   carried over.

A conversion may put a field where a field of another manager says (a discriminated union), or make one of two. The
part that an entry owns, converted alone, then comes out without it. For that, ``leave_one_out`` converts the whole
object:

1. the whole object at the entry's version is converted to the storage version twice: as it is, and without the lost
   fields. The lost fields own what differs. They do not own what only moved: the place of a field may depend on
   another field, but its value is still there in the object without that one;
2. the way back is the proof: the live object, without what differs, is converted to the entry's version. The lost
   fields that do not change by that are not carried over.

Several owners of one field each get what differs: without it, it is gone for all. What a conversion wrote into labels
or annotations is left out on both ways, since it may bring back what was left out.

Generators ask for the conversions: they yield what is to be converted and receive the answers, so that the caller can
send the conversions of many entries together.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

from restow.crds import Schema
from restow.crds.fieldpath import FieldSet, Path, from_paths, union, without
from restow.crds.ownedpaths import Members, owned
from restow.migrator.model.converter import Answer, Json, Unconverted
from restow.migrator.ownership.projection import Projection, leave_out, project
from restow.migrator.ownership.reconcile import Unknown

__all__ = [
    "METADATA",
    "NOBODYS",
    "Conversion",
    "ConvertedEntry",
    "Lacking",
    "Live",
    "Steps",
    "VersionConverter",
    "body_of",
    "convert_entry",
    "leave_one_out",
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
class ConvertedEntry:
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
class VersionConverter:
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


def convert_entry(fields: FieldSet, whole: Json, live: Live, versions: VersionConverter) -> Steps[ConvertedEntry]:
    """Find out what one entry owns at the storage version.

    Args:
        fields: what it owns at its version.
        whole: the live object at that version.
        live: the live object.
        versions: the two versions.
    """
    mine = project(without(fields, METADATA), body_of(whole), versions.old)
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
    """Ask for one object; None where it is refused."""
    [answer] = yield [Conversion(obj, api_version)]
    if isinstance(answer, Unconverted):
        if answer.refused:
            return None
        raise _NoAnswer(answer.message)
    return answer


def _images(
    fields: FieldSet, whole: Json, mine: Projection, live: Live, versions: VersionConverter
) -> Steps[set[Path] | None]:
    """Steps 2 and 3: what becomes of the part; None where it is refused."""
    image = yield from _ask(_shown(whole, fields, mine.part), versions.target)
    if image is None:
        return None
    members = members_of(body_of(image), versions.new)
    there, own = live.members, mine.owned
    said: set[_Text] | None = None  # most entries own nothing of which it is asked
    found = set()
    for path, value in members.items():
        # An empty value in the place of another one is none, nor is another value that says nothing of the part.
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
    return found - {path for path in gained if path in without_it and same(members[path], without_it[path])}


def _lost(
    fields: FieldSet, mine: Projection, converted: set[Path], live: Live, versions: VersionConverter
) -> Steps[Members]:
    """Step 4: what of the part is nowhere in what was carried over."""
    missing = {path: value for path, value in mine.owned.items() if path not in converted}
    if not missing or not converted:
        return missing
    part = project(from_paths(converted), live.body, versions.new).part
    back = yield from _ask(_shown(live.obj, fields, part), versions.source)
    shown = {} if back is None else project(without(fields, METADATA), body_of(back), versions.old).owned
    return {path: value for path, value in missing.items() if not shows(shown, path, value)}


def _shown(obj: Json, fields: FieldSet, part: Json) -> Json:
    """A part of an object, with the labels and annotations that are owned with it: they may mean a field elsewhere."""
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
    """What there is to own; a list that is empty among it, which an entry may name all the same."""
    return owned(body, schema, empty_lists=True)


def _places(mine: Projection, live: Live, versions: VersionConverter) -> set[Path]:
    """Objects that are owned as places only, as far as they have the same place in the storage version."""
    if not mine.places:
        return set()
    there = project(from_paths(mine.places), live.body, versions.new)
    return (there.places | {path for path, value in there.owned.items() if value == {}}) & live.spots


def _moved(
    gained: set[Path], members: Members, mine: Members, whole: Json, live: Live, versions: VersionConverter
) -> set[Path]:
    """What certainly comes from something owned, although it would come out without anything owned, too.

    An owned value can be just the empty one that a converter makes up. It has moved where the old version has nothing
    at the path, the live object has the value, and something owned of that value is no longer where it was.

    Args:
        gained: paths that come out, and that are not owned at the old version.
        members: what comes out with all that is owned.
        mine: what is owned at the old version.
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
    """Whether a field is there with a value, or with one that stands in its place; but none that says nothing."""
    if path not in shown:
        return False
    found = shown[path]
    if not isinstance(found, dict | list):
        return bool(found) or same(found, value)
    return any(text for _, text in texts_of(found)) or same(found, value)


_Text: TypeAlias = tuple[bool, Any]


def texts_of(value: Any) -> Iterator[_Text]:
    """The scalars of a value; true and 1 are two."""
    if isinstance(value, dict):
        for child in value.values():
            yield from texts_of(child)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    else:
        yield isinstance(value, bool), value


def _texts(values: Iterable[Any]) -> set[_Text]:
    """The scalars of several values."""
    return {text for value in values for text in texts_of(value)}


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same; true and 1 are not."""
    if one != other:
        return False
    if isinstance(one, dict | list):
        return list(texts_of(one)) == list(texts_of(other))
    return isinstance(one, bool) == isinstance(other, bool)


_STATUS = "f:status"


class Lacking(NamedTuple):
    """An entry that was not carried over whole: what it owns at its version, and what became of it so far."""

    fields: FieldSet
    converted: ConvertedEntry


class _LostFields(NamedTuple):
    """What an entry's lost fields say at the storage version."""

    lacking: Lacking
    paths: frozenset[Path]


def leave_one_out(
    entries: Sequence[Lacking], whole: Json, live: Live, versions: VersionConverter
) -> Steps[list[ConvertedEntry]]:
    """Find out what entries of one version own at the storage version in addition, by their lost fields.

    Args:
        entries: those that lost fields.
        whole: the live object at their version.
        live: the live object.
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
    """What the object has at the storage version by lost fields: it is missing, or another value, without them."""
    members, others = members_of(image, versions.new), members_of(without_it, versions.new)
    said = {text for value in lost.values() for text in texts_of(value)}
    there, here = Counter(_words(image)), Counter(_words(rest))
    status = {path[0] == _STATUS for path in lost}

    def moved(value: Any) -> bool:
        texts = set(texts_of(value))
        return bool(texts) and texts.isdisjoint(said) and all(there[text] <= here[text] for text in texts)

    return {
        path
        for path, value in members.items()
        if path in live.members
        and (path[0] == _STATUS) in status
        and shows(members, path, live.members[path])
        and not (path in others and same(others[path], value))
        and not moved(value)
    }


def _proven(
    found: Sequence[_LostFields], whole: Json, live: Live, versions: VersionConverter
) -> Steps[list[ConvertedEntry]]:
    """Keep, of the lost fields that say something, those that are not said any more without that."""
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
        fields = without(each.lacking.fields, METADATA)
        shown, left = (project(fields, body_of(obj), versions.old).owned for obj in (before, after))
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
    """An object with the labels and annotations that it has in the other version, too."""
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
    """The scalars of a value, and the names in it: a list's key can be a name in the other version."""
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
    """Leave it at what was carried over; an answer that was not given may be given another time."""
    if isinstance(answer, Unconverted) and not answer.refused:
        return replace(converted, complete=False, failure=answer.message)
    return converted

"""Carry what has no place of its own: leave it out of the whole object, and see what is missing then.

A conversion may put a field where a field of another manager says (a discriminated union), or make one of two. The
part that an entry owns, converted alone, then comes out without it. So, for what ``carrying`` did not carry over
(``docs/migrating.md``, *Through a conversion webhook*):

1. the whole object at the entry's version is converted to the storage version twice: as it is, and without the lost
   fields. The lost fields own what differs. They do not own what only moved: the place of a field may depend on
   another field, but its value is still there in the object without that one;
2. the way back is the proof: the live object, without what differs, is converted to the entry's version. The lost
   fields that do not change by that are not carried over.

Several owners of one field each get what differs: without it, it is gone for all. What a conversion wrote into labels
or annotations is left out on both ways, since it may bring back what was left out. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from restow.crds.fieldpath import FieldSet, Path, from_paths, union, without
from restow.crds.typed import Members
from restow.migrator.converters.converter import Answer, Json, Unconverted
from restow.migrator.managedfields.carrying import (
    METADATA,
    NOBODYS,
    Carried,
    Conversion,
    Live,
    Passage,
    Steps,
    body_of,
    members_of,
    same,
    shows,
    texts_of,
)
from restow.migrator.managedfields.projection import leave_out, project

__all__ = ["Lacking", "leave_one_out"]

_STATUS = "f:status"


class Lacking(NamedTuple):
    """An entry that was not carried over whole: what it owns at its version, and what became of it so far."""

    fields: FieldSet
    carried: Carried


class _Found(NamedTuple):
    """What an entry's lost fields say at the storage version."""

    lacking: Lacking
    paths: frozenset[Path]


def leave_one_out(entries: Sequence[Lacking], whole: Json, live: Live, passage: Passage) -> Steps[list[Carried]]:
    """Find out what entries of one version own at the storage version in addition, by their lost fields.

    Args:
        entries: those that lost fields.
        whole: the live object at their version.
        live: the live object.
        passage: the two versions.
    """
    stated = _stated(whole, live.obj)
    body = body_of(stated)
    rests = [leave_out(from_paths(each.carried.lost), body, passage.old) for each in entries]
    asked = [stated, *(_with_body(stated, rest) for rest in rests)]
    image, *images = yield [Conversion(obj, passage.target) for obj in asked]
    results = [_unanswered(each.carried, answer) for each, answer in zip(entries, images, strict=True)]
    if isinstance(image, Unconverted):
        return [_unanswered(each.carried, image) for each in entries]
    found: dict[int, _Found] = {}
    for number, (each, rest, answer) in enumerate(zip(entries, rests, images, strict=True)):
        if not isinstance(answer, Unconverted):
            paths = _differing(each.carried.lost, rest, body_of(image), body_of(answer), live, passage)
            if paths:
                found[number] = _Found(each, frozenset(paths))
    if found:
        proven = yield from _proven(list(found.values()), whole, live, passage)
        for number, carried in zip(found, proven, strict=True):
            results[number] = carried
    return results


def _differing(lost: Members, rest: Json, image: Json, without_it: Json, live: Live, passage: Passage) -> set[Path]:
    """What the object has at the storage version by lost fields: it is missing, or another value, without them."""
    members, others = members_of(image, passage.new), members_of(without_it, passage.new)
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


def _proven(found: Sequence[_Found], whole: Json, live: Live, passage: Passage) -> Steps[list[Carried]]:
    """Keep, of the lost fields that say something, those that are not said any more without that."""
    stated = _stated(live.obj, whole)
    base = [] if stated["metadata"] == live.obj["metadata"] else [stated]
    asked = [_with_body(stated, leave_out(from_paths(each.paths), live.body, passage.new)) for each in found]
    answers = yield [Conversion(obj, passage.source) for obj in (*base, *asked)]
    before: Answer = answers[0] if base else whole
    results = []
    for each, after in zip(found, answers[len(base) :], strict=True):
        carried = each.lacking.carried
        if isinstance(before, Unconverted) or isinstance(after, Unconverted):
            no = before if isinstance(before, Unconverted) else after
            results.append(_unanswered(carried, no))
            continue
        fields = without(each.lacking.fields, METADATA)
        shown, left = (project(fields, body_of(obj), passage.old).owned for obj in (before, after))
        lost = {
            path: value
            for path, value in carried.lost.items()
            if path not in shown or (path in left and same(left[path], shown[path]))
        }
        if len(lost) < len(carried.lost):
            gained = union(carried.fields, from_paths(each.paths))
            carried = replace(carried, fields=gained, complete=not lost, lost=lost)
        results.append(carried)
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


def _unanswered(carried: Carried, answer: Answer) -> Carried:
    """Leave it at what was carried over; an answer that was not given may be given another time."""
    if isinstance(answer, Unconverted) and not answer.refused:
        return replace(carried, complete=False, failure=answer.message)
    return carried

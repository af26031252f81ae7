"""Translate all managedFields entries of an object that have to be converted to the storage version.

``restow.migrator.ownership.conversion`` computes the result for each entry. The functions are generators that request
the conversions; ``restow.migrator.requests.translator`` sends them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from restow.crds import Schema, fieldpath
from restow.crds.fieldpath import FieldSet, without
from restow.migrator.model.converter import Answer, Json, Unconverted
from restow.migrator.ownership.conversion import (
    METADATA,
    Conversion,
    ConvertedEntry,
    Lacking,
    Live,
    Steps,
    VersionConverter,
    convert_entry,
    leave_one_out,
)
from restow.migrator.ownership.entries import ManagedFieldsEntry, corrupt
from restow.migrator.ownership.policy import EntryPolicies, EntryPolicy
from restow.migrator.ownership.reconcile import Unknown

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Translation:
    """The translation of an object's entries.

    Attributes:
        converted: the results of the entries that had to be converted, by their index in managedFields.
        failure: why the object cannot be translated at all, or empty.
    """

    converted: Mapping[int, ConvertedEntry] = field(default_factory=dict)
    failure: str = ""


def translate(entries: Sequence[ManagedFieldsEntry], live: Json, rules: EntryPolicies) -> Steps[Translation]:
    """Find the fields that each entry to convert owns at the storage version.

    Args:
        entries: the object's managedFields.
        live: the object at the storage version.
        rules: the CRD's policies.
    """
    due = _due(entries, rules)
    versions = {entries[place].api_version: None for place in due}
    if not versions:
        return Translation()
    sent = live | {"metadata": {key: value for key, value in live["metadata"].items() if key != "managedFields"}}
    answers = yield [Conversion(sent, version) for version in versions]
    wholes = dict(zip(versions, answers, strict=True))
    for version, whole in wholes.items():
        if isinstance(whole, Unconverted) and (version in rules.present or not whole.refused):
            return Translation(failure=_NOT_AT.format(version=version, message=whole.message))
    there = Live(sent, rules.schemas[rules.storage])
    converted = yield from together(
        [
            _carry(fields, wholes[entries[place].api_version], there, _version_converter(entries, place, due, rules))
            for place, fields in due.items()
        ]
    )
    found = dict(zip(due, converted, strict=True))
    if not any(each.failure for each in converted):
        found |= yield from _rest(found, entries, due, wholes, there, rules)
    return Translation(found, next((each.failure for each in found.values() if each.failure), ""))


def _carry(fields: FieldSet, whole: Answer, live: Live, versions: VersionConverter) -> Steps[ConvertedEntry]:
    """Convert one entry; nothing is carried over from a version that the converter no longer knows."""
    if isinstance(whole, Unconverted):
        return ConvertedEntry(complete=False)
    return (yield from convert_entry(fields, whole, live, versions))


def _rest(
    found: Mapping[int, ConvertedEntry],
    entries: Sequence[ManagedFieldsEntry],
    due: Mapping[int, FieldSet],
    wholes: Mapping[str, Answer],
    live: Live,
    rules: EntryPolicies,
) -> Steps[dict[int, ConvertedEntry]]:
    """Carry over the lost fields of all entries, together for the entries of each version."""
    lacking: dict[str, list[int]] = {}
    for place, converted in found.items():
        if converted.lost:
            lacking.setdefault(entries[place].api_version, []).append(place)
    steps = []
    for version, places in lacking.items():
        whole = wholes[version]
        assert not isinstance(whole, Unconverted)
        parts = [Lacking(due[place], found[place]) for place in places]
        steps.append(leave_one_out(parts, whole, live, _version_converter(entries, places[0], due, rules)))
    results = yield from together(steps)
    every = [place for of_version in lacking.values() for place in of_version]
    return dict(zip(every, [converted for of_version in results for converted in of_version], strict=True))


def _version_converter(
    entries: Sequence[ManagedFieldsEntry], place: int, due: Mapping[int, FieldSet], rules: EntryPolicies
) -> VersionConverter:
    source = entries[place].api_version
    old: Schema | Unknown | None = rules.schemas.get(source)
    if old is None:
        sets = (fields for other, fields in due.items() if entries[other].api_version == source)
        old = Unknown(functools.reduce(fieldpath.union, sets))
    return VersionConverter(source, rules.storage, old, rules.schemas[rules.storage])


def supposed(entries: Sequence[ManagedFieldsEntry], rules: EntryPolicies) -> tuple[Translation, int]:
    """Return a plan's assumption without conversions, that everything can be carried over field by field.

    Also return the most conversions that the real translation would need.
    """
    due = _due(entries, rules)
    versions = len({entries[place].api_version for place in due})
    converted = {place: ConvertedEntry(fields) for place, fields in due.items()}
    return Translation(converted), 3 * versions + 5 * len(due)


def together(steps: Sequence[Steps[_T]]) -> Steps[list[_T]]:
    """Run several generators concurrently, and combine their simultaneous requests into one batch."""
    results: dict[int, _T] = {}
    asked: dict[int, list[Conversion]] = {}

    def go_on(number: int, advance: Callable[[], list[Conversion]]) -> None:
        try:
            asked[number] = advance()
        except StopIteration as end:
            asked.pop(number, None)
            results[number] = end.value

    for number, each in enumerate(steps):
        go_on(number, functools.partial(next, each))
    while asked:
        answers = iter((yield [conversion for batch in asked.values() for conversion in batch]))
        for number, batch in list(asked.items()):
            go_on(number, functools.partial(steps[number].send, [next(answers) for _ in batch]))
    return [results[number] for number in range(len(steps))]


def _due(entries: Sequence[ManagedFieldsEntry], rules: EntryPolicies) -> dict[int, FieldSet]:
    """Return the fields to convert by the entry's index, without metadata, which is the same in every version."""
    found = {}
    unreadable = corrupt(entries)
    for place, entry in enumerate(entries):
        if (
            place not in unreadable
            and rules.of(entry.api_version) is EntryPolicy.TRANSLATE
            and rules.may_convert(entry.api_version)
        ):
            fields = fieldpath.decode(entry.fields)
            if without(fields, METADATA):
                found[place] = fields
    return found


_NOT_AT = "it cannot be converted to {version}, at which managers own fields of it: {message}"

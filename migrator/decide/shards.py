"""Decide which shards of a migration are done. A shard finishes the objects that their uids assign to it.

Each shard lists all objects, and writes a record when every object of its part is done. The record has the CRD, storage
version, versions and options, and the generations over which the storage version was the same. One shard alone proves
nothing about storedVersions; all of them together do (``standing``):

- the part of every shard was, at some moment, completely stored at the storage version;
- from the first generation of the oldest record until now no other version was the storage version. Every generation
  in between has to be known, from the span of a record or from the watch of the judging shard: an unseen generation may
  have been a flip and back, during which a client can have written old objects.

Records outlive their process. The shard that sees all of them may prune. A shard that runs again with its record in
place only decides whether to prune. A record from before a flip does not count. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from restow.crds import Crd
from restow.migrator.decide.prune import Generations


class Record(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The record of a shard whose part is done.

    Attributes:
        index, count: the shard.
        uid, storage: the CRD's uid, and the version at which every object of the part is stored.
        mark: the key of the run's work (``run_key``).
        first, last: the generations from before its list until after its last write; each is proved to have this
            storage version.
        stored: ``status.storedVersions`` before its list.
    """

    index: int
    count: int
    uid: str
    storage: str
    mark: str
    first: int
    last: int
    stored: tuple[str, ...]
    format: int = 1


@dataclass(frozen=True, slots=True)
class Standing:
    """The shards with a valid record (``complete``), an invalid one (``outdated``), and none (``missing``)."""

    count: int
    complete: tuple[int, ...]
    outdated: tuple[int, ...]
    missing: tuple[int, ...]

    @property
    def all_complete(self) -> bool:
        """Whether all parts together are proved to be done."""
        return len(self.complete) == self.count

    @property
    def reason(self) -> str:
        """Return why not, as a part of a sentence; empty if all are complete."""
        parts = []
        if self.missing:
            verb = "is" if len(self.missing) == 1 else "are"
            parts.append(f"{_named(self.missing, self.count)} {verb} not complete yet")
        if self.outdated:
            verb = "was" if len(self.outdated) == 1 else "were"
            parts.append(f"{_named(self.outdated, self.count)} {verb} complete before the CRD changed")
        return "; ".join(parts)


def standing(records: Iterable[Record], count: int, now: Crd, mark: str, seen: Generations) -> Standing:
    """Judge the records of a CRD.

    Args:
        records: all records, including those with other counts.
        count: the present number of shards.
        now: the CRD as just read, after the records.
        mark: ``run_key`` of a run with these options on the current CRD.
        seen: the generations of the CRD that the judging shard saw itself.
    """
    storage = now.storage.name
    ours = [record for record in records if record.format == 1 and record.uid == now.uid]
    known = {generation for generation in seen.seen if seen.unbroken(generation, generation, storage)}
    known.add(now.generation)
    spans = [(record.first, record.last) for record in ours if record.storage == storage]

    def counts(record: Record) -> bool:
        return (
            record.storage == storage
            and record.mark == mark
            and set(now.stored_versions) <= {*record.stored, storage}
            and record.first <= record.last <= now.generation
            and _covered(record.first, now.generation, spans, known)
        )

    of_count = {record.index: record for record in ours if record.count == count and record.index in range(count)}
    complete = tuple(sorted(index for index, record in of_count.items() if counts(record)))
    outdated = tuple(sorted(of_count.keys() - set(complete)))
    missing = tuple(index for index in range(count) if index not in of_count)
    return Standing(count, complete, outdated, missing)


def _covered(first: int, last: int, spans: list[tuple[int, int]], known: set[int]) -> bool:
    """Return whether each generation from first to last is known or in a span."""
    at = first
    while at <= last:
        beyond = max((end for start, end in spans if start <= at <= end), default=at if at in known else at - 1)
        if beyond < at:
            return False
        at = beyond + 1
    return True


def encode_records(records: Iterable[Record]) -> dict[str, str]:
    """Return the ``data`` of the ConfigMap: one key per shard, so that shards of different counts do not collide."""
    return {f"{record.index}-of-{record.count}": msgspec.json.encode(record).decode() for record in records}


def decode_records(data: Mapping[str, str]) -> tuple[Record, ...]:
    """Return the records in ``data``, without values that are not records (of another release, or edited)."""
    found = []
    for key, value in sorted(data.items()):
        try:
            record = _decoder.decode(value)
        except msgspec.MsgspecError:
            continue
        if key == f"{record.index}-of-{record.count}":
            found.append(record)
    return tuple(found)


def _named(indices: tuple[int, ...], count: int) -> str:
    shown = ", ".join(str(index) for index in indices[:_MOST_NAMED])
    more = f" and {len(indices) - _MOST_NAMED} more" if len(indices) > _MOST_NAMED else ""
    return f"shard{'s' if len(indices) > 1 else ''} {shown}{more} of {count}"


_MOST_NAMED = 8
_decoder = msgspec.json.Decoder(Record)

"""Decide which shards of a migration are done. A shard finishes the objects whose uid falls to it.

Each lists all objects, and leaves a record when every object of its part is done: for which CRD, storage version,
versions and options, and over which generations the storage version was seen to be the same. One shard alone proves
nothing about storedVersions; all of them together do (``standing``):

- every shard's part was, at some moment, stored at the storage version throughout;
- from the first generation of the oldest record up to now no other version was the storage version. Every single
  generation in between has to be known, by the span of some record or by the watch of the one that judges: what no
  shard saw may have been a flip and back, during which a client can have written anything.

So records outlive their process: the shard that sees all of them may prune, a shard that runs again with its record in
place only decides whether to prune, and a record from before a flip does not count. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from restow.crds import Crd
from restow.migrator.decide.prune import Generations

__all__ = [
    "Record",
    "Standing",
    "decode_records",
    "encode_records",
    "standing",
]


class Record(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What one shard left when its part was done.

    Attributes:
        index, count: which shard.
        uid, storage: of the CRD, and the version at which every object of the part is stored.
        mark: the key of what the run does (``run_key``).
        first, last: the generations from before its list until after its last write; the storage version was proven
            to be this one in each of them.
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
    """Which shards' records count: ``complete``; which do not any more: ``outdated``; and which are ``missing``."""

    count: int
    complete: tuple[int, ...]
    outdated: tuple[int, ...]
    missing: tuple[int, ...]

    @property
    def all_complete(self) -> bool:
        """Whether all parts together are proven to be done."""
        return len(self.complete) == self.count

    @property
    def reason(self) -> str:
        """Why not, in a sentence's part; empty where all are complete."""
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
        records: all that there are, of other counts too.
        count: how many shards there are now.
        now: the CRD read just now, after the records.
        mark: ``run_key`` of a run with these options on the CRD as it is now.
        seen: what the one that judges saw of the CRD itself.
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
    """Whether each generation from first to last is known or in a span."""
    at = first
    while at <= last:
        beyond = max((end for start, end in spans if start <= at <= end), default=at if at in known else at - 1)
        if beyond < at:
            return False
        at = beyond + 1
    return True


def encode_records(records: Iterable[Record]) -> dict[str, str]:
    """Return the ``data`` of the ConfigMap: one key a shard, so that shards of several counts do not meet."""
    return {f"{record.index}-of-{record.count}": msgspec.json.encode(record).decode() for record in records}


def decode_records(data: Mapping[str, str]) -> tuple[Record, ...]:
    """Read it back; what is no record (of another release, or edited) counts for nothing and is left out."""
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

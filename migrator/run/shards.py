"""Share the migration of one CRD between several processes, which keep their records in a ConfigMap.

A shard finishes the objects that their uids assign to it. It lists all objects, and writes a record when every object
of its part is done. The record has the CRD, storage version, versions and options, and the generations over which the
storage version was the same. One shard alone proves nothing about storedVersions; all of them together do
(``standing``, which is pure):

- the part of every shard was, at some moment, completely stored at the storage version;
- from the first generation of the oldest record until now no other version was the storage version. Every generation
  in between has to be known, from the span of a record or from the watch of the judging shard: an unseen generation may
  have been a flip and back, during which a client can have written old objects.

Records outlive their process. The shard that sees all of them may prune. A shard that runs again with its record in
place only decides whether to prune. A record from before a flip does not count. Every shard reads and writes the
ConfigMap (``Ledger``) by compare-and-swap.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import Conflict, Forbidden, KubeError, NotFound
from restow.kube.resources import CONFIG_MAPS, CRDS
from restow.kube.retry import with_retries
from restow.migrator.decide.proof import run_key
from restow.migrator.decide.prune import Generations, PruneVerdict
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.model.options import Options, Phase, Shard
from restow.migrator.model.report import CrdReport, ShardReport, few
from restow.migrator.requests.crdaccess import read_crd
from restow.migrator.requests.premisecheck import PremiseCheck


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
    return f"shard{'s' if len(indices) > 1 else ''} {few([*map(str, indices)], _MOST_NAMED)} of {count}"


_MOST_NAMED = 8
_decoder = msgspec.json.Decoder(Record)


_ATTEMPTS = 50  # every 409 means that another shard (of a limited number) made progress, or that an answer was lost
_LONGEST_NAME = 253


def ledger_name(crd: Crd) -> str:
    """Return the ConfigMap's name; it must stay valid for a CRD's name of the maximum length."""
    name = f"restow-shards.{crd.name}"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"restow-shards.{hashlib.sha256(crd.name.encode()).hexdigest()[:32]}"


class Ledger:
    """The ConfigMap of one CRD."""

    def __init__(self, cluster: Cluster, crd: Crd) -> None:
        self._cluster = with_retries(cluster)
        self._crd = crd
        self._name = ledger_name(crd)
        self._namespace = cluster.default_namespace
        self._document: dict[str, Any] | None = None

    def __str__(self) -> str:
        return CONFIG_MAPS.describe(self._namespace, self._name)

    async def open(self) -> tuple[Record, ...]:
        """Read the records, and make sure before any work that one more can be written.

        Raises:
            MigrationRefused: a right is missing, or the namespace does not exist.
            KubeError: the API server cannot be reached.
        """
        try:
            await self._read()
            if self._document is None:
                await self._write((), {})
            await self._write(self._records(), {"dryRun": "All"})
        except (Forbidden, NotFound) as error:
            msg = (
                f"shards leave their records in {self}, and that cannot be done: {error.message}. Grant get, create "
                "and update of configmaps there, or choose another namespace by the context"
            )
            raise MigrationRefused(msg) from error
        except Conflict:
            await self._read()  # another shard is writing, so this one can too
        return self._records()

    async def add(self, record: Record) -> tuple[Record, ...]:
        """Replace the shard's last record by a new one; return all records after that.

        Raises:
            KubeError: the API server refuses the record, or gives no answer; it may then have stored the record.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            kept = (each for each in self._records() if (each.index, each.count) != (record.index, record.count))
            try:
                await self._write((*kept, record), {})
                break
            except Conflict:
                if attempt == _ATTEMPTS:
                    raise
                await self._read()
        return self._records()

    async def clear(self) -> None:
        """Remove the records once all shards are done and pruned, so that the next migration starts with none.

        Best effort: if it fails, the first shard of the next migration reports outdated records.
        """
        with contextlib.suppress(KubeError):
            await self._read()
            if self._records():
                await self._write((), {})

    async def _read(self) -> None:
        try:
            reply = await self._cluster.get(CONFIG_MAPS, self._name, self._namespace)
        except NotFound as error:
            if not error.names(CONFIG_MAPS.plural, self._name):
                raise
            self._document = None
        else:
            self._document = reply.json()

    async def _write(self, records: tuple[Record, ...], params: Mapping[str, str]) -> None:
        """Create the ConfigMap, or replace the one read last; raise a Conflict if it has changed since."""
        data = encode_records(records)
        if self._document is None:
            new = {
                "apiVersion": CONFIG_MAPS.api_version,
                "kind": "ConfigMap",
                "metadata": {"name": self._name, "namespace": self._namespace, "ownerReferences": [self._owner()]},
                "data": data,
            }
            body = msgspec.json.encode(new)
            reply = await self._cluster.create(CONFIG_MAPS, body, self._namespace, params=params)
        else:
            metadata = self._document["metadata"] | {"ownerReferences": [self._owner()]}
            changed = self._document | {"metadata": metadata, "data": data}
            body = msgspec.json.encode(changed)
            reply = await self._cluster.replace(CONFIG_MAPS, self._name, body, self._namespace, params=params)
        if not params:
            self._document = reply.json()

    def _records(self) -> tuple[Record, ...]:
        data = (self._document or {}).get("data") or {}
        return tuple(record for record in decode_records(data) if record.uid == self._crd.uid)

    def _owner(self) -> dict[str, str]:
        """Return an ownerReference to the CRD, so that its records are deleted with it."""
        return {
            "apiVersion": CRDS.api_version,
            "kind": "CustomResourceDefinition",
            "name": self._crd.name,
            "uid": self._crd.uid,
        }


class ShardRun:
    """The share of one process in one pass; ``of`` creates it."""

    def __init__(
        self, cluster: Cluster, start: Crd, options: Options, shard: Shard, ledger: Ledger, records: tuple[Record, ...]
    ) -> None:
        self._cluster = cluster
        self._start = start
        self._options = options
        self._shard = shard
        self._ledger = ledger
        self._records = records
        self._mark = run_key(start, options)
        self._done_before = False

    @classmethod
    async def of(cls, cluster: Cluster, start: Crd, options: Options) -> ShardRun | None:
        """Open the records; return None for a run that migrates all objects, or proves nothing about them.

        Raises:
            MigrationRefused: a right on the ConfigMap is missing, or its namespace does not exist.
            KubeError: the API server cannot be reached.
        """
        if options.shard is None or options.dry_run or not options.does(Phase.STORAGE):
            return None
        ledger = Ledger(cluster, start)
        return cls(cluster, start, options, options.shard, ledger, await ledger.open())

    def done_before(self, crd: Crd) -> bool:
        """Return whether an earlier process finished the shard, and the CRD has not changed since."""
        if self._options.ignore_mark:
            return False
        seen = Generations()
        seen.add(crd)
        found = standing(self._records, self._shard.count, crd, self._mark, seen)
        self._done_before = self._shard.index in found.complete
        return self._done_before

    async def record(self, check: PremiseCheck) -> PruneVerdict:
        """Write the record that the shard is done, if there is the same proof as for a prune.

        Raises:
            MigrationRefused: the CRD no longer exists, or may not be read.
            CrdError: the CRD is malformed.
            KubeError: the API server refuses the record, or cannot be reached.
        """
        if self._done_before:
            return PruneVerdict(prune=True)
        start = self._start
        now = await read_crd(self._cluster, start.name)
        verdict = await check.judge(now)
        if not verdict.prune:
            return verdict
        if run_key(now, self._options) != self._mark:
            return PruneVerdict(prune=False, reason=f"the versions of {now.name} changed during the run", again=True)
        record = Record(
            index=self._shard.index,
            count=self._shard.count,
            uid=start.uid,
            storage=start.storage.name,
            mark=self._mark,
            first=start.generation,
            last=now.generation,
            stored=start.stored_versions,
        )
        self._records = await self._ledger.add(record)
        return verdict

    async def close(self) -> None:
        """Remove all records, because every shard is done and the proof on the CRD records this."""
        await self._ledger.clear()

    def judge(self, now: Crd, seen: Generations, report: CrdReport) -> PruneVerdict:
        """Return the verdict whether all shards are done, for the CRD as just read."""
        shard = self._shard
        found = standing(self._records, shard.count, now, run_key(now, self._options), seen)
        report.shard = ShardReport(
            index=shard.index,
            count=shard.count,
            done_before=self._done_before,
            complete=found.complete,
            outdated=found.outdated,
            missing=found.missing,
        )
        if found.all_complete:
            return PruneVerdict(prune=True)
        if shard.index not in found.complete:
            reason = f"{now.name} changed after shard {shard} had left its record"
            return PruneVerdict(prune=False, reason=reason, again=True)
        if not found.missing:
            # No other shard follows, so this report has to say it.
            report.unfinished = f"{found.reason}, so its objects may be stored at another version: run that shard again"
        return PruneVerdict(prune=False, reason=found.reason)

"""One shard's share in a migration: is its part done already, its record, and may it prune for all."""

from __future__ import annotations

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.migrator.crdaccess import CrdWatch, read_crd
from restow.migrator.model import Options, Phase
from restow.migrator.proof import run_key
from restow.migrator.report import CrdReport, ShardReport
from restow.migrator.sharding.ledger import Ledger
from restow.migrator.sharding.shards import Record, Shard, standing
from restow.migrator.storedversions import Generations, Verdict, may_prune

__all__ = ["Share"]


class Share:
    """The share of one process in one pass. Made by ``of``."""

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
    async def of(cls, cluster: Cluster, start: Crd, options: Options) -> Share | None:
        """Open the records; None for a run that does all objects, or proves nothing about them.

        Raises:
            Refused: the records cannot be read, or none can be left.
            KubeError: the API server cannot be reached.
        """
        if options.shard is None or options.dry_run or not options.does(Phase.STORAGE):
            return None
        ledger = Ledger(cluster, start)
        return cls(cluster, start, options, options.shard, ledger, await ledger.open())

    def done_before(self, crd: Crd) -> bool:
        """Whether the part was done by an earlier process, and nothing happened to the CRD since."""
        if self._options.ignore_mark:
            return False
        seen = Generations()
        seen.add(crd)
        found = standing(self._records, self._shard.count, crd, self._mark, seen)
        self._done_before = self._shard.index in found.complete
        return self._done_before

    async def record(self, watching: CrdWatch) -> Verdict:
        """Leave the record that the part is done, if that is proven as a prune would have to be.

        Raises:
            Refused, CrdError, KubeError: the CRD cannot be read, or the record cannot be left.
        """
        if self._done_before:
            return Verdict(prune=True)
        start = self._start
        now = (await read_crd(self._cluster, start.name)).crd
        await watching.reach(now.generation)
        verdict = may_prune(start, now, watching.generations)
        if not verdict.prune:
            return verdict
        if run_key(now, self._options) != self._mark:
            return Verdict(prune=False, reason=f"the versions of {now.name} changed during the run", again=True)
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
        """Take all records away: every part is done, and that is marked on the CRD."""
        await self._ledger.clear()

    def judge(self, now: Crd, seen: Generations, report: CrdReport) -> Verdict:
        """Whether all shards together are done, the CRD being as it was just read."""
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
            return Verdict(prune=True)
        if shard.index not in found.complete:
            reason = f"{now.name} changed after shard {shard} had left its record"
            return Verdict(prune=False, reason=reason, again=True)
        if not found.missing:
            # Nobody comes after this one, so somebody has to hear of it.
            report.unfinished = f"{found.reason}, so its objects may be stored at another version: run that shard again"
        return Verdict(prune=False, reason=found.reason)

"""The migration of CRDs, from refusal to mark: the whole upgrade-time job as one call.

For one CRD: refuse or settle; pass over all objects; judge whether every one of them is stored at what still is the
storage version; prune ``status.storedVersions``; leave the mark. If the CRD changed during a pass in a way that makes
its result doubtful, the objects are passed over again, a bounded number of times.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence

from restow.crds import Crd, CrdError
from restow.kube.cluster import Cluster
from restow.kube.errors import ApiError, Conflict, KubeError, Unreachable
from restow.migrator import mark as completion
from restow.migrator.crdaccess import CrdWatch, ReadCrd, patch_stored_versions, read_crd, write_mark
from restow.migrator.halt import Halt
from restow.migrator.model import Options, Phase
from restow.migrator.observer import Moment, Observer, Silent
from restow.migrator.passes import Converters, Environment, own_webhook, run_pass, unfinished
from restow.migrator.preflight import Refused, missing_permissions, refusal
from restow.migrator.report import CrdReport, Report
from restow.migrator.settle import Sightings, remaining_settle_time
from restow.migrator.storedversions import Verdict, may_prune
from restow.migrator.treatment import treatments

__all__ = ["GRACE", "Migration"]

GRACE = 8.0
"""Seconds for what is in flight once a run was asked to stop; pods are given 30, and `restow` promises 10."""

_PRUNE_ATTEMPTS = 10


class Migration:
    """Migrates CRDs of one cluster, one after the other.

    Args:
        cluster: the API server.
        options: what is asked for.
        observer: told of every moment of the run; see ``Observer``.
        stop: when set, no new object is begun, writes in flight are finished, and the report says what remains.
        converters: what converts objects of CRDs with strategy Webhook, by CRD; None for a CRD's own webhook, which is
            what every CRD is left to where nothing is given.
        clock: a monotonic clock, in seconds.
        chance: spreads waits; give a seeded one to make a run repeatable.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: Options | None = None,
        *,
        observer: Observer | None = None,
        stop: asyncio.Event | None = None,
        converters: Converters = own_webhook,
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
    ) -> None:
        self._cluster = cluster
        self._options = options or Options()
        self._observer = observer or Silent()
        self._clock = clock
        self._halt = Halt(stop)
        self._environment = Environment(cluster, self._halt, clock, chance or random.Random(), converters)
        self._sightings = Sightings()

    async def run(self, names: Sequence[str]) -> Report:
        """Migrate the CRDs of these names; nothing of one is begun before the one before it has ended.

        Raises:
            KubeError: the API server could not be reached before anything was begun.
        """
        reports: list[CrdReport] = []
        for name in names:
            try:
                reports.append(await self.migrate(name))
            except KubeError as error:
                if not reports:
                    raise
                # What was done with the CRDs before must be told all the same.
                reports.append(CrdReport(name=name, unfinished=f"it could not be read: {error}"))
        return Report(tuple(reports), dry_run=self._options.dry_run)

    async def migrate(self, name: str) -> CrdReport:
        """Migrate one CRD.

        Once ``stop`` is set this returns within ``GRACE`` seconds, whatever the API server does.

        Raises:
            KubeError: the API server could not be reached before anything was written.
        """
        begun = self._clock()
        report = CrdReport(name=name)
        error: KubeError | None = None
        try:
            async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
                guard = group.create_task(self._end_in_time(limit))
                error = await self._attempt(report)
                guard.cancel()
        except TimeoutError:
            report.unfinished = unfinished(report, self._halt)
        report.duration_s = self._clock() - begun
        self._observer.at(Moment.ENDED, report)
        if error is not None:
            raise error
        return report

    async def _end_in_time(self, limit: asyncio.Timeout) -> None:
        await self._halt.wait()
        limit.reschedule(asyncio.get_running_loop().time() + GRACE)

    async def _attempt(self, report: CrdReport) -> KubeError | None:
        """Migrate; errors end up in the report, or are returned where nothing was begun."""
        if self._halt:
            report.unfinished = unfinished(report, self._halt)
            return None
        try:
            await self._migrate(report)
        except (Refused, CrdError) as error:
            report.refused = str(error)
            report.pruned_reason = f"refused: {error}"
        except KubeError as error:
            return error
        return None

    async def _migrate(self, report: CrdReport) -> None:
        read = await self._begin(report)
        report.stored_before = read.crd.stored_versions
        for number in range(1, self._options.passes + 1):
            report.storage_version = read.crd.storage.name
            report.stored_after = read.crd.stored_versions
            verdict = await self._pass(read, report)
            if report.unfinished or not verdict.again or number == self._options.passes or self._halt:
                break
            report.warnings.append(f"{verdict.reason}; all objects were looked at again")
            try:
                read = await self._begin(report)
            except KubeError as error:
                report.unfinished = f"the CRD could not be read for another pass: {error}"
                break
        if verdict.again and not report.pruned:
            report.unfinished = report.unfinished or f"{verdict.reason}. Run again once it no longer changes"

    async def _begin(self, report: CrdReport) -> ReadCrd:
        """Read the CRD and make sure that it can be migrated, now and as it is."""
        read = await read_crd(self._cluster, report.name)
        if why := refusal(read.crd, self._options.namespace):
            raise Refused(why)
        if read.crd.strategy != "None":
            self._environment.converters(read.crd)  # refuses what it does not fit
        if missing := await missing_permissions(self._cluster, read.crd, self._options):
            msg = f"permission is missing to {'; '.join(missing)}: grant it to this user and run again"
            raise Refused(msg)
        return await self._settled(read, report)

    async def _settled(self, read: ReadCrd, report: CrdReport) -> ReadCrd:
        """Wait until the last change of the CRD is long enough ago; only a re-encode depends on that."""
        if read.crd.stored_versions == (read.crd.storage.name,) or not self._options.does(Phase.STORAGE):
            return read
        while not self._halt:
            wait = remaining_settle_time(
                read.crd,
                settle_s=self._options.settle_s,
                server_now=read.server_now,
                seen_for_s=self._sightings.seen_for(read.crd, self._clock()),
            )
            if wait <= 0:
                return read
            report.settle_s = wait
            self._observer.at(Moment.SETTLING, report)
            await self._halt.sleep(wait)
            read = await read_crd(self._cluster, report.name)
        return read

    async def _pass(self, read: ReadCrd, report: CrdReport) -> Verdict:
        """Finish all objects, then prune if that is safe."""
        crd, options = read.crd, self._options
        rules = treatments(crd, options, completed=completion.completed(crd, options))
        watching = CrdWatch(crd)
        self._observer.at(Moment.WRITING, report)
        async with asyncio.TaskGroup() as group:
            following = group.create_task(watching.follow(self._cluster))
            try:
                await run_pass(self._environment, crd, rules, options, report)
                return await self._conclude(crd, watching, report)
            finally:
                following.cancel()

    async def _conclude(self, crd: Crd, watching: CrdWatch, report: CrdReport) -> Verdict:
        if (why := self._no_prune(report)) is not None:
            report.pruned_reason = why
            return Verdict(prune=False)
        self._observer.at(Moment.PRUNING, report)
        try:
            return await self._prune(crd, watching, report)
        except (KubeError, Refused, CrdError) as error:
            said = error.message if isinstance(error, ApiError) else str(error)
            report.pruned_reason = f"status.storedVersions could not be pruned: {said}"
            report.unfinished = f"{report.pruned_reason}. All objects are done; run again to prune"
            return Verdict(prune=False)

    def _no_prune(self, report: CrdReport) -> str | None:
        """The reason why storedVersions is not even looked at, or None."""
        options = self._options
        if report.objects.failed:
            return f"{report.objects.failed} objects failed"
        if report.unfinished:
            return report.unfinished
        if options.dry_run:
            return "dry run"
        if options.partial:
            return "only a part of the objects was looked at (--namespace or --selector)"
        if not options.does(Phase.STORAGE):
            return "the storage phase is switched off"
        if not options.does(Phase.PRUNE):
            return "the prune phase is switched off"
        return None

    async def _prune(self, start: Crd, watching: CrdWatch, report: CrdReport) -> Verdict:
        """Prune on a fresh read, judged anew as often as somebody else writes the CRD in between."""
        for _ in range(_PRUNE_ATTEMPTS):
            now = (await read_crd(self._cluster, start.name)).crd
            await watching.reach(now.generation)
            verdict = may_prune(start, now, watching.generations)
            if not verdict.prune:
                report.pruned_reason = verdict.reason
                return verdict
            exact = (start.storage.name,)
            if now.stored_versions != exact:
                try:
                    now = await patch_stored_versions(self._cluster, now, exact)
                except (Conflict, Unreachable):
                    continue
                report.pruned = True
                report.pruned_reason = "every object is stored at the storage version"
            elif not report.pruned:
                report.pruned_reason = "status.storedVersions names only the storage version already"
            report.stored_after = now.stored_versions
            if warning := await self._leave_mark(now):
                report.warnings.append(warning)
            return verdict
        reason = f"{start.name} was written by others each time its status.storedVersions was about to be pruned"
        report.pruned_reason = reason
        return Verdict(prune=False, reason=reason, again=True)

    async def _leave_mark(self, crd: Crd) -> str:
        """Leave the mark, where there is a version whose clients could write entries again; return a warning or ""."""
        if len(crd.served) < 2:
            return ""
        return await write_mark(self._cluster, crd, completion.mark(crd, self._options))

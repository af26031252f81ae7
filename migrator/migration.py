"""The migration of CRDs, from refusal to mark: the whole upgrade-time job as one call.

For one CRD: refuse or settle; pass over all objects; judge whether every one of them is stored at what still is the
storage version; prune ``status.storedVersions``; leave the mark. If the CRD changed during a pass in a way that makes
its result doubtful, the objects are passed over again, a bounded number of times. Where a mark says that nothing is
due, no object is asked for. A shard does this for its part, and prunes if it is the last one (``sharing``); with the
engine ``native`` the cluster's own migration goes before the pass (``nativerun``).
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from restow.crds import Crd, CrdError
from restow.kube.cluster import Cluster
from restow.kube.errors import Conflict, KubeError, Unreachable
from restow.migrator import mark as completion
from restow.migrator import watermark as resuming
from restow.migrator.crdaccess import CrdWatch, ReadCrd, annotate, patch_stored_versions, read_crd
from restow.migrator.halt import Halt
from restow.migrator.managedfields.treatment import Treatments, treatments
from restow.migrator.model import Engine, Options, Phase
from restow.migrator.native.api import NativeStuck
from restow.migrator.native.run import NativeRun, beside_native
from restow.migrator.observer import Moment, Observer, Silent
from restow.migrator.passes import Converters, Environment, own_webhook, run_pass, unfinished
from restow.migrator.preflight import Refused, missing_permissions, refusal
from restow.migrator.report import CrdReport, Report, ShardReport
from restow.migrator.settle import Sightings, remaining_settle_time
from restow.migrator.sharding.sharing import Share
from restow.migrator.storedversions import Verdict, may_prune

__all__ = ["GRACE", "Migration"]

_log = logging.getLogger(__name__)

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
        except NativeStuck as stuck:
            report.unfinished = report.pruned_reason = str(stuck)
        except KubeError as error:
            return error
        return None

    async def _migrate(self, report: CrdReport) -> None:
        report.engine = (Engine.NATIVE if self._options.engine is Engine.NATIVE else Engine.DIRECT).value
        if (shard := self._options.shard) is not None:
            report.shard = ShardReport(index=shard.index, count=shard.count)
        read = await self._begin(report)
        report.stored_before = read.crd.stored_versions
        if why := completion.nothing_due(read.crd, self._options):
            report.storage_version, report.stored_after = read.crd.storage.name, read.crd.stored_versions
            report.pruned_reason = why
            return
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
        if report.objects.failed and not self._options.dry_run:
            await self._void_mark(report.name)
        if verdict.again and not report.pruned:
            report.unfinished = report.unfinished or f"{verdict.reason}. Run again once it no longer changes"

    async def _begin(self, report: CrdReport) -> ReadCrd:
        """Read the CRD and make sure that it can be migrated, now and as it is."""
        if why := self._options.contradiction:
            raise Refused(why)
        read = await read_crd(self._cluster, report.name)
        if read.crd.storage_migrating:
            waiting = partial(self._observer.at, Moment.NATIVE, report)
            read = await beside_native(self._environment, read, self._options, report, waiting)
        if why := refusal(read.crd, self._options.namespace):
            raise Refused(why)
        self._environment.converter(read.crd)  # refuses what it does not fit
        if missing := await missing_permissions(self._cluster, read.crd, self._options):
            msg = f"permission is missing to {'; '.join(missing)}: grant it to this user and run again"
            raise Refused(msg)
        return await self._settled(read, report)

    async def _settled(self, read: ReadCrd, report: CrdReport) -> ReadCrd:
        """Wait until the last change of the CRD is long enough ago; only a re-encode depends on that."""
        completed = completion.completed(read.crd, self._options)
        if not completion.reencoding_due(read.crd, self._options, completed=completed):
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
        """Finish all objects, or the shard's, then prune if that is safe."""
        crd, options = read.crd, self._options
        rules = treatments(crd, options, completed=completion.completed(crd, options))
        share = await Share.of(self._cluster, crd, options)
        native = NativeRun(self._environment, crd, rules, options, report) if options.engine is Engine.NATIVE else None
        if native is not None and rules.reencode:
            self._observer.at(Moment.NATIVE, report)
            rules = replace(rules, written_since=await native.store_again())
        verdict = await self._pass_watched(crd, self._resumed(crd, rules, report), share, report)
        if native is not None:
            await native.end()
        return verdict

    async def _pass_watched(self, crd: Crd, rules: Treatments, share: Share | None, report: CrdReport) -> Verdict:
        watching = CrdWatch(crd)
        async with asyncio.TaskGroup() as group:
            following = group.create_task(watching.follow(self._cluster))
            try:
                if share is None or not share.done_before(crd):
                    self._observer.at(Moment.WRITING, report)
                    listed = partial(self._listed, crd, rules, report)
                    await run_pass(self._environment, crd, rules, self._options, report, listed=listed)
                return await self._conclude(crd, watching, share, report)
            finally:
                following.cancel()

    def _resumed(self, crd: Crd, rules: Treatments, report: CrdReport) -> Treatments:
        """Leave out what was written since an earlier run's watermark, if that is asked for and the watermark holds."""
        report.resumed_from = ""
        found = resuming.valid_watermark(crd, self._options.settle_s) if self._options.resume else None
        if found is None or not rules.reencode or rules.written_since:
            return rules
        report.resumed_from = found.resource_version
        return replace(rules, written_since=found.resource_version)

    async def _listed(self, crd: Crd, rules: Treatments, report: CrdReport, resource_version: str) -> None:
        """Leave the watermark, unless an earlier one still holds, which is worth more."""
        if not rules.reencode or self._options.dry_run:
            return
        taken = resuming.valid_watermark(crd, self._options.settle_s)
        if taken is None:
            taken = resuming.Watermark.taken(crd, resource_version, self._options.settle_s)
        elif taken.generation == crd.generation:
            return
        else:
            taken = taken.renewed(crd)
        if taken is None:
            _log.info("%s: resourceVersion %r compares to nothing, so no run can resume", crd.name, resource_version)
        elif said := await annotate(self._cluster, crd, {resuming.ANNOTATION: taken.encode()}):
            _log.info("%s: the watermark could not be left: %s", crd.name, said)
            if self._options.resume:
                report.warnings.append(f"the watermark could not be left on {crd.name}, so no run can resume ({said})")

    async def _conclude(self, crd: Crd, watching: CrdWatch, share: Share | None, report: CrdReport) -> Verdict:
        if (why := self._no_prune(report)) is not None:
            report.pruned_reason = why
            return Verdict(prune=False)
        try:
            if share is not None:
                verdict = await share.record(watching)
                if not verdict.prune:
                    report.pruned_reason = verdict.reason
                    return verdict
            if not self._options.does(Phase.PRUNE):
                report.pruned_reason = "the prune phase is switched off"
                return Verdict(prune=False)
            self._observer.at(Moment.PRUNING, report)
            return await self._prune(crd, watching, share, report)
        except (KubeError, Refused, CrdError) as error:
            said = error.said if isinstance(error, KubeError) else str(error)
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
        return None

    async def _prune(self, start: Crd, watching: CrdWatch, share: Share | None, report: CrdReport) -> Verdict:
        """Prune on a fresh read, judged anew as often as somebody else writes the CRD in between."""
        for _ in range(_PRUNE_ATTEMPTS):
            now = (await read_crd(self._cluster, start.name)).crd
            await watching.reach(now.generation)
            if self._halt:  # whoever leads now prunes
                report.pruned_reason = report.unfinished = unfinished(report, self._halt)
                return Verdict(prune=False)
            verdict = may_prune(start, now, watching.generations)
            if verdict.prune and share is not None:
                verdict = share.judge(now, watching.generations, report)
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
                report.pruned = start.stored_versions != exact and self._options.engine is Engine.NATIVE
                report.pruned_reason = _pruned_by_others(start, ours=report.pruned)
            report.stored_after = now.stored_versions
            await self._leave_mark(start, now, report)
            if share is not None:
                await share.close()
            return verdict
        reason = f"{start.name} was written by others each time its status.storedVersions was about to be pruned"
        report.pruned_reason = reason
        return Verdict(prune=False, reason=reason, again=True)

    async def _leave_mark(self, start: Crd, now: Crd, report: CrdReport) -> None:
        """Leave the mark in place of the watermark, which has done its service.

        There is none on a CRD of one version where there was nothing to do.
        """
        if not completion.may_mark(start, now, self._options):
            return
        annotations: dict[str, str | None] = {}
        if len(now.versions) > 1 or report.objects.rewritten or completion.ANNOTATION in now.annotations:
            annotations[completion.ANNOTATION] = completion.mark(now, self._options)
        if resuming.ANNOTATION in now.annotations:
            annotations[resuming.ANNOTATION] = None
        if said := await annotate(self._cluster, now, annotations):
            report.warnings.append(
                f"the completion mark could not be left on {now.name} ({said}); the next run will look at all objects"
            )

    async def _void_mark(self, name: str) -> None:
        """Have the next run look at all objects, whatever mark a run at work beside this one leaves."""
        try:
            crd = (await read_crd(self._cluster, name)).crd
        except (KubeError, Refused, CrdError):
            return  # this run failed as it is
        if said := await annotate(self._cluster, crd, {completion.ANNOTATION: completion.UNFINISHED}):
            _log.info("%s: the mark could not be voided: %s", name, said)


def _pruned_by_others(start: Crd, *, ours: bool) -> str:
    """Say why there was nothing to prune any more."""
    if ours:
        return "the cluster's own migration pruned, and every object was seen to be stored at the storage version"
    if start.stored_versions != (start.storage.name,):
        return "status.storedVersions was pruned by another run meanwhile; every object is at the storage version"
    return "status.storedVersions names only the storage version already"

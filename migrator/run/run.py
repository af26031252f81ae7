"""The migration of CRDs, from refusal to proof: the whole upgrade-time job as one call.

For one CRD: refuse or settle; have storedVersions name every version that may be stored; wait for API servers that lag;
pass over all objects; judge whether every one of them is stored at what still is the storage version; prune
``status.storedVersions``; leave the proof. If the CRD changed during a pass in a way that makes its result doubtful,
the objects are passed over again, a bounded number of times. Where a proof says that nothing is due, no object is asked
for. A shard does this for its part, and prunes if it is the last one (``run.sharding``); with the engine ``native`` the
cluster's own migration goes before the pass (``run.native``).
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
from restow.kube.errors import ConfigError, Conflict, KubeError, NotFound, OutcomeUnknown, Unauthorized, Unreachable
from restow.kube.retry import RetryingCluster
from restow.migrator.decide.policies import entry_policies
from restow.migrator.decide.proof import ANNOTATION, UNFINISHED, nothing_due, reencoding_due, what_is_proved
from restow.migrator.decide.prune import PruneVerdict, unnamed_versions
from restow.migrator.engine.apiservers import ApiServers
from restow.migrator.engine.crdaccess import DELETED, CrdWatch, ReadCrd, annotate, patch_stored_versions, read_crd
from restow.migrator.engine.lostfields import warn_of_lost_fields
from restow.migrator.engine.lostowners import remember, still_lost
from restow.migrator.engine.native import NativeStuck
from restow.migrator.engine.passes import Converters, Environment, own_webhook, run_pass, unfinished
from restow.migrator.engine.preflight import missing_namespace, missing_permissions, refusal
from restow.migrator.engine.stop import RunStop
from restow.migrator.model import watermark as resuming
from restow.migrator.model.callbacks import CallbackFailed, Callbacks, MigrationRefused, Moment, Observer, Silent
from restow.migrator.model.options import Engine, Options
from restow.migrator.model.report import CrdReport, MigrationReport, ShardReport
from restow.migrator.model.watermark import FirstSeen, remaining_settle_time
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.run.native import NativeRun, beside_native
from restow.migrator.run.prune import Conclusion
from restow.migrator.run.sharding import ShardRun

__all__ = ["GRACE", "Migration"]


_log = logging.getLogger(__name__)

GRACE = 8.0
"""Seconds for what is in flight once a run was asked to stop; pods are given 30, and ``restow`` promises 10."""

_ATTEMPTS = 10
_ASK_AGAIN_S = (0.5, 1.5)
_NOT_BEGUN = "it was not begun, since the API server was out of reach for so long; run again"
_LAG_PATIENCE_S = 300.0
_LAG_POLL_S = 0.5
_LAG_WATCH_S = 10.0


_UNCHANGED = (
    "{count} objects that were last written before {crd} was changed were current already, although "
    "status.storedVersions named {old}: an earlier run stored them, or an API server that lags takes them for current. "
    "If no run was there before, look at the API servers, and run again with --ignore-mark"
)


class Lagging(Exception):
    """An API server does not follow the CRD; the message says which, and what to do."""


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
        first_seen: when this process first saw each CRD as it is, where it has looked at them before.
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
        first_seen: FirstSeen | None = None,
    ) -> None:
        self._options = options or Options()
        self._chance = chance or random.Random()
        self._callbacks = Callbacks(observer or Silent(), converters, self._end_by_callback)
        self._observer = self._callbacks
        self._clock = clock
        self._stop = stop
        self._begin_anew(cluster)
        self._first_seen = first_seen or FirstSeen()

    async def run(self, names: Sequence[str]) -> MigrationReport:
        """Migrate the CRDs of these names; nothing of one is begun before the one before it has ended.

        Raises:
            KubeError: the API server could not be reached before anything was begun.
            CallbackFailed: the observer or a converter raised; see ``CallbackFailed.reports``.
        """
        reports: list[CrdReport] = []
        for name in names:
            if reports and reports[-1].unreachable == self._cluster.host:
                # It was waited for as long as was asked; each further CRD would wait as long again.
                reports.append(CrdReport(name=name, unfinished=_NOT_BEGUN, unreachable=self._cluster.host))
                continue
            try:
                reports.append(await self.migrate(name))
            except CallbackFailed as failure:
                failure.reports = (*reports, *failure.reports)
                raise
            except KubeError as error:
                if not reports and (error.out_of_reach or isinstance(error, (Unreachable, Unauthorized, ConfigError))):
                    raise
                # What was done with the CRDs before must be told all the same.
                reach = self._cluster.host if error.out_of_reach else ""
                reports.append(CrdReport(name=name, unfinished=f"it could not be read: {error}", unreachable=reach))
        return MigrationReport(tuple(reports), dry_run=self._options.dry_run)

    async def migrate(self, name: str) -> CrdReport:
        """Migrate one CRD.

        Once ``stop`` is set this returns within ``GRACE`` seconds, whatever the API server does.

        Raises:
            KubeError: the API server could not be reached before anything was written.
            CallbackFailed: the observer or a converter raised. The run has ended in order before that.
        """
        begun = self._clock()
        self._begin_anew(self._cluster)
        report = CrdReport(name=name, waits=self._stopping.waits)
        error: KubeError | None = None
        try:
            async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
                guard = group.create_task(self._end_in_time(limit))
                error = await self._attempt(report)
                guard.cancel()
        except TimeoutError:
            report.unfinished, report.unreachable = unfinished(report, self._stopping), self._stopping.unreachable
        except BaseExceptionGroup:
            if self._callbacks.failure is None:
                raise
        if self._callbacks.failure is not None:
            report.unfinished = report.unfinished or str(self._callbacks.failure)
        report.duration_s = self._clock() - begun
        self._observer.at(Moment.ENDED, report)
        self._callbacks.check(report)
        if error is not None:
            raise error
        return report

    def _begin_anew(self, cluster: Cluster) -> None:
        """Begin with a stop of its own: what ends the run of one CRD (its webhook is down) concerns no other."""
        self._stopping = stop = RunStop(self._stop, self._clock)
        patience_s = self._options.patience_s
        self._cluster = RetryingCluster(cluster, stop, patience_s=patience_s, clock=self._clock, chance=self._chance)
        self._environment = Environment(self._cluster, stop, self._clock, self._chance, self._callbacks.converter)

    def _end_by_callback(self, why: str) -> None:
        self._stopping.because(why)  # of the CRD that is under way: each has a stop of its own

    async def _end_in_time(self, limit: asyncio.Timeout) -> None:
        await self._stopping.wait()
        limit.reschedule(asyncio.get_running_loop().time() + GRACE)

    async def _attempt(self, report: CrdReport) -> KubeError | None:
        """Migrate; errors end up in the report, or are returned where nothing was begun."""
        if self._stopping:
            report.unfinished = unfinished(report, self._stopping)
            return None
        try:
            await self._migrate(report)
        except (MigrationRefused, CrdError) as error:
            report.refused = str(error)
            report.pruned_reason = f"refused: {error}"
        except (NativeStuck, Lagging) as stuck:
            report.unfinished = report.pruned_reason = str(stuck)
        except KubeError as error:
            if not self._stopping:
                return error
            report.unfinished = unfinished(report, self._stopping)
        return None

    async def _migrate(self, report: CrdReport) -> None:
        report.engine = (Engine.NATIVE if self._options.engine is Engine.NATIVE else Engine.DIRECT).value
        if (shard := self._options.shard) is not None:
            report.shard = ShardReport(index=shard.index, count=shard.count)
        async with ApiServers(self._cluster, self._options.api_servers) as servers:
            verdict = await self._passes(servers, report)
            report.not_seen += servers.unseen
        if report.owners_lost and (said := await remember(self._cluster, report.name, report.owners_lost)):
            report.warn([f"the objects that lost their owners could not be noted on the CRD ({said})"])
        if report.objects.failed and not self._options.dry_run:
            await self._void_proof(report.name)
        if verdict.again and not report.pruned:
            report.unfinished = report.unfinished or f"{verdict.reason}. Run again once it no longer changes"

    async def _passes(self, servers: ApiServers, report: CrdReport) -> PruneVerdict:
        """Pass over all objects until the result is beyond doubt, but not for ever."""
        read = await self._begin(servers, report, first=True)
        report.warn([(await still_lost(self._cluster, read.crd, forget=not self._options.dry_run)).sentence])
        if why := nothing_due(read.crd, self._options):
            return await self._already_done(read, why, report)
        for number in range(1, self._options.passes + 1):
            report.storage_version = read.crd.storage.name
            report.stored_after = read.crd.stored_versions
            verdict = await self._pass(read, servers, report)
            if report.unfinished or not verdict.again or number == self._options.passes or self._stopping:
                break
            try:
                read = await self._begin(servers, report)
            except KubeError as error:
                report.unfinished = f"the CRD could not be read for another pass: {error}"
                report.unreachable = self._cluster.host if error.out_of_reach else ""
                break
            except MigrationRefused as refused:
                if not isinstance(refused.__cause__, NotFound):
                    raise
                report.unfinished = report.pruned_reason = DELETED.format(name=report.name)
                return PruneVerdict(prune=False)
            report.warnings.append(f"{verdict.reason}; all objects were looked at again")
        namespace = self._options.namespace
        if namespace and not report.objects.listed and (why := await missing_namespace(self._cluster, namespace)):
            report.warnings.append(why)
        return verdict

    async def _already_done(self, read: ReadCrd, why: str, report: CrdReport) -> PruneVerdict:
        """No object has to be looked at: what is left is to prune, and to extend the proof to this generation."""
        crd = read.crd
        report.storage_version, report.stored_after = crd.storage.name, crd.stored_versions
        report.pruned_reason = why
        if self._options.dry_run or self._options.partial:
            return PruneVerdict(prune=False)
        conclusion = Conclusion(self._cluster, self._options, self._stopping, report)
        if crd.stored_versions != (crd.storage.name,) and self._options.prunes:
            return await conclusion.of(crd, CrdWatch(crd), None)
        await conclusion.extend(crd)
        return PruneVerdict(prune=False)

    async def _begin(self, servers: ApiServers, report: CrdReport, *, first: bool = False) -> ReadCrd:
        """Read the CRD and make sure that it can be migrated, now and as it is."""
        read = await read_crd(self._cluster, report.name)
        report.storage_version = read.crd.storage.name  # a report of a refusal names them, too
        report.stored_before = read.crd.stored_versions if first else report.stored_before
        report.stored_after = read.crd.stored_versions
        if read.crd.storage_migrating:
            waiting = partial(self._observer.at, Moment.NATIVE, report)
            read = await beside_native(self._environment, read, self._options, report, waiting)
        if why := refusal(read.crd, self._options.namespace):
            raise MigrationRefused(why)
        self._environment.converter(read.crd)  # refuses what it does not fit
        if missing := await self._missing_permissions(read.crd):
            msg = f"permission is missing to {'; '.join(missing)}: grant it to this user and run again"
            raise MigrationRefused(msg)
        if first:
            report.stored_before = read.crd.stored_versions
        read = await self._guarded(read, report)
        if not reencoding_due(read.crd, self._options):
            return read
        return await self._settled(servers, read, report)

    async def _missing_permissions(self, crd: Crd) -> list[str]:
        """Ask for the rights; where one is missing more than once, since a server that was just started allows none."""
        missing = await missing_permissions(self._cluster, crd, self._options)
        for wait in _ASK_AGAIN_S:
            if not missing or self._stopping:
                break
            await self._stopping.sleep(wait)
            missing = await missing_permissions(self._cluster, crd, self._options)
        while missing and self._cluster.shaken and not self._stopping:
            await self._stopping.sleep(_ASK_AGAIN_S[-1])
            missing = await missing_permissions(self._cluster, crd, self._options)
        return missing

    async def _guarded(self, read: ReadCrd, report: CrdReport) -> ReadCrd:
        """Have storedVersions name every version at which objects may be stored, so that none of them can be removed.

        They do not after a trim by others, or after the cluster's own migration failed. The API server refuses to
        remove a version that they name; that holds until the objects are proved to be stored at the storage version.
        """
        options = self._options
        if options.dry_run or options.partial or not options.prunes:
            return read
        conflicts, unanswered = 0, set[str]()
        while conflicts < _ATTEMPTS:
            crd = read.crd
            if found := unanswered.intersection(crd.stored_versions):
                report.put_back = tuple(dict.fromkeys((*report.put_back, *sorted(found))))
            missing = unnamed_versions(crd) if what_is_proved(crd).doubt else ()
            if not missing:
                return read
            try:
                guarded = await patch_stored_versions(self._cluster, crd, (*missing, *crd.stored_versions))
            except Conflict as conflict:
                if isinstance(conflict, OutcomeUnknown):
                    unanswered.update(missing)
                else:
                    conflicts += 1
                read = await read_crd(self._cluster, report.name)
                continue
            report.put_back = tuple(dict.fromkeys((*report.put_back, *missing)))
            return replace(read, crd=guarded)
        msg = f"{report.name} is written by others all the time, so nothing was begun. Run again once that ends"
        raise MigrationRefused(msg)

    async def _settled(self, servers: ApiServers, read: ReadCrd, report: CrdReport) -> ReadCrd:
        """Wait until every API server has seen the CRD as it is, and no request is under way that began before that.

        Raises:
            Lagging: a server has not, after minutes.
            KubeError: the API server cannot be looked at.
        """
        give_up, lagged_until = self._clock() + _LAG_PATIENCE_S, 0.0
        while not self._stopping:
            now = self._clock()
            if behind := await servers.behind(read.crd):
                if now >= give_up:
                    msg = f"{behind}. It was waited for {_LAG_PATIENCE_S:.0f} seconds; look at it, then run again"
                    raise Lagging(msg)
                report.lagging, lagged_until, wait = behind, now, _LAG_POLL_S
                self._observer.at(Moment.LAGGING, report)
            else:
                wait = self._remaining_settle_time(read, now)
                if lagged_until:
                    wait = max(wait, lagged_until + self._options.settle_s - now)
                if wait <= 0:
                    return read
                report.settle_s = wait
                self._observer.at(Moment.SETTLING, report)
            await self._stopping.sleep(wait)
            read = await read_crd(self._cluster, report.name)
        return read

    def _remaining_settle_time(self, read: ReadCrd, now: float) -> float:
        return remaining_settle_time(
            read.crd,
            settle_s=self._options.settle_s,
            server_now=read.server_now,
            seen_for_s=self._first_seen.seen_for(read.crd, now),
        )

    async def _pass(self, read: ReadCrd, servers: ApiServers, report: CrdReport) -> PruneVerdict:
        """Finish all objects, or the shard's, then prune if that is safe."""
        crd, options = read.crd, self._options
        rules = entry_policies(crd, options, completed=what_is_proved(crd).managed_fields_done(options))
        if rules.reencode:
            await warn_of_lost_fields(self._environment, crd, options, report)
        share = await ShardRun.of(self._cluster, crd, options)
        resumable = resuming.valid_watermark(crd, options.settle_s) is not None
        native = NativeRun(self._environment, crd, rules, options, report) if options.engine is Engine.NATIVE else None
        if native is not None and rules.reencode:
            self._observer.at(Moment.NATIVE, report)
            rules = replace(rules, written_since=await native.store_again())
        verdict = await self._pass_watched(crd, self._resumed(crd, rules, report), servers, share, report)
        if native is not None:
            await native.end()
        old = [name for name in report.stored_before if name != crd.storage.name]
        if report.unchanged and old and not resumable:
            report.warnings.append(_UNCHANGED.format(count=report.unchanged, crd=crd.name, old=", ".join(old)))
        return verdict

    async def _pass_watched(
        self, crd: Crd, rules: EntryPolicies, servers: ApiServers, share: ShardRun | None, report: CrdReport
    ) -> PruneVerdict:
        watching = CrdWatch(crd)
        lagged: list[str] = []
        async with asyncio.TaskGroup() as group:
            watchers = [group.create_task(watching.follow(self._cluster))]
            if rules.reencode:
                watchers.append(group.create_task(self._watch_servers(servers, crd, lagged)))
            try:
                if share is None or not share.done_before(crd):
                    self._observer.at(Moment.WRITING, report)
                    listed = partial(self._listed, crd, rules, report)
                    await run_pass(self._environment, crd, rules, self._options, report, listed=listed)
                    if (
                        rules.reencode
                        and not report.unfinished
                        and (behind := await self._lag(servers, crd, lagged, report))
                    ):
                        report.pruned_reason = behind
                        return PruneVerdict(prune=False, reason=behind, again=True)
                self._observer.at(Moment.PRUNING, report)
                return await Conclusion(self._cluster, self._options, self._stopping, report).of(crd, watching, share)
            finally:
                for task in watchers:
                    task.cancel()

    async def _watch_servers(self, servers: ApiServers, crd: Crd, lagged: list[str]) -> None:
        """Look at the API servers now and then, until cancelled; one that lags makes the pass worth nothing."""
        while not lagged:
            await asyncio.sleep(_LAG_WATCH_S)
            try:
                if behind := await servers.behind(crd):
                    lagged.append(behind)
            except KubeError as error:
                _log.debug("%s: the API servers could not be looked at in between: %s", crd.name, error)

    async def _lag(self, servers: ApiServers, crd: Crd, lagged: list[str], report: CrdReport) -> str:
        """Say which API server lagged during the pass that just ended, or does now; not where the CRD was flipped."""
        try:
            behind = lagged[0] if lagged else await servers.behind(crd)
            flipped = behind and (await read_crd(self._cluster, crd.name)).crd.storage.name != crd.storage.name
        except (KubeError, MigrationRefused, CrdError) as error:
            why = f"the API servers could not be looked at after the pass: {error}"
            if isinstance(error, KubeError) and error.out_of_reach:
                report.unfinished, report.unreachable = f"{why}. Run again to prune", self._cluster.host
            return why
        return "" if flipped else behind

    def _resumed(self, crd: Crd, rules: EntryPolicies, report: CrdReport) -> EntryPolicies:
        """Leave out what was written since an earlier run's watermark, if that is asked for and the watermark holds."""
        report.resumed_from = ""
        found = resuming.valid_watermark(crd, self._options.settle_s) if self._options.resume else None
        if found is None or not rules.reencode or rules.written_since:
            return rules
        report.resumed_from = found.resource_version
        return replace(rules, written_since=found.resource_version)

    async def _listed(self, crd: Crd, rules: EntryPolicies, report: CrdReport, resource_version: str) -> None:
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

    async def _void_proof(self, name: str) -> None:
        """Have the next run look at all objects, whatever proof a run at work at the same time leaves."""
        try:
            crd = (await read_crd(self._cluster, name)).crd
        except (KubeError, MigrationRefused, CrdError):
            return  # this run failed as it is
        mark = f"{UNFINISHED} {self._environment.random.getrandbits(48):012x}"
        if said := await annotate(self._cluster, crd, {ANNOTATION: mark}):
            _log.info("%s: the proof could not be voided: %s", name, said)

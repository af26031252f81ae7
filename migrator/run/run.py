"""The migration of CRDs: the algorithm of ``restow migrate``.

``_migrate`` and ``_pass`` are the algorithm for one CRD; its phases are their comments:

- *begin* (``run.begin``): refuse what cannot be migrated, protect the stored versions, settle.
- *pass* (``requests.passes``): list all objects, decide what each needs, write it. A shard does its part. Before
  the first write the run leaves a watermark (``model.watermark``), and a later one skips objects written after it.
- *prove*, *prune*, *mark* (``run.end``): prove on a fresh read of the CRD that every object is stored at the storage
  version, trim ``status.storedVersions``, and write the proof on the CRD.

A pass whose premise did not hold (``decide.premise``: the CRD changed, or etcd was restored) proves nothing and is
repeated, a limited number of times. The run lists no objects if an earlier proof covers all of its work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from restow.crds import Crd, CrdError
from restow.kube.cluster import Cluster
from restow.kube.errors import ConfigError, KubeError, Unauthorized, Unreachable
from restow.kube.retry import RetryingCluster
from restow.migrator.decide.policies import entry_policies
from restow.migrator.decide.premise import Followers, Premise
from restow.migrator.decide.proof import ANNOTATION, UNFINISHED, nothing_due, reencoding_due, what_is_proved
from restow.migrator.decide.prune import PruneVerdict
from restow.migrator.model.callbacks import CallbackFailed, Callbacks, MigrationRefused, Moment, Observer, Silent
from restow.migrator.model.options import Engine, Options, Phase
from restow.migrator.model.report import CrdReport, MigrationReport, ObjectFailure, ShardReport
from restow.migrator.model.watermark import ANNOTATION as WATERMARK
from restow.migrator.model.watermark import Watermark, valid_watermark
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.requests.apiservers import ApiServers
from restow.migrator.requests.crdaccess import annotate, read_crd
from restow.migrator.requests.environment import Converters, Environment, RunStop, own_webhook
from restow.migrator.requests.lostfields import warn_of_lost_fields
from restow.migrator.requests.lostowners import remember, still_lost
from restow.migrator.requests.native import NativeRun, NativeStuck
from restow.migrator.requests.passes import run_pass, unfinished
from restow.migrator.requests.preflight import missing_namespace, rehearse_writes
from restow.migrator.requests.premisecheck import PremiseCheck
from restow.migrator.run.begin import begin, begin_again
from restow.migrator.run.context import CrdRun
from restow.migrator.run.end import Pruner
from restow.migrator.run.settle import Lagging, LagWatch, remaining
from restow.migrator.run.shards import ShardRun

_log = logging.getLogger(__name__)

GRACE = 8.0
"""Seconds for requests in flight after a request to stop; pods have 30 by default, and ``restow`` promises 10."""

_LOOK_S = 5.0


async def _migrate(run: CrdRun, servers: ApiServers) -> PruneVerdict:
    """Migrate one CRD: begin, pass, prove, prune, mark; repeat if the premise of the pass did not hold."""
    options, report = run.options, run.report

    # Begin: preflight, protect the stored versions, settle.
    premise = await begin(run, servers)
    report.warn([(await still_lost(run.cluster, premise.crd, forget=not options.dry_run)).sentence])

    for number in range(1, options.passes + 1):
        if not run.unconfirmed and (why := nothing_due(premise.crd, options)):
            return await _prune_alone(run, premise.crd, why)

        # Pass, prove, prune, mark.
        verdict = await _pass(run, servers, premise)
        if report.unfinished or not verdict.again or number == options.passes or run.stop:
            break

        # The CRD changed during the pass, or etcd was restored, so nothing is proved: begin again.
        run.followers.forget(premise.crd.uid)
        again = await begin_again(run, servers)
        if again is None:
            return verdict
        premise = again
        report.warnings.append(f"{verdict.reason}; all objects were looked at again")

    if options.namespace and not report.objects.listed:
        report.warn([await missing_namespace(run.cluster, options.namespace)])
    return verdict


def _fail_unconfirmed(run: CrdRun) -> None:
    """Report the objects whose owners no further pass of this run checks."""
    for each in run.unconfirmed:
        run.report.fail(ObjectFailure(each.before.namespace, each.before.name, "OwnershipUnconfirmed", _UNCONFIRMED))


async def _pass(run: CrdRun, servers: ApiServers, premise: Premise) -> PruneVerdict:
    """Finish all objects of a CRD, or those of the shard, and prune if that is safe."""
    options, report, crd = run.options, run.report, premise.crd
    report.storage_version, report.stored_after = crd.storage.name, crd.stored_versions
    resumable = valid_watermark(crd, options.settle_s) is not None

    # Decide the policy for entries of each version, and report what a rewrite loses before it happens.
    # Writes that are to be checked again are decided as in their pass, whatever another run has proved since.
    done = not run.unconfirmed and what_is_proved(crd).managed_fields_done(options)
    policies = entry_policies(crd, options, completed=done)
    if policies.reencode:
        await warn_of_lost_fields(run.environment, crd, options, report)
    share = await ShardRun.of(run.cluster, crd, options)
    check = PremiseCheck(run.cluster, premise, run.unconfirmed)

    # Engine native: the cluster's own migration stores the objects; the pass then verifies this and does the rest.
    native = None
    if options.engine is Engine.NATIVE:
        native = NativeRun(run.environment, crd, policies, options, report)
        if policies.reencode:
            run.at(Moment.NATIVE)
            policies = replace(policies, written_since=await native.store_again())

    verdict = await _write_and_prune(run, servers, check, _resume(run, crd, policies), share)

    if native is not None:
        await native.end()
    old = [name for name in report.stored_before if name != crd.storage.name]
    if report.unchanged and old and not resumable:
        report.warnings.append(_UNCHANGED.format(count=report.unchanged, crd=crd.name, old=", ".join(old)))
    return verdict


async def _write_and_prune(
    run: CrdRun, servers: ApiServers, check: PremiseCheck, policies: EntryPolicies, share: ShardRun | None
) -> PruneVerdict:
    """List and write the objects, then prove, prune and mark, while the CRD and the API servers are watched."""
    options, report, crd = run.options, run.report, check.premise.crd
    lag = LagWatch(run, servers, crd)
    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(check.follow()), group.create_task(lag.follow())]
        try:
            # Pass: list, decide, write. An earlier process may have done the shard's part.
            if share is None or not share.done_before(crd):
                run.at(Moment.WRITING)
                listed = partial(_listed, run, check, policies)
                before, run.unconfirmed[:] = (*run.unconfirmed,), ()
                await run_pass(run.environment, check, policies, options, report, listed=listed, unconfirmed=before)
                if not await check.confirm() and not report.unfinished:
                    report.pruned_reason = check.changed
                    return PruneVerdict(prune=False, reason=check.changed, again=True)
                wrote = policies.reencode or report.objects.rewritten
                if wrote and (behind := lag.lagged if report.unfinished else await lag.after_pass()):
                    await lag.drop_watermark()
                    report.pruned_reason = behind
                    return PruneVerdict(prune=False, reason=behind, again=True)

            # Prove, prune, mark: on a fresh read of the CRD, again whenever other clients write it in between.
            run.at(Moment.PRUNING)
            return await Pruner(run.cluster, options, run.stop, report).prune(check, share)
        finally:
            for watcher in watchers:
                watcher.cancel()
            if not check.changed:
                run.unconfirmed.clear()


def _resume(run: CrdRun, crd: Crd, policies: EntryPolicies) -> EntryPolicies:
    """Return policies that skip objects written after an earlier run's watermark.

    They are unchanged if the options do not ask for this, or if no watermark is valid.
    """
    run.report.resumed_from = ""
    found = valid_watermark(crd, run.options.settle_s) if run.options.resume else None
    if found is None or not policies.reencode or policies.written_since:
        return policies
    run.report.resumed_from = found.resource_version
    return replace(policies, written_since=found.resource_version)


async def _listed(run: CrdRun, check: PremiseCheck, policies: EntryPolicies, resource_version: str) -> None:
    """Write the list's resourceVersion on the CRD, unless an older watermark is still valid, which covers more."""
    options, report, crd = run.options, run.report, check.premise.crd
    check.listed(resource_version)
    if not policies.reencode or options.dry_run:
        return
    taken = valid_watermark(crd, options.settle_s)
    if taken is None:
        taken = Watermark.taken(crd, resource_version, options.settle_s)
    elif taken.generation == crd.generation:
        return
    else:
        taken = taken.renewed(crd)
    if taken is None:
        _log.info("%s: resourceVersion %r compares to nothing, so no run can resume", crd.name, resource_version)
    elif said := await annotate(run.cluster, crd, {WATERMARK: taken.encode()}):
        _log.info("%s: the watermark could not be left: %s", crd.name, said)
        if options.resume:
            report.warnings.append(f"the watermark could not be left on {crd.name}, so no run can resume ({said})")


async def _prune_alone(run: CrdRun, crd: Crd, why: str) -> PruneVerdict:
    """Prune, or extend the proof to the CRD's present generation, without listing objects."""
    options, report = run.options, run.report
    report.storage_version, report.stored_after = crd.storage.name, crd.stored_versions
    report.pruned_reason = why
    if options.dry_run or options.partial:
        return PruneVerdict(prune=False)
    pruner = Pruner(run.cluster, options, run.stop, report)
    if crd.stored_versions != (crd.storage.name,) and options.prunes:
        return await pruner.prune(PremiseCheck(run.cluster, Premise(crd)), None)
    await pruner.extend_proof(crd)
    return PruneVerdict(prune=False)


class Migration:
    """Migrates CRDs of one cluster, one after the other.

    Args:
        cluster: the API server.
        options: the options of the run; by default everything.
        observer: receives every moment of the run; see ``Observer``.
        stop: when it is set, the run starts no further object, finishes writes in flight, and reports what remains.
        converters: returns the converter of each CRD with strategy Webhook; None, the default for all, means the CRD's
            own webhook.
        clock: a monotonic clock, in seconds.
        chance: spreads waits; a seeded one makes a run repeatable.
        followers: since when this process knows each API server to follow each CRD.
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
        followers: Followers | None = None,
    ) -> None:
        self._cluster = cluster
        self._options = options or Options()
        self._observer = observer or Silent()
        self._stop = stop
        self._converters = converters
        self._clock = clock
        self._chance = chance or random.Random()
        self._followers = followers or Followers()

    async def run(self, names: Sequence[str]) -> MigrationReport:
        """Migrate the CRDs of these names, one after the other.

        Raises:
            KubeError: the API server could not be reached before anything was written.
            CallbackFailed: the observer or a converter raised; see ``CallbackFailed.reports``.
        """
        reports: list[CrdReport] = []
        host = self._cluster.host
        if len(names) > 1:
            await self._look_ahead(names)
        for name in names:
            if reports and reports[-1].unreachable == host:
                # The run has waited as long as the options allow; each further CRD would wait as long again.
                reports.append(CrdReport(name=name, unfinished=_NOT_BEGUN, unreachable=host))
                continue
            try:
                reports.append(await self.migrate(name))
            except CallbackFailed as failure:
                failure.reports = (*reports, *failure.reports)
                raise
            except KubeError as error:
                if not reports and (error.out_of_reach or isinstance(error, (Unreachable, Unauthorized, ConfigError))):
                    raise
                # The report of the CRDs before this one must not be lost.
                reach = host if error.out_of_reach else ""
                reports.append(CrdReport(name=name, unfinished=f"it could not be read: {error}", unreachable=reach))
        return MigrationReport(tuple(reports), dry_run=self._options.dry_run)

    async def _look_ahead(self, names: Sequence[str]) -> None:
        """Look at the API servers for all CRDs, so that they settle together; a failure is met again later."""
        options = self._options
        cluster = RetryingCluster(self._cluster, patience_s=_LOOK_S, clock=self._clock, chance=self._chance)
        with contextlib.suppress(KubeError):
            async with ApiServers(cluster, options.api_servers) as servers:
                for name in names:
                    if self._stop is not None and self._stop.is_set():
                        return
                    with contextlib.suppress(MigrationRefused, CrdError):
                        crd = await read_crd(cluster, name)
                        if reencoding_due(crd, options):
                            await remaining(servers, self._followers, crd, settle_s=options.settle_s, clock=self._clock)

    async def migrate(self, name: str) -> CrdReport:
        """Migrate one CRD.

        Once ``stop`` is set this returns within ``GRACE`` seconds, whatever the API server does.

        Raises:
            KubeError: the API server could not be reached before anything was written.
            CallbackFailed: the observer or a converter raised, and the run has ended in an orderly way.
        """
        begun = self._clock()
        run = self._run_of(name)
        report, stop, callbacks = run.report, run.stop, run.callbacks
        error: KubeError | None = None
        try:
            async with stop.limit(GRACE):
                error = await _attempt(run)
        except TimeoutError:
            report.unfinished, report.unreachable = unfinished(report, stop), stop.unreachable
        except BaseExceptionGroup:
            if callbacks.failure is None:
                raise
        if callbacks.failure is not None:
            report.unfinished = report.unfinished or str(callbacks.failure)
        report.duration_s = self._clock() - begun
        run.at(Moment.ENDED)
        callbacks.check(report)
        if error is not None:
            raise error
        return report

    def _run_of(self, name: str) -> CrdRun:
        stop = RunStop(self._stop, self._clock)
        callbacks = Callbacks(self._observer, self._converters, stop.because)
        patience_s = self._options.patience_s
        # The next CRD's client reuses what this one learns about the API server.
        self._cluster = cluster = RetryingCluster(
            self._cluster, stop, patience_s=patience_s, clock=self._clock, chance=self._chance
        )
        environment = Environment(cluster, stop, self._clock, self._chance, callbacks.converter)
        report = CrdReport(name=name, waits=stop.waits)
        return CrdRun(environment, self._options, callbacks, self._followers, report)


async def _attempt(run: CrdRun) -> KubeError | None:
    """Migrate; errors are put into the report, or returned if no work was started."""
    report, stop = run.report, run.stop
    if stop:
        report.unfinished = unfinished(report, stop)
        return None
    try:
        await _migrate_and_note(run)
    except (MigrationRefused, CrdError) as error:
        report.refused = str(error)
        report.pruned_reason = f"refused: {error}"
    except (NativeStuck, Lagging) as stuck:
        report.unfinished = report.pruned_reason = str(stuck)
    except KubeError as error:
        if stop:
            report.unfinished = unfinished(report, stop)
        elif report.passes:
            report.unfinished = report.pruned_reason = f"the run could not go on: {error}. Run again to go on"
            report.unreachable = run.cluster.host if error.out_of_reach else ""
        else:
            return error
    return None


async def _migrate_and_note(run: CrdRun) -> None:
    """Migrate, and record on the CRD what later runs have to know about unfinished objects."""
    options, report = run.options, run.report
    report.engine = (Engine.NATIVE if options.engine is Engine.NATIVE else Engine.DIRECT).value
    if (shard := options.shard) is not None:
        report.shard = ShardReport(index=shard.index, count=shard.count)
    try:
        async with ApiServers(run.cluster, options.api_servers) as servers:
            try:
                verdict = await _migrate(run, servers)
            finally:
                _fail_unconfirmed(run)
            report.not_seen += servers.unseen
        if options.dry_run and not report.unfinished:
            await _rehearse_writes(run)
    except Exception:  # also after an earlier pass, of which no later run can see the lost owners
        await _note(run)
        raise
    await _note(run)
    if verdict.again and not report.pruned:
        report.unfinished = report.unfinished or f"{verdict.reason}. Run again once it no longer changes"


async def _rehearse_writes(run: CrdRun) -> None:
    """Try what the run, if it were no dry run, would write to the CRD."""
    report, crd = run.report, await read_crd(run.cluster, run.report.name)
    for found in await rehearse_writes(run.cluster, crd, run.options, rewritten=report.objects.rewritten > 0):
        if found.fails:
            report.unfinished = report.unfinished or found.message
        else:
            report.warn([found.message])


async def _note(run: CrdRun) -> None:
    """Record on the CRD the objects without owners, and that objects failed."""
    report = run.report
    if report.owners_lost and (said := await remember(run.cluster, report.name, report.owners_lost)):
        report.warn([f"the objects that lost their owners could not be noted on the CRD ({said})"])
    if report.objects.failed and not run.options.dry_run:
        await _void_proof(run)


async def _void_proof(run: CrdRun) -> None:
    """Make the next run check all objects, whatever proof another run writes at the same time."""
    name = run.report.name
    try:
        crd = await read_crd(run.cluster, name)
    except (KubeError, MigrationRefused, CrdError):
        return  # the report of this run says that objects failed
    mark = f"{UNFINISHED} {run.environment.random.getrandbits(48):012x}"
    if said := await annotate(run.cluster, crd, {ANNOTATION: mark}):
        _log.info("%s: the proof could not be voided: %s", name, said)


async def migrate(
    cluster: Cluster,
    names: Sequence[str],
    options: Options | None = None,
    *,
    observer: Observer | None = None,
    stop: asyncio.Event | None = None,
    converters: Converters = own_webhook,
) -> MigrationReport:
    """Migrate all objects of CRDs to the storage version and prune ``status.storedVersions``, as ``restow migrate``.

    Args:
        cluster: the API server.
        names: the CRDs, ``<plural>.<group>``, which are migrated one after the other.
        options: the options of the run; by default everything.
        observer: receives every moment of the run; see ``Observer``.
        stop: when it is set, the run starts no further object, finishes writes in flight, and reports what remains.
        converters: returns the converter of each CRD with strategy Webhook; None, the default for all, means the CRD's
            own webhook.

    Raises:
        KubeError: the API server could not be reached before anything was written.
        CallbackFailed: the observer or a converter raised; see ``CallbackFailed.reports``.
    """
    return await Migration(cluster, options, observer=observer, stop=stop, converters=converters).run(names)


async def prune(
    cluster: Cluster,
    names: Sequence[str],
    options: Options | None = None,
    *,
    observer: Observer | None = None,
    stop: asyncio.Event | None = None,
) -> MigrationReport:
    """Trim ``status.storedVersions`` to the storage version after a proof, as ``restow migrate --only prune``.

    If no earlier run has proved that all objects are stored at the storage version, the function first writes every
    object; managedFields stay unchanged.

    Args:
        cluster: the API server.
        names: the CRDs, ``<plural>.<group>``.
        options: settle time, patience and further API servers; the managedFields phase is always skipped.
        observer: receives every moment of the run; see ``Observer``.
        stop: when it is set, nothing is pruned any more, and the report says what remains.

    Raises:
        KubeError: the API server could not be reached before anything was written.
        CallbackFailed: the observer raised; see ``CallbackFailed.reports``.
    """
    options = options or Options()
    options = replace(options, skip=options.skip | {Phase.MANAGED_FIELDS})
    return await migrate(cluster, names, options, observer=observer, stop=stop)


_NOT_BEGUN = "it was not begun, since the API server was out of reach for so long; run again"

_UNCONFIRMED = (
    "it was written while the CRD changed, and the run ended before its owners were checked again. Look at its "
    "managedFields (kubectl get --show-managed-fields -o yaml) once the CRD changes no more"
)

_UNCHANGED = (
    "{count} objects that were last written before {crd} was changed were current already, although "
    "status.storedVersions named {old}: an earlier run stored them, or an API server that lags takes them for current. "
    "If no run was there before, look at the API servers, and run again with --ignore-mark"
)

"""Begin a migration: read the CRD, refuse what cannot be migrated, protect the stored versions, settle.

A run writes no object before all four steps have succeeded. ``begin`` runs again before each further pass, because the
CRD changed during the previous one.
"""

from __future__ import annotations

from functools import partial

from restow.crds import Crd
from restow.kube.errors import Conflict, KubeError, NotFound, OutcomeUnknown
from restow.migrator.decide.premise import Premise
from restow.migrator.decide.proof import nothing_due, reencoding_due, unprotected_versions
from restow.migrator.model.callbacks import MigrationRefused, Moment
from restow.migrator.requests.apiservers import ApiServers
from restow.migrator.requests.crdaccess import DELETED, patch_stored_versions, read_crd
from restow.migrator.requests.native import beside_native
from restow.migrator.requests.preflight import missing_permissions, refusal
from restow.migrator.requests.premisecheck import leave_token
from restow.migrator.run.context import CrdRun
from restow.migrator.run.settle import settle

_ATTEMPTS = 10
_ASK_AGAIN_S = (0.5, 1.5)


async def begin(run: CrdRun, servers: ApiServers, *, first: bool = True) -> Premise:
    """Read the CRD and make it safe to list and write its objects.

    Args:
        run: the migration.
        servers: the API servers, all of which must have seen the current CRD.
        first: whether this is the first pass; the report then records the storedVersions from before.

    Returns:
        The premise of the pass: the CRD as it was when every API server followed it.

    Raises:
        MigrationRefused: the CRD cannot be migrated in its present state, or a right is missing.
        NativeStuck: the run waited for the cluster's own migration, which does not end.
        Lagging: an API server does not follow the CRD.
        KubeError: the API server cannot be reached.
    """
    crd = unwritten = await read_crd(run.cluster, run.report.name)
    _take_down(run, crd, first=first)  # first, because the report of a refusal also names the versions
    if crd.storage_migrating:
        waiting = partial(run.at, Moment.NATIVE)
        crd = await beside_native(run.environment, crd, run.options, run.report, waiting)
        if first:
            run.report.stored_before = crd.stored_versions  # the cluster's own migration may have pruned them
    await _preflight(run, crd)
    crd = await _name_stored_versions(run, crd)
    if not run.unconfirmed and nothing_due(crd, run.options):
        return Premise(crd, seen_at=unwritten.resource_version)
    token = ""
    if reencoding_due(crd, run.options) and not run.options.dry_run:
        # Before the look, because a restore of etcd while API servers and requests are waited for must be seen, too.
        crd, token = await leave_token(run.cluster, crd)
    crd = await settle(run, servers, crd)
    seen = unwritten if unwritten.generation == crd.generation else crd
    return Premise(crd, token, seen.resource_version)


async def begin_again(run: CrdRun, servers: ApiServers) -> Premise | None:
    """Begin another pass; return None if this is impossible, with the reason in the report.

    Raises:
        MigrationRefused: the CRD can no longer be migrated in its present state, or a right is missing.
        NativeStuck: the run waited for the cluster's own migration, which does not end.
        Lagging: an API server does not follow the CRD.
    """
    report = run.report
    try:
        return await begin(run, servers, first=False)
    except KubeError as error:
        report.unfinished = f"the CRD could not be read for another pass: {error}"
        report.unreachable = run.cluster.host if error.out_of_reach else ""
    except MigrationRefused as refused:
        if not isinstance(refused.__cause__, NotFound):
            raise
        report.unfinished = report.pruned_reason = DELETED.format(name=report.name)
    return None


def _take_down(run: CrdRun, crd: Crd, *, first: bool) -> None:
    report = run.report
    report.storage_version, report.stored_after = crd.storage.name, crd.stored_versions
    if first:
        report.stored_before = crd.stored_versions


async def _preflight(run: CrdRun, crd: Crd) -> None:
    """Refuse a CRD in a wrong state, a converter that does not fit it, and a user without the rights.

    Raises:
        MigrationRefused: one of these applies; the message says which, and what to do.
        KubeError: the rights cannot be checked, because the API server cannot be reached.
    """
    if why := refusal(crd, run.options.namespace):
        raise MigrationRefused(why)
    run.environment.converter(crd)
    if missing := await _missing_permissions(run, crd):
        msg = f"permission is missing to {'; '.join(missing)}: grant it to this user and run again"
        raise MigrationRefused(msg)


async def _missing_permissions(run: CrdRun, crd: Crd) -> list[str]:
    """Check the rights; repeat the check if one is missing, because a starting server allows none."""
    missing = await missing_permissions(run.cluster, crd, run.options)
    for wait in _ASK_AGAIN_S:
        if not missing or run.stop:
            break
        await run.stop.sleep(wait)
        missing = await missing_permissions(run.cluster, crd, run.options)
    while missing and run.cluster.may_be_starting and not run.stop:
        await run.stop.sleep(_ASK_AGAIN_S[-1])
        missing = await missing_permissions(run.cluster, crd, run.options)
    return missing


async def _name_stored_versions(run: CrdRun, crd: Crd) -> Crd:
    """Add every version at which objects may be stored to storedVersions, so that none of them can be removed.

    Such a version is missing after a prune by another client, or after a failure of the cluster's own migration. The
    API server refuses to remove a version in storedVersions. This protects the version until the objects are proved to
    be at the storage version.

    Raises:
        MigrationRefused: other clients write the CRD so often that no attempt succeeds, or the CRD was deleted.
        KubeError: the API server refuses the write, or cannot be reached.
    """
    options, report = run.options, run.report
    if options.dry_run or options.partial or not options.prunes:
        return crd
    conflicts, unanswered = 0, set[str]()
    while conflicts < _ATTEMPTS:
        if found := unanswered.intersection(crd.stored_versions):
            report.put_back = tuple(dict.fromkeys((*report.put_back, *sorted(found))))
        missing = unprotected_versions(crd)
        if not missing:
            return crd
        try:
            guarded = await patch_stored_versions(run.cluster, crd, (*missing, *crd.stored_versions))
        except Conflict as conflict:
            if isinstance(conflict, OutcomeUnknown):
                unanswered.update(missing)
            else:
                conflicts += 1
            crd = await read_crd(run.cluster, report.name)
            continue
        report.put_back = tuple(dict.fromkeys((*report.put_back, *missing)))
        return guarded
    msg = f"{report.name} is written by others all the time, so nothing was begun. Run again once that ends"
    raise MigrationRefused(msg)

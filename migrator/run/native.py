"""The engine ``native``: run the cluster's own migration first, then a pass that verifies it and does the rest.

restow trusts neither its success nor its prune, which happens after a failure too. The resourceVersions are the proof:
an object with a newer one than that of the migration's start was written later, at the storage version. The pass writes
only the other objects, and those with managedFields entries to translate.
"""

from __future__ import annotations

from collections.abc import Callable

from restow.crds import Crd
from restow.kube.errors import Conflict, KubeError, OutcomeUnknown
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.model.options import Engine, Options
from restow.migrator.model.report import CrdReport
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.requests.crdaccess import patch_stored_versions, read_crd
from restow.migrator.requests.lister import ListFailed, list_objects
from restow.migrator.requests.native import (
    NativeApi,
    NativeMigration,
    NativeState,
    NativeStuck,
    active,
    find_native,
    left_behind,
    native_name,
    without_condition,
)
from restow.migrator.requests.passes import Environment, page_size

_ATTEMPTS = 10


async def beside_native(
    environment: Environment, crd: Crd, options: Options, report: CrdReport, waiting: Callable[[], None]
) -> Crd:
    """Handle a condition StorageMigrating of the CRD; return the CRD to continue with.

    The run waits for the migration (``auto``), follows its own one later (``native``), or leaves it to be refused. A
    StorageVersionMigration that was deleted while it ran, or whose API is no longer served, leaves the condition
    permanently. This is a warning, and not a reason to wait.

    Raises:
        NativeStuck: the run waited for the migration, which does not end, or the run was asked to stop before.
        KubeError: the API server cannot be reached.
    """
    cluster = environment.cluster
    if warning := await left_behind(cluster, crd):
        again = await read_crd(cluster, crd.name)
        if not again.storage_migrating:
            return again
        report.warnings.append(warning)
        return without_condition(again)
    try:
        api = await find_native(cluster)
    except MigrationRefused:
        return crd
    running = active(api.migrations, crd) if api is not None else ()
    if api is None or not running:
        return await read_crd(cluster, crd.name)
    if options.engine is Engine.NATIVE and all(each.name == native_name(crd, options.settle_s) for each in running):
        return without_condition(crd)
    if options.engine is not Engine.AUTO:
        return crd
    waiting()
    for each in running:
        await api.follow(
            each.name, stop=environment.stop, clock=environment.clock, patience_s=options.native_patience_s
        )
    names = ", ".join(each.name for each in running)
    if environment.stop:
        msg = f"{environment.stop.why} while the StorageVersionMigration {names} was waited for; run again to go on"
        raise NativeStuck(msg)
    report.warnings.append(f"the cluster's StorageVersionMigration {names} was at work, and was waited for")
    return await read_crd(cluster, crd.name)


class NativeRun:
    """The cluster's own migration of one CRD, within one pass.

    Args:
        environment: the API server, the clock and the end of the run.
        crd: the CRD as read before, when it had settled.
        rules: the policies of the pass.
        options: the options of the run.
        report: receives warnings and counts of requests.
    """

    def __init__(
        self, environment: Environment, crd: Crd, rules: EntryPolicies, options: Options, report: CrdReport
    ) -> None:
        self._environment = environment
        self._crd = crd
        self._rules = rules
        self._options = options
        self._report = report
        self._name = native_name(crd, options.settle_s)
        self._api: NativeApi | None = None
        self._ended: NativeMigration | None = None

    async def store_again(self) -> str:
        """Create the migration and wait for it; return the resourceVersion after which it wrote objects.

        The resourceVersion is empty if there was no migration; the pass then writes every object itself.

        Raises:
            MigrationRefused: the API is not served, a right is missing, or another StorageVersionMigration of the CRD
                is at work.
            NativeStuck: the migration does not end.
            KubeError: the API server cannot be reached.
        """
        api = await find_native(self._environment.cluster)
        if api is None:
            raise MigrationRefused(_NOT_SERVED)
        if others := [each.name for each in active(api.migrations, self._crd) if each.name != self._name]:
            msg = (
                f"the StorageVersionMigration {', '.join(others)} of {self._crd.name} is at work or about to be. Wait "
                "for it to end, then run again, or use the engine auto"
            )
            raise MigrationRefused(msg)
        if blocked := self._owning(api) or await self._blocked():
            self._report.warnings.append(blocked)
            return ""
        self._api = api
        made = await api.make(self._crd, self._options.settle_s)
        ended = await api.follow(
            made.name,
            stop=self._environment.stop,
            clock=self._environment.clock,
            patience_s=self._options.native_patience_s,
        )
        if ended is None:
            self._report.warnings.append(self._gone())
            return ""
        self._ended = ended
        if ended.state is NativeState.FAILED:
            await self._put_back()
            self._report.warnings.append(
                f"the StorageVersionMigration {ended.name} failed ({ended.message}); every object was looked at, and "
                "restow wrote what it had left"
            )
        return ended.resource_version

    async def end(self) -> None:
        """Clean up after the pass: delete a completed migration, or undo its prune if objects are left."""
        if self._ended is None or self._api is None:
            return
        if not self._report.complete:
            await self._put_back()
        elif said := await self._api.delete(self._ended.name):
            self._report.warnings.append(f"StorageVersionMigration {self._ended.name} could not be deleted ({said})")

    def _gone(self) -> str:
        if self._environment.stop:
            return f"the StorageVersionMigration {self._name} goes on by itself; run again to follow it"
        return f"the StorageVersionMigration {self._name} was deleted before it ended; restow wrote every object itself"

    def _owning(self, api: NativeApi) -> str:
        """Return what the cluster's own migration would come to own, or an empty text."""
        defaults = self._rules.new_defaults
        if not (api.patches and defaults):
            return ""
        return (
            f"the engine native was not used: the cluster's own migration would own the new defaults of "
            f"{self._crd.name} ({', '.join(defaults)}), and their owners would conflict with it; restow wrote every "
            "object itself"
        )

    async def _blocked(self) -> str:
        """Return why the cluster's own migration would never end, or an empty text.

        Up to Kubernetes 1.36 it applies an object's identity, which fails with 500 if a managedFields entry is at a
        version that is no longer in the CRD, and it repeats a 500 forever. A controller may be older than its API
        server.
        """
        crd, rules = self._crd, self._rules
        count = 0
        try:
            async for page in list_objects(
                self._environment.cluster,
                crd.resource_at(crd.storage.name),
                page_size=page_size(self._options, crd, rules),
                requests=self._report.requests,
                stop=self._environment.stop,
                jitter=self._environment.jitter,
                patience_s=self._options.patience_s,
            ):
                for meta, _live in page.items:
                    count += any(entry.api_version not in rules.present for entry in meta.managed_fields)
        except ListFailed as failure:
            return f"the engine native was not used: {failure}"
        if not count:
            return ""
        return (
            f"the engine native was not used: {count} objects of {crd.name} have managedFields entries of versions "
            "that have left it, over which the cluster's own migration never ends; restow wrote every object itself"
        )

    async def _put_back(self) -> None:
        """Put back the storedVersions that the cluster's own migration removed without a proof."""
        start = self._crd
        conflicts = 0
        while conflicts < _ATTEMPTS:
            try:
                now = await read_crd(self._environment.cluster, start.name)
                taken = [each for each in start.stored_versions if each not in now.stored_versions]
                taken = [each for each in taken if now.version(each)]  # no object can be stored at another version
                if now.uid != start.uid or not taken:
                    return
                await patch_stored_versions(self._environment.cluster, now, (*taken, *now.stored_versions))
            except Conflict as conflict:
                conflicts += not isinstance(conflict, OutcomeUnknown)
            except (KubeError, MigrationRefused) as error:
                self._report.warnings.append(
                    f"{', '.join(start.stored_versions)} could not be put back into status.storedVersions of "
                    f"{start.name} ({error}): do not remove a version until a run has succeeded"
                )
                return
            else:
                return


_NOT_SERVED = (
    "the cluster serves no StorageVersionMigrations (storagemigration.k8s.io, off by default up to Kubernetes 1.36: "
    "feature gate StorageVersionMigrator and --runtime-config). Use the engine direct"
)

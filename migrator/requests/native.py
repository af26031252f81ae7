"""The cluster's own StorageVersionMigration (``storagemigration.k8s.io``, KEP-4192): create, follow and verify it.

Its controller, by its source in Kubernetes 1.36 and 1.37, records the resource's resourceVersion when it first sees the
StorageVersionMigration (``status.resourceVersion``). It then writes every object that is not newer, with a request that
contains only the object's identity (as an apply; from 1.37 on as a merge patch), and ends ``Succeeded`` or ``Failed``.
The first refused object fails it; it repeats a 500 forever. Then a second controller sets the CRD's condition
StorageMigrating to False, *prunes storedVersions, also after a failure*, and sets ``Running`` to False. The migration
is over only then. A StorageVersionMigration that is deleted while it runs leaves the condition True permanently.

restow reads it every second instead of watching it, which needs only the right to get it; a migration lasts minutes.

The engine ``native`` (``NativeRun``) runs it first, then a pass that verifies it and does the rest. restow trusts
neither its success nor its prune. The resourceVersions are the proof: an object with a newer one than that of the
migration's start was written later, at the storage version. The pass writes only the other objects, and those with
managedFields entries to translate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import msgspec

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound, OutcomeUnknown
from restow.kube.resources import Resource
from restow.kube.retry import RetryingCluster, with_retries
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.model.options import Engine, Options
from restow.migrator.model.report import CrdReport
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.requests.crdaccess import patch_stored_versions, read_crd
from restow.migrator.requests.environment import Environment, RunStop
from restow.migrator.requests.lister import ListFailed, object_pages
from restow.migrator.requests.passes import page_size

NATIVE_MIGRATIONS = tuple(
    Resource("storagemigration.k8s.io", version, "storageversionmigrations", namespaced=False)
    for version in ("v1", "v1beta1")
)
"""The supported versions, newest first; v1alpha1 had another form."""


class NativeState(StrEnum):
    """The state of a migration; ``ending``: it has ended, but the CRD does not show this yet."""

    PENDING = "pending"
    RUNNING = "running"
    ENDING = "ending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def over(self) -> bool:
        """Whether the controllers are done with it."""
        return self in (NativeState.SUCCEEDED, NativeState.FAILED)


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    message: str = ""


class _NativeStatus(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = None
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _Of(msgspec.Struct, frozen=True):
    group: str = ""
    resource: str = ""


class _Spec(msgspec.Struct, frozen=True):
    resource: _Of = _Of()


class _NativeMetadata(msgspec.Struct, frozen=True):
    name: str = ""


class NativeMigration(msgspec.Struct, frozen=True):
    """One StorageVersionMigration."""

    metadata: _NativeMetadata = _NativeMetadata()
    spec: _Spec = _Spec()
    status: _NativeStatus = _NativeStatus()

    @property
    def name(self) -> str:
        """The name of the migration."""
        return self.metadata.name

    @property
    def resource_version(self) -> str:
        """The resourceVersion of its start: newer objects were written since; empty before it has started."""
        return self.status.resource_version

    @property
    def state(self) -> NativeState:
        """The state of the migration."""
        true = {each.type for each in self.status.conditions or () if each.status == "True"}
        ended = true & {"Succeeded", "Failed"}
        if "Running" in true:
            return NativeState.ENDING if ended else NativeState.RUNNING
        if "Failed" in true:
            return NativeState.FAILED
        return NativeState.SUCCEEDED if ended else NativeState.PENDING

    @property
    def message(self) -> str:
        """The controller's message about its failure."""
        return next((each.message for each in self.status.conditions or () if each.type == "Failed"), "")

    def concerns(self, crd: Crd) -> bool:
        """Return whether it migrates this CRD's objects."""
        return (self.spec.resource.group, self.spec.resource.resource) == (crd.group, crd.plural)


class _NativeList(msgspec.Struct, frozen=True):
    items: tuple[NativeMigration, ...] | None = None


native_decoder = msgspec.json.Decoder(NativeMigration)
native_list_decoder = msgspec.json.Decoder(_NativeList)


def native_name(crd: Crd, settle_s: float) -> str:
    """Return the name of the migration that restow creates after this settle time.

    It is the same for the same CRD in the same generation: a run after a killed one finds it, and may trust its
    resourceVersion as the killed run would have.
    """
    told = msgspec.json.encode([crd.name, crd.uid, crd.generation, settle_s])
    return f"restow-{crd.plural}-{hashlib.sha256(told).hexdigest()[:12]}"


def native_manifest(crd: Crd, resource: Resource, settle_s: float) -> dict[str, Any]:
    """Return the manifest of the migration to create."""
    return {
        "apiVersion": resource.api_version,
        "kind": "StorageVersionMigration",
        "metadata": {"name": native_name(crd, settle_s)},
        "spec": {"resource": {"group": crd.group, "resource": crd.plural}},
    }


def active(migrations: Iterable[NativeMigration], crd: Crd) -> tuple[NativeMigration, ...]:
    """Return the migrations of this CRD that are not over, sorted by name."""
    found = (each for each in migrations if each.concerns(crd) and not each.state.over)
    return tuple(sorted(found, key=lambda each: each.name))


def without_condition(crd: Crd) -> Crd:
    """Return the CRD without a leftover condition StorageMigrating."""
    conditions = {kind: value for kind, value in crd.conditions.items() if kind != "StorageMigrating"}
    return replace(crd, conditions=conditions)


_EVERY = 1.0  # seconds


class NativeStuck(Exception):
    """The cluster's own migration does not end; the message says what to do."""


async def find_native(cluster: Cluster) -> NativeApi | None:
    """Return the served API of StorageVersionMigrations with the existing ones; None if it is not served.

    Raises:
        MigrationRefused: the user may not list them.
        KubeError: the API server cannot be reached.
    """
    cluster = with_retries(cluster)
    for resource in NATIVE_MIGRATIONS:
        try:
            reply = await cluster.list_page(resource)
        except NotFound:
            continue
        except Forbidden as error:
            if not await _served(cluster):  # an API server checks the right before it looks up the API
                return None
            msg = f"no permission to list {resource.full_name}: {error.message}"
            raise MigrationRefused(msg) from error
        return NativeApi(cluster, resource, reply.decode(native_list_decoder).items or ())
    return None


async def left_behind(cluster: Cluster, crd: Crd) -> str:
    """Return a warning if a condition StorageMigrating is left over; empty if a migration may be running.

    Only controllers in kube-controller-manager set and remove the condition, and no API server acts on it. They follow
    StorageVersionMigrations through their API. If no API server serves that API, these controllers see no migration,
    write no object and prune nothing, so the condition has no meaning. While API servers restart with other settings,
    some serve the API and others do not; the answer may come from one that does not, although a migration is running.
    Then restow and the cluster both write. This costs load but loses no data: each write only stores the same object
    again, and restow never trusts a prune by the cluster's own migration.

    Raises:
        KubeError: the API server cannot be reached.
    """
    try:
        api = await find_native(cluster)
    except MigrationRefused:
        return ""
    if api is None:
        return "" if await _served(cluster) else _LEFT_BEHIND.format(name=crd.name, because=_NO_API)
    return "" if active(api.migrations, crd) else _LEFT_BEHIND.format(name=crd.name, because=_NONE_AT_WORK)


async def _served(cluster: Cluster) -> bool:
    """Return whether the API group is served, in any version; only a negative answer is certain."""
    try:
        await with_retries(cluster).discover(f"/apis/{NATIVE_MIGRATIONS[0].group}")
    except NotFound:
        return False
    except Forbidden:
        return True
    return True


@dataclass(frozen=True, slots=True)
class NativeApi:
    """The served API, and the migrations that existed at the request."""

    cluster: RetryingCluster
    resource: Resource
    migrations: tuple[NativeMigration, ...]

    @property
    def patches(self) -> bool:
        """Whether its controller may send merge patches, which own every default that they store first.

        It does so since v1 (Kubernetes 1.37); before, it applied only an object's identity.
        """
        return self.resource.version == "v1"

    async def make(self, crd: Crd, settle_s: float) -> NativeMigration:
        """Create the migration of a CRD, or continue that of an earlier run for the same generation.

        Raises:
            MigrationRefused: the user may not create it.
            NativeStuck: it already exists, and the user may not read it.
            KubeError: the API server refuses the request for another reason, or cannot be reached.
        """
        body = msgspec.json.encode(native_manifest(crd, self.resource, settle_s))
        name = native_name(crd, settle_s)
        try:
            reply = await self.cluster.create(self.resource, body)
        except AlreadyExists:
            return await self._read(name)
        except Forbidden as error:
            msg = f"no permission to create {self.resource.describe(name=name)}: {error.message}"
            raise MigrationRefused(msg) from error
        return reply.decode(native_decoder)

    async def _read(self, name: str) -> NativeMigration:
        """Read a migration.

        Raises:
            NativeStuck: the user may not read it.
            KubeError: the API server refuses a request, or cannot be reached.
        """
        try:
            reply = await self.cluster.get(self.resource, name)
        except Forbidden as error:
            msg = (
                f"the StorageVersionMigration {name} goes on by itself and cannot be followed, without the permission "
                f"to get it: {error.message}. Grant that, and run again"
            )
            raise NativeStuck(msg) from error
        return reply.decode(native_decoder)

    async def follow(
        self, name: str, *, stop: RunStop, clock: Callable[[], float], patience_s: float
    ) -> NativeMigration | None:
        """Wait until a migration is over; return None if it was deleted, or if ``stop`` was set before.

        Raises:
            NativeStuck: the migration does not end in time, or the user may not read it.
            KubeError: the API server cannot be reached.
        """
        until = clock() + patience_s
        with stop.waits.on(f"at most for the StorageVersionMigration {name} to end", patience_s):
            while not stop:
                try:
                    found = await self._read(name)
                except NotFound:
                    return None
                if found.state.over:
                    return found
                if clock() >= until:
                    raise NativeStuck(_STUCK.format(name=name, state=found.state.value, seconds=patience_s))
                await stop.sleep(_EVERY)
        return None

    async def delete(self, name: str) -> str:
        """Delete a migration that is over; return the API server's message if it refuses."""
        try:
            await self.cluster.delete(self.resource, name)
        except NotFound:
            return ""
        except KubeError as error:
            return error.said
        return ""


_LEFT_BEHIND = "{name} has the condition StorageMigrating although {because}; it was disregarded"
_NO_API = (
    "the API server does not serve StorageVersionMigrations (storagemigration.k8s.io) any more, so nothing is at work"
)
_NONE_AT_WORK = "no StorageVersionMigration of it is at work (one was deleted while it ran)"
_STUCK = (
    "the StorageVersionMigration {name} is still {state} after {seconds:.0f} seconds. If it is pending, no controller "
    "manager acts on it (feature gate StorageVersionMigrator); if it is running, it may repeat for ever an object that "
    "the API server cannot convert. Delete it and run again with the engine direct, or give it more time"
)


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
            size = page_size(self._options, crd, rules)
            async for page in object_pages(
                self._environment,
                crd,
                self._options,
                self._report.requests,
                size,
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

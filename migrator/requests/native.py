"""Create, read and follow the cluster's own StorageVersionMigration (``storagemigration.k8s.io``, KEP-4192).

Its controller, by its source in Kubernetes 1.36 and 1.37, records the resource's resourceVersion when it first sees the
StorageVersionMigration (``status.resourceVersion``). It then writes every object that is not newer, with a request that
contains only the object's identity (as an apply; from 1.37 on as a merge patch), and ends ``Succeeded`` or ``Failed``.
The first refused object fails it; it repeats a 500 forever. Then a second controller sets the CRD's condition
StorageMigrating to False, *prunes storedVersions, also after a failure*, and sets ``Running`` to False. The migration
is over only then. A StorageVersionMigration that is deleted while it runs leaves the condition True permanently.

restow reads it every second instead of watching it, which needs only the right to get it; a migration lasts minutes.
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
from restow.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from restow.kube.resources import Resource
from restow.kube.retry import RetryingCluster, with_retries
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.requests.stop import RunStop

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

"""Looking for, making and following the cluster's own StorageVersionMigrations.

They are followed by reading one every second: that takes the right to get it and no watch, and it lasts minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from restow.kube.resources import Resource
from restow.kube.retry import Patient, patient
from restow.migrator.halt import Halt
from restow.migrator.native.migration import (
    NATIVE_MIGRATIONS,
    NativeMigration,
    active,
    native_decoder,
    native_list_decoder,
    native_manifest,
    native_name,
)
from restow.migrator.preflight import Refused

__all__ = ["NativeApi", "NativeStuck", "find_native", "left_behind"]

_EVERY = 1.0  # seconds


class NativeStuck(Exception):
    """The cluster's own migration does not end; the message says what to do."""


async def find_native(cluster: Cluster) -> NativeApi | None:
    """Return the API of StorageVersionMigrations as it is served, with those that there are; None where it is not.

    Raises:
        Refused: listing them is not allowed.
        KubeError: the API server cannot be reached.
    """
    cluster = patient(cluster)
    for resource in NATIVE_MIGRATIONS:
        try:
            reply = await cluster.list_page(resource)
        except NotFound:
            continue
        except Forbidden as error:
            if not await _served(cluster):  # an API server asks for the right before it looks for the API
                return None
            msg = f"no permission to list {resource.full_name}: {error.message}"
            raise Refused(msg) from error
        return NativeApi(cluster, resource, reply.decode(native_list_decoder).items or ())
    return None


async def left_behind(cluster: Cluster, crd: Crd) -> str:
    """Return a warning where a condition StorageMigrating is left over; empty where a migration may be at work.

    The condition is set, and taken back, by controllers in kube-controller-manager alone, and no API server acts on it.
    They follow StorageVersionMigrations through their API. Where that API is not served they see none, write no object
    and prune nothing, so that the condition speaks of nothing. While API servers restart with other settings, one that
    does not serve the API may answer beside one that does. Then both may write, which costs load and no data: each
    write only stores an object again as it is, and a prune of the cluster's own is never believed.

    Raises:
        KubeError: the API server cannot be reached.
    """
    try:
        api = await find_native(cluster)
    except Refused:
        return ""
    if api is None:
        return "" if await _served(cluster) else _LEFT_BEHIND.format(name=crd.name, because=_NO_API)
    return "" if active(api.migrations, crd) else _LEFT_BEHIND.format(name=crd.name, because=_NONE_AT_WORK)


async def _served(cluster: Cluster) -> bool:
    """Whether the API group is served, in whatever version; for certain only if it is not."""
    try:
        await patient(cluster).discover(f"/apis/{NATIVE_MIGRATIONS[0].group}")
    except NotFound:
        return False
    except Forbidden:
        return True
    return True


@dataclass(frozen=True, slots=True)
class NativeApi:
    """The API as it is served, and the migrations that there were when it was asked."""

    cluster: Patient
    resource: Resource
    migrations: tuple[NativeMigration, ...]

    @property
    def patches(self) -> bool:
        """Whether its controller may send merge patches, which own every default that they are the first to store.

        It does so since v1 (Kubernetes 1.37); before, it applied nothing but an object's identity.
        """
        return self.resource.version == "v1"

    async def make(self, crd: Crd, settle_s: float) -> NativeMigration:
        """Create the migration of a CRD; an earlier run's for the same generation is taken up again.

        Raises:
            Refused: creating it is not allowed.
            NativeStuck: it is there, and may not be read.
            KubeError: it could not be created.
        """
        body = msgspec.json.encode(native_manifest(crd, self.resource, settle_s))
        name = native_name(crd, settle_s)
        try:
            reply = await self.cluster.create(self.resource, body)
        except AlreadyExists:
            return await self._read(name)
        except Forbidden as error:
            msg = f"no permission to create {self.resource.describe(name=name)}: {error.message}"
            raise Refused(msg) from error
        return reply.decode(native_decoder)

    async def _read(self, name: str) -> NativeMigration:
        """Read one.

        Raises:
            NativeStuck: that is not allowed.
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
        self, name: str, *, halt: Halt, clock: Callable[[], float], patience_s: float
    ) -> NativeMigration | None:
        """Wait until a migration is over; None if it was deleted, or if ``halt`` was raised before.

        Raises:
            NativeStuck: it did not end in time, or may not be read.
            KubeError: the API server cannot be reached.
        """
        until = clock() + patience_s
        with halt.waits.on(f"at most for the StorageVersionMigration {name} to end", patience_s):
            while not halt:
                try:
                    found = await self._read(name)
                except NotFound:
                    return None
                if found.state.over:
                    return found
                if clock() >= until:
                    raise NativeStuck(_STUCK.format(name=name, state=found.state.value, seconds=patience_s))
                await halt.sleep(_EVERY)
        return None

    async def delete(self, name: str) -> str:
        """Delete a migration that is over; return what the API server said if it would not."""
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

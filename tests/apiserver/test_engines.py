"""The engines: the cluster's own StorageVersionMigration made, followed, verified, and never believed.

The native migration takes objects from the garbage collector's cache, which finds new resources every 30 seconds. So
the kinds of all tests are made at once, and each test takes one.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from restow.controlplane.plane import ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError, Invalid, NotFound
from restow.kube.resources import Resource
from restow.migrator import CrdReport, Engine, Migration, MigrationReport, Options, read_crd
from restow.migrator.model.report import MigrationResult
from restow.migrator.requests.native import native_name
from restow.rbac import Asked, Command, grants
from tests.apiserver.access import Access
from tests.apiserver.accounts import Accounts
from tests.apiserver.kind import Kind, entry_versions, owners, until
from tests.apiserver.proxy import Fault, Seen, proxy_before

COUNT = 12
KINDS = 9
API = "storagemigration.k8s.io/v1beta1"
NATIVE = Resource("storagemigration.k8s.io", "v1beta1", "storageversionmigrations", namespaced=False)
WATCHES = re.compile(
    r'^apiserver_longrunning_requests\{.*group="(\S+?\.example\.com)".*verb="WATCH".*\} [1-9]', re.MULTILINE
)

since_the_crd_is_told = pytest.mark.kubernetes_since(
    "1.36",
    "before, the native migration leaves the CRD alone: no condition StorageMigrating, storedVersions not pruned",
)
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.kubernetes_since("1.35", "before, StorageVersionMigration is v1alpha1, of another shape"),
]


class World:
    """A control plane with the native migration, and kinds on it that are stored at v1alpha1."""

    def __init__(self, plane: ControlPlane, cluster: HttpCluster) -> None:
        self.plane = plane
        self.cluster = cluster
        self.kinds = [Kind(cluster, plane.etcd, f"n{number}.example.com") for number in range(KINDS)]
        self._unused = iter(self.kinds)

    async def populate(self) -> None:
        """Make the kinds; half of the objects are owned at v1alpha1, the others at v1beta1."""
        for kind in self.kinds:
            await kind.create(kind.document(storage="v1alpha1", keyed_conditions=False))
            for number in range(COUNT):
                version = "v1beta1" if number % 2 else "v1alpha1"
                await kind.apply(kind.manifest(version, f"w{number:02}", spec={"size": number}), "alice")
        async with asyncio.timeout(90):
            while not {kind.group for kind in self.kinds} <= await self._watched():
                await asyncio.sleep(0.5)

    async def _watched(self) -> set[str]:
        """The groups whose objects somebody watches: the garbage collector."""
        connector = aiohttp.TCPConnector(ssl=self.plane.admin.ssl_context())
        async with (
            aiohttp.ClientSession(self.plane.server, connector=connector) as session,
            session.get("/metrics") as answer,
        ):
            return set(WATCHES.findall(await answer.text()))

    async def take(self, *, default: bool = False) -> Kind:
        """A kind that no other test uses; v1beta1 has become its storage version, and may have a default of its own."""
        kind = next(self._unused)
        await kind.change(kind.document(storage="v1beta1", default=default, keyed_conditions=False))
        return kind

    async def make(self, kind: Kind, name: str) -> None:
        """Somebody else's migration."""
        resource = {"group": kind.group, "resource": kind.plural}
        body = {"apiVersion": API, "kind": "StorageVersionMigration", "metadata": {"name": name}}
        await self.cluster.create(NATIVE, json.dumps(body | {"spec": {"resource": resource}}).encode())

    async def names(self, kind: Kind) -> set[str]:
        """The migrations that there are of a kind."""
        found = (await self.cluster.list_page(NATIVE)).json()["items"]
        return {each["metadata"]["name"] for each in found if each["spec"]["resource"]["group"] == kind.group}

    async def conditions(self, name: str) -> set[str]:
        """The conditions of a migration that are true."""
        try:
            status = (await self.cluster.get(NATIVE, name)).json().get("status", {})
        except NotFound:
            return set()
        begun = {"Begun"} if status.get("resourceVersion") else set()
        return begun | {each["type"] for each in status.get("conditions", []) if each["status"] == "True"}

    async def waiting(self, kind: Kind) -> bool:
        """Whether a migration of the kind has taken its resourceVersion and is not over."""
        found = [await self.conditions(name) for name in await self.names(kind)]
        return any("Begun" in each and not each & {"Succeeded", "Failed"} for each in found)

    @asynccontextmanager
    async def touching(self, kind: Kind) -> AsyncIterator[None]:
        """Write something else meanwhile: the native migration begins when the cache is as new as it is itself."""

        async def touch() -> None:
            while True:
                await asyncio.sleep(0.5)
                if not await self.waiting(kind):
                    continue
                body = json.dumps(kind.manifest("v1beta1", "canary", "touched", spec={"size": 1})).encode()
                try:
                    await self.cluster.create(kind.at("v1beta1"), body, "touched")
                    await self.cluster.delete(kind.at("v1beta1"), "canary", "touched")
                except ApiError:
                    continue

        await kind.namespace("touched")
        async with asyncio.TaskGroup() as group:
            task = group.create_task(touch())
            try:
                yield
            finally:
                task.cancel()

    async def ends(self, kind: Kind, name: str) -> set[str]:
        """Wait until somebody else's migration is over; return its conditions."""
        async with self.touching(kind), asyncio.timeout(90):
            while True:
                found = await self.conditions(name)
                if found & {"Succeeded", "Failed"} and "Running" not in found:
                    return found
                await asyncio.sleep(0.2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world() -> AsyncIterator[World]:
    """The control plane of this file."""
    async with (
        ControlPlane(
            feature_gates={"StorageVersionMigrator": True},
            runtime_config={API: True},
            controller_manager=True,
            controller_manager_args={"kube-api-qps": "1000", "kube-api-burst": "2000"},
        ) as plane,
        connect(plane.kubeconfig) as cluster,
    ):
        made = World(plane, cluster)
        await made.populate()
        yield made


async def migrate(cluster: HttpCluster, kind: Kind, engine: Engine = Engine.DIRECT, **options: Any) -> CrdReport:
    """Migrate with an engine."""
    return await Migration(cluster, Options(settle_s=0.0, engine=engine, **options)).migrate(kind.name)


async def admitted(access: Access, kind: Kind) -> None:
    """Take the policy away, and wait until it is out of force."""
    await access.remove()

    async def updated() -> bool:
        try:
            await kind.merge("v1beta1", "w02", {"metadata": {"labels": {"probe": None}}}, "probe")
        except Invalid:
            return False
        return True

    await until(updated, "the policy is still in force")


async def versions(kind: Kind) -> dict[str, int]:
    """How many objects are stored at which version, by etcd."""
    found = [each["apiVersion"].split("/")[1] for key, each in (await kind.stored()).items() if "/w" in key]
    return {version: found.count(version) for version in sorted(set(found))}


async def assert_all_done(kind: Kind) -> None:
    """Every object is stored and owned at v1beta1, and storedVersions says so."""
    assert await versions(kind) == {"v1beta1": COUNT}
    for key, found in (await kind.stored()).items():
        if "/w" in key:
            assert entry_versions(found) == {"v1beta1"}
            assert owners(found) == {("alice", "Apply", ""): frozenset({"/f:spec/f:size"})}
    assert await kind.stored_versions() == ["v1beta1"]


@since_the_crd_is_told
async def test_native_stores_and_restow_proves_translates_and_counts(world: World, tmp_path: Path) -> None:
    """One write more for each object with entries to translate; none for one that is proven by its resourceVersion."""
    kind = await world.take()
    at_first_write: dict[str, int] = {}
    async with proxy_before(world.plane, tmp_path) as proxy, connect(proxy.kubeconfig) as through:

        async def hook(seen: Seen) -> Fault | None:
            if seen.is_write and not at_first_write:
                at_first_write.update(await versions(kind))
            return None

        proxy.hook = hook
        async with world.touching(kind):
            report = await migrate(through, kind, Engine.NATIVE)
    assert MigrationReport((report,)).result is MigrationResult.SUCCEEDED, report.to_json()
    assert at_first_write == {"v1beta1": COUNT}, "the cluster had stored them before restow wrote anything"
    assert report.engine == "native"
    assert report.requests.write == report.objects.translated == COUNT // 2
    assert (report.objects.listed, report.objects.current) == (COUNT, COUNT // 2)
    assert report.pruned
    assert "the cluster's own migration pruned" in report.pruned_reason
    assert await world.names(kind) == set(), "it has served"
    await assert_all_done(kind)
    again = await migrate(world.cluster, kind, Engine.NATIVE)
    assert (again.requests.list, await world.names(kind)) == (0, set())


async def test_a_failed_one_is_neither_believed_nor_left_pruned(world: World) -> None:
    """The cluster prunes storedVersions even then; whoever removes the old version next loses what is left at it."""
    kind = await world.take()
    access = Access(world.plane, world.cluster)
    await access.refuse_updates(kind, "v1beta1", ["w02"])
    async with world.touching(kind):
        report = await migrate(world.cluster, kind, Engine.NATIVE)
    assert MigrationReport((report,)).result is MigrationResult.FAILED
    assert [failure.name for failure in report.failures] == ["w02"]
    assert any("failed" in warning and "restow wrote what it had left" in warning for warning in report.warnings)
    assert await versions(kind) == {"v1alpha1": 1, "v1beta1": COUNT - 1}
    assert set(await kind.stored_versions()) == {"v1alpha1", "v1beta1"}, "the cluster had pruned it"
    assert await world.names(kind) == {native_name(await read_crd(world.cluster, kind.name), 0.0)}, "as evidence"
    await admitted(access, kind)
    assert (await migrate(world.cluster, kind)).pruned
    await assert_all_done(kind)


@since_the_crd_is_told
async def test_what_somebody_elses_failed_one_pruned_is_not_believed(world: World) -> None:
    """storedVersions names the storage version alone, and an object is stored at the other one all the same."""
    kind = await world.take()
    access = Access(world.plane, world.cluster)
    await access.refuse_updates(kind, "v1beta1", ["w02"])
    await world.make(kind, "somebody-elses")
    assert "Failed" in await world.ends(kind, "somebody-elses")
    assert await kind.stored_versions() == ["v1beta1"]
    assert "v1alpha1" in await versions(kind)
    await admitted(access, kind)
    report = await migrate(world.cluster, kind)
    assert MigrationReport((report,)).result is MigrationResult.SUCCEEDED
    assert report.objects.listed == COUNT
    await assert_all_done(kind)
    assert (await migrate(world.cluster, kind)).requests.list == 0, "from then on our own mark is believed"


@since_the_crd_is_told
async def test_next_to_an_active_one_it_is_refused_and_auto_waits(world: World) -> None:
    """Two migrations side by side double the load, and one may prune what the other has not written yet."""
    kind = await world.take()
    await world.make(kind, "active")

    async def migrating() -> bool:
        return (await read_crd(world.cluster, kind.name)).storage_migrating

    await until(migrating, "it is not at work")
    for engine in (Engine.DIRECT, Engine.NATIVE):
        refused = await migrate(world.cluster, kind, engine)
        assert "the cluster's own StorageVersionMigration is at work" in refused.refused
        assert refused.requests.list == 0
    stuck = await migrate(world.cluster, kind, Engine.AUTO, native_patience_s=0.2)
    assert "StorageVersionMigration active is still running" in stuck.unfinished
    assert MigrationReport((stuck,)).result is MigrationResult.FAILED
    async with world.touching(kind):
        report = await migrate(world.cluster, kind, Engine.AUTO)
    assert MigrationReport((report,)).result is MigrationResult.SUCCEEDED, report.to_json()
    assert report.engine == "direct"
    assert any("was waited for" in warning for warning in report.warnings)
    assert "Succeeded" in await world.conditions("active"), "somebody else's is not deleted"
    await assert_all_done(kind)


@since_the_crd_is_told
async def test_a_condition_that_a_deleted_one_left_is_no_reason_to_wait_for_ever(world: World) -> None:
    """The controller never takes it back; every later migration would be refused, for nothing."""
    kind = await world.take()
    await world.make(kind, "deleted")

    async def running() -> bool:
        return "Running" in await world.conditions("deleted")

    await until(running, "it is not at work")
    await world.cluster.delete(NATIVE, "deleted")
    assert (await read_crd(world.cluster, kind.name)).storage_migrating
    report = await migrate(world.cluster, kind)
    assert MigrationReport((report,)).result is MigrationResult.SUCCEEDED, report.to_json()
    assert any("no StorageVersionMigration of it is at work" in warning for warning in report.warnings)
    await assert_all_done(kind)


async def test_where_it_would_never_end_it_is_not_used(world: World) -> None:
    """It repeats for ever an object with an entry of a version that has left the CRD."""
    kind = await world.take()
    document = kind.document(storage="v1beta1", versions=("v1alpha1", "v1beta1", "v1gamma1"), keyed_conditions=False)
    await kind.change(document)
    await kind.apply(kind.manifest("v1gamma1", "w03", spec={"size": 3}), "alice")
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    assert "v1gamma1" in entry_versions((await kind.stored())["default/w03"])
    report = await migrate(world.cluster, kind, Engine.NATIVE)
    assert MigrationReport((report,)).result is MigrationResult.SUCCEEDED, report.to_json()
    assert any("1 objects" in warning and "never ends" in warning for warning in report.warnings)
    assert await world.names(kind) == set()
    await assert_all_done(kind)


async def test_a_new_default_does_not_become_the_cluster_s_own(world: World) -> None:
    """From 1.37 on it sends merge patches, which own a default that they store first: its owner conflicts."""
    kind = await world.take(default=True)
    async with world.touching(kind):
        report = await migrate(world.cluster, kind, Engine.NATIVE)
    assert MigrationReport((report,)).result is MigrationResult.SUCCEEDED, report.to_json()
    assert "Retain" in {found["spec"].get("policy") for found in (await kind.stored()).values()}, "the default is new"
    await assert_all_done(kind)


@since_the_crd_is_told
async def test_after_a_kill_the_migration_that_is_under_way_is_taken_up_again(world: World, tmp_path: Path) -> None:
    """A Job's second pod must neither be refused by the first one's migration nor make another."""
    kind = await world.take()
    async with proxy_before(world.plane, tmp_path) as proxy, connect(proxy.kubeconfig) as through:
        first = asyncio.create_task(migrate(through, kind, Engine.NATIVE))

        async def running() -> bool:
            return any([{"Running", "Begun"} <= await world.conditions(name) for name in await world.names(kind)])

        await until(running, "it is not at work")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
    made = await world.names(kind)
    async with world.touching(kind):
        task = asyncio.create_task(migrate(world.cluster, kind, Engine.NATIVE))
        await asyncio.sleep(0.1)
        assert await world.names(kind) <= made
        report = await task
    assert MigrationReport((report,)).result is MigrationResult.SUCCEEDED, report.to_json()
    assert report.requests.write == COUNT // 2
    await assert_all_done(kind)


async def test_the_rights_of_the_engine_native(world: World, tmp_path: Path) -> None:
    """What ``restow rbac`` prints is enough, and without any right of it the run says which one it lacks."""
    kind = await world.take()
    asked = Asked(crds=(kind.name,), engine=Engine.NATIVE)
    rights = grants([Command.MIGRATE], asked)
    native = [each for each in rights if each.group == NATIVE.group]
    assert [each.verb for each in native] == ["list", "create", "get", "delete"]
    accounts = Accounts(world.plane, world.cluster, tmp_path)
    try:
        for missing in native:
            account = await accounts.granted((each for each in rights if each != missing), f"without-{missing.verb}")
            async with connect(account.kubeconfig) as cluster, world.touching(kind):
                report = await migrate(cluster, kind, Engine.NATIVE)
            said = " ".join((report.refused, report.unfinished, *report.warnings))
            assert "storageversionmigrations" in said and f"cannot {missing.verb}" in said, said
            assert (MigrationReport((report,)).result is MigrationResult.SUCCEEDED) == bool(missing.optional)
        assert await world.names(kind), "nobody was allowed to delete it"
    finally:
        await accounts.remove()
    await assert_all_done(kind)

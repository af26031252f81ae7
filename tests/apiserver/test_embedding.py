"""The embeddings of the documentation, as processes of their own: started, stopped and killed in the middle."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from restow.controlplane.etcd import Etcd
from restow.controlplane.plane import ControlPlane
from restow.kube.client import HttpCluster
from restow.kube.errors import NotFound
from restow.kube.resources import CRDS, LEASES
from tests.apiserver.kind import CANARY, Kind, entry_versions, owners, until
from tests.apiserver.proxy import Answer, Fault, Proxy, Seen, proxy_before

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "embedding"
STARTUP = Path(__file__).parent / "startup"
ASYNCIO = (sys.executable, str(EXAMPLES / "asyncio_operator.py"))
KOPF = (sys.executable, "-m", "kopf", "run", "--all-namespaces", str(EXAMPLES / "kopf_operator.py"))
COUNT = 120
CONCURRENCY = 32  # the migrator's own
MIDDLE = 40
LEASE = "widgets-migrator"


@pytest.fixture
async def kind(cluster: HttpCluster, etcd: Etcd) -> AsyncIterator[Kind]:
    """The CRD of the examples, and their lease; both are gone before the next test begins."""
    made = Kind(cluster, etcd, "example.com")
    await made.create(made.document(storage="v1alpha1", versions=("v1alpha1",)))
    yield made
    await made.remove()

    async def gone() -> bool:
        try:
            await cluster.get(CRDS, made.name)
        except NotFound:
            return True
        return False

    await until(gone, f"{made.name} is still there")
    with suppress(NotFound):
        await cluster.delete(LEASES, LEASE, "default")


@pytest.fixture
async def stored_old(kind: Kind) -> Kind:
    """Objects stored and owned at v1alpha1, which v1beta1 (with a new default) is about to follow."""
    await kind.change(kind.document(storage="v1alpha1", default=True))
    async with asyncio.TaskGroup() as group:
        for number in range(COUNT):
            manifest = kind.manifest("v1alpha1", f"w{number:03}", spec={"size": number})
            group.create_task(kind.apply(manifest, "alice"))
    return kind


class Replica:
    """One process of an operator, behind a proxy of its own.

    ``at_write`` is called with each write of an object; ``unsafe`` holds what etcd had at another version than the
    storage version when storedVersions was about to be pruned.
    """

    def __init__(self, kind: Kind, proxy: Proxy) -> None:
        self.process: asyncio.subprocess.Process
        self.proxy = proxy
        self.at_write: Callable[[Replica], Awaitable[None]] | None = None
        self.unsafe: list[str] = []
        self.prunes = 0
        self._kind = kind
        proxy.hook = self._hook

    @property
    def writes(self) -> list[str]:
        """The objects that were written, in order."""
        return [seen.path for seen in self.proxy.seen if seen.is_write and f"/apis/{self._kind.group}/" in seen.path]

    @property
    def passes(self) -> int:
        """How often the objects were listed by the migrator."""
        return sum(seen.is_list and "continue" not in seen.query for seen in self.proxy.seen if self._about(seen))

    def _about(self, seen: Seen) -> bool:
        return f"/apis/{self._kind.group}/" in seen.path

    async def _hook(self, seen: Seen) -> Fault | None:
        if seen.of_crd and seen.method == "PATCH" and seen.path.endswith("/status"):
            self.prunes += 1
            stored = await self._kind.stored()
            self.unsafe += [key for key, found in stored.items() if not found["apiVersion"].endswith("/v1beta1")]
        if seen.is_write and self._about(seen) and self.at_write is not None:
            await self.at_write(self)
        return None

    async def ends(self) -> None:
        """Wait for its end."""
        async with asyncio.timeout(30):
            await self.process.wait()


@asynccontextmanager
async def replica(kind: Kind, plane: ControlPlane, folder: Path, *command: str) -> AsyncIterator[Replica]:
    """Run a process inside of the block."""
    folder.mkdir()
    async with proxy_before(plane, folder) as proxy:
        made = Replica(kind, proxy)
        made.process = process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env=os.environ | {"KUBECONFIG": str(proxy.kubeconfig), "PYTHONPATH": str(STARTUP)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield made
        finally:
            if process.returncode is None:
                process.kill()
            print(*[each.decode() for each in await process.communicate()])  # told where the test fails


async def assert_all_done(kind: Kind) -> None:
    """Every object is stored and owned at v1beta1, as it was, and storedVersions says so."""
    stored = await kind.stored()
    assert len(stored) == COUNT
    for key, found in stored.items():
        assert found["apiVersion"] == f"{kind.group}/v1beta1", key
        assert entry_versions(found) == {"v1beta1"}
        assert owners(found) == {("alice", "Apply", ""): frozenset({"/f:spec/f:size"})}
        assert found["spec"]["size"] == int(found["metadata"]["name"][1:])
        assert found["metadata"]["generation"] == 1
    assert await kind.stored_versions() == ["v1beta1"]


async def holder(kind: Kind) -> str:
    """Who leads."""
    try:
        found = (await kind.cluster.get(LEASES, LEASE, "default")).json()["spec"]
    except NotFound:
        return ""
    return str(found.get("holderIdentity") or "")


def assert_some_runs(replicas: Iterable[Replica]) -> None:
    """Fail at once if every process has ended, in place of a wait for what none of them will do."""
    codes = [each.process.returncode for each in replicas]
    assert None in codes, f"every replica has ended, with the codes {codes}"


async def someone_leads(kind: Kind, *replicas: Replica) -> None:
    """Wait until one of the replicas leads."""

    async def led() -> str:
        assert_some_runs(replicas)
        return await holder(kind)

    await until(led, "no replica leads")


async def migrated(kind: Kind, *replicas: Replica) -> None:
    """Wait until one of the replicas has pruned storedVersions, then look at every object."""

    async def pruned() -> bool:
        if await kind.stored_versions() == ["v1beta1"]:
            return True
        assert_some_runs(replicas)
        return False

    await until(pruned, f"{kind.name} is not pruned")
    await assert_all_done(kind)


@pytest.mark.parametrize("command", [ASYNCIO, KOPF], ids=["asyncio", "kopf"])
async def test_an_operator_migrates_after_a_flip_and_ends_on_sigterm(
    command: tuple[str, ...], stored_old: Kind, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """What the documentation shows has to work as it stands: a flip is enough, and a SIGTERM ends it cleanly."""
    kind = stored_old
    async with replica(kind, control_plane, tmp_path / "one", *command) as one:
        await someone_leads(kind, one)
        await kind.change(kind.document(storage="v1beta1", default=True))
        await migrated(kind, one)
        one.process.send_signal(signal.SIGTERM)
        await one.ends()
        assert one.process.returncode == 0
        assert await holder(kind) == ""
        assert one.unsafe == []


@pytest.mark.parametrize("command", [ASYNCIO, KOPF], ids=["asyncio", "kopf"])
async def test_sigterm_in_the_middle_hands_over_without_a_write_cut_off(
    command: tuple[str, ...], stored_old: Kind, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """An evicted leader finishes what it writes and releases the lease: the next one goes on, and need not wait."""
    kind = stored_old
    async with (
        replica(kind, control_plane, tmp_path / "one", *command) as one,
        replica(kind, control_plane, tmp_path / "two", *command) as two,
    ):
        both = (one, two)
        stopped: list[Replica] = []

        async def stop_in_the_middle(which: Replica) -> None:
            if not stopped and len(which.writes) >= MIDDLE:
                stopped.append(which)
                which.process.send_signal(signal.SIGTERM)
            if stopped:
                await asyncio.sleep(0.3)  # long enough for the process to hear the signal with these in flight

        for each in both:
            each.at_write = stop_in_the_middle
        await someone_leads(kind, *both)
        await kind.change(kind.document(storage="v1beta1", default=True))
        first = await until_stopped(stopped, both)
        leader, writes = await holder(kind), len(first.writes)
        await first.ends()
        assert await holder(kind) != leader, "it was not released"
        assert first.process.returncode == 0 and first.prunes == 0
        assert len(first.writes) - writes <= 2 * CONCURRENCY
        stored = await kind.stored()
        for path in set(first.writes):
            if path.endswith(CANARY):
                continue  # the test's own object, which an operator may have noticed before it was deleted
            found = stored[f"default/{path.rpartition('/')[2]}"]
            assert found["apiVersion"].endswith("/v1beta1") and entry_versions(found) == {"v1beta1"}, path
        for each in both:
            each.at_write = None
        await migrated(kind, *both)
        second = one if first is two else two
        assert one.unsafe == two.unsafe == [] and second.prunes == 1


async def test_a_leader_killed_in_the_middle_is_followed_by_another(
    stored_old: Kind, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Whatever a dead leader left half done, another replica finishes; nothing is lost, nothing pruned too early."""
    kind = stored_old
    async with AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(replica(kind, control_plane, tmp_path / name, *ASYNCIO))
            for name in ("one", "two", "three")
        ]
        killed: list[Replica] = []

        async def kill_in_the_middle(which: Replica) -> None:
            if not killed and len(which.writes) >= MIDDLE:
                killed.append(which)
                which.process.kill()

        for each in replicas:
            each.at_write = kill_in_the_middle
        await someone_leads(kind, *replicas)
        await kind.change(kind.document(storage="v1beta1", default=True))
        first = await until_stopped(killed, replicas)
        await first.process.wait()
        done = sum(entry_versions(found) == {"v1beta1"} for found in (await kind.stored()).values())
        assert 0 < done < COUNT and await kind.stored_versions() == ["v1alpha1", "v1beta1"]
        await migrated(kind, *replicas)
        second = next(each for each in replicas if each.prunes)
        assert second is not first and not any(each.unsafe for each in replicas)
        assert sum(each.prunes for each in replicas) == 1
        assert len(second.writes) <= 2 * (COUNT - done), "what was done was done again"
        assert len(first.writes) + len(second.writes) <= 2 * (COUNT + CONCURRENCY), "more than what was in flight"


@pytest.mark.parametrize("command", [ASYNCIO, KOPF], ids=["asyncio", "kopf"])
async def test_an_operator_that_may_not_watch_crds_ends(
    command: tuple[str, ...], kind: Kind, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """An operator that lives on without its migrator would be found out when the old version is gone."""
    async with replica(kind, control_plane, tmp_path / "one", *command) as one:

        async def forbid(seen: Seen) -> Fault | None:
            return Answer.of(403, "Forbidden", "no rights") if seen.of_crd else None

        one.proxy.hook = forbid
        await one.ends()
        assert await holder(kind) == ""


async def until_stopped(stopped: list[Replica], replicas: Iterable[Replica]) -> Replica:
    """Wait until a replica was hit."""

    async def hit() -> Replica | None:
        if not stopped:
            assert_some_runs(replicas)
        return stopped[0] if stopped else None

    found: Replica = await until(hit, "nobody got to the middle")
    return found

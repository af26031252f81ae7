"""Migrations by a label, as docs/howto/from-go.md has them: a condition of the CRD says when one is done."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from restow.controlplane.binaries import find_binaries
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import Conflict, NotFound
from restow.kube.resources import CRDS, EVENTS, LEASES
from restow.migrator import Migrator, Options
from restow.migrator.operate.conditions import MIGRATED
from restow.migrator.operate.policy import LABEL, asking
from tests.apiserver.kind import Document, Kind, entry_versions, until
from tests.apiserver.operators import LoggedProcess, migrating
from tests.restow.commandline import Cli
from tests.restow.forked import Forked

COUNT = 60
DEADLINE = 60.0
AT_ONCE = Options(settle_s=0.0, resume=True)
LEASE = "restow-operator-standalone-migrator"
LEADS = f'restow_leader{{lease="default/{LEASE}"}} 1.0'
_PORT = re.compile(r"probes and metrics at port (\d+)")
Kubectl = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture
async def kubectl(kubeconfig: Path) -> Kubectl:
    """Run kubectl; the result has its exit code and what it printed."""
    program = (await find_binaries(("kubectl",)))["kubectl"]

    async def run(*arguments: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            *(program, f"--kubeconfig={kubeconfig}", *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode()

    return run


@pytest.fixture(autouse=True)
async def _lease_goes(cluster: HttpCluster) -> AsyncIterator[None]:
    """A Lease that is left would be removed with the next server that a test removes from this namespace."""
    yield
    with suppress(NotFound):
        await cluster.delete(LEASES, LEASE, "default")


@pytest.fixture
async def old(kind: Kind) -> Kind:
    """Objects at v1alpha1, the version of storage; v1beta1 is served."""
    await kind.change(kind.document(storage="v1alpha1"))
    await kind.populate(COUNT)
    return kind


class Replica(LoggedProcess):
    """One process of ``restow operator --migrate``."""

    port = 0

    async def listens(self) -> None:
        """Wait until it answers probes, then keep its log."""
        self.port = int((await self.found(_PORT))[1])

    async def leads(self) -> bool:
        """Whether its metrics say so."""
        return LEADS in await self.get("/metrics")

    async def get(self, path: str) -> str:
        """Ask its probes' port."""
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self.port}{path}") as answer:
            return await answer.text()


@asynccontextmanager
async def replica(kubeconfig: Path) -> AsyncIterator[Replica]:
    """A replica that runs inside of the block, or until it is stopped or killed."""
    process = await Forked.start(
        *("operator", "--migrate", "--settle=1", "--bind=127.0.0.1", "--metrics-port=0"),
        f"--kubeconfig={kubeconfig}",
        stderr=asyncio.subprocess.PIPE,
    )
    made = Replica(process)
    try:
        await made.listens()
        yield made
    finally:
        await made.stop()
        print(*made.log)


def migrator(cluster: HttpCluster) -> Migrator:
    """A migrator of labelled CRDs for this process."""
    return Migrator(cluster, asking(AT_ONCE), AT_ONCE, lease=None, condition=True)


async def mark(kind: Kind, label: str | None, **annotations: str | None) -> None:
    """Set or remove the label, and annotations of the policy."""
    metadata = {
        "labels": {LABEL: label},
        "annotations": {f"{LABEL}-{name}": value for name, value in annotations.items()},
    }
    body = json.dumps({"metadata": metadata}).encode()
    await kind.cluster.patch(CRDS, kind.name, body, patch_type=PatchType.MERGE)


async def condition(kind: Kind) -> Document:
    """The condition as it is; empty if there is none."""
    found: Document = (await kind.cluster.get(CRDS, kind.name)).json()
    return next((dict(each) for each in found["status"]["conditions"] if each["type"] == MIGRATED), {})


async def says(kind: Kind, reason: str, text: str = "") -> Document:
    """Wait until the condition has this reason for the present generation, and a message with this text."""

    async def said() -> Document | None:
        generation = (await kind.cluster.get(CRDS, kind.name)).json()["metadata"]["generation"]
        now = await condition(kind)
        of_now = now.get("observedGeneration", generation) == generation
        return now if of_now and now.get("reason") == reason and text in now["message"] else None

    try:
        found: Document = await until(said, f"{kind.name} does not say {reason}")
    except AssertionError:
        print(await condition(kind))
        raise
    return found


async def flip(kind: Kind) -> None:
    """Make v1beta1 the version of storage, without an object that an operator might find."""

    def edited(document: Document) -> Document:
        return document | {"spec": kind.document(storage="v1beta1")["spec"]}

    await replace(kind, edited)


async def replace(kind: Kind, edited: Callable[[Document], Document]) -> None:
    """Replace the CRD by what is made of it."""

    async def replaced() -> bool:
        now = edited((await kind.cluster.get(CRDS, kind.name)).json())
        try:
            await kind.cluster.replace(CRDS, kind.name, json.dumps(now).encode())
        except Conflict:
            return False
        return True

    await until(replaced, f"{kind.name} could not be replaced")


async def done(kind: Kind) -> int:
    """How many objects etcd holds at v1beta1."""
    return sum(found["apiVersion"].endswith("/v1beta1") for found in (await kind.stored()).values())


async def assert_all_done(kind: Kind) -> None:
    """Every object is stored and owned at v1beta1, and storedVersions says so."""
    stored = await kind.stored()
    assert len(stored) == COUNT
    for key, found in stored.items():
        assert found["apiVersion"] == f"{kind.group}/v1beta1", key
        assert entry_versions(found) == {"v1beta1"}, key
        assert found["spec"]["size"] == int(found["metadata"]["name"][1:])
    assert await kind.stored_versions() == ["v1beta1"]


async def events_of(kind: Kind) -> list[str]:
    """The reasons of the Events on the CRD, in their order."""
    uid = (await kind.cluster.get(CRDS, kind.name)).json()["metadata"]["uid"]
    listed: list[Any] = (await kind.cluster.list_page(EVENTS, "default")).json()["items"]
    own = [each for each in listed if each["regarding"].get("uid") == uid]
    return [each["reason"] for each in sorted(own, key=lambda each: int(each["metadata"]["resourceVersion"]))]


async def test_a_label_is_enough(old: Kind, kubeconfig: Path, kubectl: Kubectl) -> None:
    """An operator in any language relies on this: label, apply, wait, and only then the old version may go."""
    kind = old
    async with replica(kubeconfig) as one:
        assert await one.get("/readyz") == "ok\n"
        await until(one.leads, "it does not lead")
        assert await condition(kind) == {}, "a CRD without the label is none of its business"
        code, said = await kubectl("label", f"crd/{kind.name}", f"{LABEL}=true")
        assert code == 0, said
        wait = ("wait", f"--for=condition={MIGRATED}", f"crd/{kind.name}", "--timeout=120s")
        code, said = await kubectl(*wait)
        assert code == 0, said
        await flip(kind)
        code, said = await kubectl(*wait)
        assert code == 0, said
        await assert_all_done(kind)
        assert (await events_of(kind))[-2:] == ["MigrationStarted", "MigrationFinished"]
        assert await one.stop() == 0


async def test_the_condition_stands_what_others_do(
    old: Kind, cluster: HttpCluster, kubectl: Kubectl, tmp_path: Path
) -> None:
    """A condition that an apply, a replacement or the API server drops leaves clients waiting; one that stays while
    the spec changes tells them that a migration is done which has not begun. An annotation does not stand the same.
    """
    kind = old
    async with migrating(migrator(cluster)):
        await mark(kind, "true")
        first = await says(kind, "Migrated")
    await mark(kind, "true", rate="5")

    manifest = kind.document(storage="v1alpha1")
    file = tmp_path / "crd.json"
    file.write_text(json.dumps(manifest))
    code, said = await kubectl("apply", "--server-side", "--force-conflicts", f"--filename={file}")
    assert code == 0, said
    assert await condition(kind) == first

    def plain(now: Document) -> Document:
        kept = {"name": kind.name, "resourceVersion": now["metadata"]["resourceVersion"]}
        return manifest | {"metadata": kept}

    await replace(kind, plain)
    found = (await cluster.get(CRDS, kind.name)).json()
    assert not found["metadata"].get("annotations"), "a replacement without annotations removes them"
    assert await condition(kind) == first

    names = manifest["spec"]["names"] | {"shortNames": [f"w{kind.group.partition('.')[0]}"]}
    await replace(kind, lambda now: now | {"spec": now["spec"] | {"names": names}})

    async def accepted() -> bool:
        status: Document = (await cluster.get(CRDS, kind.name)).json()["status"]
        return status["acceptedNames"].get("shortNames") == names["shortNames"]

    await until(accepted, "the API server has not accepted the names")
    assert await condition(kind) == first, "the API server's own writes of the status keep it"

    await flip(kind)
    now = await condition(kind)
    assert now == first, "nobody migrates now"
    if "observedGeneration" in now:
        wait = ("wait", f"--for=condition={MIGRATED}", f"crd/{kind.name}", "--timeout=2s")
        code, said = await kubectl(*wait)
        assert code != 0, said
    async with migrating(migrator(cluster)):
        await mark(kind, "true")
        await says(kind, "Migrated")
    await assert_all_done(kind)


async def test_a_wrong_annotation_is_a_sentence_on_the_crd(old: Kind, cluster: HttpCluster) -> None:
    """A user who sets an annotation cannot read the operator's log, and a run would follow a policy by mistake."""
    kind = old
    await flip(kind)
    await mark(kind, "true", rate="fast")
    async with migrating(migrator(cluster)):
        said = await says(kind, "Refused")
        assert said["status"] == "False"
        assert "the annotation restow.dev/migrate-rate of" in said["message"]
        assert "'fast' is no rate: give writes per second, such as 50" in said["message"]
        assert await done(kind) == 0
        await mark(kind, "true", rate="1000")
        await says(kind, "Migrated")
    await assert_all_done(kind)
    assert (await events_of(kind)) == ["MigrationRefused", "MigrationStarted", "MigrationFinished"]


async def test_nothing_is_written_outside_of_the_window(old: Kind, cluster: HttpCluster) -> None:
    """A window is set because writes at another time do harm."""
    kind = old
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    far = days[(datetime.now(UTC).weekday() + 3) % 7]
    await flip(kind)
    await mark(kind, "true", window=f"{far} 10:00-11:00")
    async with migrating(migrator(cluster)):
        said = await says(kind, "OutsideWindow", "the window opens at 20")
        assert said["message"].endswith("T10:00Z") and await done(kind) == 0
        await mark(kind, "true", window=None)
        await says(kind, "Migrated")
    await assert_all_done(kind)


async def test_removal_of_the_label_ends_a_run(old: Kind, cluster: HttpCluster) -> None:
    """Whoever takes the label off expects that writes end; what is done stays, and nothing is pruned."""
    kind = old
    await mark(kind, "true", rate="10")
    await flip(kind)
    async with migrating(migrator(cluster)):
        await until(lambda: done(kind), "no object is written")
        assert (await condition(kind))["reason"] == "Migrating"
        await mark(kind, None)

        async def gone() -> bool:
            return not await condition(kind)

        await until(gone, "the condition stays")
        stopped = await done(kind)
        assert 0 < stopped < COUNT
        assert await kind.stored_versions() == ["v1alpha1", "v1beta1"]
        assert (await events_of(kind)) == ["MigrationStarted", "MigrationStopped"]
        await mark(kind, "true", rate="1000")
        await says(kind, "Migrated")
    await assert_all_done(kind)


async def test_a_killed_leader_is_followed_by_the_other_replica(old: Kind, kubeconfig: Path, kubectl: Kubectl) -> None:
    """A node that fails in mid-run would leave the CRD half migrated, and its clients waiting."""
    kind = old
    await mark(kind, "true", rate="10")
    async with AsyncExitStack() as stack:
        both = [await stack.enter_async_context(replica(kubeconfig)) for _ in range(2)]

        async def leading() -> list[Replica]:
            return [each for each in both if await each.leads()]

        (leader,) = await until(leading, "no replica leads")
        await says(kind, "Migrating")
        await flip(kind)
        await until(lambda: done(kind), "no object is written")
        leader.process.kill()
        await leader.process.wait()
        left = await done(kind)
        assert 0 < left < COUNT and set(await kind.stored_versions()) == {"v1alpha1", "v1beta1"}
        code, said = await kubectl("wait", f"--for=condition={MIGRATED}", f"crd/{kind.name}", "--timeout=120s")
        assert code == 0, said
        await assert_all_done(kind)


async def test_a_command_at_the_same_time_does_no_harm(old: Kind, cluster: HttpCluster, cli: Cli) -> None:
    """An administrator does not know that an operator is at work; each write is refused that the other one overtook."""
    kind = old
    await mark(kind, "true", rate="20")
    await flip(kind)
    async with migrating(migrator(cluster)):
        await until(lambda: done(kind), "no object is written")
        ran = await cli("migrate", kind.name, "--settle=0")
        assert ran.code == 0, ran.err
        await says(kind, "Migrated")
    await assert_all_done(kind)

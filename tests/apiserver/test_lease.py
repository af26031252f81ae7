"""Leader election on a real API server: takeover, release, loss, and never two at once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import NotFound
from restow.kube.leaderelection import ElectionEvent, LeaderElector, LeaseTiming, unique_identity
from restow.kube.resources import LEASES
from tests.apiserver.kind import until
from tests.apiserver.proxy import Fault, Proxy, Seen

DEADLINE = 60.0
QUICK = LeaseTiming(lease_duration=3, renew_deadline=2.4, retry_period=0.2)


class Stage:
    """One lease, and who is leading on it right now; a second leader on it fails the test."""

    def __init__(self, cluster: HttpCluster) -> None:
        self.cluster = cluster
        self.name = f"election-{uuid.uuid4().hex[:8]}"
        self.leading: list[str] = []
        self.history: list[str] = []
        self.changed = asyncio.Condition()
        self.told: list[ElectionEvent] = []

    def elector(self, identity: str, cluster: HttpCluster | None = None, **options: Any) -> LeaderElector:
        options = {"timing": QUICK, "hook": self.told.append} | options
        return LeaderElector(cluster or self.cluster, self.name, "default", identity=identity, **options)

    def body(self, identity: str, *, winds_up: Callable[[], Awaitable[None]] | None = None) -> Callable[[], Any]:
        """Return a body that leads until it is cancelled."""

        async def lead() -> None:
            assert self.leading == []
            self.leading.append(identity)
            await self.note(f"{identity} leads")
            try:
                await asyncio.Event().wait()
            finally:
                if winds_up is not None:
                    await winds_up()
                self.leading.remove(identity)
                await self.note(f"{identity} ended")

        return lead

    async def note(self, what: str) -> None:
        async with self.changed:
            self.history.append(what)
            self.changed.notify_all()

    async def went(self, *history: str) -> None:
        """Wait until all that happened, from the beginning, is this."""
        async with asyncio.timeout(DEADLINE), self.changed:
            await self.changed.wait_for(lambda: len(self.history) >= len(history))
        assert tuple(self.history) == history

    async def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.cluster.get(LEASES, self.name, "default")).json()["spec"]
        return found

    async def renewal(self) -> None:
        """Wait until the lease is renewed once more."""
        before = (await self.spec())["renewTime"]

        async def renewed() -> bool:
            return bool((await self.spec())["renewTime"] != before)

        await until(renewed, f"{self.name} is not renewed")

    async def patch(self, **change: Any) -> None:
        body = json.dumps(change).encode()
        await self.cluster.patch(LEASES, self.name, body, "default", patch_type=PatchType.MERGE)


@pytest.fixture
async def stage(cluster: HttpCluster) -> AsyncIterator[Stage]:
    made = Stage(cluster)
    yield made
    with suppress(NotFound):
        await cluster.delete(LEASES, made.name, "default")


@asynccontextmanager
async def standing(elector: LeaderElector, body: Callable[[], Any]) -> AsyncIterator[asyncio.Task[None]]:
    """An elector that runs inside of the block and is cancelled after it."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(elector.run(body))
        yield task
        task.cancel()


async def test_the_first_leads_and_its_release_lets_the_next_lead(stage: Stage) -> None:
    """On exit the lease is given up: the next one leads long before it would have expired, and after the body."""
    patient = LeaseTiming(lease_duration=3600, renew_deadline=1800.0, retry_period=0.1)
    async with asyncio.timeout(DEADLINE):
        async with standing(stage.elector("one", timing=patient), stage.body("one")) as one:
            await stage.went("one leads")
            spec = await stage.spec()
            assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("one", 3600, 0)
            async with standing(stage.elector("two", timing=patient), stage.body("two")):
                one.cancel()
                await stage.went("one leads", "one ended", "two leads")
                spec = await stage.spec()
                assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("two", 1)
    spec = await stage.spec()
    assert (spec.get("holderIdentity", ""), spec["leaseDurationSeconds"]) == ("", 1)
    for who in ("one", "two"):
        assert [details.leading for details in stage.told if details.identity == who] == [False, True, False]


KILLED = """
import asyncio, sys
from restow.kube import connect
from restow.kube.leaderelection import LeaseTiming
from restow.kube.leaderelection import LeaderElector

async def lead():
    print("leads", flush=True)
    await asyncio.Event().wait()

async def main(kubeconfig, name, duration, deadline, period):
    timing = LeaseTiming(int(duration), float(deadline), float(period))
    async with connect(kubeconfig) as cluster:
        await LeaderElector(cluster, name, "default", identity="killed", timing=timing).run(lead)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_killed_holder_is_succeeded(stage: Stage, kubeconfig: Path) -> None:
    """A process that is killed releases nothing; the lease expires, and someone who waits takes over."""
    times = (str(each) for each in (QUICK.lease_duration, QUICK.renew_deadline, QUICK.retry_period))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, str(kubeconfig), stage.name, *times, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(DEADLINE):
            assert process.stdout is not None
            assert await process.stdout.readline() == b"leads\n"
            async with standing(stage.elector("heir"), stage.body("heir")):
                # It does not take over from one who lives, however long it waits.
                for _ in range(3):
                    await stage.renewal()
                assert stage.history == []
                process.send_signal(signal.SIGKILL)
                await stage.went("heir leads")
                assert (await stage.spec())["leaseTransitions"] == 1
    finally:
        if process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
        await process.wait()


class Partition:
    """A TCP proxy in front of the API server that can be cut: refusing, or swallowing everything in silence."""

    def __init__(self, kubeconfig: Path) -> None:
        self.document = yaml.safe_load(kubeconfig.read_text())
        server = self.document["clusters"][0]["cluster"]["server"]
        url = urlsplit(server)
        self.host, self.port = url.hostname, url.port or 443
        self.state = "open"
        self.healed = asyncio.Event()
        self.connections: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def running(self, folder: Path) -> AsyncIterator[Path]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        changed = self.document["clusters"][0]["cluster"] | {"server": f"https://127.0.0.1:{port}"}
        self.document["clusters"][0]["cluster"] = changed | {"tls-server-name": self.host}
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(self.document))
        try:
            yield path
        finally:
            self.heal()
            server.close()
            for writer in self.connections:
                writer.transport.abort()
            await asyncio.sleep(0)

    def cut(self, how: str) -> None:
        self.state = how
        self.healed.clear()
        if how == "refuse":
            for writer in self.connections:
                writer.transport.abort()

    def heal(self) -> None:
        self.state = "open"
        self.healed.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.state == "refuse":
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(self.host, self.port)
        self.connections |= {writer, back}
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pump(reader, back))
            group.create_task(self._pump(there, writer))
        self.connections -= {writer, back}

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                if self.state == "swallow":
                    await self.healed.wait()
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.transport.abort()


@pytest.mark.parametrize("how", ["refuse", "swallow"])
async def test_a_leader_that_is_cut_off_stops_before_another_starts(
    stage: Stage, kubeconfig: Path, tmp_path: Path, how: str
) -> None:
    """Without an answer, or with none at all, the leader stops by itself; healed, it stands again and waits."""
    partition = Partition(kubeconfig)
    async with (
        asyncio.timeout(DEADLINE),
        partition.running(tmp_path) as path,
        connect(path) as far,
        standing(stage.elector("far", far), stage.body("far")),
    ):
        await stage.went("far leads")
        async with standing(stage.elector("near"), stage.body("near")) as near:
            partition.cut(how)
            await stage.went("far leads", "far ended", "near leads")
            partition.heal()
            near.cancel()
            await stage.went("far leads", "far ended", "near leads", "near ended", "far leads")
    assert (await stage.spec())["leaseTransitions"] >= 2


async def test_a_lease_that_is_taken_away_ends_the_body(stage: Stage) -> None:
    """Someone who writes another holder into the lease deposes the leader, well before its own deadline."""
    patient = LeaseTiming(lease_duration=3600, renew_deadline=1800.0, retry_period=0.1)
    async with asyncio.timeout(DEADLINE), standing(stage.elector("one", timing=patient), stage.body("one")):
        await stage.went("one leads")
        await stage.patch(spec={"holderIdentity": "usurper", "leaseDurationSeconds": 1})
        await stage.went("one leads", "one ended", "one leads")
        assert (await stage.spec())["leaseTransitions"] == 1


async def test_an_error_of_the_winding_up_is_not_lost(stage: Stage) -> None:
    """A body that fails while it is cancelled for a loss has left something undone: run raises, and does not stand."""

    async def fails() -> None:
        raise KeyError("mine")

    async with asyncio.timeout(DEADLINE):
        run = asyncio.create_task(stage.elector("one").run(stage.body("one", winds_up=fails)))
        await stage.went("one leads")
        await stage.patch(spec={"holderIdentity": "usurper"})
        with pytest.raises(KeyError, match="mine"):
            await run
    assert (await stage.spec())["holderIdentity"] == "usurper"


async def test_what_others_keep_on_the_lease_stays(stage: Stage) -> None:
    """A label written while the lease is held survives renewals, costs no leadership, and neither does a deletion."""
    async with asyncio.timeout(DEADLINE), standing(stage.elector("one"), stage.body("one")):
        await stage.went("one leads")
        await stage.patch(metadata={"labels": {"kept": "yes"}})
        await stage.renewal()
        lease = (await stage.cluster.get(LEASES, stage.name, "default")).json()
        assert lease["metadata"]["labels"] == {"kept": "yes"}
        await stage.cluster.delete(LEASES, stage.name, "default")

        async def back() -> bool:
            with suppress(NotFound):
                return bool((await stage.spec())["holderIdentity"] == "one")
            return False

        await until(back, f"{stage.name} does not come back")
        assert stage.history == ["one leads"]


async def test_the_lease_is_kept_while_the_body_winds_up(stage: Stage) -> None:
    """A body that needs longer than the lease lasts to end is not joined by a successor, since renewal goes on."""

    async def long() -> None:
        for _ in range(int(1.5 * QUICK.lease_duration / QUICK.retry_period)):
            await stage.renewal()
            assert (await stage.spec())["holderIdentity"] == "one"

    async with asyncio.timeout(DEADLINE):
        async with standing(stage.elector("one"), stage.body("one", winds_up=long)) as one:
            await stage.went("one leads")
            async with standing(stage.elector("two"), stage.body("two")):
                one.cancel()
                await stage.went("one leads", "one ended", "two leads")


async def test_a_renewal_that_arrives_late_does_not_keep_the_lease(
    stage: Stage, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """A renewal that was cut off reaches the server after the release read the lease: it is released all the same."""
    patient = LeaseTiming(lease_duration=3600, renew_deadline=1800.0, retry_period=600.0)
    late: list[bytes] = []

    async def overtaken(seen: Seen) -> Fault | None:
        if seen.method == "PUT" and not late:
            late.append(seen.body)
            renewal = json.dumps({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}).encode()
            await stage.cluster.patch(LEASES, stage.name, renewal, "default", patch_type=PatchType.MERGE)
        return None

    async with asyncio.timeout(DEADLINE):
        async with standing(stage.elector("one", through_proxy, timing=patient), stage.body("one")):
            await stage.went("one leads")
            proxy.hook = overtaken
    assert json.loads(late[0])["spec"]["holderIdentity"] == "", "it was the release that was overtaken"
    assert (await stage.spec()).get("holderIdentity", "") == ""


async def test_the_end_of_the_body_is_the_end_of_the_run(stage: Stage) -> None:
    """A body's return and its own error come out of run as they are, and the lease is free at once."""

    async def fails() -> None:
        raise KeyError("mine")

    async def times_out() -> None:
        raise TimeoutError("mine")

    async def returns() -> None:
        pass

    async with asyncio.timeout(DEADLINE):
        with pytest.raises(KeyError, match="mine"):
            await stage.elector("one").run(fails)
        assert not (await stage.spec()).get("holderIdentity")
        with pytest.raises(TimeoutError, match="mine"):
            await stage.elector("two").run(times_out)
        await stage.elector("three").run(returns)
        assert not (await stage.spec()).get("holderIdentity")
        assert (await stage.spec())["leaseTransitions"] == 2


async def test_one_without_rights_waits_for_them(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Errors of the API server never leave run: they are logged, and tried again (here: the namespace is missing)."""
    elector = LeaderElector(stage.cluster, stage.name, "no-such-namespace", identity="one", timing=QUICK)
    async with asyncio.timeout(DEADLINE), standing(elector, stage.body("one")) as task:

        async def tried_twice() -> bool:
            return caplog.text.count("no-such-namespace") >= 2

        await until(tried_twice, "nothing was logged")
        assert not task.done()
    assert stage.history == []


async def test_identities(stage: Stage) -> None:
    """Two electors of one host are different holders, and one without identity is refused."""
    assert unique_identity() != unique_identity()
    with pytest.raises(ValueError, match="identity"):
        stage.elector("")

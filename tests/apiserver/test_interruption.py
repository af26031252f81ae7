"""Runs that end before their end: SIGTERM, kill -9, a server that goes away. Running again must always end right."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from restow.controlplane.plane import ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.migrator import CrdReport, Migration, MigrationReport, Options
from restow.migrator.model.callbacks import Moment
from restow.migrator.model.report import MigrationResult
from tests.apiserver.kind import Impatient, Kind, entry_versions, owners
from tests.apiserver.proxy import Fault, Proxy, Reset, Seen
from tests.restow.forked import Forked

COUNT = 40


@pytest.fixture
async def stored_old(kind: Kind) -> Kind:
    """Forty objects stored and owned at v1alpha1, with v1beta1 (and its new default) the storage version now."""
    await kind.populate(COUNT)
    await kind.change(kind.document(storage="v1beta1", default=True))
    return kind


async def start(proxy: Proxy, kind: Kind, *more: str) -> Forked:
    """``restow migrate`` through the proxy, as a process of its own."""
    arguments = ["migrate", kind.name, "--kubeconfig", str(proxy.kubeconfig), "--settle", "0", "-o", "json", *more]
    return await Forked.start(*arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)


async def assert_all_done(kind: Kind) -> None:
    """Every object is stored and owned at v1beta1, and storedVersions says so."""
    stored = await kind.stored()
    assert len(stored) == COUNT
    for key, found in stored.items():
        assert found["apiVersion"] == f"{kind.group}/v1beta1", key
        assert entry_versions(found) == {"v1beta1"}
        assert owners(found) == {("alice", "Apply", ""): frozenset({"/f:spec/f:size"})}
        assert found["metadata"]["generation"] == 1
    assert await kind.stored_versions() == ["v1beta1"]


async def test_sigterm_finishes_writes_in_flight_and_reports_what_remains(stored_old: Kind, proxy: Proxy) -> None:
    """A pod that is evicted must leave no write half done, and say that it did not finish."""
    kind = stored_old
    process: Forked
    writes_at_signal = 0

    async def hook(seen: Seen) -> Fault | None:
        nonlocal writes_at_signal
        if seen.is_write and not writes_at_signal and proxy.count("PATCH") >= 21:
            writes_at_signal = proxy.count("PATCH")
            process.send_signal(signal.SIGTERM)
        return None

    proxy.hook = hook
    process = await start(proxy, kind, "--concurrency", "4", "--page-size", "10")
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    report = json.loads(out)
    crd = report["crds"][0]
    assert process.returncode == 1, err
    assert report["result"] == "Failed" and not crd["pruned"]
    assert "asked to stop" in crd["unfinished"] and "not begun" in crd["unfinished"]
    assert proxy.in_flight == 0
    assert proxy.count("PATCH") - writes_at_signal <= 8, "no new object was begun"
    assert crd["objects"]["rewritten"] * 2 == crd["requests"]["write"], "every object that was begun was finished"
    assert "Traceback" not in err.decode()
    proxy.hook = None
    again = await start(proxy, kind)
    await again.communicate()
    assert again.returncode == 0
    await assert_all_done(kind)


async def test_sigterm_ends_a_run_whose_server_answers_nothing(stored_old: Kind, proxy: Proxy) -> None:
    """A server that hangs would hold the pod until it is killed, and nobody would hear what remains."""
    process: Forked

    async def hook(seen: Seen) -> Fault | None:
        if seen.is_write and proxy.count("PATCH") >= 9:
            if proxy.count("PATCH") == 9:
                process.send_signal(signal.SIGTERM)
            await asyncio.Event().wait()
        return None

    proxy.hook = hook
    process = await start(proxy, stored_old, "--concurrency", "4")
    async with asyncio.timeout(20):
        out, err = await process.communicate()
    assert process.returncode == 1, err
    assert "not begun" in json.loads(out)["crds"][0]["unfinished"]
    assert "Traceback" not in err.decode()


async def test_sigterm_while_settling_ends_at_once(stored_old: Kind, proxy: Proxy) -> None:
    """A wait that does not hear the signal would be killed at the end of the grace period."""
    process = await start(proxy, stored_old, "--settle", "3600")
    assert process.stderr is not None
    async with asyncio.timeout(30):
        while b"settle" not in await process.stderr.readline():
            pass
        process.send_signal(signal.SIGTERM)
        out, _err = await process.communicate()
    assert process.returncode == 1
    assert json.loads(out)["crds"][0]["requests"]["write"] == 0


@pytest.mark.parametrize("request_number", [1, 2, 3, 4, 7, 12, 40, 41, 80, 83, 84, 85, 86])
async def test_kill_at_any_request_and_run_again(stored_old: Kind, proxy: Proxy, request_number: int) -> None:
    """A node that dies takes no notice of where a run is; what it left must be right, and the next run finish it."""
    kind = stored_old
    process: Forked
    seen_requests = 0

    async def hook(_seen: Seen) -> Fault | None:
        nonlocal seen_requests
        seen_requests += 1
        if seen_requests == request_number:
            os.kill(process.pid, signal.SIGKILL)
        return None

    proxy.hook = hook
    process = await start(proxy, kind, "--concurrency", "4", "--page-size", "20")
    await process.communicate()
    for found in (await kind.stored()).values():
        assert {manager for manager, _, _ in owners(found)} == {"alice"}
    if await kind.stored_versions() == ["v1beta1"]:
        await assert_all_done(kind)
    proxy.hook = None
    again = await start(proxy, kind)
    _out, err = await again.communicate()
    assert again.returncode == 0, err
    await assert_all_done(kind)


async def test_a_server_that_goes_away_ends_the_run_with_a_sentence(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """Trying each of 100,000 objects against a server that is gone would take for ever."""
    kind = stored_old
    now = 0.0

    async def hook(seen: Seen) -> Fault | None:
        nonlocal now
        now += 5.0  # time passes quickly while nobody answers
        return Reset() if proxy.count("PATCH") > 10 and not seen.of_crd else None

    proxy.hook = hook
    options = Options(settle_s=0.0, concurrency=1, page_size=10, patience_s=60.0)
    migration = Migration(through_proxy, options, clock=lambda: now, chance=Impatient())
    report = await migration.migrate(kind.name)
    assert MigrationReport((report,)).result is MigrationResult.UNREACHABLE and not report.pruned
    assert report.unreachable == through_proxy.host
    assert "cannot be reached any more" in report.unfinished
    assert report.objects.failed <= 2
    proxy.hook = None
    assert (await Migration(through_proxy, Options(settle_s=0.0)).migrate(kind.name)).pruned
    await assert_all_done(kind)


async def test_a_restart_of_the_api_server_is_waited_out(
    stored_old: Kind, control_plane: ControlPlane, kubeconfig: Path
) -> None:
    """Upgrades restart API servers; a migration in an upgrade must live with that."""
    kind = stored_old
    writing = asyncio.Event()

    class Watcher:
        def at(self, moment: Moment, _report: CrdReport) -> None:
            if moment is Moment.WRITING:
                writing.set()

    async with connect(kubeconfig) as cluster:
        migration = Migration(cluster, Options(settle_s=0.0, rate=20.0), observer=Watcher())
        async with asyncio.TaskGroup() as group:
            run = group.create_task(migration.migrate(kind.name))
            await writing.wait()
            await control_plane.restart_apiserver()
        report = run.result()
    assert report.pruned, report.to_json()
    await assert_all_done(kind)

"""Several processes on a real API server: they end as one does, whatever fails, dies or is asked to stop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from restow.controlplane.etcd import Etcd
from restow.kube.client import HttpCluster
from restow.migrator import CallbackFailed, CrdReport, Migration, NamedConverters, Options, Shard
from restow.migrator.run import dealer
from tests.apiserver.catalogs import CatalogKind
from tests.apiserver.kind import Kind, entry_versions, owners, until
from tests.apiserver.proxy import Answer, Fault, Proxy, Seen
from tests.apiserver.test_translation import COUNT as CATALOGS
from tests.apiserver.test_translation import OWNED, populate
from tests.apiserver.webhook import Webhook
from tests.restow.commandline import RESTOW

COUNT = 60
_DEADLINE = 170.0  # seconds; replaced processes start one after the other


@pytest.fixture
async def stored_old(kind: Kind) -> Kind:
    """Objects stored and owned at v1alpha1, with v1beta1 (and its new default) the storage version now."""
    await kind.populate(COUNT)
    await kind.change(kind.document(storage="v1beta1", default=True))
    return kind


@pytest.fixture
async def catalogs(cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook) -> AsyncIterator[CatalogKind]:
    """Catalogs with owners at v1, stored at v2 from now on, which a webhook converts."""
    made = CatalogKind(cluster, etcd, group, webhook)
    await made.create(made.document(storage="v1"))
    await populate(made)
    await made.change(made.document(storage="v2"))
    yield made
    await made.remove()


def options(**more: Any) -> Options:
    """Two processes, and pages so small that the list has several."""
    return Options(**({"settle_s": 0.0, "page_size": 10, "processes": 2} | more))


async def start(proxy: Proxy, kind: Kind, *more: str) -> asyncio.subprocess.Process:
    """``restow migrate`` through the proxy, with two processes."""
    arguments = ["migrate", kind.name, "--kubeconfig", str(proxy.kubeconfig), "--settle", "0", "-o", "json"]
    arguments += ["--processes", "2", "--page-size", "10", *more]
    return await asyncio.create_subprocess_exec(
        *RESTOW, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )


def workers_of(pid: int) -> list[int]:
    """The worker processes that a process has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"processworker" in Path(f"/proc/{child}/cmdline").read_bytes()]


def is_running(pid: int) -> bool:
    """Whether a process has not ended; a zombie has."""
    try:
        return " Z " not in f" {Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0]} "
    except OSError:
        return False


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


async def fails_some(seen: Seen) -> Fault | None:
    """Refuse the writes of two objects."""
    if seen.is_write and seen.path.endswith(("/w07", "/w31")):
        return Answer.of(422, "Invalid", "spec.size: Invalid value")
    return None


def told(report: CrdReport) -> dict[str, Any]:
    """A report without what differs between two kinds and two runs."""
    found = json.loads(json.dumps(report.to_json()).replace(report.name.partition(".")[2], "GROUP"))
    found["failures"].sort(key=lambda failure: failure["name"])
    del found["durationSeconds"]
    return dict(found)


@pytest.mark.parametrize("more", [{}, {"dry_run": True}, {"managed_fields": "keep"}], ids=str)
async def test_two_processes_report_what_one_reports(
    stored_old: Kind, cluster: HttpCluster, through_proxy: HttpCluster, proxy: Proxy, more: dict[str, Any]
) -> None:
    """Counts that are lost or added twice on their way from a worker make the report wrong."""
    other = Kind(cluster, stored_old.etcd, f"other.{stored_old.group}")
    await other.create(other.document(storage="v1alpha1", versions=("v1alpha1",)))
    await other.populate(COUNT)
    await other.change(other.document(storage="v1beta1", default=True))
    proxy.hook = fails_some
    try:
        two = await Migration(through_proxy, options(**more)).migrate(stored_old.name)
        one = await Migration(through_proxy, options(**more, processes=1)).migrate(other.name)
        assert told(two) == told(one)
        assert two.objects.failed == 2 and not two.pruned
        if not more:
            assert two.objects.translated == COUNT - 2
        proxy.hook = None
        last = await Migration(through_proxy, options()).migrate(stored_old.name)
        assert last.pruned, last.to_json()
    finally:
        await other.remove()
    stored = await stored_old.stored()
    assert {found["apiVersion"] for found in stored.values()} == {f"{stored_old.group}/v1beta1"}
    if not more.get("managed_fields"):
        await assert_all_done(stored_old)


async def test_a_list_of_one_page_starts_no_process(
    stored_old: Kind, cluster: HttpCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --all, the start of processes for each CRD of a few objects would take longer than the objects."""
    monkeypatch.setattr(asyncio, "create_subprocess_exec", None)
    report = await Migration(cluster, options(page_size=100, processes="auto")).migrate(stored_old.name)
    assert report.pruned, report.to_json()
    await assert_all_done(stored_old)


async def test_processes_of_a_shard_do_its_objects(stored_old: Kind, cluster: HttpCluster) -> None:
    """A worker that is dealt the objects of another shard doubles their writes."""
    first = await Migration(cluster, options(shard=Shard(0, 2))).migrate(stored_old.name)
    second = await Migration(cluster, options(shard=Shard(1, 2))).migrate(stored_old.name)
    assert first.objects.listed + second.objects.listed == COUNT
    assert second.pruned and first.objects.listed and second.objects.listed
    await assert_all_done(stored_old)


async def test_a_killed_worker_is_replaced(stored_old: Kind, proxy: Proxy) -> None:
    """The objects that a dead worker was dealt would stay at the old version, and the prune would lose them."""
    process: asyncio.subprocess.Process
    killed: list[int] = []

    async def hook(seen: Seen) -> Fault | None:
        if seen.is_write and proxy.count("PATCH") >= 21 and not killed:
            killed.append(workers_of(process.pid)[0])
            os.kill(killed[0], signal.SIGKILL)
        return None

    proxy.hook = hook
    process = await start(proxy, stored_old, "--concurrency", "4")
    async with asyncio.timeout(_DEADLINE):
        out, err = await process.communicate()
    crd = json.loads(out)["crds"][0]
    assert killed and process.returncode == 0, err
    assert "a worker process was killed by SIGKILL; its objects are dealt again" in err.decode()
    assert crd["pruned"] and crd["objects"]["listed"] == COUNT
    assert crd["objects"]["rewritten"] + crd["objects"]["current"] == COUNT
    assert not crd["warnings"], "objects that the dead worker wrote are no sign of an API server that lags"
    await assert_all_done(stored_old)


async def test_a_worker_that_stands_still_is_replaced(
    stored_old: Kind, through_proxy: HttpCluster, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """A stopped worker, or a converter that never returns, would be waited for without end."""
    monkeypatch.setattr(dealer, "MOST_SILENT_BEATS", 10)
    stopped: list[int] = []

    async def hook(seen: Seen) -> Fault | None:
        if seen.is_write and proxy.count("PATCH") >= 11 and not stopped:
            stopped.append(workers_of(os.getpid())[-1])
            os.kill(stopped[0], signal.SIGSTOP)
        return None

    proxy.hook = hook
    async with asyncio.timeout(_DEADLINE):
        report = await Migration(through_proxy, options()).migrate(stored_old.name)
    assert stopped and not is_running(stopped[0])
    assert report.pruned, report.to_json()
    assert "a worker process did not answer for a minute and was killed; its objects are dealt again" in caplog.text
    await assert_all_done(stored_old)


async def test_workers_that_keep_dying_end_the_run(stored_old: Kind, proxy: Proxy) -> None:
    """A run whose workers are killed for want of memory would start new ones for ever."""
    process: asyncio.subprocess.Process

    async def hook(seen: Seen) -> Fault | None:
        if seen.is_write:
            for worker in workers_of(process.pid):
                os.kill(worker, signal.SIGKILL)
        return None

    proxy.hook = hook
    process = await start(proxy, stored_old)
    async with asyncio.timeout(_DEADLINE):
        out, err = await process.communicate()
    crd = json.loads(out)["crds"][0]
    assert process.returncode == 1, err
    assert "worker processes died, and the last one was killed by SIGKILL" in crd["unfinished"]
    assert "--processes 1" in crd["unfinished"] and not crd["pruned"]
    assert "Traceback" not in err.decode()
    proxy.hook = None
    again = await start(proxy, stored_old)
    assert await again.wait() == 0
    await assert_all_done(stored_old)


async def test_sigterm_reaches_the_workers(stored_old: Kind, proxy: Proxy) -> None:
    """Workers that go on, or are cut off in a write, break the promise of the report."""
    process: asyncio.subprocess.Process
    writes_at_signal = 0

    async def hook(seen: Seen) -> Fault | None:
        nonlocal writes_at_signal
        if seen.is_write and not writes_at_signal and proxy.count("PATCH") >= 21:
            writes_at_signal = proxy.count("PATCH")
            process.send_signal(signal.SIGTERM)
        return None

    proxy.hook = hook
    process = await start(proxy, stored_old, "--concurrency", "4")
    async with asyncio.timeout(_DEADLINE):
        out, err = await process.communicate()
    crd = json.loads(out)["crds"][0]
    assert process.returncode == 1, err
    assert "asked to stop" in crd["unfinished"] and "not begun" in crd["unfinished"]
    assert proxy.in_flight == 0
    assert crd["objects"]["rewritten"] < COUNT
    assert crd["objects"]["rewritten"] * 2 == crd["requests"]["write"], "every object that was begun was finished"
    assert "Traceback" not in err.decode()
    proxy.hook = None
    again = await start(proxy, stored_old, "--resume")
    out, _err = await again.communicate()
    assert again.returncode == 0
    rewritten = json.loads(out)["crds"][0]["objects"]["rewritten"]
    assert rewritten == COUNT - crd["objects"]["rewritten"], "what was done is skipped"
    await assert_all_done(stored_old)


async def test_workers_end_when_their_run_is_killed(stored_old: Kind, proxy: Proxy) -> None:
    """Orphans would go on writing during the next run, or wait for ever."""
    process: asyncio.subprocess.Process
    workers: list[int] = []

    async def hook(seen: Seen) -> Fault | None:
        if seen.is_write and proxy.count("PATCH") >= 21 and not workers:
            workers.extend(workers_of(process.pid))
            os.kill(process.pid, signal.SIGKILL)
        return None

    proxy.hook = hook
    process = await start(proxy, stored_old, "--concurrency", "4")
    await process.wait()
    assert len(workers) == 2

    async def ended() -> bool:
        return not any(is_running(worker) for worker in workers)

    await until(ended, "workers are still there")
    for found in (await stored_old.stored()).values():
        assert {manager for manager, _, _ in owners(found)} == {"alice"}
    proxy.hook = None
    again = await start(proxy, stored_old)
    assert await again.wait() == 0
    await assert_all_done(stored_old)


async def test_a_withdrawn_right_stops_all_processes(
    stored_old: Kind, through_proxy: HttpCluster, proxy: Proxy
) -> None:
    """A worker that goes on without the right fails each of its objects."""

    async def hook(seen: Seen) -> Fault | None:
        if seen.is_write and proxy.count("PATCH") >= 21:
            return Answer.of(403, "Forbidden", 'w is forbidden: User "admin" cannot patch resource "widgets"')
        return None

    proxy.hook = hook
    report = await Migration(through_proxy, options(concurrency=4)).migrate(stored_old.name)
    assert not report.pruned
    assert "the permission was withdrawn" in report.unfinished, report.to_json()
    assert report.objects.failed <= 4


async def test_a_worker_logs_as_the_run_does(stored_old: Kind, proxy: Proxy) -> None:
    """Lines of another format, or none, hide which requests a worker sent."""
    process = await start(proxy, stored_old, "--log-level", "debug", "--log-format", "json")
    out, err = await process.communicate()
    assert process.returncode == 0, (out, err)
    lines = [json.loads(line) for line in err.decode().splitlines() if line.startswith("{")]
    patched = [line for line in lines if line["message"].startswith("patch widgets")]
    assert len(patched) == json.loads(out)["crds"][0]["requests"]["write"]
    assert {(line["level"], line["logger"]) for line in patched} == {("debug", "restow.kube.client")}


async def test_a_worker_that_cannot_start_ends_the_run(
    stored_old: Kind, cluster: HttpCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python that is not an executable of its own, or a system without processes left, must be named."""
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    report = await Migration(cluster, options()).migrate(stored_old.name)
    assert "a worker process cannot be started: No such file or directory" in report.unfinished
    assert report.requests.write == 0 and not report.pruned


@pytest.mark.parametrize("named", [True, False], ids=["by name", "own webhook"])
async def test_each_worker_has_the_converter(
    catalogs: CatalogKind, cluster: HttpCluster, webhook: Webhook, named: bool
) -> None:
    """A worker that converts with something else than the run, or not at all, loses owners."""
    more: dict[str, Any] = {}
    if named:
        more["converters"] = NamedConverters("tests.apiserver.catalog_conversions:converters_for", [catalogs.group])
    report = await Migration(cluster, options(page_size=2), **more).migrate(catalogs.name)
    assert report.pruned and report.objects.translated == report.requests.write == CATALOGS, report.to_json()
    assert report.conversions > 0 and report.requests.review == len(webhook.asked)
    assert bool(webhook.asked) is not named
    for found in (await catalogs.stored()).values():
        assert entry_versions(found) == {"v2"} and owners(found) == OWNED


async def test_a_converter_that_fails_in_a_worker_ends_the_run_by_name(
    catalogs: CatalogKind, cluster: HttpCluster
) -> None:
    """A report alone hides the error of the embedder's code, and each worker would go on with the next page."""
    failing = NamedConverters("tests.apiserver.catalog_conversions:raising_converters")
    with pytest.raises(CallbackFailed, match=r"_Raising\.convert raised KeyError$") as caught:
        await Migration(cluster, options(page_size=2), converters=failing).run([catalogs.name])
    [report] = caught.value.reports
    assert not report.pruned and "_Raising.convert raised KeyError" in report.unfinished
    assert report.requests.write == 0 and await catalogs.stored_versions() == ["v1", "v2"]

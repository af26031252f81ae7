"""Resuming by the watermark: what a killed run had written is not written again, and nothing else is left out."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import Any

import pytest

from restow.kube.client import HttpCluster
from restow.kube.resources import CRDS
from restow.migrator import CrdReport, Migration, Options
from restow.migrator.model.watermark import ANNOTATION
from tests.apiserver.kind import Kind, entry_versions
from tests.apiserver.proxy import Answer, Fault, Proxy, Seen
from tests.restow.forked import Forked

COUNT = 60
CONCURRENCY = 4


@pytest.fixture
async def stored_old(kind: Kind) -> Kind:
    """Sixty objects stored and owned at v1alpha1, with v1beta1 the storage version now."""
    await kind.populate(COUNT)
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    return kind


async def run(proxy: Proxy, kind: Kind, *more: str, settle: str = "0") -> tuple[int, Any]:
    """``restow migrate`` through the proxy, as a process that can be killed; its exit code and report."""
    arguments = ["migrate", kind.name, "--kubeconfig", str(proxy.kubeconfig), "-o", "json", "--settle", settle]
    concurrency = ["--concurrency", str(CONCURRENCY), "--page-size", "20"]
    process = await Forked.start(
        *arguments, *concurrency, *more, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    KILLED[:] = [process.pid]
    out, _err = await process.communicate()
    return process.returncode or 0, json.loads(out)["crds"][0] if out else None


KILLED: list[int] = []
"""The process that runs."""


async def killed_at(proxy: Proxy, kind: Kind, write: int, **more: Any) -> None:
    """A run that is killed when its n-th write arrives."""
    writes = 0

    async def hook(seen: Seen) -> Fault | None:
        nonlocal writes
        writes += seen.is_write
        if seen.is_write and writes == write:
            os.kill(KILLED[0], signal.SIGKILL)
        return None

    proxy.hook = hook
    code, report = await run(proxy, kind, **more)
    assert (code, report) == (-signal.SIGKILL, None)
    proxy.hook = None


async def annotation(cluster: HttpCluster, kind: Kind) -> Any:
    """The watermark that the CRD carries."""
    value = (await cluster.get(CRDS, kind.name)).json()["metadata"].get("annotations", {}).get(ANNOTATION)
    return None if value is None else json.loads(value)


async def old_ones(kind: Kind) -> set[str]:
    """The objects that are stored at v1alpha1, by etcd."""
    return {key for key, found in (await kind.stored()).items() if found["apiVersion"].endswith("/v1alpha1")}


async def assert_all_done(kind: Kind) -> None:
    """Every object is stored and owned at v1beta1, and storedVersions says so."""
    assert not await old_ones(kind)
    assert {version for found in (await kind.stored()).values() for version in entry_versions(found)} == {"v1beta1"}
    assert await kind.stored_versions() == ["v1beta1"]


@pytest.mark.parametrize("write", [1, 20, 45])
async def test_after_a_kill_a_resumed_run_repeats_at_most_what_was_in_flight(
    stored_old: Kind, proxy: Proxy, cluster: HttpCluster, write: int
) -> None:
    """A Job that is evicted every hour would otherwise never get through a large CRD."""
    kind = stored_old
    await killed_at(proxy, kind, write)
    left = await old_ones(kind)
    # What was in flight at the kill, on either side of the API server, may be stored or not, or a moment later.
    assert COUNT - write - CONCURRENCY <= len(left) <= COUNT - write + CONCURRENCY + 1
    watermark = await annotation(cluster, kind)
    before = sum(seen.is_write for seen in proxy.seen)
    code, report = await run(proxy, kind, "--resume")
    writes = sum(seen.is_write for seen in proxy.seen) - before
    assert code == 0
    assert len(left) - CONCURRENCY <= writes <= len(left) + CONCURRENCY
    assert report["requests"]["write"] == writes
    assert report["resumedFrom"] == watermark["resourceVersion"]
    assert report["objects"]["listed"] == report["objects"]["rewritten"] + report["objects"]["current"] == COUNT
    assert report["pruned"]
    await assert_all_done(kind)
    assert await annotation(cluster, kind) is None, "it has done its service"


async def test_a_run_that_does_not_resume_writes_every_object(stored_old: Kind, proxy: Proxy) -> None:
    """It is asked for to be sure: what an API server stored wrongly must be put right by it."""
    kind = stored_old
    await killed_at(proxy, kind, 30)
    code, report = await run(proxy, kind)
    assert (code, report["resumedFrom"], report["requests"]["write"]) == (0, "", COUNT)
    await assert_all_done(kind)


async def test_after_a_flip_and_back_everything_is_written_again(
    stored_old: Kind, proxy: Proxy, cluster: HttpCluster
) -> None:
    """Objects written between the flips are newer than the watermark, and stored at the old version."""
    kind = stored_old
    await killed_at(proxy, kind, 30)
    assert await annotation(cluster, kind) is not None
    await kind.change(kind.document(storage="v1alpha1", keyed_conditions=False))
    for number in range(COUNT):
        await kind.merge("v1beta1", f"w{number:02}", {"metadata": {"labels": {"touched": "yes"}}}, "bob")
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    assert len(await old_ones(kind)) == COUNT
    code, report = await run(proxy, kind, "--resume")
    assert (code, report["resumedFrom"], report["requests"]["write"]) == (0, "", COUNT)
    await assert_all_done(kind)


async def test_entries_written_since_are_translated_all_the_same(stored_old: Kind, proxy: Proxy) -> None:
    """The watermark knows how an object is stored, not who wrote to it at which version."""
    kind = stored_old
    await killed_at(proxy, kind, 30)
    for number in (0, 59):
        await kind.apply(kind.manifest("v1alpha1", f"w{number:02}", spec={"size": 1000 + number}), "alice")
    code, report = await run(proxy, kind, "--resume")
    assert (code, report["objects"]["failed"]) == (0, 0)
    assert report["resumedFrom"]
    await assert_all_done(kind)


async def test_no_watermark_is_taken_before_the_crd_has_settled(
    stored_old: Kind, proxy: Proxy, cluster: HttpCluster
) -> None:
    """What another API server wrote at the old version meanwhile would be newer, and taken for done."""
    kind = stored_old
    process = asyncio.create_task(run(proxy, kind, settle="3600"))
    async with asyncio.timeout(30):
        while not any(seen.path.endswith("/selfsubjectaccessreviews") for seen in proxy.seen):
            assert not process.done(), "the process ended before it settled"
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.3)
    os.kill(KILLED[0], signal.SIGTERM)
    code, report = await process
    assert (code, report["objects"]["listed"]) == (1, 0)
    assert await annotation(cluster, kind) is None


async def test_a_watermark_of_less_settling_is_not_believed(stored_old: Kind, proxy: Proxy) -> None:
    """Who says --settle 0 takes a risk for one run, not for all that come after it."""
    kind = stored_old
    await killed_at(proxy, kind, 30)
    code, report = await run(proxy, kind, "--resume", settle="0.01")
    assert (code, report["resumedFrom"], report["requests"]["write"]) == (0, "", COUNT)


async def test_without_the_right_to_leave_it_only_the_shortcut_is_lost(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """Many give a Job no right on CRDs but on their status."""
    kind = stored_old

    async def hook(seen: Seen) -> Fault | None:
        if seen.method == "PATCH" and seen.of_crd and not seen.path.endswith("/status"):
            return Answer.of(403, "Forbidden", "not allowed")
        return None

    proxy.hook = hook
    report = await migrate(through_proxy, kind, resume=True)
    assert report.pruned
    assert any("watermark could not be left" in warning for warning in report.warnings)
    await assert_all_done(kind)


async def test_a_dry_run_leaves_none(stored_old: Kind, cluster: HttpCluster) -> None:
    """A rehearsal changes nothing."""
    await migrate(cluster, stored_old, dry_run=True)
    assert await annotation(cluster, stored_old) is None


async def migrate(cluster: HttpCluster, kind: Kind, **options: Any) -> CrdReport:
    """Migrate in this process."""
    return await Migration(cluster, Options(settle_s=0.0, **options)).migrate(kind.name)

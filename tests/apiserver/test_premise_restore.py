"""etcd is restored from a backup while a run is at work: what the run proved before is proved of nothing afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from restow.controlplane.plane import ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.migrator import CrdReport, Migration, Options, read_crd, ready
from tests.apiserver.kind import Kind, until
from tests.apiserver.proxy import Fault, Proxy, Seen
from tests.apiserver.restoring import Restorable
from tests.faults.history import History

OLD, NEW = "v1alpha1", "v1beta1"
COUNT, RATE = 120, 30.0
_EMULATED, _AT = 30, 12


async def written_by_new_clients(kind: Kind, count: int, version: str = NEW) -> None:
    """Objects stored at the old version with entries at the new one, so that nothing but the bytes gives them away."""
    await kind.create(kind.document(storage=OLD, keyed_conditions=False))
    for number in range(count):
        await kind.apply(kind.manifest(version, f"w{number:03}", spec={"size": number}), "alice")


async def flip(kind: Kind) -> None:
    """Store at the new version from now on."""
    await kind.change(kind.document(storage=NEW, keyed_conditions=False))


async def at(kind: Kind, version: str) -> list[str]:
    """The objects that etcd holds at a version."""
    return [name for name, found in (await kind.stored()).items() if found["apiVersion"].endswith(f"/{version}")]


async def judge(kind: Kind, report: CrdReport) -> None:
    """Neither the run nor ``ready`` may claim what is not so, and another run brings all to its end."""
    old, crd = await at(kind, OLD), await read_crd(kind.cluster, kind.name)
    answer = await ready(kind.cluster, crd, OLD)
    claims = (report.pruned, answer.ready, list(crd.stored_versions) == [NEW])
    assert not (any(claims) and old), f"{len(old)} at {OLD}; pruned, ready, storedVersions: {claims}"
    again = await Migration(kind.cluster, Options(settle_s=0.0)).migrate(kind.name)
    assert (await at(kind, OLD), again.failures) == ([], [])
    assert (await ready(kind.cluster, await read_crd(kind.cluster, kind.name), OLD)).ready


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A control plane of the test's own, which is stopped and started."""
    async with ControlPlane() as running:
        yield running


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("taken", "applied"), [("before the run", NEW), ("before the run", OLD), ("within the run", NEW)]
)
async def test_a_run_outlives_a_restore_of_etcd(plane: ControlPlane, tmp_path: Path, taken: str, applied: str) -> None:
    """The run would say that every object is migrated, after a quarter of them went back to the old version."""
    restorable = Restorable(plane, tmp_path)
    async with connect(plane.kubeconfig) as cluster:
        kind = Kind(cluster, plane.etcd, "restored.example.com")
        await written_by_new_clients(kind, COUNT, applied)
        await flip(kind)
        if taken == "before the run":
            await restorable.back_up("backup")
        running = asyncio.create_task(Migration(cluster, Options(settle_s=0.0, rate=RATE)).migrate(kind.name))

        async def has_written(count: int) -> bool:
            return running.done() or len(await at(kind, NEW)) >= count

        if taken == "within the run":
            await until(lambda: has_written(COUNT // 4), "the run does not begin")
            await restorable.back_up("backup")
        await until(lambda: has_written(COUNT // 2), "the run does not go on")
        assert not running.done()
        await restorable.restore("backup")
        assert len(await at(kind, OLD)) > COUNT // 4
        report = await running
        await judge(kind, report)
        assert report.pruned and not report.failures, report.to_json()


def at_a_write(seen: Seen, written: int) -> bool:
    """In the midst of the writes."""
    return seen.is_write and written == _AT


def at_the_list(seen: Seen, _written: int) -> bool:
    """After the run has looked at the API servers, and before it has the objects."""
    return seen.is_list


def at_the_token(seen: Seen, _written: int) -> bool:
    """When the run has a list already, or waits for the API servers, and writes the CRD for the first time."""
    return seen.of_crd and seen.method == "PATCH"


@pytest.mark.parametrize("moment", [at_a_write, at_the_list, at_the_token])
@pytest.mark.parametrize("flipped_again", [None, "at once", "later"])
async def test_what_etcd_held_before_the_run_comes_back_in_one_moment(
    cluster: HttpCluster,
    control_plane: ControlPlane,
    group: str,
    through_proxy: HttpCluster,
    proxy: Proxy,
    moment: Callable[[Seen, int], bool],
    flipped_again: str | None,
) -> None:
    """uid, generation, storage version and storedVersions would look untouched, and half of the objects are not."""
    kind = Kind(cluster, control_plane.etcd, group)
    history = History(control_plane.etcd.url, group, kind.plural)
    await written_by_new_clients(kind, _EMULATED)
    before_the_flip = await history.backup()
    await flip(kind)
    before_the_run = await history.backup()
    written, restored_at, flipped, one_moment = 0, -1, False, asyncio.Lock()

    async def hook(seen: Seen) -> Fault | None:
        nonlocal written, restored_at, flipped
        async with one_moment:
            written += seen.is_write
            if restored_at < 0 and moment(seen, written):
                restored_at = written
                await history.restore(before_the_flip if flipped_again else before_the_run)
            due = {"at once": 0, "later": 5}.get(flipped_again or "")
            if due is not None and not flipped and 0 <= restored_at <= written - due:
                flipped = True
                await flip(kind)
        return None

    proxy.hook = hook
    try:
        report = await Migration(through_proxy, Options(settle_s=0.0, concurrency=1)).migrate(kind.name)
        proxy.hook = None
        assert restored_at >= 0
        if flipped_again and not flipped:
            await flip(kind)
        await judge(kind, report)
    finally:
        await kind.remove()

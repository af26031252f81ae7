"""Shards on a real API server: the prune comes when all parts are proven to be done, whoever fails, dies or is late."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
from typing import Any

import pytest

from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.resources import CONFIG_MAPS, CRDS
from restow.migrator import CrdReport, Migration, MigrationReport, Options, Shard
from restow.migrator.model.report import MigrationResult
from tests.apiserver.access import Access, Right, on_crd, on_objects
from tests.apiserver.kind import Kind, entry_versions, owners, until
from tests.apiserver.proxy import Answer, Fault, Proxy, Reset, Seen
from tests.restow.forked import Forked

COUNT = 24


@pytest.fixture
async def stored_old(kind: Kind) -> Kind:
    """Objects stored and owned at v1alpha1, with v1beta1 the storage version now."""
    await kind.populate(COUNT)
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    return kind


async def shard(cluster: HttpCluster, kind: Kind, index: int, count: int, **options: Any) -> CrdReport:
    """Run one shard in this process."""
    chosen = Options(settle_s=0.0, page_size=10, shard=Shard(index, count), **options)
    return await Migration(cluster, chosen).migrate(kind.name)


def result(report: CrdReport) -> MigrationResult:
    """What the command would say."""
    return MigrationReport((report,)).result


async def process(proxy: Proxy, kind: Kind, *more: str, **environment: str) -> Forked:
    """Start ``restow migrate`` through the proxy."""
    arguments = ["migrate", kind.name, "--kubeconfig", str(proxy.kubeconfig), "-o", "json", "--settle", "0", *more]
    return await Forked.start(
        *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment
    )


async def versions(kind: Kind) -> dict[str, int]:
    """How many objects are stored at which version, by etcd."""
    found = [each["apiVersion"].split("/")[1] for each in (await kind.stored()).values()]
    return {version: found.count(version) for version in sorted(set(found))}


async def assert_all_done(kind: Kind, version: str = "v1beta1") -> None:
    """Every object is stored and owned at the version, and storedVersions says so."""
    stored = await kind.stored()
    assert len(stored) == COUNT
    for found in stored.values():
        assert found["apiVersion"] == f"{kind.group}/{version}"
        assert entry_versions(found) == {version}
        assert owners(found) == {("alice", "Apply", ""): frozenset({"/f:spec/f:size"})}
    assert await kind.stored_versions() == [version]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
async def test_in_whatever_order_they_come_the_last_one_prunes(
    stored_old: Kind, cluster: HttpCluster, order: tuple[int, ...]
) -> None:
    """A prune before the last part is done loses it; none after it leaves the migration unfinished."""
    kind, written = stored_old, 0
    for number, index in enumerate(order, start=1):
        report = await shard(cluster, kind, index, 3)
        assert result(report) is MigrationResult.SUCCEEDED, report.to_json()
        written += report.requests.write
        assert report.pruned is (number == 3)
        assert report.shard is not None
        assert set(report.shard.complete) == set(order[:number])
        for missing in order[number:]:
            assert str(missing) in report.pruned_reason
            assert "not complete yet" in report.pruned_reason
        if number < 3:
            assert await kind.stored_versions() == ["v1alpha1", "v1beta1"]
    assert written == COUNT, "each object is one shard's"
    await assert_all_done(kind)


async def test_an_indexed_job_prunes(stored_old: Kind, proxy: Proxy, cluster: HttpCluster) -> None:
    """Pods of a Job know their index and nothing of each other, and end at the same moment."""
    kind = stored_old
    pods = [await process(proxy, kind, JOB_COMPLETION_INDEX=str(index), RESTOW_SHARDS="3") for index in range(3)]
    ended = [await pod.communicate() for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0, 0], ended
    reports = [json.loads(out)["crds"][0] for out, _err in ended]
    assert [each["shard"]["index"] for each in reports] == [0, 1, 2]
    assert sum(each["requests"]["write"] for each in reports) == COUNT
    assert any(each["pruned"] for each in reports)
    await assert_all_done(kind)
    crd = (await cluster.get(CRDS, kind.name)).json()
    records = (await cluster.get(CONFIG_MAPS, f"restow-shards.{kind.name}", "default")).json()
    assert records["metadata"]["ownerReferences"][0]["uid"] == crd["metadata"]["uid"]


async def test_a_shard_that_fails_keeps_the_others_from_pruning(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """Its objects are stored at the old version still; once they are done its own rerun prunes."""
    kind = stored_old
    uid = (await kind.get("v1beta1", "w07"))["metadata"]["uid"]
    failing = next(index for index in range(3) if Shard(index, 3).owns(uid))

    async def hook(seen: Seen) -> Fault | None:
        return (
            Answer.of(403, "Forbidden", "a policy says no", details={"name": "w07"}) if _writes(seen, "w07") else None
        )

    proxy.hook = hook
    for index in (failing, *(index for index in range(3) if index != failing)):
        report = await shard(through_proxy, kind, index, 3)
        assert not report.pruned
        assert (result(report) is MigrationResult.FAILED) is (index == failing)
    assert report.pruned_reason == f"shard {failing} of 3 is not complete yet"
    assert await kind.stored_versions() == ["v1alpha1", "v1beta1"]
    proxy.hook = None
    assert (await shard(through_proxy, kind, failing, 3)).pruned
    await assert_all_done(kind)


def _writes(seen: Seen, name: str) -> bool:
    return seen.is_write and seen.path.endswith(f"/{name}")


@pytest.mark.parametrize("rerun", [0, 1])
async def test_one_that_dies_between_its_record_and_the_prune_is_made_up_for_by_any(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster, rerun: int
) -> None:
    """All parts are done and nobody pruned; whichever pod is started again sees it, and asks for no object."""
    kind = stored_old
    assert not (await shard(through_proxy, kind, 0, 2)).pruned
    dying: Forked

    async def hook(seen: Seen) -> Fault | None:
        if seen.of_crd and seen.method == "PATCH" and seen.path.endswith("/status"):
            dying.send_signal(signal.SIGKILL)
            await asyncio.Event().wait()
        return None

    proxy.hook = hook
    dying = await process(proxy, kind, "--shard", "1/2")
    await dying.communicate()
    assert dying.returncode == -signal.SIGKILL
    proxy.hook = None
    assert await versions(kind) == {"v1beta1": COUNT}
    assert await kind.stored_versions() == ["v1alpha1", "v1beta1"]
    counted = proxy.about_objects(kind.group)
    report = await shard(through_proxy, kind, rerun, 2)
    assert report.pruned
    assert report.shard is not None
    assert report.shard.done_before
    assert proxy.about_objects(kind.group) == counted
    await assert_all_done(kind)
    again = await shard(through_proxy, kind, 1 - rerun, 2)
    assert result(again) is MigrationResult.SUCCEEDED
    assert proxy.about_objects(kind.group) == counted


@pytest.mark.parametrize("write", [1, 5])
async def test_one_that_dies_in_mid_run_is_not_complete(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster, write: int
) -> None:
    """A record that is left too early prunes what was never written."""
    kind, writes = stored_old, 0
    dying: Forked

    async def hook(seen: Seen) -> Fault | None:
        nonlocal writes
        writes += seen.is_write
        if seen.is_write and writes == write:
            dying.send_signal(signal.SIGKILL)
            await asyncio.Event().wait()
        return None

    proxy.hook = hook
    dying = await process(proxy, kind, "--shard", "0/2", "--concurrency", "1")
    await dying.communicate()
    proxy.hook = None
    report = await shard(through_proxy, kind, 1, 2)
    assert not report.pruned
    assert report.pruned_reason == "shard 0 of 2 is not complete yet"
    assert (await shard(through_proxy, kind, 0, 2, resume=True)).pruned
    await assert_all_done(kind)


async def test_a_flip_and_back_between_two_shards_makes_the_first_one_due_again(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """uid, versions and storedVersions are the same again, but what was written in between is stored at the old one."""
    kind = stored_old
    first = await shard(through_proxy, kind, 0, 2)
    assert first.objects.rewritten > 0
    await kind.change(kind.document(storage="v1alpha1", keyed_conditions=False))
    for number in range(COUNT):
        await kind.merge("v1beta1", f"w{number:02}", {"metadata": {"labels": {"touched": "yes"}}}, "bob")
        await kind.merge("v1beta1", f"w{number:02}", {"metadata": {"labels": None}}, "bob")
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    second = await shard(through_proxy, kind, 1, 2)
    assert not second.pruned
    assert result(second) is MigrationResult.FAILED, "a Job would not run the first shard again"
    assert "shard 0 of 2 was complete before the CRD changed" in second.unfinished
    assert await kind.stored_versions() == ["v1alpha1", "v1beta1"]
    assert (await versions(kind))["v1alpha1"] == first.objects.rewritten
    again = await shard(through_proxy, kind, 0, 2)
    assert again.pruned
    assert again.objects.rewritten == first.objects.rewritten
    await assert_all_done(kind)


async def test_a_migration_knows_nothing_of_the_shards_of_the_last_one(stored_old: Kind, cluster: HttpCluster) -> None:
    """The first shard of the next upgrade would take the records of the last one for parts that went bad, and fail."""
    kind = stored_old
    for version in ("v1beta1", "v1alpha1", "v1beta1"):
        await kind.change(kind.document(storage=version, keyed_conditions=False))
        first, second = [await shard(cluster, kind, index, 2) for index in range(2)]
        assert result(first) is MigrationResult.SUCCEEDED, first.to_json()
        assert second.pruned, second.to_json()
        await assert_all_done(kind, version)


async def test_a_flip_back_between_two_shards_is_pruned_to_what_is_the_storage_version_then(
    stored_old: Kind, cluster: HttpCluster
) -> None:
    """A rollback in the middle of a sharded migration must end at the version rolled back to."""
    kind = stored_old
    assert not (await shard(cluster, kind, 0, 2)).pruned
    await kind.change(kind.document(storage="v1alpha1", keyed_conditions=False))
    assert not (await shard(cluster, kind, 1, 2)).pruned
    assert set(await kind.stored_versions()) == {"v1alpha1", "v1beta1"}
    assert (await shard(cluster, kind, 0, 2)).pruned
    await assert_all_done(kind, "v1alpha1")


async def test_a_flip_between_the_record_and_the_prune_is_noticed(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """The last shard's own part is doubtful again, and it must say so instead of pruning."""
    kind = stored_old
    assert not (await shard(through_proxy, kind, 0, 2)).pruned
    flipped = False

    async def hook(seen: Seen) -> Fault | None:
        nonlocal flipped
        if seen.method == "PUT" and "/configmaps/" in seen.path and "dryRun" not in seen.query and not flipped:
            flipped = True
            await kind.change(kind.document(storage="v1alpha1", keyed_conditions=False))
        return None

    proxy.hook = hook
    report = await shard(through_proxy, kind, 1, 2)
    assert flipped
    assert not report.pruned
    assert set(await kind.stored_versions()) == {"v1alpha1", "v1beta1"}
    assert report.passes == 2, "its own part was done again"
    assert (await shard(through_proxy, kind, 0, 2)).pruned
    await assert_all_done(kind, "v1alpha1")


async def test_an_edit_that_leaves_versions_alone_costs_no_shard_its_record(
    stored_old: Kind, cluster: HttpCluster
) -> None:
    """A CA bundle is rotated in the middle; what is proven stays proven."""
    kind = stored_old
    for index in range(3):
        report = await shard(cluster, kind, index, 3)
        edited = kind.document(storage="v1beta1", keyed_conditions=False)
        edited["spec"]["names"]["shortNames"] = [f"w{index}"]
        if index < 2:
            await kind.change(edited)
    assert report.pruned
    await assert_all_done(kind)


async def test_with_another_number_of_shards_all_parts_are_due_again(stored_old: Kind, cluster: HttpCluster) -> None:
    """Parts of two and parts of three are other parts: one of each kind never makes a whole."""
    kind = stored_old
    assert not (await shard(cluster, kind, 0, 2)).pruned
    for index in (2, 0):
        report = await shard(cluster, kind, index, 3)
        assert not report.pruned
    assert report.pruned_reason == "shard 1 of 3 is not complete yet"
    assert (await shard(cluster, kind, 1, 3)).pruned
    await assert_all_done(kind)


async def test_a_lost_config_map_only_costs_another_pass(stored_old: Kind, cluster: HttpCluster) -> None:
    """Somebody tidies the namespace up in mid-run."""
    kind = stored_old
    await shard(cluster, kind, 0, 2)
    await cluster.delete(CONFIG_MAPS, f"restow-shards.{kind.name}", "default")
    report = await shard(cluster, kind, 1, 2)
    assert not report.pruned
    assert report.pruned_reason == "shard 0 of 2 is not complete yet"
    assert (await shard(cluster, kind, 0, 2)).pruned
    await assert_all_done(kind)


async def test_records_are_left_although_others_write_at_the_same_moment(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """Many shards end together, and answers get lost; a record that is lost is a migration that never ends."""
    kind, resets = stored_old, 0

    async def hook(seen: Seen) -> Fault | None:
        nonlocal resets
        if "/configmaps" in seen.path and seen.method in ("PUT", "POST") and seen.number % 3 == 0:
            resets += 1
            return Reset(after=True)
        return None

    proxy.hook = hook
    reports = await asyncio.gather(*(shard(through_proxy, kind, index, 8) for index in range(8)))
    assert resets > 0
    assert [result(each) for each in reports] == [MigrationResult.SUCCEEDED] * 8, [each.unfinished for each in reports]
    assert any(each.pruned for each in reports)
    await assert_all_done(kind)


async def test_with_the_documented_rights_and_no_less(stored_old: Kind, access: Access) -> None:
    """A shard that finds out at its end that it may leave no record has worked for nothing."""
    kind = stored_old
    rights = (
        on_crd(kind, "get"),
        on_crd(kind, "patch", subresource="status"),
        on_objects(kind, "list", "get", "patch"),
    )
    user = await access.user("sharded", *rights)
    async with connect(user.kubeconfig) as cluster:
        for verbs in ((), ("get",), ("create",), ("update",)):
            if verbs:
                await access.grant(user, Right("", "configmaps", verbs), namespace="default")
            if verbs == ("update",):
                break
            report = await shard(cluster, kind, 0, 2)
            assert result(report) is MigrationResult.REFUSED
            assert "Grant get, create and update of configmaps" in report.refused
            assert await versions(kind) == {"v1alpha1": COUNT}
        assert not (await shard(cluster, kind, 0, 2)).pruned
        assert (await shard(cluster, kind, 1, 2)).pruned
    await assert_all_done(kind)


async def test_a_dry_run_of_a_shard_leaves_no_record(stored_old: Kind, cluster: HttpCluster) -> None:
    """A rehearsal proves nothing."""
    kind = stored_old
    for index in range(2):
        report = await shard(cluster, kind, index, 2, dry_run=True)
        assert report.pruned_reason == "dry run"
    assert await versions(kind) == {"v1alpha1": COUNT}
    await until(lambda: _absent(cluster, kind), "a record was left")


async def _absent(cluster: HttpCluster, kind: Kind) -> bool:
    found = (await cluster.list_page(CONFIG_MAPS, "default")).json()["items"]
    return all(each["metadata"]["name"] != f"restow-shards.{kind.name}" for each in found)

"""When a run may not prune, and when it must go on: what happens to the CRD and to answers in mid-run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from restow.controlplane.plane import ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.migrator import CrdReport, Migration, Options, plan, read_crd
from restow.migrator.model.report import MigrationReport, MigrationResult
from restow.migrator.requests.lostowners import ANNOTATION
from tests.apiserver.kind import Kind, entry_versions, owners
from tests.apiserver.proxy import Answer, Body, Fault, Proxy, Reset, Seen, Truncate, proxy_before

COUNT = 30


@pytest.fixture
async def stored_old(kind: Kind) -> Kind:
    """Thirty objects stored and owned at v1alpha1, with v1beta1 the storage version now."""
    await fill(kind)
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    return kind


async def fill(kind: Kind) -> None:
    """Create the objects, by two appliers each."""

    async def one(number: int) -> None:
        await kind.apply(kind.manifest("v1alpha1", f"w{number:02}", spec={"size": number}), "alice")
        await kind.apply(kind.manifest("v1alpha1", f"w{number:02}", spec={"color": "red"}), "bob")

    async with asyncio.TaskGroup() as group:
        for number in range(COUNT):
            group.create_task(one(number))


async def migrate(cluster: HttpCluster, kind: Kind, **options: object) -> CrdReport:
    """Migrate with small pages and few in flight, so that "in mid-run" is in mid-run."""
    chosen = Options(**({"settle_s": 0.0, "page_size": 10, "concurrency": 2} | options))  # type: ignore[arg-type]
    return await Migration(cluster, chosen).migrate(kind.name)


async def assert_all_done(kind: Kind, version: str = "v1beta1") -> None:
    """Every object is stored and owned at the version, by its two appliers, and storedVersions says so."""
    stored = await kind.stored()
    assert len(stored) == COUNT
    for key, found in stored.items():
        assert found["apiVersion"] == f"{kind.group}/{version}", key
        assert entry_versions(found) == {version}
        assert owners(found) == {
            ("alice", "Apply", ""): frozenset({"/f:spec/f:size"}),
            ("bob", "Apply", ""): frozenset({"/f:spec/f:color"}),
        }
    assert await kind.stored_versions() == [version]


def at_write(number: int, act: Callable[[], Awaitable[object]]) -> Callable[[Seen], Awaitable[Fault | None]]:
    """A hook that does something just before the n-th write goes to the server."""
    done = False
    writes = 0

    async def hook(seen: Seen) -> Fault | None:
        nonlocal done, writes
        writes += seen.is_write
        if seen.is_write and writes >= number and not done:
            done = True
            await act()
        return None

    return hook


async def test_a_flip_in_mid_run_is_noticed(stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster) -> None:
    """Pruning to the version that was the storage version at the start would lose what is stored at the new one."""
    kind = stored_old
    proxy.hook = at_write(12, lambda: kind.change(kind.document(storage="v1alpha1", keyed_conditions=False)))
    report = await migrate(through_proxy, kind, passes=1)
    assert not report.pruned
    assert "storage version" in report.pruned_reason and "changed from v1beta1 to v1alpha1" in report.pruned_reason
    assert MigrationReport((report,)).result is MigrationResult.FAILED
    assert set(await kind.stored_versions()) == {"v1alpha1", "v1beta1"}


async def test_after_a_flip_another_pass_finishes_at_the_new_storage_version(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """A run that gave up after a flip would leave the operator to find out when it may try again."""
    kind = stored_old
    proxy.hook = at_write(12, lambda: kind.change(kind.document(storage="v1alpha1", keyed_conditions=False)))
    report = await migrate(through_proxy, kind)
    assert report.pruned and report.passes == 2
    await assert_all_done(kind, "v1alpha1")


@pytest.mark.parametrize("watched", [True, False], ids=["with a watch", "watch forbidden"])
async def test_a_flip_and_back_again_is_noticed(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster, watched: bool
) -> None:
    """Afterwards uid, storage version and storedVersions look untouched, but objects may be stored at the old one."""
    kind = stored_old

    async def flip_and_back() -> None:
        await kind.change(kind.document(storage="v1alpha1", keyed_conditions=False))
        await kind.apply(kind.manifest("v1alpha1", "w00", spec={"size": 0}), "alice")
        await kind.merge("v1alpha1", "w00", {"metadata": {"labels": {"touched": "yes"}}}, "bob")
        await kind.merge("v1alpha1", "w00", {"metadata": {"labels": {"touched": None}}}, "bob")
        await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))

    flips = at_write(12, flip_and_back)

    async def hook(seen: Seen) -> Fault | None:
        if not watched and seen.of_crd and seen.query.get("watch"):
            return Answer.of(403, "Forbidden", "watch is forbidden")
        return await flips(seen)

    proxy.hook = hook
    report = await migrate(through_proxy, kind, passes=1)
    assert not report.pruned
    assert "v1beta1 → v1alpha1 → v1beta1" in report.pruned_reason if watched else "generation" in report.pruned_reason
    report = await migrate(through_proxy, kind)
    assert report.pruned
    stored = (await kind.stored()).values()
    assert {found["apiVersion"] for found in stored} == {f"{kind.group}/v1beta1"}
    assert await kind.stored_versions() == ["v1beta1"]


@pytest.mark.parametrize("edits", [1, 3])
async def test_an_edit_that_leaves_versions_alone_is_not_mistaken_for_a_flip(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster, edits: int
) -> None:
    """A rotated CA bundle moves the generation too; a pass for each would be work for nothing."""
    kind = stored_old

    async def edit() -> None:
        for number in range(edits):
            document = kind.document(storage="v1beta1", keyed_conditions=False)
            document["spec"]["names"]["shortNames"] = [f"w{number}"]
            await kind.change(document)

    proxy.hook = at_write(12, edit)
    report = await migrate(through_proxy, kind)
    assert report.pruned and report.passes == 1
    await assert_all_done(kind)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(404, b"404 page not found"),
        Answer.of(404, "NotFound", 'namespaces "default" not found', details={"name": "default", "kind": "namespaces"}),
        Answer.of(404, "NotFound", "the server could not find the requested resource", details={}),
    ],
    ids=["plain text", "namespace", "resource"],
)
async def test_a_404_that_does_not_name_the_object_blocks_pruning(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster, answer: Answer
) -> None:
    """Every other tool takes it for a deleted object, and prunes although the object is stored at the old version."""
    kind = stored_old

    async def hook(seen: Seen) -> Fault | None:
        return answer if seen.is_write and seen.path.endswith("/w07") else None

    proxy.hook = hook
    report = await migrate(through_proxy, kind)
    assert not report.pruned
    assert [(failure.name, failure.reason) for failure in report.failures] == [("w07", "NotFound")]
    assert (await kind.stored())["default/w07"]["apiVersion"] == f"{kind.group}/v1alpha1"
    proxy.hook = None
    assert (await migrate(through_proxy, kind)).pruned
    await assert_all_done(kind)


async def test_a_deleted_object_is_no_failure(stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster) -> None:
    """An object that its owner deleted during the run must not keep the run from pruning."""
    kind = stored_old
    proxy.hook = at_write(1, lambda: asyncio.gather(*(kind.delete("v1beta1", f"w{n:02}") for n in (5, 17))))
    report = await migrate(through_proxy, kind)
    assert report.pruned
    assert report.objects.gone == report.objects.listed - (COUNT - 2), "listed before they were deleted, or not at all"
    assert len(await kind.stored()) == COUNT - 2


async def test_an_object_created_again_under_its_name_is_left_alone(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """A write meant for the object that was listed must never land on another one, nor bring it back."""
    kind = stored_old

    async def replace_one() -> None:
        await kind.delete("v1beta1", "w09")
        await kind.apply(kind.manifest("v1beta1", "w09", spec={"size": 99}), "carol")

    proxy.hook = at_write(3, replace_one)
    report = await migrate(through_proxy, kind)
    assert report.pruned
    found = (await kind.stored())["default/w09"]
    assert found["spec"] == {"size": 99} and {manager for manager, _, _ in owners(found)} == {"carol"}


@pytest.mark.parametrize("fault", [Reset(), Reset(after=True), Truncate()], ids=["before", "after", "truncated"])
async def test_broken_connections_lose_nothing(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster, fault: Fault
) -> None:
    """Whether the server carried a write out before the connection broke, the object must end right, once."""
    kind = stored_old
    hit: set[str] = set()

    async def hook(seen: Seen) -> Fault | None:
        if seen.is_write and seen.path not in hit and seen.path[-1] in "037":
            hit.add(seen.path)
            return fault
        return None

    proxy.hook = hook
    report = await migrate(through_proxy, kind)
    assert report.pruned and report.requests.retried >= len(hit) == 9
    await assert_all_done(kind)


async def test_throttling_is_obeyed(stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster) -> None:
    """429 and 503 ask for less load; failing the object instead would end the run for a busy minute."""
    kind = stored_old
    refused: set[str] = set()

    async def hook(seen: Seen) -> Fault | None:
        if seen.is_write and seen.path not in refused and seen.path[-1] in "25":
            refused.add(seen.path)
            status, reason = (429, "TooManyRequests") if seen.path.endswith("2") else (503, "ServiceUnavailable")
            return Answer.of(status, reason, "slow down", headers={"Retry-After": "0"})
        return None

    proxy.hook = hook
    report = await migrate(through_proxy, kind, concurrency=8)
    assert report.pruned and report.requests.retried == len(refused) == 6
    assert proxy.most_in_flight <= 8
    await assert_all_done(kind)


async def test_a_write_that_emptied_managed_fields_is_repaired(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """The server empties managedFields without a word in several situations; the answer's check must see it."""
    kind = stored_old
    wiped = 0

    async def hook(seen: Seen) -> Fault | None:
        nonlocal wiped
        if seen.is_write and seen.path.endswith("/w11") and not wiped:
            wiped += 1
            body = json.loads(seen.body)
            return Body(json.dumps({"metadata": body["metadata"] | {"managedFields": [{}]}}).encode())
        return None

    proxy.hook = hook
    report = await migrate(through_proxy, kind)
    assert wiped == 1 and report.objects.repaired == 1 and report.pruned
    await assert_all_done(kind)


async def test_a_dry_run_foretells_a_write_that_would_empty_managed_fields(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """A rehearsal that reports success where owners would be lost is worse than none."""
    kind = stored_old

    async def hook(seen: Seen) -> Fault | None:
        if seen.is_write and seen.path.endswith("/w11"):
            body = json.loads(seen.body)
            return Body(json.dumps({"metadata": body["metadata"] | {"managedFields": [{}]}}).encode())
        return None

    proxy.hook = hook
    before = await kind.stored()
    report = await migrate(through_proxy, kind, dry_run=True)
    assert [(each.name, each.reason) for each in report.failures] == [("w11", "OwnershipWouldBeLost")]
    assert report.objects.rewritten == COUNT - 1 and report.objects.repaired == 0
    assert await kind.stored() == before


async def test_a_repair_that_is_emptied_too_is_tried_without_times(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """Where etcd finds the object too large the server empties each list that does not fit: the next has to be less."""
    kind = stored_old

    async def hook(seen: Seen) -> Fault | None:
        if seen.is_write and seen.path.endswith("/w11") and b'"time"' in seen.body:
            body = json.loads(seen.body)
            return Body(json.dumps({"metadata": body["metadata"] | {"managedFields": [{}]}}).encode())
        return None

    proxy.hook = hook
    report = await migrate(through_proxy, kind)
    assert report.pruned and report.objects.repaired == 1, report.failures
    await assert_all_done(kind)


async def test_owners_that_were_lost_are_told_until_there_are_some_again(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster, cluster: HttpCluster
) -> None:
    """The next run finds such an object stored and without entries, so it would succeed and hide the loss."""
    kind = stored_old

    async def hook(seen: Seen) -> Fault | None:
        if seen.is_write and seen.path.endswith(("/w11", "/w12")):
            body = json.loads(seen.body)
            return Body(json.dumps({"metadata": body["metadata"] | {"managedFields": [{}]}}).encode())
        return None

    proxy.hook = hook
    report = await migrate(through_proxy, kind)
    assert {each.name: each.reason for each in report.failures} == dict.fromkeys(("w11", "w12"), "OwnershipLost")

    async def warnings(**options: object) -> list[str]:
        ran = await migrate(cluster, kind, **options)
        assert not ran.failures
        planned = await plan(cluster, await read_crd(cluster, kind.name), Options(), sample=0)
        assert not planned.findings.fail and planned.warnings == ran.warnings
        return ran.warnings

    [said] = await warnings(dry_run=True)
    assert "default/w11, default/w12" in said
    assert await warnings() == [said]
    assert await warnings() == [said], "a run to which nothing is due has to say so, too"
    await kind.apply(kind.manifest("v1beta1", "w11", spec={"size": 11}), "alice")
    [said] = await warnings()
    assert "default/w12" in said and "w11" not in said
    await kind.delete("v1beta1", "w12")
    assert await warnings() == []
    assert ANNOTATION not in (await read_crd(cluster, kind.name)).annotations


async def test_a_wipe_whose_answer_was_lost_is_repaired(
    stored_old: Kind, proxy: Proxy, through_proxy: HttpCluster, cluster: HttpCluster
) -> None:
    """Reading the object again would show no owners, and deciding from that would make the loss final."""
    kind = stored_old
    wiped = 0

    async def hook(seen: Seen) -> Fault | None:
        nonlocal wiped
        if seen.is_write and seen.path.endswith("/w11") and not wiped:
            wiped += 1
            await kind.merge("v1beta1", "w11", {"metadata": {"managedFields": [{}]}}, "nobody")
            return Reset()
        return None

    proxy.hook = hook
    report = await migrate(through_proxy, kind)
    assert wiped == 1 and report.objects.repaired == 1 and report.pruned
    await assert_all_done(kind)


async def test_a_default_that_the_crd_did_not_tell_of_is_not_left_in_our_name(kind: Kind, cluster: HttpCluster) -> None:
    """A default added to the storage version after objects were stored would be owned by restow from now on."""
    await fill(kind)
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    for number in range(COUNT):
        change = {"metadata": {"labels": {"stored": "new"}}}
        await kind.merge("v1alpha1", f"w{number:02}", change, "alice")
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False, default=True))
    from restow.kube.cluster import PatchType
    from restow.kube.resources import CRDS

    body = json.dumps({"status": {"storedVersions": ["v1beta1"]}}).encode()
    await cluster.patch(CRDS, kind.name, body, patch_type=PatchType.MERGE, subresource="status")
    report = await migrate(cluster, kind, concurrency=1)
    assert report.objects.translated == COUNT
    assert report.objects.repaired <= 1
    for found in (await kind.stored()).values():
        assert {manager for manager, _, _ in owners(found)} == {"alice", "bob"}
        assert found["spec"]["policy"] == "Retain"
    await kind.apply(kind.manifest("v1beta1", "w05", spec={"size": 5, "policy": "Delete"}), "alice")


async def test_a_list_goes_on_after_its_history_was_compacted(tmp_path: Path, group: str) -> None:
    """A run longer than etcd keeps history would otherwise begin again and again, and never end."""
    async with (
        ControlPlane(feature_gates={"ListFromCacheSnapshot": False}) as plane,
        connect(plane.kubeconfig) as cluster,
        proxy_before(plane, tmp_path) as proxy,
        connect(proxy.kubeconfig) as through_proxy,
    ):
        kind = Kind(cluster, plane.etcd, group)
        await kind.create(kind.document(storage="v1alpha1", versions=("v1alpha1",)))
        await fill(kind)
        await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
        compacted = 0

        async def hook(seen: Seen) -> Fault | None:
            nonlocal compacted
            if seen.is_list and seen.query.get("continue") and not compacted:
                compacted += 1
                await kind.namespace("written-meanwhile")  # moves the revision on, past the one of the list
                await plane.etcd.compact()
            return None

        proxy.hook = hook
        report = await migrate(through_proxy, kind)
        assert compacted == 1
        assert report.requests.list == 4 and report.requests.retried >= 1, report.to_json()
        assert report.pruned
        await assert_all_done(kind)

"""The completion mark on a real CRD: what starts which phase again, counted in requests about objects."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from restow.controlplane.etcd import Etcd
from restow.controlplane.plane import ControlPlane
from restow.controlplane.users import ControlPlaneAuthority
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.migrator import CrdReport, Migration, MigrationReport, Options, Phase, Scope
from restow.migrator.model.report import MigrationResult
from tests.apiserver.kind import Kind, entry_versions
from tests.apiserver.proxy import Answer, Proxy, Seen, proxy_before
from tests.apiserver.webhook import ConvertedKind, Webhook

COUNT = 5


@pytest.fixture
async def converted(cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook) -> AsyncIterator[ConvertedKind]:
    """Widgets of strategy Webhook, stored at v1; v0 and v2 are served too."""
    made = ConvertedKind(cluster, etcd, f"converted.{group}", webhook)
    await made.create(made.document(storage="v1"))
    yield made
    await made.remove()


async def migrate(cluster: HttpCluster, kind: Kind, **options: object) -> CrdReport:
    """Migrate; ``Kind`` has waited for the CRD to settle already."""
    report = await Migration(cluster, Options(settle_s=0.0, **options)).migrate(kind.name)  # type: ignore[arg-type]
    assert MigrationReport((report,)).result is MigrationResult.SUCCEEDED, report.to_json()
    return report


async def test_a_rotated_ca_bundle_costs_no_request_about_objects(
    converted: ConvertedKind, webhook: Webhook, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """cert-manager rotates every few weeks; to look at 100,000 objects for it is what others do."""
    for number in range(COUNT):
        await converted.apply(converted.manifest("v1", f"w{number}", spec={"host": "a.local"}), "alice")
    await converted.change(converted.document(storage="v2"))
    assert (await migrate(through_proxy, converted)).objects.rewritten == COUNT
    counted, reviews = proxy.about_objects(converted.group), len(webhook.asked)
    assert counted > 0
    assert reviews > 0
    for number in range(2):
        more = base64.b64encode(ControlPlaneAuthority.create(f"rotated {number}").certificate).decode()
        both = base64.b64decode(webhook.ca_bundle) + base64.b64decode(more)
        webhook.ca_bundle = base64.b64encode(both).decode()
        await converted.change(converted.document(storage="v2"))
        report = await migrate(through_proxy, converted)
        assert (proxy.about_objects(converted.group), len(webhook.asked)) == (counted, reviews)
        assert "left its proof" in report.pruned_reason
    assert (await migrate(through_proxy, converted, ignore_mark=True)).objects.listed == COUNT


async def test_each_step_of_a_version_starts_the_phase_that_is_due(kind: Kind, cluster: HttpCluster) -> None:
    """Flip, unserve, remove: each starts its own work once, and nothing else."""
    for number in range(COUNT):
        await kind.apply(kind.manifest("v1alpha1", f"w{number}", spec={"size": number}), "alice")
    flipped = kind.document(storage="v1beta1", keyed_conditions=False)
    await kind.change(flipped)
    first = await migrate(cluster, kind)
    assert (first.objects.rewritten, first.objects.translated, first.pruned) == (COUNT, COUNT, True)
    assert (await migrate(cluster, kind)).requests.list == 0

    await kind.apply(kind.manifest("v1alpha1", "w0", spec={"size": 100}), "alice")
    assert (await migrate(cluster, kind)).requests.list == 0, "an entry of a served version is its client's"
    await kind.change(kind.document(storage="v1beta1", served=("v1beta1",), keyed_conditions=False))
    unserved = await migrate(cluster, kind)
    assert (unserved.objects.translated, unserved.requests.write, unserved.pruned) == (1, 1, False)
    assert (await migrate(cluster, kind)).requests.list == 0

    await kind.change(kind.document(storage="v1beta1", versions=("v1beta1",), keyed_conditions=False))
    removed = await migrate(cluster, kind)
    assert (removed.objects.listed, removed.requests.write) == (COUNT, 0)
    assert {version for found in (await kind.stored()).values() for version in entry_versions(found)} == {"v1beta1"}


async def test_a_flip_back_starts_both_phases(kind: Kind, cluster: HttpCluster) -> None:
    """A rollback stores at the old version again, with a mark in place that speaks of the new one."""
    for number in range(COUNT):
        await kind.apply(kind.manifest("v1alpha1", f"w{number}", spec={"size": number}), "alice")
    for storage in ("v1beta1", "v1alpha1", "v1beta1"):
        await kind.change(kind.document(storage=storage, keyed_conditions=False))
        report = await migrate(cluster, kind)
        assert (report.objects.rewritten, report.objects.translated, report.pruned) == (COUNT, COUNT, True)
        assert {found["apiVersion"] for found in (await kind.stored()).values()} == {f"{kind.group}/{storage}"}


async def test_with_managed_fields_switched_off_a_pruned_crd_needs_no_look(kind: Kind, cluster: HttpCluster) -> None:
    """``restow migrate --only prune`` on a CRD that is pruned would otherwise list all its objects for nothing."""
    await kind.apply(kind.manifest("v1alpha1", "w", spec={"size": 1}), "alice")
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    skip = frozenset({Phase.MANAGED_FIELDS})
    assert (await migrate(cluster, kind, skip=skip)).pruned
    again = await migrate(cluster, kind, skip=skip)
    assert (again.requests.list, again.pruned) == (0, False)
    assert (await migrate(cluster, kind)).objects.translated == 1, "its mark is none for a run that translates"


async def test_versions_that_change_during_a_run_have_its_objects_decided_again(
    kind: Kind, proxy: Proxy, through_proxy: HttpCluster, cluster: HttpCluster
) -> None:
    """What was kept for clients of a served version is due once it is unserved, also if that was in mid-run."""
    for number in range(COUNT):
        await kind.apply(kind.manifest("v1alpha1", f"w{number}", spec={"size": number}), "alice")
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    unserved = kind.document(storage="v1beta1", served=("v1beta1",), keyed_conditions=False)
    done = False

    async def hook(seen: object) -> None:
        nonlocal done
        if getattr(seen, "is_write", False) and not done:
            done = True
            await kind.change(unserved)

    proxy.hook = hook
    options = Options(settle_s=0.0, scope=Scope.UNSERVED, passes=1)
    first = await Migration(through_proxy, options).migrate(kind.name)
    # On a busy machine the watch may show the change too late; then the run trusts no more than this.
    assert any(why in first.unfinished for why in ("the versions of", "was not seen"))
    assert not first.pruned and not first.proof
    proxy.hook, done = hook, False
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    second = await Migration(through_proxy, replace(options, passes=2)).migrate(kind.name)
    assert second.pruned and second.objects.translated == COUNT


async def test_what_fails_in_one_run_is_not_covered_by_the_mark_of_another(
    kind: Kind, control_plane: ControlPlane, proxy: Proxy, through_proxy: HttpCluster, tmp_path: Path
) -> None:
    """Two runs at once: one is done with an object when the other fails on it; a mark would hide that for ever."""
    for number in range(COUNT):
        await kind.apply(kind.manifest("v1alpha1", f"w{number}", spec={"size": number}), "alice")
    await kind.change(kind.document(storage="v1beta1"))
    failed: list[CrdReport] = []

    async def refuse(seen: Seen) -> Answer | None:
        is_first = seen.method == "PATCH" and seen.path.endswith("/w0")
        return Answer.of(403, "Forbidden", "not today") if is_first else None

    async def fail_beside(seen: Seen) -> Answer | None:
        """Before the good run prunes, let another one fail."""
        if seen.of_crd and seen.method == "PATCH" and seen.path.endswith("/status") and not failed:
            failed.append(await Migration(through_proxy, Options(settle_s=0.0)).migrate(kind.name))
        return None

    proxy.hook = refuse
    (tmp_path / "good").mkdir()
    async with proxy_before(control_plane, tmp_path / "good") as good, connect(good.kubeconfig) as cluster:
        good.hook = fail_beside
        report = await migrate(cluster, kind)
    assert failed[0].objects.failed == 1, failed[0].to_json()
    assert report.pruned, report.to_json()
    proxy.hook, counted = None, proxy.about_objects(kind.group)
    await migrate(through_proxy, kind)
    assert proxy.about_objects(kind.group) > counted
    counted = proxy.about_objects(kind.group)
    await migrate(through_proxy, kind)
    assert proxy.about_objects(kind.group) == counted

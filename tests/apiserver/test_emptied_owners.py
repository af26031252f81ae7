"""A mutating webhook that empties managedFields (Kubernetes issue 101899): the run ends, and names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.migrator import CrdReport, Migration, MigrationReport, Options, plan, read_crd
from restow.migrator.model.report import MigrationResult
from tests.apiserver.access import Access, on_crd, on_objects
from tests.apiserver.admission import emptying
from tests.apiserver.kind import Kind

COUNT = 40


@pytest.fixture
async def stored_old(kind: Kind) -> Kind:
    """Objects of alice at v1alpha1; v1beta1 is the storage version."""
    await kind.populate(COUNT)
    await kind.change(kind.document(storage="v1beta1"))
    return kind


async def migrate(cluster: HttpCluster, kind: Kind, **options: object) -> CrdReport:
    """Migrate without any wait, with as many writes in flight as by default."""
    return await Migration(cluster, Options(settle_s=0.0, **options)).migrate(kind.name)  # type: ignore[arg-type]


async def test_a_run_ends_after_the_first_objects_and_names_the_webhook(
    stored_old: Kind, cluster: HttpCluster, tmp_path: Path
) -> None:
    """One object after another would be emptied, all of the kind, and the API server's log says nothing."""
    kind = stored_old
    async with emptying(kind, tmp_path, "v1beta1", "w00"):
        planned = await plan(cluster, await read_crd(cluster, kind.name), Options(settle_s=0.0), sample=5)
        report = await migrate(cluster, kind)
        again = await migrate(cluster, kind)
    named = f"the webhook asks.{kind.group} of the MutatingWebhookConfiguration asks.{kind.group}"
    assert MigrationReport((report,)).result is MigrationResult.FAILED and not report.pruned
    assert {failure.reason for failure in report.failures} == {"OwnershipLost"} and len(report.failures) == 3
    assert all(named in failure.message for failure in report.failures)
    assert named in report.unfinished and "37 of 40 objects were not begun" in report.unfinished, report.unfinished
    assert report.unfinished.count("run again") + report.unfinished.count("Run again") == 1
    emptied = [found for found in (await kind.stored()).values() if not found["metadata"].get("managedFields")]
    assert len(emptied) == 3
    assert {failure.reason for failure in again.failures} == {"OwnershipWouldBeLost"} and len(again.failures) == 3
    assert named in again.unfinished, again.unfinished
    assert planned.findings.fail and any(named in each.message for each in planned.findings.listed)
    crd = await read_crd(cluster, kind.name)
    assert crd.annotations["restow.dev/owners-lost"].count("default/w") == 3
    healed = await migrate(cluster, kind)
    assert healed.complete and healed.pruned and healed.objects.translated == COUNT - 3


async def test_without_the_right_to_list_webhooks_the_command_is_named(
    stored_old: Kind, access: Access, tmp_path: Path
) -> None:
    """A migrator has no right on webhooks; it must still stop, and say where to look."""
    kind = stored_old
    user = await access.user(
        "narrow",
        on_crd(kind, "get", "list", "watch", "patch"),
        on_crd(kind, "patch", subresource="status"),
        on_objects(kind, "list", "get", "patch"),
    )
    async with emptying(kind, tmp_path, "v1beta1", "w00"), connect(user.kubeconfig) as narrow:
        report = await migrate(narrow, kind)
    assert not report.refused
    assert "kubectl get mutatingwebhookconfigurations" in report.unfinished and report.objects.failed == 3

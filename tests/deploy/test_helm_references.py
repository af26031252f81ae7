"""Releases that the real Helm made: found as Helm stores them, and what is said of them is what Helm does."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from restow.kube.client import HttpCluster
from restow.kube.errors import NotFound
from restow.migrator import Migration, Options, find_references, read_crd, sought
from restow.migrator.references.move import move_references, undo_releases
from restow.migrator.references.reference import FoundReferences, ReferenceKind
from tests.apiserver.kind import Kind
from tests.apiserver.others import SECRETS

OLD, NEW = "v1alpha1", "v1beta1"
Helming = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def helming(tools: dict[str, Path], kubeconfig: Path, tmp_path: Path) -> Helming:
    """Runs Helm against the cluster."""

    def run(*arguments: str, driver: str = "secret") -> subprocess.CompletedProcess[str]:
        environment = {"HOME": str(tmp_path), "KUBECONFIG": str(kubeconfig), "HELM_DRIVER": driver}
        command = [str(tools["helm"]), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)

    return run


def chart(folder: Path, kind: Kind, version: str) -> str:
    """A chart of one widget and one ConfigMap."""
    (folder / "templates").mkdir(parents=True, exist_ok=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: web\nversion: 1.0.0\n")
    widget = f"apiVersion: {kind.group}/{version}\nkind: Widget\nmetadata:\n  name: from-helm\nspec: {{size: 1}}\n"
    secret = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: of-helm\ndata: {password: hunter2}\n"
    (folder / "templates" / "all.yaml").write_text(f"{widget}---\n{secret}")
    return str(folder)


async def search(cluster: HttpCluster, kind: Kind) -> FoundReferences:
    """Look for releases."""
    of = sought(await read_crd(cluster, kind.name), OLD)
    return (await find_references(cluster, [of], kinds=[ReferenceKind.HELM]))[of]


@pytest.mark.parametrize("driver", ["secret", "configmap"])
async def test_an_upgrade_fails_as_is_said(
    driver: str, kind: Kind, cluster: HttpCluster, helming: Helming, tmp_path: Path
) -> None:
    """If Helm stored releases in another way, or went on without the version, the finding would be missed or false."""
    await kind.change(kind.document(storage=NEW))
    folder = tmp_path / "chart"
    done = helming("install", "web", chart(folder, kind, OLD), "-n", "default", driver=driver)
    assert done.returncode == 0, done.stderr
    try:
        assert helming("upgrade", "web", str(folder), "-n", "default", driver=driver).returncode == 0
        found = await search(cluster, kind)
        assert found.not_looked_at == ()
        first, second = found.references
        assert (first.resource, first.name) == (f"{driver}s", "sh.helm.release.v1.web.v1")
        assert first.detail == "release web, revision 1 (superseded): Widget from-helm"
        assert second.detail == "release web, revision 2 (deployed): Widget from-helm"
        assert (first.effect.against_unserving, second.effect.against_unserving) == (False, True)
        assert "hunter2" not in json.dumps(found.to_json())

        await Migration(cluster, Options(settle_s=0.0)).migrate(kind.name)
        await kind.change(kind.document(storage=NEW, served=[NEW]))
        chart(folder, kind, NEW)
        failed = helming("upgrade", "web", str(folder), "-n", "default", driver=driver)
        assert failed.returncode != 0
        assert "no matches for kind" in failed.stderr, failed.stderr
        failed = helming("uninstall", "web", "-n", "default", driver=driver)
        assert "failed to delete release" in failed.stderr, (failed.stdout, failed.stderr)
    finally:
        await kind.change(kind.document(storage=NEW))
        ended = helming("uninstall", "web", "-n", "default", driver=driver)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("driver", ["secret", "configmap"])
async def test_moved_releases_are_helms_again(
    driver: str, kind: Kind, cluster: HttpCluster, helming: Helming, tmp_path: Path
) -> None:
    """A release that Helm cannot read, upgrade, roll back or uninstall is worse than one at an old version."""
    await kind.change(kind.document(storage=NEW))
    folder, there = tmp_path / "chart", ("-n", "default")
    assert helming("install", "web", chart(folder, kind, OLD), *there, driver=driver).returncode == 0
    assert helming("upgrade", "web", str(folder), *there, driver=driver).returncode == 0
    try:
        crd = await read_crd(cluster, kind.name)
        shown = helming("get", "manifest", "web", *there, driver=driver).stdout
        first = await move_references(cluster, crd, OLD, NEW, kinds=[ReferenceKind.HELM])
        assert (first.result, first.moved.total(), first.skipped.total()) == ("Succeeded", 1, 1), first.not_moved
        moved = helming("get", "manifest", "web", *there, driver=driver).stdout
        assert moved == shown.replace(f"{kind.group}/{OLD}", f"{kind.group}/{NEW}")
        undone = await undo_releases(cluster, crd, OLD)
        assert (len(undone.undone), undone.failed) == (1, {})
        assert helming("get", "manifest", "web", *there, driver=driver).stdout == shown

        report = await move_references(cluster, crd, OLD, NEW, kinds=[ReferenceKind.HELM], all_revisions=True)
        assert (report.result, report.moved.total()) == ("Succeeded", 2)
        assert (await search(cluster, kind)).count == 0
        await Migration(cluster, Options(settle_s=0.0)).migrate(kind.name)
        await kind.change(kind.document(storage=NEW, served=[NEW]))
        await Migration(cluster, Options(settle_s=0.0)).migrate(kind.name)
        await kind.change(kind.document(storage=NEW, versions=[NEW]))
        chart(folder, kind, NEW)
        for arguments in (("upgrade", "web", str(folder)), ("rollback", "web", "1"), ("status", "web")):
            done = helming(*arguments, *there, driver=driver)
            assert done.returncode == 0, (arguments, done.stderr)
    finally:
        ended = helming("uninstall", "web", *there, driver=driver)
    assert ended.returncode == 0, ended.stderr


async def test_a_former_revision_is_moved_on_request(
    kind: Kind, cluster: HttpCluster, helming: Helming, tmp_path: Path
) -> None:
    """Who moves the deployed revision alone can upgrade and uninstall; a rollback beyond it needs the others moved."""
    await kind.change(kind.document(storage=NEW))
    folder, there = tmp_path / "chart", ("-n", "default")
    assert helming("install", "web", chart(folder, kind, OLD), *there).returncode == 0
    assert helming("upgrade", "web", str(folder), *there, "--set", "a=b").returncode == 0
    try:
        crd = await read_crd(cluster, kind.name)
        report = await move_references(cluster, crd, OLD, NEW, kinds=[ReferenceKind.HELM])
        assert (report.result, report.moved.total(), report.skipped.total()) == ("Succeeded", 1, 1)
        await Migration(cluster, Options(settle_s=0.0)).migrate(kind.name)
        await kind.change(kind.document(storage=NEW, served=[NEW]))
        await Migration(cluster, Options(settle_s=0.0)).migrate(kind.name)
        await kind.change(kind.document(storage=NEW, versions=[NEW]))

        chart(folder, kind, NEW)
        upgraded = helming("upgrade", "web", str(folder), *there)
        assert upgraded.returncode == 0, upgraded.stderr
        back = helming("rollback", "web", "2", *there)
        assert back.returncode == 0, back.stderr
        assert json.loads(helming("get", "values", "web", *there, "-o", "json").stdout) == {"a": "b"}
        failed = helming("rollback", "web", "1", *there)
        assert failed.returncode != 0
        assert "no matches for kind" in failed.stderr, failed.stderr

        # The version is gone from the CRD; what names it can still be moved.
        gone = await read_crd(cluster, kind.name)
        late = await move_references(cluster, gone, OLD, NEW, kinds=[ReferenceKind.HELM], all_revisions=True)
        assert (late.result, late.moved.total(), late.skipped.total()) == ("Succeeded", 2, 0), late.not_moved
        back = helming("rollback", "web", "1", *there)
        assert back.returncode == 0, back.stderr
        assert (await search(cluster, kind)).count == 0
        assert (await kind.get(NEW, "from-helm"))["spec"] == {"size": 1}
    finally:
        ended = helming("uninstall", "web", *there)
    assert ended.returncode == 0, ended.stderr
    with pytest.raises(NotFound):
        await kind.get(NEW, "from-helm")
    backups = await cluster.list_page(SECRETS, "default", params={"labelSelector": "restow.dev/backup"})
    for each in backups.json()["items"]:
        await cluster.delete(SECRETS, each["metadata"]["name"], "default")


async def test_a_failed_rollback_is_found_and_moved(
    kind: Kind, cluster: HttpCluster, helming: Helming, tmp_path: Path
) -> None:
    """A failed rollback leaves a latest revision at the old version, with which helm uninstall fails too."""
    await kind.change(kind.document(storage=NEW))
    folder, there = tmp_path / "chart", ("-n", "default")
    assert helming("install", "web", chart(folder, kind, OLD), *there).returncode == 0
    assert helming("upgrade", "web", chart(folder, kind, NEW), *there).returncode == 0
    try:
        (former,) = (await search(cluster, kind)).references
        assert not former.effect.against_removal
        assert "leaves a latest revision at this version, with which helm uninstall fails" in former.effect.removed
        await Migration(cluster, Options(settle_s=0.0)).migrate(kind.name)
        await kind.change(kind.document(storage=NEW, versions=[NEW]))
        shutil.rmtree(tmp_path / ".kube")  # Helm's cache of discovery
        assert "no matches for kind" in helming("rollback", "web", "1", *there).stderr
        assert "failed to delete release" in helming("uninstall", "web", *there).stderr

        assert [each.effect.against_removal for each in (await search(cluster, kind)).references] == [False, True]
        crd = await read_crd(cluster, kind.name)
        report = await move_references(cluster, crd, OLD, NEW, kinds=[ReferenceKind.HELM])
        assert (report.result, report.moved.total(), report.skipped.total()) == ("Succeeded", 1, 1), report.not_moved
    finally:
        ended = helming("uninstall", "web", *there)
    assert ended.returncode == 0, ended.stderr
    with pytest.raises(NotFound):
        await kind.get(NEW, "from-helm")
    backups = await cluster.list_page(SECRETS, "default", params={"labelSelector": "restow.dev/backup"})
    for each in backups.json()["items"]:
        await cluster.delete(SECRETS, each["metadata"]["name"], "default")

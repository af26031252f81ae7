"""The migration Job in pods: as a hook that Helm waits for, as an ordinary Job, and as one that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.node.cluster import Cluster
from tests.node.kinds import Kind
from tests.node.releases import Release

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def widgets(cluster: Cluster) -> Iterator[Kind]:
    """Twenty widgets that are due."""
    made = Kind(cluster, "widgets")
    made.create(20)
    yield made
    made.remove()


def of(kind: Kind, *more: str) -> tuple[str, ...]:
    """The flags of a release that migrates a kind, without the minute that a migration waits for late writes."""
    arguments = ",".join(("--settle=2", *more))
    return ("--set", f"migration.crds={{{kind.crd}}}", "--set", f"migration.arguments={{{arguments}}}")


ROLLBACKS = ("--set", "migration.hookEvents={post-install,post-upgrade,post-rollback}")


def test_the_job_is_a_hook_that_helm_waits_for(
    install: Callable[[str], Release], cluster: Cluster, namespace: str, widgets: Kind
) -> None:
    """Helm would end before the migration, or with a Job that the cluster does not admit, start or let finish."""
    release = install("migration-job")
    assert widgets.stored_versions() == ["v1alpha1", "v1"]
    release.upgrade(*of(widgets), *ROLLBACKS)
    assert widgets.stored_versions() == ["v1"]
    widgets.back()
    release.upgrade(*of(widgets))
    assert widgets.stored_versions() == ["v1alpha1"]
    (pod,) = cluster.pods(namespace)
    assert pod["status"]["phase"] == "Succeeded"
    assert '"result": "Succeeded"' in cluster.log(namespace, pod["metadata"]["name"])
    widgets.forth()
    release.roll_back(1)
    assert widgets.stored_versions() == ["v1"]
    release.uninstall()
    assert release.left() == []


def test_an_ordinary_job_runs_after_helm_has_ended(
    install: Callable[[str], Release], cluster: Cluster, namespace: str, widgets: Kind
) -> None:
    """A migration that takes longer than an upgrade may would fail the release, or not run at all."""
    release = install("migration-in-the-background")
    job = ("job", "-n", namespace, "-l", "app.kubernetes.io/component=migration")
    for change, stored in (
        (lambda: release.upgrade(*of(widgets, "--resume")), "v1"),
        (lambda: release.upgrade(*of(widgets, "--resume"), "--set", "logLevel=debug"), "v1"),
        (lambda: (widgets.back(), release.roll_back(1)), "v1alpha1"),
    ):
        change()
        cluster.kubectl("wait", "--for=condition=Complete", *job, "--timeout=60s")
        assert widgets.stored_versions() == [stored]
    release.uninstall()
    assert release.left() == []


def test_shards_are_pods_of_an_indexed_job(
    install: Callable[[str], Release], cluster: Cluster, namespace: str, widgets: Kind
) -> None:
    """A shard would not know its index, or none of them would prune."""
    release = install("migration-indexed-job")
    release.upgrade(*of(widgets, "--resume"))
    assert widgets.stored_versions() == ["v1"]
    pods = cluster.pods(namespace)
    indexes = {each["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for each in pods}
    assert indexes == {"0", "1", "2", "3"}
    assert {each["status"]["phase"] for each in pods} == {"Succeeded"}
    release.upgrade(*of(widgets, "--resume"), "--set", "logLevel=debug")
    release.roll_back(1)
    release.uninstall()
    assert release.left() == []


def test_a_job_that_is_refused_fails_the_release(
    install: Callable[[str], Release], cluster: Cluster, namespace: str
) -> None:
    """An operator would wait for six hours, or find a failed release and no reason."""
    release = install("migration-job")
    said = release.upgrade("--set", "migration.crds={gone.example.com}", code=1)
    (pod,) = cluster.pods(namespace)
    (container,) = pod["status"]["containerStatuses"]
    sentence = "there is no CRD 'gone.example.com'"
    assert container["state"]["terminated"]["exitCode"] == 2
    assert sentence in container["state"]["terminated"].get("message", ""), "kubectl describe pod does not say why"
    assert sentence in said, "Helm does not say why"
    release.uninstall()

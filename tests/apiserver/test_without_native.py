"""A cluster that does not serve StorageVersionMigrations, and a condition StorageMigrating from when it did."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from restow.controlplane.etcd import Etcd
from restow.controlplane.plane import ControlPlane
from restow.controlplane.pytest_plugin import running_plane
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.resources import CRDS
from restow.migrator import Engine, Migration, Options
from tests.apiserver.access import Access, on_crd, on_objects
from tests.apiserver.kind import Kind
from tests.restow.commandline import Cli


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane without the API, which is on by default from 1.37 on."""
    with running_plane(lambda: ControlPlane(feature_gates={"StorageVersionMigrator": False})) as plane:
        yield plane


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """Its administrator's."""
    return control_plane.kubeconfig


@pytest.fixture(scope="module")
def etcd(control_plane: ControlPlane) -> Etcd:
    """What is stored."""
    return control_plane.etcd


@pytest.fixture
async def left(kind: Kind) -> AsyncIterator[Kind]:
    """A CRD with work due, and the condition that a migration of the cluster's own left on it."""
    await kind.populate(3)
    await kind.change(kind.document(storage="v1beta1"))
    now = (await kind.cluster.get(CRDS, kind.name)).json()["status"]["conditions"]
    condition = {"type": "StorageMigrating", "status": "True", "reason": "MigrationRunning", "message": ""}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    body = json.dumps({"status": {"conditions": [*now, condition]}}).encode()
    await kind.cluster.patch(CRDS, kind.name, body, patch_type=PatchType.MERGE, subresource="status")
    return kind


async def test_without_the_api_native_is_refused_and_auto_is_direct(kind: Kind, cluster: HttpCluster) -> None:
    """Whoever asks for it hears what to switch on."""
    await kind.apply(kind.manifest("v1alpha1", "w", spec={"size": 1}), "alice")
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    refused = await Migration(cluster, Options(settle_s=0.0, engine=Engine.NATIVE)).migrate(kind.name)
    assert "serves no StorageVersionMigrations" in refused.refused
    assert set(await kind.stored_versions()) == {"v1alpha1", "v1beta1"}
    report = await Migration(cluster, Options(settle_s=0.0, engine=Engine.AUTO)).migrate(kind.name)
    assert (report.pruned, report.engine) == (True, "direct")
    assert await kind.stored_versions() == ["v1beta1"]


@pytest.mark.parametrize("engine", [Engine.DIRECT, Engine.AUTO])
async def test_a_condition_without_its_api_is_disregarded(left: Kind, cluster: HttpCluster, engine: Engine) -> None:
    """Nobody ever takes it back, so every migration would be refused for good."""
    report = await Migration(cluster, Options(settle_s=0.0, engine=engine)).migrate(left.name)
    assert report.pruned and not report.refused, report.to_json()
    (warning,) = report.warnings
    assert warning == (
        f"{left.name} has the condition StorageMigrating although the API server does not serve "
        "StorageVersionMigrations (storagemigration.k8s.io) any more, so nothing is at work; it was disregarded"
    )
    assert await left.stored_versions() == ["v1beta1"]


async def test_the_engine_native_says_that_it_is_not_served(left: Kind, cluster: HttpCluster) -> None:
    """Waiting for what cannot be at work helps nobody; what is missing is the API."""
    report = await Migration(cluster, Options(settle_s=0.0, engine=Engine.NATIVE)).migrate(left.name)
    assert "serves no StorageVersionMigrations" in report.refused


async def test_it_takes_no_right(left: Kind, access: Access) -> None:
    """An API server asks for the right to list before it looks for the API: who has none got "Wait for it to end"."""
    user = await access.user(
        f"plain-{left.group}", on_crd(left, "get", "patch"), on_crd(left, "patch", subresource="status"),
        on_objects(left, "list", "get", "patch"),
    )  # fmt: skip
    async with connect(user.kubeconfig) as cluster:
        report = await Migration(cluster, Options(settle_s=0.0)).migrate(left.name)
    assert report.pruned, report.to_json()


async def test_plan_and_ready_go_on_too(left: Kind, cli: Cli) -> None:
    """A plan that is refused where the migration is not sends on-call after the wrong thing."""
    plan = await cli("plan", left.name, "-o", "json")
    assert plan.code == 3, (plan.out, plan.err)
    (crd,) = plan.json["crds"]
    assert [each["check"] for each in crd["findings"]] == ["native"]
    ready = await cli("ready", left.name, "--drop", "v1alpha1", "-o", "json")
    assert ready.code == 3 and any("StorageMigrating" in note for note in ready.json["notes"])
    every = await cli("migrate", "--all", "--settle", "0", "-o", "json")
    assert every.code == 0 and left.name in {each["name"] for each in every.json["crds"] if each["pruned"]}

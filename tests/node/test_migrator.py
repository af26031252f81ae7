"""The operator that migrates labelled CRDs, in pods: who leads writes, and a leader that is cut off does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.node.cluster import Cluster
from tests.node.kinds import Kind
from tests.node.nodes import wait_for
from tests.node.releases import Release

pytestmark = pytest.mark.timeout(900)

LEASE = "restow-operator-standalone-migrator"
OBJECTS, RATE = 400, 20


@pytest.fixture
def widgets(cluster: Cluster) -> Iterator[Kind]:
    """Widgets that are due, and take twenty seconds at the rate that the CRD allows."""
    made = Kind(cluster, "widgets")
    made.create(OBJECTS)
    cluster.kubectl("annotate", "crd", made.crd, f"restow.dev/migrate-rate={RATE}")
    yield made
    made.remove()


@pytest.fixture
def release(install: Callable[[str], Release]) -> Release:
    """The operator, without the minute that a migration waits for late writes."""
    made = install("migrator")
    made.upgrade("--set", "migrator.arguments={--settle=2}")
    return made


def leader(cluster: Cluster, namespace: str) -> dict[str, Any]:
    """The pod that holds the Lease."""
    holder = cluster.get("lease", LEASE, "-n", namespace)["spec"].get("holderIdentity") or ""
    return next((each for each in cluster.pods(namespace) if holder.startswith(each["metadata"]["name"])), {})


def migrated(cluster: Cluster, kind: Kind) -> None:
    """Wait until nothing is due."""
    cluster.kubectl("wait", "--for=condition=restow.dev/Migrated", "crd", kind.crd, "--timeout=4m")


def test_it_is_installed_upgraded_rolled_back_and_uninstalled(
    release: Release, cluster: Cluster, widgets: Kind
) -> None:
    """A labelled CRD would wait for a leader that an upgrade or a rollback has ended."""
    release.upgrade("--set", "migrator.arguments={--settle=2}", "--set", "logLevel=debug")
    assert release.log_levels() == {"debug"}
    release.roll_back(1)
    assert release.log_levels() == {"info"}
    cluster.kubectl("label", "crd", widgets.crd, "restow.dev/migrate=true")
    migrated(cluster, widgets)
    assert widgets.stored_versions() == ["v1"]
    release.uninstall()
    assert release.left() == []


def test_a_leader_that_is_cut_off_is_replaced_and_writes_nothing_twice(
    release: Release, cluster: Cluster, namespace: str, widgets: Kind
) -> None:
    """Nobody would migrate until somebody ends the pod, or two would; late packets would write over newer objects."""
    first = wait_for(lambda: leader(cluster, namespace), "nobody leads")
    cluster.kubectl("label", "crd", widgets.crd, "restow.dev/migrate=true")
    wait_for(lambda: sum(widgets.writes()) > RATE, "no object is migrated")
    with cluster.cut_off(first["spec"]["nodeName"]):
        second = wait_for(
            lambda: (now := leader(cluster, namespace)) and now["metadata"]["uid"] != first["metadata"]["uid"] and now,
            "nobody else leads",
        )
        before = sum(widgets.writes())
        assert before < OBJECTS
        migrated(cluster, widgets)
    assert widgets.writes() == [1] * OBJECTS
    name = first["metadata"]["name"]
    wait_for(lambda: "lost the lead" in cluster.log(namespace, name), f"{name} does not say that it stopped")
    cluster.kubectl("wait", "--for=condition=Ready", "pod", name, "-n", namespace, "--timeout=2m")
    assert widgets.writes() == [1] * OBJECTS
    assert leader(cluster, namespace)["metadata"]["name"] == second["metadata"]["name"]
    print(f"{before} of {OBJECTS} objects were written when another pod began to lead")

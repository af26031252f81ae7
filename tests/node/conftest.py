"""The cluster of all tests here; without ``make test-node`` there is none, and its tests are not collected."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.deploy.rendering import Helm
from tests.node.cluster import Cluster, running_cluster
from tests.node.issuing import start_cert_manager
from tests.node.releases import Release

collect_ignore_glob = [] if "RESTOW_NODES" in os.environ else ["test_*.py"]


@pytest.fixture(scope="session")
def binaries() -> dict[str, Path]:
    """Everything that runs."""
    return {name: Path(path) for name, path in json.loads(os.environ["RESTOW_NODE_BINARIES"]).items()}


@pytest.fixture(scope="session")
def cluster(binaries: dict[str, Path]) -> Iterator[Cluster]:
    """A cluster of two nodes."""
    logs = Path(os.environ.get("RESTOW_NODE_LOGS") or Path(os.environ["RESTOW_NODES"]) / "logs")
    with running_cluster(binaries, 2, logs) as running:
        yield running


@pytest.fixture(scope="session")
def namespace(cluster: Cluster) -> str:
    """A namespace that admits restricted pods only."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "restricted", "labels": labels}}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(document))
    return "restricted"


@pytest.fixture(scope="session")
def cert_manager(cluster: Cluster, binaries: dict[str, Path]) -> None:
    """cert-manager at work."""
    start_cert_manager(cluster, binaries["cert-manager"])


@pytest.fixture
def install(
    cluster: Cluster, binaries: dict[str, Path], namespace: str, cert_manager: None
) -> Iterator[Callable[[str], Release]]:
    """Make releases of values files, none of which is left in the end."""
    made: list[Release] = []

    def release(values: str) -> Release:
        made.append(Release(cluster, Helm(binaries["helm"]), namespace, values))
        return made[-1]

    yield release
    for each in made:
        if each.is_there():
            each.uninstall("--no-hooks")
    cluster.kubectl("delete", "jobs,pods", "-n", namespace, "--all", "--wait")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show the pods and events of a failed test."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.when == "call" and report.failed and isinstance(cluster, Cluster):
        report.sections.append(("cluster", cluster.described()))
    return report

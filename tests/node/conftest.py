"""The cluster of all tests here; without ``make test-node`` there is none, and its tests are not collected."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.cluster import Cluster, running_cluster

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

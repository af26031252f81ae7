"""What the runs of one test module share; everything in this folder that uses it needs an API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from restow.controlplane.etcd import Etcd
from restow.controlplane.plane import ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from tests.faults.world import World, world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(
    control_plane: ControlPlane, etcd: Etcd, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """A world on the session's control plane."""
    async with world(control_plane, tmp_path_factory.mktemp("faults")) as opened:
        yield opened


@pytest.fixture
async def kubeconfig_cluster(kubeconfig: Path) -> AsyncIterator[HttpCluster]:
    """A session as administrator."""
    async with connect(kubeconfig) as opened:
        yield opened

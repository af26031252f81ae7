"""Tools of deploy/, as ``make deploy-tools`` makes them, and a control plane to apply to."""

from __future__ import annotations

import asyncio
import itertools
import os
import runpy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from restow.controlplane.errors import BinariesUnavailableError
from restow.controlplane.etcd import Etcd
from restow.kube import connect
from restow.kube.client import HttpCluster
from tests.apiserver.kind import Kind
from tests.deploy.rendering import ROOT, Helm

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def tools() -> dict[str, Path]:
    """Helm, kustomize, manifestcheck, hadolint; made if they are not there, and missed in CI only by failing."""
    made = runpy.run_path(str(ROOT / "deploy" / "tools" / "tools.py"))
    try:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            found: dict[str, Path] = runner.run(made["find_tools"](lambda _line: None))
    except BinariesUnavailableError as error:
        if os.environ.get("CI"):
            pytest.fail(f"In CI the tools of deploy/ must be there. {error}", pytrace=False)
        pytest.skip(str(error))
    return found


@pytest.fixture(scope="session")
def helm(tools: dict[str, Path]) -> Helm:
    """Real Helm."""
    return Helm(tools["helm"])


@pytest.fixture
async def cluster(kubeconfig: Path) -> AsyncIterator[HttpCluster]:
    """A session as administrator."""
    async with connect(kubeconfig) as opened:
        yield opened


@pytest.fixture
async def kind(cluster: HttpCluster, etcd: Etcd) -> AsyncIterator[Kind]:
    """Widgets of a group of their own, with v1alpha1 alone."""
    made = Kind(cluster, etcd, f"d{next(_numbers)}.example.com")
    await made.create(made.document(storage="v1alpha1", versions=("v1alpha1",)))
    yield made
    await made.remove()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What uses an API server says so, as in tests/apiserver."""
    here = Path(__file__).parent
    for item in items:
        fixtures: Any = getattr(item, "fixturenames", ())
        if here in item.path.parents and "control_plane" in fixtures:
            item.add_marker(pytest.mark.apiserver)
        if here in item.path.parents and "tools" in fixtures:
            item.add_marker(pytest.mark.timeout(1200))  # the first one builds Helm

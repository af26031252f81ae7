"""Fixtures for tests on a real API server; every test gets a group of its own, so that tests do not meet."""

from __future__ import annotations

import asyncio
import itertools
import operator
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from restow.controlplane.existing import ExistingCluster
from restow.controlplane.plane import ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.migrator import Migration, Options
from tests.apiserver.access import Access
from tests.apiserver.kind import Kind
from tests.apiserver.others import Others
from tests.apiserver.proxy import Proxy, proxy_before
from tests.apiserver.webhook import Webhook, conversion_webhook
from tests.restow.commandline import Cli, Ran, restow

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs an API server."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.apiserver)


@pytest.fixture(scope="module", autouse=True)
def _module_holds(request: pytest.FixtureRequest) -> None:
    """Skip a module that cannot hold on this minor, before its own control plane is started."""
    _skip_where_it_cannot_hold(request)


@pytest.fixture(autouse=True)
def _test_holds(request: pytest.FixtureRequest) -> None:
    """Skip a test that cannot hold on this minor."""
    _skip_where_it_cannot_hold(request)


def _skip_where_it_cannot_hold(request: pytest.FixtureRequest) -> None:
    for name, holds, said in (
        ("kubernetes_since", operator.ge, "from {} on"),
        ("kubernetes_before", operator.lt, "before {}"),
    ):
        marker = request.node.get_closest_marker(name)
        if marker is None:
            continue
        minor, why = marker.args
        now = request.getfixturevalue("server_minor")
        if not holds(now, tuple(int(part) for part in minor.split("."))):
            pytest.skip(f"The API server is Kubernetes {now[0]}.{now[1]}; this holds {said.format(minor)}: {why}")


@pytest.fixture
async def cluster(kubeconfig: Path) -> AsyncIterator[HttpCluster]:
    """A session as administrator."""
    async with connect(kubeconfig) as opened:
        yield opened


@pytest.fixture
def group() -> str:
    """An API group that no other test uses."""
    return f"t{next(_numbers)}.example.com"


@pytest.fixture
async def kind(cluster: HttpCluster, control_plane: ControlPlane | ExistingCluster, group: str) -> AsyncIterator[Kind]:
    """Widgets: a CRD that starts with v1alpha1 alone; see ``Kind`` for what can happen to it."""
    made = Kind(cluster, control_plane.etcd if isinstance(control_plane, ControlPlane) else None, group)
    await made.create(made.document(storage="v1alpha1", versions=("v1alpha1",)))
    yield made
    await made.remove()


@pytest.fixture
async def proxy(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Proxy]:
    """A proxy in front of the API server, with no faults yet."""
    async with proxy_before(control_plane, tmp_path) as running:
        yield running


@pytest.fixture
async def through_proxy(proxy: Proxy) -> AsyncIterator[HttpCluster]:
    """A session through the proxy."""
    async with connect(proxy.kubeconfig) as opened:
        yield opened


@pytest.fixture
async def webhook(tmp_path: Path) -> AsyncIterator[Webhook]:
    """A webhook in good health."""
    async with conversion_webhook(tmp_path) as running:
        yield running


@pytest.fixture
async def access(control_plane: ControlPlane, cluster: HttpCluster) -> AsyncIterator[Access]:
    """Rights and policies; those of a test go with it."""
    made = Access(control_plane, cluster)
    yield made
    await made.remove()


@pytest.fixture
def cli(kubeconfig: Path) -> Cli:
    """Run ``restow`` as administrator."""

    async def run(*arguments: str | Path, **more: Any) -> Ran:
        return await asyncio.to_thread(restow, *arguments, kubeconfig=kubeconfig, **more)

    return run


@pytest.fixture
async def others(cluster: HttpCluster) -> AsyncIterator[Others]:
    """Objects of other projects, which go with the test."""
    making = Others(cluster)
    yield making
    await making.remove()


@pytest.fixture
async def old(kind: Kind) -> Kind:
    """The same widgets, migrated to v1beta1; the CRD still serves its old version, v1alpha1."""
    await kind.change(kind.document(storage="v1beta1"))
    await Migration(kind.cluster, Options(settle_s=0.0)).migrate(kind.name)
    return kind

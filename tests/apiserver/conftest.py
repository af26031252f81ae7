"""Fixtures for tests on a real API server; every test gets a group of its own, so that tests do not meet."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from restow.controlplane.etcd import Etcd
from restow.controlplane.plane import ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from tests.apiserver.kind import Kind
from tests.apiserver.proxy import Proxy, proxy_before
from tests.apiserver.webhook import Webhook, conversion_webhook

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs an API server."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.apiserver)


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
async def kind(cluster: HttpCluster, etcd: Etcd, group: str) -> AsyncIterator[Kind]:
    """Widgets: a CRD that starts with v1alpha1 alone; see ``Kind`` for what can happen to it."""
    made = Kind(cluster, etcd, group)
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

"""The API server of the pages: their own, since a page is to find nothing there that its reader would not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from restow.controlplane.etcd import Etcd
from restow.controlplane.plane import ControlPlane


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane for one file of tests."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        plane = ControlPlane()
        runner.run(plane.start())
        yield plane
        runner.run(plane.stop())


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """Its administrator's."""
    return control_plane.kubeconfig


@pytest.fixture(scope="module")
def etcd(control_plane: ControlPlane) -> Etcd:
    """What is stored."""
    return control_plane.etcd

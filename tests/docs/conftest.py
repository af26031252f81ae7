"""The API server of the pages: their own, since a page is to find nothing there that its reader would not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from restow.controlplane.etcd import Etcd
from restow.controlplane.plane import ControlPlane
from restow.controlplane.pytest_plugin import running_plane


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane for one file of tests."""
    with running_plane(ControlPlane) as plane:
        yield plane


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """Its administrator's."""
    return control_plane.kubeconfig


@pytest.fixture(scope="module")
def etcd(control_plane: ControlPlane) -> Etcd:
    """What is stored."""
    return control_plane.etcd

"""What pages run on: an API server of their own, and an environment with what the page says to install."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from restow.controlplane.etcd import Etcd
from restow.controlplane.plane import ControlPlane
from restow.controlplane.pytest_plugin import running_plane
from tests.packaging.conftest import built, installed, shared

__all__ = ["built", "control_plane", "etcd", "installed", "kubeconfig", "shared"]


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

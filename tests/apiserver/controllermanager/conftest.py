"""A control plane with kube-controller-manager, whose controllers delete namespaces and collect garbage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from restow.controlplane.etcd import Etcd
from restow.controlplane.plane import ControlPlane
from restow.controlplane.pytest_plugin import running_plane


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One for a file of tests: the controllers stop at what other tests leave in trouble."""
    with running_plane(lambda: ControlPlane(controller_manager=True)) as plane:
        yield plane


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """Its administrator's."""
    return control_plane.kubeconfig


@pytest.fixture(scope="module")
def etcd(control_plane: ControlPlane) -> Etcd:
    """What is stored."""
    return control_plane.etcd

"""The command lines: their defaults, and the changes that a caller can make."""

from __future__ import annotations

from pathlib import Path

import pytest

from restow.controlplane.commands import (
    Arguments,
    ServerFiles,
    apiserver_command,
    controller_manager_command,
    etcd_command,
    key_values,
)

FILES = ServerFiles(
    ca=Path("/c/ca.crt"),
    serving_certificate=Path("/c/apiserver.crt"),
    serving_key=Path("/c/apiserver.key"),
    service_account_key=Path("/c/sa.key"),
    service_account_public_key=Path("/c/sa.pub"),
)


def _apiserver(extra: Arguments, gates: dict[str, bool] | None = None) -> list[str]:
    return apiserver_command(
        Path("/b/kube-apiserver"),
        FILES,
        etcd="http://127.0.0.1:2379",
        port=6443,
        feature_gates=gates or {},
        runtime_config={},
        extra=extra,
    )


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, None),
        ({"A": True}, "A=true"),
        ({"B": False, "A": True}, "A=true,B=false"),
        ({"storagemigration.k8s.io/v1beta1": True}, "storagemigration.k8s.io/v1beta1=true"),
    ],
)
def test_key_values(settings: dict[str, bool], text: str | None) -> None:
    """Gates in Python's notation (``True``) would be refused, or an unstable order would hinder comparisons."""
    assert key_values(settings) == text


@pytest.mark.parametrize(
    ("extra", "there", "absent"),
    [
        ({}, ["--profiling=false", "--authorization-mode=RBAC"], ["--feature-gates", "--runtime-config"]),
        ({"profiling": "true"}, ["--profiling=true"], ["--profiling=false"]),
        ({"--profiling": "true"}, ["--profiling=true"], ["--profiling=false"]),
        ({"profiling": None}, [], ["--profiling"]),
        ({"max-requests-inflight": "5"}, ["--max-requests-inflight=5"], []),
        ({"api-audiences": ["a", "b"]}, ["--api-audiences=a", "--api-audiences=b"], []),
    ],
)
def test_callers_arguments_win(extra: Arguments, there: list[str], absent: list[str]) -> None:
    """A caller could not switch a default off, change it, or repeat a flag."""
    command = _apiserver(extra)
    assert all(flag in command for flag in there)
    assert not [flag for flag in command for unwanted in absent if flag.startswith(unwanted)]


def test_feature_gates_are_passed() -> None:
    """Requested feature gates would silently not be set."""
    assert "--feature-gates=StorageVersionMigrator=true" in _apiserver({}, {"StorageVersionMigrator": True})


def test_every_server_listens_on_loopback_only() -> None:
    """A test's control plane would be reachable from the network."""
    etcd = etcd_command(Path("/b/etcd"), Path("/d"), member="m", client_port=1, peer_port=2, extra={})
    manager = controller_manager_command(
        Path("/b/kcm"),
        kubeconfig=Path("/k"),
        files=FILES,
        port=3,
        controllers=["a", "b"],
        feature_gates={},
        extra={},
    )
    assert "--bind-address=127.0.0.1" in _apiserver({})
    assert "--bind-address=127.0.0.1" in manager
    assert "--controllers=a,b" in manager
    assert {"--listen-client-urls=http://127.0.0.1:1", "--listen-peer-urls=http://127.0.0.1:2"} <= set(etcd)

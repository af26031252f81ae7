"""``restow serve --own-ca`` against a real API server: a CRD without webhook becomes one that converts."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from restow.conversion.certificates.store import SECRETS
from restow.kube.client import HttpCluster
from restow.kube.resources import CRDS
from tests.apiserver.provider import GATEWAYS, Provider
from tests.apiserver.serving import MANIFESTS, Instance


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("workers", [1, 2])
async def test_own_ca(cluster: HttpCluster, kubeconfig: Path, tmp_path: Path, workers: int) -> None:
    """One command on an empty folder: certificate, Secrets and wiring follow, and objects read at every version."""
    provider = Provider(cluster)
    port = free_port()
    flags = [
        f"--crd={MANIFESTS / 'gateways.yaml'}",
        f"--crd={MANIFESTS / 'caches.yaml'}",
        f"--own-ca=https://127.0.0.1:{port}",
        f"--kubeconfig={kubeconfig}",
        f"--port={port}",
        f"--workers={workers}",
    ]
    await provider.create_crd(GATEWAYS)
    instance = await Instance.start(tmp_path, flags=flags)
    try:
        async with asyncio.timeout(60):
            while (await cluster.get(CRDS, GATEWAYS)).json()["spec"]["conversion"]["strategy"] != "Webhook":
                await asyncio.sleep(0.1)
        await provider.served(GATEWAYS)
        created = await provider.create(GATEWAYS, "v1alpha1", "a", {"host": "a.example.dev"})
        assert created["spec"]["host"] == "a.example.dev"
        assert (await provider.get(GATEWAYS, "v1", "a"))["spec"]["hosts"] == ["a.example.dev"]
    finally:
        await instance.stop()
        await provider.remove()
        for name in ("restow-webhook", "restow-webhook-ca"):
            await cluster.delete(SECRETS, name, namespace="default")
    assert not any(b"Traceback" in line for line in instance.log)

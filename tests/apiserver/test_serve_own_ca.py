"""``restow serve --own-ca`` against a real API server: a CRD without webhook becomes one that converts."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from restow.conversion.certificates.store import SECRETS
from restow.kube.client import HttpCluster
from restow.kube.errors import NotFound
from restow.kube.resources import CRDS, Resource
from tests.apiserver.kind import until
from tests.apiserver.provider import GATEWAYS, STASH, Provider, at
from tests.apiserver.serving import MANIFESTS, Instance

HOOKS = Resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", namespaced=False)


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


async def test_a_dropped_stash_is_restored(cluster: HttpCluster, kubeconfig: Path, tmp_path: Path) -> None:
    """With one flag more API servers ask for the stash: a pipeline that replaces an object resets nothing."""
    provider = Provider(cluster)
    port = free_port()
    flags = [
        f"--crd={MANIFESTS / 'gateways.yaml'}",
        f"--own-ca=https://127.0.0.1:{port}",
        f"--kubeconfig={kubeconfig}",
        f"--port={port}",
        "--restore-stashes",
    ]
    await provider.create_crd(GATEWAYS)
    instance = await Instance.start(tmp_path, flags=flags)
    try:
        await until(lambda: installed(cluster), "the configuration is not installed")
        await provider.served(GATEWAYS)
        await provider.create(GATEWAYS, "v1", "a", {"hosts": ["a.example.dev", "b.example.dev"]})
        shown = await provider.get(GATEWAYS, "v1alpha1", "a")
        assert shown["metadata"]["annotations"].pop(STASH)
        resource, body = at(GATEWAYS, "v1alpha1"), json.dumps(shown).encode()
        await until(lambda: restores(cluster, resource, body), "API servers do not ask for the stash")
        await cluster.replace(resource, "a", body, "default")
        assert (await provider.get(GATEWAYS, "v1", "a"))["spec"]["hosts"] == ["a.example.dev", "b.example.dev"]
    finally:
        with suppress(NotFound):
            await cluster.delete(HOOKS, "conversion-stash")
        await instance.stop()
        await provider.remove()
        for name in ("restow-webhook", "restow-webhook-ca"):
            await cluster.delete(SECRETS, name, namespace="default")


async def installed(cluster: HttpCluster) -> bool:
    """Whether API servers know the step."""
    try:
        hooks = (await cluster.get(HOOKS, "conversion-stash")).json()["webhooks"]
    except NotFound:
        return False
    return [each["name"] for each in hooks] == [f"conversion-stash.{GATEWAYS}"]


async def restores(cluster: HttpCluster, resource: Resource, body: bytes) -> bool:
    """Whether replacing the gateway would leave it its stash."""
    reply = await cluster.replace(resource, "a", body, "default", params={"dryRun": "All"})
    return STASH in reply.json()["metadata"].get("annotations", {})

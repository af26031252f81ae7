"""``restow serve --own-ca`` against a real API server: a CRD without webhook becomes one that converts."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import aiohttp

from restow.conversion.certificates import Url
from restow.conversion.certificates.ca.store import SECRETS
from restow.conversion.certificates.wiring.documents import stash_name
from restow.kube import PatchType
from restow.kube.client import HttpCluster
from restow.kube.errors import KubeError, NotFound
from restow.kube.resources import CRDS, Resource
from tests.apiserver.kind import until
from tests.apiserver.provider import GATEWAYS, STASH, Provider, at
from tests.apiserver.serving import MANIFESTS, Instance
from tests.conversion.certificates.ca.test_targets import on_unknown_curve
from tests.ports import free_port

HOOKS = Resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", namespaced=False)


async def spoil(cluster: HttpCluster, change: dict[str, object], secret: str = "restow-webhook") -> None:
    """Change a Secret, and undo the wiring, so that replicas look at both at once."""
    merge = PatchType.MERGE
    await cluster.patch(SECRETS, secret, json.dumps(change).encode(), "default", patch_type=merge)
    undone = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": None}}}}}
    await cluster.patch(CRDS, GATEWAYS, json.dumps(undone).encode(), patch_type=merge)


async def converts(provider: Provider) -> bool:
    """Whether an object reads at a version that is not stored."""
    try:
        shown = await provider.get(GATEWAYS, "v1alpha1", "a")
    except KubeError:
        return False
    return bool(shown["spec"]["host"] == "a.example.dev")


async def counts(instance: Instance, name: str, least: int) -> bool:
    """Whether a metric has come to a number."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{instance.probes}/metrics") as answer,
    ):
        lines = (await answer.text()).splitlines()
    (found,) = (line for line in lines if line.startswith(f"restow_webhook_{name} "))
    return float(found.rpartition(" ")[2]) >= least


async def test_own_ca(cluster: HttpCluster, kubeconfig: Path, tmp_path: Path) -> None:
    """One command on an empty folder: certificate, Secrets and wiring follow, and objects read at every version.

    Neither a key that no library reads nor a CA that is spoilt ends it, or what it keeps wired.
    """
    provider = Provider(cluster)
    port = free_port()
    flags = [
        f"--crd={MANIFESTS / 'gateways.yaml'}",
        f"--crd={MANIFESTS / 'caches.yaml'}",
        f"--own-ca=https://127.0.0.1:{port}",
        f"--kubeconfig={kubeconfig}",
        f"--port={port}",
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
        await spoil(cluster, {"data": on_unknown_curve(tmp_path)})
        await until(lambda: converts(provider), "the CRD is not wired")
        await spoil(cluster, {"data": {"ca.key": "Z2FyYmFnZQ=="}}, secret="restow-webhook-ca")
        await until(lambda: counts(instance, "keeping_failures_total", 1), "a CA that cannot be read is not counted")
        await until(lambda: converts(provider), "the CRD is not wired by what can be read")
        assert await counts(instance, "wiring_problems", 1)  # of the CRD that is not installed here
        assert instance.process.returncode is None
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
    name = stash_name(Url(f"https://127.0.0.1:{port}"))
    instance = await Instance.start(tmp_path, flags=flags)
    try:
        await until(lambda: installed(cluster, name), "the configuration is not installed")
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
            await cluster.delete(HOOKS, name)
        await instance.stop()
        await provider.remove()
        for name in ("restow-webhook", "restow-webhook-ca"):
            await cluster.delete(SECRETS, name, namespace="default")


async def installed(cluster: HttpCluster, name: str) -> bool:
    """Whether API servers know the step."""
    try:
        hooks = (await cluster.get(HOOKS, name)).json()["webhooks"]
    except NotFound:
        return False
    return [each["name"] for each in hooks] == [f"conversion-stash.{GATEWAYS}"]


async def restores(cluster: HttpCluster, resource: Resource, body: bytes) -> bool:
    """Whether replacing the gateway would leave it its stash."""
    reply = await cluster.replace(resource, "a", body, "default", params={"dryRun": "All"})
    return STASH in reply.json()["metadata"].get("annotations", {})

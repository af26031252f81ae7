"""Takes everything out of a control plane that a page left in it, so that pages can share one.

It is done in etcd itself: there is no namespace controller here, and a CRD whose webhook is gone cannot be deleted
through the API server. What the API server keeps for itself stays.
"""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import aiohttp

from restow.controlplane.etcd import Etcd
from restow.kube import connect
from restow.kube.cluster import Cluster
from restow.kube.resources import Resource

__all__ = ["empty", "keys"]

_OWN = ("/registry/apiregistration.k8s.io/", "/registry/leases/kube-system/", "/registry/masterleases/")
_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", namespaced=False)
_CRDS = "/registry/apiextensions.k8s.io/customresourcedefinitions/"


async def keys(etcd: Etcd) -> frozenset[str]:
    """All keys but those that come and go by themselves."""
    return frozenset([key async for key, _ in etcd.prefix("/registry/") if not key.startswith(_OWN)])


async def empty(etcd: Etcd, kubeconfig: Path, baseline: frozenset[str]) -> None:
    """Delete what is not in the baseline, and wait until the API server serves none of its groups any more."""
    left = sorted(await keys(etcd) - baseline, key=lambda key: not key.startswith(_CRDS))  # definitions first
    async with aiohttp.ClientSession(etcd.url) as session:
        for key in left:
            body = {"key": base64.b64encode(key.encode()).decode()}
            async with session.post("/v3/kv/deleterange", json=body) as answer:
                answer.raise_for_status()
    groups = {key.removeprefix(_CRDS).partition(".")[2] for key in left if key.startswith(_CRDS)}
    async with connect(kubeconfig) as cluster, asyncio.timeout(60):
        while groups & await _served(cluster):
            await asyncio.sleep(0.05)


async def _served(cluster: Cluster) -> set[str]:
    """The API groups that are served."""
    items = (await cluster.list_page(_SERVICES)).json()["items"]
    return {str(each["spec"].get("group", "")) for each in items}

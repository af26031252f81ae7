"""The webhook in pods: a CA of its own, a Service's name, rollouts under load, an uninstall that waits for objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.node.clients import busy
from tests.node.cluster import Cluster
from tests.node.nodes import wait_for
from tests.node.releases import PROVIDER, Release

pytestmark = pytest.mark.timeout(1800)

CRD, OTHER = "gateways.edge.example.dev", "caches.edge.example.dev"
PATH = "/apis/edge.example.dev/{version}/namespaces/default/gateways/{name}"
BODIES = {
    "v1alpha1": {"spec": {"mode": "private"}},
    "v1beta1": {"spec": {"mode": "Public"}},
    "v1": {"spec": {"tls": {"minVersion": "1.3"}}},
}


@pytest.fixture
def gateways(cluster: Cluster) -> Iterator[None]:
    """The CRDs, which nothing converts yet."""
    cluster.kubectl("apply", "--server-side", "-f", PROVIDER / "manifests")
    cluster.kubectl("wait", "--for=condition=Established", "crd", CRD, OTHER)
    yield
    none = '{"spec": {"conversion": {"strategy": "None", "webhook": null}}}'
    cluster.kubectl("patch", "crd", CRD, OTHER, "--type=merge", "--patch", none)
    cluster.kubectl("delete", "crd", CRD, OTHER, "--wait")


def strategy(cluster: Cluster) -> str:
    """How the CRD is converted."""
    return str(cluster.get("crd", CRD)["spec"]["conversion"]["strategy"])


def create(cluster: Cluster, *names: str) -> None:
    """Create gateways at the oldest version, once the rules of kube-proxy at the API server know the new Service."""
    items = [
        {
            "apiVersion": "edge.example.dev/v1alpha1",
            "kind": "Gateway",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"host": "a.example", "mode": "public", "listeners": [{"title": "web", "timeoutSeconds": 30}]},
        }
        for name in names
    ]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})

    def created() -> bool:
        try:
            cluster.kubectl("apply", "-f", "-", stdin=listed)
        except AssertionError as error:
            if "no route to host" in str(error):
                return False
            raise
        return True

    wait_for(created, "the API server does not reach the webhook", 30)


def seen(cluster: Cluster, version: str, name: str) -> Any:
    """The spec of a gateway at a version."""
    return cluster.get(f"gateways.{version}.edge.example.dev", "-n", "default", name)["spec"]


@pytest.mark.parametrize("values", ["webhook-own-ca", "webhook-rules"])
def test_a_webhook_is_installed_upgraded_and_uninstalled(
    values: str, install: Callable[[str], Release], cluster: Cluster, namespace: str, gateways: None
) -> None:
    """An API server would not reach the pods, not trust them, or lose them in an upgrade; objects would be hostages."""
    release = install(values)
    release.upgrade()
    wait_for(lambda: strategy(cluster) == "Webhook", "the CRD has no webhook")
    create(cluster, "a")
    assert seen(cluster, "v1", "a")["hosts"] == ["a.example"]
    release.upgrade("--set", "logLevel=debug")
    assert seen(cluster, "v1alpha1", "a")["listeners"] == [{"title": "web", "timeoutSeconds": 30}]
    refused = release.uninstall(code=1)
    assert "default/a" in refused, refused
    assert strategy(cluster) == "Webhook"
    cluster.kubectl("delete", "gateways.v1.edge.example.dev", "-n", "default", "a")
    release.uninstall()
    assert strategy(cluster) == "None"
    wait_for(lambda: not cluster.pods(namespace, "app.kubernetes.io/component=webhook"), "pods stay")


def test_a_rollout_fails_no_request(
    install: Callable[[str], Release], cluster: Cluster, namespace: str, gateways: None
) -> None:
    """A pod would end while an API server still calls it, or serve before it can convert."""
    release = install("webhook-own-ca")
    release.upgrade()
    wait_for(lambda: strategy(cluster) == "Webhook", "the CRD has no webhook")
    names = [f"client-{number}" for number in range(20)]
    create(cluster, *names)
    deployment = f"deployment/{release.name}-restow-webhook"
    try:
        with busy(cluster.plane, PATH, BODIES, len(names)) as clients:
            for _ in range(3):
                cluster.kubectl("rollout", "restart", "-n", namespace, deployment)
                cluster.kubectl("rollout", "status", "-n", namespace, deployment, "--timeout=6m")
        print(f"{clients.requests} requests, the slowest after {clients.slowest:.2f} s")
        clients.check(1000)
    finally:
        cluster.kubectl("delete", "gateways.v1.edge.example.dev", "-n", "default", "--all")

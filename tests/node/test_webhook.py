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
CLIENTS, ROLLOUTS, KILLS = 20, 10, 4
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


def trusted(cluster: Cluster) -> bool:
    """Whether the CRD has a webhook, and the CA of its certificate."""
    conversion = cluster.get("crd", CRD)["spec"]["conversion"]
    return bool(conversion.get("webhook", {}).get("clientConfig", {}).get("caBundle"))


def create(cluster: Cluster, *names: str) -> None:
    """Create gateways at the oldest version."""
    items: list[dict[str, Any]] = [
        {
            "apiVersion": "edge.example.dev/v1alpha1",
            "kind": "Gateway",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"host": "a.example", "mode": "public", "listeners": [{"title": "web", "timeoutSeconds": 30}]},
        }
        for name in names
    ]
    cluster.apply(*items)


def seen(cluster: Cluster, version: str, name: str) -> Any:
    """The spec of a gateway at a version."""
    return cluster.get(f"gateways.{version}.edge.example.dev", "-n", "default", name)["spec"]


def wire(cluster: Cluster, release: Release) -> None:
    """Name the webhook in the CRD, as its owner does who has cert-manager; its injector adds the CA."""
    service = {"namespace": release.namespace, "name": f"{release.name}-restow-webhook", "path": f"/convert/{CRD}"}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}}
    annotations = {"cert-manager.io/inject-ca-from": f"{release.namespace}/{release.name}-restow-webhook"}
    conversion = {"strategy": "Webhook", "webhook": webhook}
    patch = {"metadata": {"annotations": annotations}, "spec": {"conversion": conversion}}
    cluster.kubectl("patch", "crd", CRD, "--type=merge", "--patch", json.dumps(patch))


@pytest.mark.parametrize("values", ["webhook-own-ca", "webhook-rules", "webhook-cert-manager"])
def test_a_webhook_is_installed_upgraded_rolled_back_and_uninstalled(
    values: str, install: Callable[[str], Release], cluster: Cluster, namespace: str, gateways: None
) -> None:
    """An API server would not reach the pods, not trust them, or lose them in an upgrade; objects would be hostages."""
    release = install(values)
    release.upgrade()
    if values == "webhook-cert-manager":
        wire(cluster, release)
    wait_for(lambda: trusted(cluster), "the CRD has no webhook, or no CA")
    create(cluster, "a")
    assert seen(cluster, "v1", "a")["hosts"] == ["a.example"]
    release.upgrade("--set", "logLevel=debug")
    assert release.log_levels() == {"debug"}
    assert seen(cluster, "v1alpha1", "a")["listeners"] == [{"title": "web", "timeoutSeconds": 30}]
    release.roll_back(1)
    assert release.log_levels() == {"info"}
    assert seen(cluster, "v1beta1", "a")["mode"] == "Public"
    refused = release.uninstall(code=1)
    assert "default/a" in refused, refused
    assert strategy(cluster) == "Webhook"
    cluster.kubectl("delete", "gateways.v1.edge.example.dev", "-n", "default", "a")
    release.uninstall()
    assert strategy(cluster) == "None"
    assert release.left() == []
    wait_for(lambda: not cluster.pods(namespace, "app.kubernetes.io/component=webhook"), "pods stay")


@pytest.fixture
def deployed(install: Callable[[str], Release], cluster: Cluster, gateways: None) -> Iterator[str]:
    """The name of a webhook's Deployment with two replicas, and a gateway for each of twenty clients."""
    release = install("webhook-own-ca")
    release.upgrade()
    wait_for(lambda: strategy(cluster) == "Webhook", "the CRD has no webhook")
    create(cluster, *(f"client-{number}" for number in range(CLIENTS)))
    yield f"{release.name}-restow-webhook"
    cluster.kubectl("delete", "gateways.v1.edge.example.dev", "-n", "default", "--all")


def rolled_out(cluster: Cluster, namespace: str, deployment: str) -> None:
    """Wait until every replica is ready and new."""
    cluster.kubectl("rollout", "status", "-n", namespace, f"deployment/{deployment}", "--timeout=6m")


def test_a_rollout_fails_no_request(cluster: Cluster, namespace: str, deployed: str) -> None:
    """A pod would end while an API server still calls it, or serve before it can convert."""
    with busy(cluster.plane, PATH, BODIES, CLIENTS) as clients:
        for _ in range(ROLLOUTS):
            cluster.kubectl("rollout", "restart", "-n", namespace, f"deployment/{deployed}")
            rolled_out(cluster, namespace, deployed)
    print(f"{ROLLOUTS} rollouts: {clients.requests} requests, the slowest after {clients.slowest:.2f} s")
    clients.check(1000)


def test_a_deleted_pod_and_a_drained_node_fail_no_request(cluster: Cluster, namespace: str, deployed: str) -> None:
    """An eviction would end a pod that is called, or both at once."""
    with busy(cluster.plane, PATH, BODIES, CLIENTS) as clients:
        first, *_ = cluster.pods(namespace, "app.kubernetes.io/component=webhook")
        cluster.kubectl("delete", "pod", "-n", namespace, first["metadata"]["name"])
        rolled_out(cluster, namespace, deployed)
        for node in ("node-1", "node-2"):
            cluster.kubectl("drain", node, "--timeout=5m", "--delete-emptydir-data", "--ignore-daemonsets")
            rolled_out(cluster, namespace, deployed)
            cluster.kubectl("uncordon", node)
    print(f"a deleted pod, two drained nodes: {clients.requests} requests, the slowest after {clients.slowest:.2f} s")
    clients.check(1000)


BROKEN = ("connection refused", "connection reset", "EOF")
"""How a conversion fails that is under way in a killed pod, or sent to it before kube-proxy knows."""


def test_a_killed_pod_fails_only_what_was_sent_to_it(cluster: Cluster, namespace: str, deployed: str) -> None:
    """Requests would fail for longer than the cluster takes to notice, or in another way."""

    def webhooks() -> list[dict[str, Any]]:
        return cluster.pods(namespace, "app.kubernetes.io/component=webhook")

    def restarts() -> int:
        return sum(each["restartCount"] for pod in webhooks() for each in pod["status"]["containerStatuses"])

    with busy(cluster.plane, PATH, BODIES, CLIENTS) as clients:
        for number in range(KILLS):
            cluster.kill(webhooks()[number % 2])
            wait_for(lambda expected=number + 1: restarts() == expected, "the container does not start again")
            rolled_out(cluster, namespace, deployed)
            failed, asked = len(clients.failures), clients.requests
            wait_for(lambda least=asked + 200: clients.requests > least, "clients do not go on")
            assert len(clients.failures) == failed, clients.failures[failed:]
    print(f"{KILLS} killed pods: {clients.requests} requests, {len(clients.failures)} failed")
    assert [each for each in clients.failures if not any(why in each for why in BROKEN)] == []

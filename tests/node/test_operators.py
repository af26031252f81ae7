"""The operators in pods: rules of the cluster taken through their gates, and the CRDs of CloudProfiles wired."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.node.clients import busy, create_all
from tests.node.cluster import Cluster
from tests.node.nodes import wait_for
from tests.node.releases import Release

pytestmark = pytest.mark.timeout(1800)

CRD = "jobs.example.dev"
PATH = "/apis/example.dev/{version}/namespaces/default/jobs/{name}"
BODIES = {"v1beta1": {"spec": {"timeoutSeconds": 30}}, "v1": {"spec": {"timeout": "90s"}}}


def definition() -> dict[str, object]:
    """A CRD whose two versions spell a timeout differently."""
    versions = []
    for version, name, kind in (("v1", "timeout", "string"), ("v1beta1", "timeoutSeconds", "integer")):
        spec = {"type": "object", "properties": {name: {"type": kind}}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        versions.append({"name": version, "served": True, "storage": version == "v1", "schema": schema})
    names = {"plural": "jobs", "singular": "job", "kind": "Job", "listKind": "JobList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD},
        "spec": {"group": "example.dev", "scope": "Namespaced", "names": names, "versions": versions},
    }


RULES = {
    "apiVersion": "restow.dev/v1alpha1",
    "kind": "ConversionRules",
    "metadata": {"name": CRD},
    "spec": {
        "target": {"group": "example.dev", "kind": "Job"},
        "hub": "v1",
        "spokes": [
            {
                "version": "v1beta1",
                "rules": [
                    {"duration": {"spoke": "spec.timeoutSeconds", "hub": "spec.timeout", "unit": "s", "text": "hub"}}
                ],
            }
        ],
    },
}


def job(name: str) -> dict[str, object]:
    """An object at the storage version."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "example.dev/v1", "kind": "Job", "metadata": metadata, "spec": {"timeout": "60s"}}


@pytest.fixture
def jobs(cluster: Cluster) -> Iterator[None]:
    """The CRD, and ten objects at its storage version."""
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(definition()))
    cluster.kubectl("wait", "--for=condition=Established", "crd", CRD)
    wait_for(lambda: "jobs" in cluster.kubectl("api-resources", "--api-group=example.dev"), "jobs are not served")
    cluster.apply(*(job(f"client-{number}") for number in range(10)))
    yield
    cluster.kubectl("delete", "crd", CRD, "--ignore-not-found", "--wait")


@pytest.mark.parametrize(("values", "objects"), [("conversions", 5000), ("conversions-cert-manager", 50)])
def test_rules_of_the_cluster_are_served_through_rollouts(
    values: str, objects: int, install: Callable[[str], Release], cluster: Cluster, namespace: str, jobs: None
) -> None:
    """Rules would stay at a gate that needs pods, a rollout would fail requests, an uninstall would strand rules."""
    release = install(values)
    targets = ("--set", f"conversions.targets={{{CRD}}}")
    release.upgrade(*targets)
    cluster.apply(RULES)
    cluster.kubectl("wait", "--for=condition=Ready", "conversionrules", "--all", "--timeout=6m")
    assert cluster.get("jobs.v1beta1.example.dev", "-n", "default", "client-0")["spec"] == {"timeoutSeconds": 60}
    path = PATH.format(version="v1", name="").rstrip("/")
    create_all(cluster.plane, path, [job(f"object-{number}") for number in range(objects)])
    assert len(cluster.get("jobs.v1beta1.example.dev", "-n", "default")["items"]) == objects + 10
    listed = cluster.pods(namespace, "app.kubernetes.io/component=conversions")
    peaks = [cluster.peak(each) for each in listed]
    print(f"{objects + 10} objects, {[round(each / 2**20) for each in peaks]} MiB at most")
    assert max(peaks) < 1536 * 2**20
    assert {each["restartCount"] for pod in listed for each in pod["status"]["containerStatuses"]} == {0}
    with busy(cluster.plane, PATH, BODIES, 10) as clients:
        release.upgrade(*targets, "--set", "logLevel=debug")
        assert release.log_levels() == {"debug"}
        release.roll_back(1)
        assert release.log_levels() == {"info"}
    print(f"an upgrade and a rollback: {clients.requests} requests, the slowest after {clients.slowest:.2f} s")
    clients.check(300)
    refused = release.uninstall(code=1)
    assert f"kubectl delete conversionrules {CRD}" in refused, refused
    # Rules go with their kind: while it serves two versions, somebody has to convert it.
    cluster.kubectl("delete", "--raw", path)
    cluster.kubectl("delete", "crd", CRD, "--timeout=2m")
    cluster.kubectl("delete", "conversionrules", CRD, "--timeout=2m")
    release.uninstall()
    assert release.left() == []
    cluster.kubectl("delete", "crd", "conversionrules.restow.dev", "--wait")


@pytest.mark.parametrize("values", ["operator", "operator-cert-manager"])
def test_the_operator_of_cloudprofiles_is_installed_upgraded_rolled_back_and_uninstalled(
    values: str, install: Callable[[str], Release], cluster: Cluster, namespace: str
) -> None:
    """Its CRDs would have no webhook, or keep one that is gone."""
    release = install(values)
    release.upgrade()
    crd = "cloudprofiles.core.gardener.cloud"
    profiles = {f"cloudprofiles.{version}.core.gardener.cloud" for version in ("v1beta1", "v1beta2")}
    wait_for(lambda: cluster.get("crd", crd)["spec"]["conversion"]["webhook"]["clientConfig"].get("caBundle"), "no CA")
    for each in profiles:
        assert cluster.get(each)["items"] == []
    release.upgrade("--set", "logLevel=debug")
    assert release.log_levels() == {"debug"}
    release.roll_back(1)
    assert release.log_levels() == {"info"}
    for each in profiles:
        assert cluster.get(each)["items"] == []
    release.uninstall()
    assert release.left() == []
    assert cluster.get("crd", crd)["spec"]["conversion"] == {"strategy": "None"}
    cluster.kubectl("delete", "crd", "-l", f"app.kubernetes.io/instance={values}", "--wait")

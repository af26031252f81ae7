"""The rendered chart on a real API server: taken without a word, and admitted as restricted."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from restow.kube import PatchType, connect
from restow.kube.client import HttpCluster
from restow.kube.errors import Conflict, NotFound
from restow.kube.resources import CRDS, LEASES, NAMESPACES, Resource
from tests.apiserver.accounts import RESOURCES as RBAC
from tests.apiserver.kind import Kind, until
from tests.deploy.rendering import NAMESPACE, VALUES, Document, Helm, of_kind, templates, the

_ADMISSION = "admissionregistration.k8s.io"
PODS = Resource("", "v1", "pods", namespaced=True)
OTHERS = {
    "Certificate": Resource("cert-manager.io", "v1", "certificates", namespaced=True),
    "Issuer": Resource("cert-manager.io", "v1", "issuers", namespaced=True),
    "PrometheusRule": Resource("monitoring.coreos.com", "v1", "prometheusrules", namespaced=True),
    "ServiceMonitor": Resource("monitoring.coreos.com", "v1", "servicemonitors", namespaced=True),
}
RESOURCES = (
    RBAC
    | OTHERS
    | {
        "ConfigMap": Resource("", "v1", "configmaps", namespaced=True),
        "CustomResourceDefinition": CRDS,
        "Deployment": Resource("apps", "v1", "deployments", namespaced=True),
        "Job": Resource("batch", "v1", "jobs", namespaced=True),
        "Lease": LEASES,
        "MutatingWebhookConfiguration": Resource(_ADMISSION, "v1", "mutatingwebhookconfigurations", namespaced=False),
        "HorizontalPodAutoscaler": Resource("autoscaling", "v2", "horizontalpodautoscalers", namespaced=True),
        "Namespace": NAMESPACES,
        "NetworkPolicy": Resource("networking.k8s.io", "v1", "networkpolicies", namespaced=True),
        "PodDisruptionBudget": Resource("policy", "v1", "poddisruptionbudgets", namespaced=True),
        "Service": Resource("", "v1", "services", namespaced=True),
        "ValidatingWebhookConfiguration": Resource(
            _ADMISSION, "v1", "validatingwebhookconfigurations", namespaced=False
        ),
    }
)
STRICT = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "test", "force": "true"}


@pytest.fixture
async def restricted(cluster: HttpCluster) -> str:
    """A namespace that admits restricted pods only."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"metadata": {"name": NAMESPACE, "labels": labels}}
    with contextlib.suppress(Conflict):
        await cluster.create(NAMESPACES, json.dumps(body).encode())
    return NAMESPACE


@pytest.fixture(scope="module")
def others(kubeconfig: Path) -> Iterator[None]:
    """Kinds of cert-manager and Prometheus without a schema: their fields are checked by ``manifestcheck``.

    They are installed once for a file, because each removal is a wait: an API server retries one that failed with
    growing pauses, and a busy machine has such failures.
    """
    asyncio.run(install_others(kubeconfig))
    try:
        yield
    finally:
        asyncio.run(remove_others(kubeconfig))


async def install_others(kubeconfig: Path) -> None:
    """Create the CRDs of other projects, and wait until they are served."""
    async with connect(kubeconfig) as cluster:
        for kind, resource in OTHERS.items():
            names = {"plural": resource.plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
            schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            annotations = {"api-approved.kubernetes.io": "unapproved, test-only"}
            body = {
                "metadata": {"name": resource.full_name, "annotations": annotations},
                "spec": {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]},
            }
            await cluster.create(CRDS, json.dumps(body).encode())
        for resource in OTHERS.values():
            await until(lambda of=resource: served(cluster, of), f"{resource.full_name} is not served")


async def remove_others(kubeconfig: Path) -> None:
    """Delete the CRDs of other projects, and wait until they are gone."""
    async with connect(kubeconfig) as cluster:
        for resource in OTHERS.values():
            with contextlib.suppress(NotFound):
                await cluster.delete(CRDS, resource.full_name)
        for resource in OTHERS.values():
            await until(lambda of=resource: gone(cluster, of), f"{resource.full_name} stays")


async def gone(cluster: HttpCluster, crd: Resource) -> bool:
    """Whether a CRD is gone."""
    try:
        await cluster.get(CRDS, crd.full_name)
    except NotFound:
        return True
    return False


async def served(cluster: HttpCluster, resource: Resource) -> bool:
    """Whether it can be listed."""
    try:
        await cluster.list_page(resource, NAMESPACE)
    except Exception:  # noqa: BLE001 - whatever it is, not yet
        return False
    return True


async def dry_run(cluster: HttpCluster, document: Document) -> list[str]:
    """Apply something with strict validation, and without doing it; return the server's warnings.

    What another file's test installed for the whole cluster, such as a CRD of ours, may be there already.
    """
    resource = RESOURCES[document["kind"]]
    name = document["metadata"]["name"]
    namespace = document["metadata"].get("namespace") if resource.namespaced else None
    body = json.dumps(document).encode()
    reply = await cluster.patch(resource, name, body, namespace, patch_type=PatchType.APPLY, params=STRICT)
    return list(reply.warnings)


@pytest.mark.parametrize("values", VALUES, ids=lambda file: file.stem)
async def test_strict_validation_finds_nothing(
    values: Path, helm: Helm, cluster: HttpCluster, restricted: str, others: None
) -> None:
    """A misspelt field is ignored by Helm and dropped by the server: a probe or a policy that never was."""
    for document in helm.render("--values", values):
        assert await dry_run(cluster, document) == [], document["kind"]


@pytest.mark.parametrize("values", VALUES, ids=lambda file: file.stem)
async def test_pods_are_admitted_as_restricted(values: Path, helm: Helm, cluster: HttpCluster, restricted: str) -> None:
    """Pod Security's strictest profile, enforced by the server's own admission."""
    count = 0
    documents = helm.render("--values", values)
    for template in templates(documents):
        pod = {"metadata": template["metadata"] | {"name": "p"}, "spec": template["spec"]}
        assert (await cluster.create(PODS, json.dumps(pod).encode(), restricted, params=STRICT)).warnings == ()
        pod["spec"]["containers"][0]["securityContext"].pop("allowPrivilegeEscalation")
        with pytest.raises(Exception, match="violates PodSecurity"):
            await cluster.create(PODS, json.dumps(pod).encode(), restricted, params=STRICT)
        count += 1
    assert count == len(of_kind(documents, "Job", "Deployment")) > 0


async def test_strict_validation_would_find_something(helm: Helm, cluster: HttpCluster, restricted: str) -> None:
    """The proof that the tests above can fail."""
    values = next(file for file in VALUES if file.stem == "migration-job")
    job = the(helm.render("--values", values), "Job")
    job["spec"]["podFailurePolicy"]["rulez"] = []
    with pytest.raises(Exception, match="rulez"):
        await dry_run(cluster, job)


@pytest.fixture
async def due(kind: Kind) -> Kind:
    """Objects stored and owned at v1alpha1; v1beta1 has become the storage version."""
    for number in range(8):
        await kind.apply(kind.manifest("v1alpha1", f"w{number}", spec={"size": number}), "alice")
    await kind.change(kind.document(storage="v1beta1"))
    return kind

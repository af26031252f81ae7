"""The rendered chart on a real API server: taken without a word, admitted as restricted, and its Job does its work."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from restow.controlplane.plane import ControlPlane
from restow.kube.client import HttpCluster
from restow.kube.errors import Conflict, NotFound
from restow.kube.resources import CRDS, LEASES, NAMESPACES, Resource
from restow.rbac import ServiceAccount
from tests.apiserver.accounts import RESOURCES as RBAC
from tests.apiserver.accounts import Account, Accounts
from tests.apiserver.kind import Kind, until
from tests.deploy.rendering import NAMESPACE, VALUES, Document, Helm, container, of_kind, templates, the
from tests.restow.commandline import Ran, restow

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
        "Namespace": NAMESPACES,
        "NetworkPolicy": Resource("networking.k8s.io", "v1", "networkpolicies", namespaced=True),
        "PodDisruptionBudget": Resource("policy", "v1", "poddisruptionbudgets", namespaced=True),
        "Service": Resource("", "v1", "services", namespaced=True),
        "ValidatingWebhookConfiguration": Resource(
            _ADMISSION, "v1", "validatingwebhookconfigurations", namespaced=False
        ),
    }
)
STRICT = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "test"}


@pytest.fixture
async def restricted(cluster: HttpCluster) -> str:
    """A namespace that admits restricted pods only."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"metadata": {"name": NAMESPACE, "labels": labels}}
    with contextlib.suppress(Conflict):
        await cluster.create(NAMESPACES, json.dumps(body).encode())
    return NAMESPACE


@pytest.fixture
async def others(cluster: HttpCluster) -> AsyncIterator[None]:
    """Kinds of cert-manager and Prometheus without a schema: their fields are checked by `manifestcheck`."""
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
    yield
    for resource in OTHERS.values():
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
    """Create something with strict validation, and without doing it; return the server's warnings."""
    resource = RESOURCES[document["kind"]]
    namespace = document["metadata"].get("namespace") if resource.namespaced else None
    return list((await cluster.create(resource, json.dumps(document).encode(), namespace, params=STRICT)).warnings)


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
    for template in templates(helm.render("--values", values)):
        pod = {"metadata": template["metadata"] | {"name": "p"}, "spec": template["spec"]}
        assert (await cluster.create(PODS, json.dumps(pod).encode(), restricted, params=STRICT)).warnings == ()
        pod["spec"]["containers"][0]["securityContext"].pop("allowPrivilegeEscalation")
        with pytest.raises(Exception, match="violates PodSecurity"):
            await cluster.create(PODS, json.dumps(pod).encode(), restricted, params=STRICT)
        count += 1
    assert count == 1


async def test_strict_validation_would_find_something(helm: Helm, cluster: HttpCluster, restricted: str) -> None:
    """The proof that the tests above can fail."""
    job = the(helm.render("--values", VALUES[0]), "Job")
    job["spec"]["podFailurePolicy"]["rulez"] = []
    with pytest.raises(Exception, match="rulez"):
        await dry_run(cluster, job)


@pytest.fixture
async def accounts(control_plane: ControlPlane, cluster: HttpCluster, tmp_path: Path) -> AsyncIterator[Accounts]:
    """Accounts of the test."""
    made = Accounts(control_plane, cluster, tmp_path)
    yield made
    await made.remove()


@pytest.fixture
async def due(kind: Kind) -> Kind:
    """Objects stored and owned at v1alpha1; v1beta1 has become the storage version."""
    for number in range(8):
        await kind.apply(kind.manifest("v1alpha1", f"w{number}", spec={"size": number}), "alice")
    await kind.change(kind.document(storage="v1beta1"))
    return kind


async def logged_in(accounts: Accounts, documents: Iterable[Document]) -> Account:
    """The account of rendered manifests, with the rights that they give it, for real."""
    mine = [each for each in documents if each["kind"] in RBAC and "custom-verbs" not in each["metadata"]["name"]]
    metadata = the(mine, "ServiceAccount")["metadata"]
    account = ServiceAccount(metadata["namespace"], metadata["name"])
    made = await accounts.bound(mine, account)
    for role in of_kind(mine, "ClusterRole", "Role"):
        await until(lambda of=role: in_force(accounts, made, of), "the rights are not in force")
    return made


async def in_force(accounts: Accounts, account: Account, role: Document) -> bool:
    """Whether the API server lets an account do what a role says."""
    from restow.rbac import Grant

    namespace = role["metadata"].get("namespace")
    grants = [
        Grant(rule["apiGroups"][0], resource, verb, "", rule.get("resourceNames", [""])[0], namespace)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    return all([await accounts.allowed(account, grant) for grant in grants])


async def run_pod(account: Account, document: Document, **environment: str) -> Ran:
    """The command of a workload's container, as its ServiceAccount, outside of a pod."""
    arguments = container(document)["args"]
    return await asyncio.to_thread(restow, *arguments, kubeconfig=account.kubeconfig, environment=environment)


async def test_the_job_does_its_work(
    helm: Helm, accounts: Accounts, due: Kind, cluster: HttpCluster, restricted: str
) -> None:
    """The very command, rights and account that the chart installs: migrated and pruned."""
    documents = helm.render("--set", f"migration.enabled=true,migration.crds={{{due.name}}}")
    ran = await run_pod(await logged_in(accounts, documents), the(documents, "Job"))
    assert ran.code == 0, ran.err
    assert (ran.json["crds"][0]["warnings"], ran.json["crds"][0]["notSeen"]) == ([], [])
    assert ran.json["crds"][0]["objects"]["rewritten"] == 8
    assert await due.stored_versions() == ["v1beta1"]


async def test_the_indexed_job_does_its_work(helm: Helm, accounts: Accounts, due: Kind, restricted: str) -> None:
    """Each completion does a part, under the same account; the last one prunes."""
    flags = f"migration.enabled=true,migration.crds={{{due.name}}},migration.shards=3"
    documents = helm.render("--set", flags)
    job, account = the(documents, "Job"), await logged_in(accounts, documents)
    reports: list[Any] = []
    for index in range(job["spec"]["completions"]):
        assert await due.stored_versions() == ["v1alpha1", "v1beta1"]
        ran = await run_pod(account, job, JOB_COMPLETION_INDEX=str(index))
        assert ran.code == 0, ran.err
        reports += ran.json["crds"]
    assert sum(each["objects"]["rewritten"] for each in reports) == 8
    assert max(each["objects"]["rewritten"] for each in reports) < 8
    assert await due.stored_versions() == ["v1beta1"]
    assert {found["apiVersion"] for found in (await due.stored()).values()} == {f"{due.group}/v1beta1"}


async def test_a_job_that_is_refused_says_so_by_its_code(helm: Helm, accounts: Accounts, restricted: str) -> None:
    """podFailurePolicy ends the Job on exit code 2: a CRD that is not there is no matter of trying again."""
    documents = helm.render("--set", "migration.enabled=true,migration.crds={gone.example.com}")
    ran = await run_pod(await logged_in(accounts, documents), the(documents, "Job"))
    assert ran.code == 2
    rules = the(documents, "Job")["spec"]["podFailurePolicy"]["rules"]
    (rule,) = (each for each in rules if ran.code in each.get("onExitCodes", {}).get("values", ()))
    assert rule["action"] == "FailJob"

"""Helm against a real API server: every values file of the documentation is installed and upgraded, with its hooks.

There are no nodes, so the pods of Jobs are processes (tests/deploy/kubelet.py); Helm itself waits for them, and ends as
it would in a cluster. The server takes Deployments, which stay without pods.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from restow.cloudprofile.objects import CLOUD_PROFILES, NAMESPACED_CLOUD_PROFILES, SHOOTS
from restow.controlplane.plane import ControlPlane
from restow.conversion.certificates.ca.store import SECRETS
from restow.conversion.operate.admission import configuration
from restow.conversion.operate.declarations import Declarations, declaration_name, digest_of
from restow.conversion.operate.revisions import CONFIGURATION, FINALIZER, record_name
from restow.crds import cloudprofiles, conversionrules
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import PatchType
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError, NotFound
from restow.kube.resources import CONFIG_MAPS, CRDS, LEASES
from restow.operator.process import install_crds
from restow.rbac import ServiceAccount
from tests.apiserver.accounts import Account, Accounts
from tests.apiserver.kind import Kind, until
from tests.apiserver.operators import CONFIGURATIONS, Operator
from tests.apiserver.provider import GATEWAYS, Provider
from tests.apiserver.test_conversions_in_cluster import Jobs
from tests.apiserver.test_install_crds import aggregated
from tests.deploy.kubelet import JOBS, Kubelet, kubelet
from tests.deploy.rendering import CHART, ROOT, VALUES, Helm, container, of_kind, the
from tests.deploy.test_chart_applied import RESOURCES, due, gone, others, restricted

__all__ = ["due", "others", "restricted"]  # fixtures

PROVIDER = ROOT / "docs" / "examples" / "provider"
OF_FILE = {
    "migration-indexed-job": ("--set", "migration.shards=2"),  # a process each
    "webhook-own-ca": (
        *("--set-file", f"webhook.files.conversions\\.py={PROVIDER / 'conversions.py'}"),
        *("--set-file", f"webhook.files.manifests/gateways\\.yaml={PROVIDER / 'manifests' / 'gateways.yaml'}"),
        *("--set-file", f"webhook.files.manifests/caches\\.yaml={PROVIDER / 'manifests' / 'caches.yaml'}"),
    ),
    "webhook-rules": (
        *("--set-file", f"webhook.files.conversions\\.yaml={PROVIDER / 'conversions.yaml'}"),
        *("--set-file", f"webhook.files.gateways\\.yaml={PROVIDER / 'manifests' / 'gateways.yaml'}"),
        *("--set-file", f"webhook.files.caches\\.yaml={PROVIDER / 'manifests' / 'caches.yaml'}"),
    ),
}
MIGRATIONS = [file for file in VALUES if "migration" in yaml.safe_load(file.read_text())]

KEPT = (CLOUD_PROFILES, NAMESPACED_CLOUD_PROFILES, SHOOTS, CONVERSION_RULES)


class Release:
    """A release of the chart in the namespace of restricted pods."""

    def __init__(self, helm: Helm, plane: ControlPlane, namespace: str, home: Path) -> None:
        self._helm = helm
        self._to = ("--kubeconfig", plane.kubeconfig, "--namespace", namespace)
        self._home = home
        self.name = ""

    async def run(self, *arguments: str | Path, code: int = 0) -> str:
        """Run Helm."""
        return await asyncio.to_thread(self._helm.run, *arguments, *self._to, code=code, home=self._home)

    async def upgrade(self, values: Path, *flags: str | Path, code: int = 0) -> str:
        """The command of the documentation."""
        self.name = values.stem
        more = OF_FILE.get(values.stem, ())
        upgrade = ("upgrade", "--install", self.name, CHART, "--values", values, "--timeout", "2m")
        return await self.run(*upgrade, *more, *flags, code=code)

    async def documents(self) -> list[dict[str, Any]]:
        """What Helm believes to be there, but for hooks."""
        return [each for each in yaml.safe_load_all(await self.run("get", "manifest", self.name)) if each]

    async def uninstall(self, *flags: str, code: int = 0) -> str:
        """Take it away; without a release there is nothing to do."""
        said = await self.run("uninstall", self.name, *flags, code=code) if self.name else ""
        self.name = self.name if code else ""
        return said


@pytest.fixture
async def release(
    helm: Helm, control_plane: ControlPlane, cluster: HttpCluster, restricted: str, tmp_path: Path
) -> AsyncIterator[Release]:
    """None yet; none in the end, nor what a release leaves on purpose."""
    made = Release(helm, control_plane, restricted, tmp_path)
    yield made
    await made.uninstall("--no-hooks")
    for each in KEPT:
        with suppress(NotFound):
            await cluster.delete(CRDS, each.full_name)
        await until(lambda of=each: gone(cluster, of), f"{each.full_name} stays")
    for job in (await cluster.list_page(JOBS, restricted)).json()["items"]:
        body = b'{"propagationPolicy": "Background"}'
        await cluster.delete(JOBS, job["metadata"]["name"], restricted, body=body)


@pytest.fixture
async def jobs(control_plane: ControlPlane, cluster: HttpCluster, tmp_path: Path) -> AsyncIterator[Kubelet]:
    """Jobs run."""
    async with kubelet(control_plane, cluster, tmp_path) as running:
        yield running


@pytest.mark.parametrize("values", MIGRATIONS, ids=lambda file: file.stem)
async def test_the_job_migrates_at_installation_and_upgrade(
    values: Path, release: Release, due: Kind, jobs: Kubelet
) -> None:
    """Helm would end without a Job, before it, or with one that its rights do not let finish."""
    crds = ("--set", f"migration.crds={{{due.name}}}")
    waits = yaml.safe_load(values.read_text())["migration"].get("hook", True)
    await release.upgrade(values, *crds)
    if not waits:
        await until(jobs.idle, "the Job does not end")
    assert [ran.err for _, ran in jobs.ran if ran.code] == []
    reports = [ran.json["crds"][0] for _, ran in jobs.ran]
    assert sum(each["objects"]["rewritten"] for each in reports) == 8
    assert {key: each[key] for each in reports for key in ("warnings", "notSeen")} == {"warnings": [], "notSeen": []}
    assert {found["apiVersion"] for found in (await due.stored()).values()} == {f"{due.group}/v1beta1"}
    assert await due.stored_versions() == ["v1beta1"]
    shards = len(reports)
    await due.change(due.document(storage="v1alpha1"))
    assert await due.stored_versions() == ["v1beta1", "v1alpha1"]
    await release.upgrade(values, *crds, "--set", "logLevel=debug")
    if not waits:
        await until(jobs.idle, "the next revision's Job does not end")
    assert len(jobs.ran) == 2 * shards
    assert [ran.err for _, ran in jobs.ran if ran.code] == []
    assert await due.stored_versions() == ["v1alpha1"]


async def test_a_hook_that_is_refused_ends_helm_at_once(release: Release, jobs: Kubelet) -> None:
    """podFailurePolicy ends the Job on exit code 2: a CRD that is not there is no matter of trying again."""
    values = next(file for file in MIGRATIONS if file.stem == "migration-job")
    said = await release.upgrade(values, "--set", "migration.crds={gone.example.com}", code=1)
    assert "post-install" in said
    assert [ran.code for _, ran in jobs.ran] == [2]


async def test_what_serves_is_installed_and_upgraded(
    release: Release, cluster: HttpCluster, others: None, jobs: Kubelet
) -> None:
    """An upgrade that changes what cannot be changed, or takes what another release has, fails there alone."""
    for values in (file for file in VALUES if file not in MIGRATIONS):
        await release.upgrade(values)
        await release.upgrade(values, "--set", "logLevel=debug", "--set-string", "commonLabels.tier=edge")
        documents = await release.documents()
        assert documents
        for document in documents:
            resource, metadata = RESOURCES[document["kind"]], document["metadata"]
            found = (await cluster.get(resource, metadata["name"], metadata.get("namespace"))).json()
            assert found["metadata"]["labels"]["tier"] == "edge", (values.stem, document["kind"])
        status = json.loads(await release.run("status", release.name, "-o", "json"))
        assert (status["version"], status["info"]["status"]) == (2, "deployed")
        await release.uninstall()
        for each in KEPT:
            with suppress(NotFound):
                await cluster.delete(CRDS, each.full_name)
            await until(lambda of=each: gone(cluster, of), f"{each.full_name} stays")
    assert {name.rpartition("-")[2] for name, _ in jobs.ran} == {"unwire"}
    assert [ran.err for _, ran in jobs.ran if ran.code] == []


async def test_an_uninstall_stops_while_objects_need_the_webhook(
    release: Release, cluster: HttpCluster, restricted: str, jobs: Kubelet
) -> None:
    """Uninstalled nevertheless, the objects and their namespaces would be hostages of a webhook that is gone."""
    provider = Provider(cluster)
    (values,) = (file for file in VALUES if file.stem == "webhook-own-ca")
    try:
        await provider.create_crd(GATEWAYS)
        await provider.create(GATEWAYS, "v1", "a", {"hosts": ["a"]})
        await release.upgrade(values)
        service = {"namespace": restricted, "name": the(await release.documents(), "Service")["metadata"]["name"]}
        called = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
        body = json.dumps({"spec": {"conversion": {"strategy": "Webhook", "webhook": called}}}).encode()
        await cluster.patch(CRDS, GATEWAYS, body, patch_type=PatchType.MERGE)
        await release.uninstall(code=1)
        (_, refused), *_ = jobs.ran
        assert refused.code == 3 and f"get {GATEWAYS} default/a: " in refused.err, refused.err
        assert (await provider.crd(GATEWAYS))["spec"]["conversion"]["strategy"] == "Webhook"
        await provider.delete(GATEWAYS, "v1", "a")
        await release.uninstall()
        assert (await provider.crd(GATEWAYS))["spec"]["conversion"] == {"strategy": "None"}
    finally:
        await provider.remove()


async def test_the_operator_of_rules_runs_as_installed(
    release: Release, control_plane: ControlPlane, cluster: HttpCluster, restricted: str, tmp_path: Path
) -> None:
    """A right or a flag that the chart lacks stops the gates; no Service is routed here, so Wired alone stays open."""
    jobs = Jobs(cluster, "helm.example.com")
    await cluster.create(CRDS, json.dumps(jobs.crd()).encode())
    try:
        await jobs.served()
        await jobs.create("v1", "a", timeout="1m30s")
        (values,) = (file for file in VALUES if file.stem == "conversions")
        await release.upgrade(values, "--set", f"conversions.targets={{{jobs.name}}}")
        deployment = the(await release.documents(), "Deployment")
        name = deployment["spec"]["template"]["spec"]["serviceAccountName"]
        account = Account(ServiceAccount(restricted, name), tmp_path / "account.kubeconfig")
        await Accounts(control_plane, cluster, tmp_path).log_in(account)
        command, *flags = container(deployment)["args"]
        assert command == "operator"
        operator = await Operator.start(*flags, "--port=0", f"--kubeconfig={account.kubeconfig}")
        try:
            # No API server reaches the admission step: the test records what it would answer.
            document = (await cluster.create(CONVERSION_RULES, json.dumps(jobs.rules()).encode())).json()
            uid, answers = document["metadata"]["uid"], Declarations(cluster, restricted)
            await answers.add(jobs.name, digest_of(document), uid, jobs.name, "somebody")
            label = b'{"metadata": {"labels": {"looked": "again"}}}'
            await cluster.patch(CONVERSION_RULES, jobs.name, label, patch_type=PatchType.MERGE)
            await jobs.condition("Serving", "True")
            assert (await jobs.condition("Wired", "False"))["reason"] == "Wiring"
            assert await operator.ready()
        finally:
            await operator.stop()
        assert not [line for line in operator.log if "forbidden" in line]
    finally:
        await jobs.remove()
        with suppress(NotFound):
            await cluster.delete(CONFIG_MAPS, record_name(jobs.name), restricted)
        with suppress(NotFound):
            await cluster.delete(CONFIG_MAPS, declaration_name(jobs.name), restricted)
        for resource, kept in (
            (SECRETS, "conversions-restow-conversions"),
            (SECRETS, "conversions-restow-conversions-ca"),
            (LEASES, "restow-operator-conversions"),
        ):
            with suppress(NotFound):
                await cluster.delete(resource, kept, restricted)
        with suppress(NotFound):
            await cluster.delete(CONFIGURATIONS[1], CONFIGURATION)


async def test_a_crd_that_is_there_is_no_obstacle(
    release: Release, control_plane: ControlPlane, cluster: HttpCluster, helm: Helm, tmp_path: Path
) -> None:
    """CRDs stay on purpose, so the second installation of all must not need what docs/deploying.md says of others."""
    (values,) = (file for file in VALUES if file.stem == "conversions")
    await install_crds(cluster, [conversionrules.document()])
    await release.upgrade(values)
    assert of_kind(await release.documents(), "CustomResourceDefinition") == []
    await release.upgrade(values, "--set", "logLevel=debug")
    await release.uninstall("--no-hooks")

    await cluster.delete(CRDS, conversionrules.NAME)
    await until(lambda: gone(cluster, CONVERSION_RULES), "the CRD stays")
    await release.upgrade(values)
    await release.upgrade(values, "--set", "logLevel=debug")
    assert the(await release.documents(), "CustomResourceDefinition")["metadata"]["name"] == conversionrules.NAME
    await release.uninstall("--no-hooks")
    other = Release(helm, control_plane, "default", tmp_path)
    try:
        await other.upgrade(values)
        assert of_kind(await other.documents(), "CustomResourceDefinition") == []
    finally:
        await other.uninstall("--no-hooks")


@pytest.mark.parametrize("mode", ["conversions", "operator-cert-manager"])
async def test_another_crd_is_taken_when_helm_is_told_so(
    mode: str, release: Release, cluster: HttpCluster, others: None
) -> None:
    """A CRD of other versions cannot stay as it is, and the flags of docs/deploying.md are the only way on."""
    (values,) = (file for file in VALUES if file.stem == mode)
    crds = [conversionrules.document()] if mode == "conversions" else list(cloudprofiles.documents().values())
    for crd in crds:
        crd["spec"]["versions"][0]["additionalPrinterColumns"] = []
    await install_crds(cluster, crds)
    refused = await release.upgrade(values, code=1)
    assert "exists and cannot be imported into the current release" in refused
    refused = await release.upgrade(values, "--take-ownership", code=1)
    assert 'with "restow-operator"' in refused, refused
    await release.upgrade(values, "--take-ownership", "--force-conflicts")
    found = (await cluster.get(CRDS, crds[0]["metadata"]["name"])).json()
    assert found["spec"]["versions"][0]["additionalPrinterColumns"]


@pytest.mark.parametrize(
    ("mode", "service"), [("operator", "v1beta1.core.gardener.cloud"), ("conversions", "v1.restow.dev")]
)
async def test_a_group_of_another_server_is_refused(
    mode: str, service: str, release: Release, cluster: HttpCluster
) -> None:
    """As Gardener's: the CRDs would hide its Shoots, and namespaces would be deleted without them."""
    (values,) = (file for file in VALUES if file.stem == mode)
    async with aggregated(cluster, service):
        said = await release.upgrade(values, code=1)
        release.name = ""  # there is none
    assert f"the APIService {service} hands the group" in said and "Service garden/gardener-apiserver" in said, said
    installed = {each["metadata"]["name"] for each in (await cluster.list_page(CRDS)).json()["items"]}
    assert not installed & {each.full_name for each in KEPT}


async def test_an_uninstall_stops_while_rules_need_their_operator(
    release: Release, cluster: HttpCluster, restricted: str, jobs: Kubelet
) -> None:
    """Without the operator nobody takes the finalizer off, and neither rules nor their CRD could be deleted."""
    (values,) = (file for file in VALUES if file.stem == "conversions")
    kind = Jobs(cluster, "uninstall.example.com")
    await release.upgrade(values)
    name = the(await release.documents(), "Service")["metadata"]["name"]
    asked = configuration({"service": {"namespace": restricted, "name": name, "path": "/admit/conversionrules"}})
    await until(lambda: served(cluster), "the CRD is not served")
    try:
        rules = kind.rules()
        rules["metadata"]["finalizers"] = [FINALIZER]
        await cluster.create(CONVERSION_RULES, json.dumps(rules).encode())
        await cluster.create(CONFIGURATIONS[1], json.dumps(asked).encode())  # which no pod answers
        await release.uninstall(code=1)
        (_, refused), *_ = jobs.ran
        assert refused.code == 3 and f"run kubectl delete conversionrules {kind.name} first" in refused.err, refused.err
        await kind.remove()
        await release.uninstall()
        assert [ran.err for _, ran in jobs.ran[1:] if ran.code] == []
    finally:
        await kind.remove()
        with suppress(NotFound):
            await cluster.delete(CONFIGURATIONS[1], CONFIGURATION)


async def served(cluster: HttpCluster) -> bool:
    """Whether ConversionRules can be listed."""
    try:
        await cluster.list_page(CONVERSION_RULES)
    except ApiError:
        return False
    return True

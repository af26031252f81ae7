"""``restow operator`` as the service account of docs/operator.md, with the rights that stand there and no other."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from restow.controlplane.plane import ControlPlane
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import AlreadyExists
from restow.kube.resources import CRDS, NAMESPACES, Resource
from restow.migrator import read_crd
from restow.migrator.operate.references import NO_REFERENCES
from tests.apiserver.kind import Document, until
from tests.apiserver.operators import CONFIGURATIONS, ROOT, bundles, operators
from tests.apiserver.profile_controllers import World

PROFILES = "cloudprofiles.core.gardener.cloud"
NAMESPACE, ACCOUNT = "restow-system", "restow-operator"
RBAC = "rbac.authorization.k8s.io"
RESOURCES = {
    "ServiceAccount": Resource("", "v1", "serviceaccounts", namespaced=True),
    "ClusterRole": Resource(RBAC, "v1", "clusterroles", namespaced=False),
    "ClusterRoleBinding": Resource(RBAC, "v1", "clusterrolebindings", namespaced=False),
    "Role": Resource(RBAC, "v1", "roles", namespaced=True),
    "RoleBinding": Resource(RBAC, "v1", "rolebindings", namespaced=True),
}


def documented() -> list[Document]:
    """The objects of docs/operator.md."""
    text = (ROOT / "docs" / "operator.md").read_text(encoding="utf-8")
    (block,) = (each for each in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "kind: ClusterRole" in each)
    return list(yaml.safe_load_all(block))


@pytest.fixture
async def account(control_plane: ControlPlane, cluster: HttpCluster, tmp_path: Path) -> AsyncIterator[Path]:
    """A kubeconfig of the documented service account."""
    with suppress(AlreadyExists):
        await cluster.create(NAMESPACES, json.dumps({"metadata": {"name": NAMESPACE}}).encode())
    documents = documented()
    for each in documents:
        await cluster.create(RESOURCES[each["kind"]], json.dumps(each).encode(), each["metadata"].get("namespace"))
    token = Resource("", "v1", f"serviceaccounts/{ACCOUNT}/token", namespaced=True)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    issued = (await cluster.create(token, json.dumps(request).encode(), NAMESPACE)).json()
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(kubeconfig_of(control_plane, issued["status"]["token"])))
    yield file
    for each in reversed(documents):
        metadata = each["metadata"]
        await cluster.delete(RESOURCES[each["kind"]], metadata["name"], metadata.get("namespace"))


def kubeconfig_of(plane: ControlPlane, token: str) -> Document:
    """As a pod would see the cluster."""
    ca = base64.b64encode(plane.ca_file.read_bytes()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": plane.server, "certificate-authority-data": ca}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
        "current-context": "x",
    }


async def test_the_documented_rights_are_enough(cluster: HttpCluster, account: Path, tmp_path: Path) -> None:
    """People copy them: a right too few stops one part of many, months later."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("controllers: {cloudProfile: {kubernetesVersionManagement: {enabled: true}}}")
    async with operators(cluster) as starter:
        starter.namespace = NAMESPACE
        flags = ("--install-crds", "--maintain-shoots", "--apply-management", f"--management={policy}")
        operator = await starter.start(account, *flags, "--migrate=family", "--references-every=1")
        await until(lambda: bundles(cluster), "CRDs and configurations do not name the operator")
        await until(operator.leads, "it does not lead")
        world = World(cluster)
        await world.profile("a", *({"version": version} for version in ("1.30.5", "1.30.6")))
        await until(lambda: managed(world), "the policy is not applied")
        await world.child("b", "a", kubernetes={"versions": overrides("1.30.6")})  # a right of its author is reviewed
        await until(lambda: rendered(world), "it is not rendered")
        await world.shoot("s", "CloudProfile", "a", kubernetes={"version": "1.30.5"})
        now = b'{"metadata": {"annotations": {"gardener.cloud/operation": "maintain"}}}'  # else at a time of its own
        await cluster.patch(world.api.at("Shoot"), "s", now, "default", patch_type=PatchType.MERGE)
        await until(lambda: moved(world), "the Shoot is not maintained")
        for kind in ("NamespacedCloudProfile", "CloudProfile"):
            found = await world.get(kind, "b" if kind.startswith("N") else "a")
            await world.api.delete(found | {"kind": kind})
        body = b'{"status": {"storedVersions": ["v1beta1", "v1beta2"]}}'
        await cluster.patch(CRDS, PROFILES, body, patch_type=PatchType.MERGE, subresource="status")
        await until(lambda: pruned(cluster), "storedVersions is not pruned")
        await until(lambda: looked_everywhere(cluster), "references are not looked for everywhere")
        await cluster.delete(CONFIGURATIONS[0], "restow-cloudprofile")
        await until(lambda: reinstalled(cluster), "the configuration does not come back")
        _, metrics = await operator.get("/metrics")
        assert not re.search(r'_total{[^}]*result="failed"[^}]*} [1-9]', metrics)
        assert await operator.stop() == 0
        assert not [line for line in operator.log if re.search("forbidden|cannot|WARNING|ERROR", line)], operator.log


def overrides(*versions: str) -> Sequence[Document]:
    """Versions of a NamespacedCloudProfile that live longer."""
    expired = {"classification": "expired", "startTime": "2998-01-01T00:00:00Z"}
    return [{"version": version, "lifecycle": [expired]} for version in versions]


async def managed(world: World) -> bool:
    """Whether the older version is deprecated by the policy."""
    versions = (await world.get("CloudProfile", "a"))["spec"]["kubernetes"]["versions"]
    return any(each["classification"] == "deprecated" for one in versions for each in one.get("lifecycle", ()))


async def rendered(world: World) -> bool:
    """Whether the NamespacedCloudProfile says what it offers."""
    return "cloudProfileSpec" in (await world.get("NamespacedCloudProfile", "b")).get("status", {})


async def moved(world: World) -> bool:
    """Whether the Shoot is at the newer version."""
    return (await world.get("Shoot", "s"))["spec"]["kubernetes"]["version"] == "1.30.6"


async def pruned(cluster: HttpCluster) -> bool:
    """Whether the migrator has done its work."""
    return (await cluster.get(CRDS, PROFILES)).json()["status"]["storedVersions"] == ["v1beta2"]


async def looked_everywhere(cluster: HttpCluster) -> bool:
    """Whether the condition says that nothing names the old version, and nothing was left out."""
    found = (await read_crd(cluster, PROFILES)).conditions.get(NO_REFERENCES)
    return found is not None and found.reason == "NoneFound"


async def reinstalled(cluster: HttpCluster) -> bool:
    """Whether both configurations are there again."""
    return bool(await bundles(cluster))

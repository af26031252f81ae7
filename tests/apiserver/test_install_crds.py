"""``restow operator`` where another API server serves the group of the CRDs, as on a cluster that runs Gardener."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from restow.controlplane.binaries import find_binaries
from restow.controlplane.plane import ControlPlane
from restow.conversion.operate.revisions import CONFIGURATION as RULES_CONFIGURATION
from restow.crds import cloudprofiles, conversionrules
from restow.crds.aggregation import API_SERVICES
from restow.kube.client import HttpCluster
from restow.kube.resources import CRDS
from restow.operator.family import CONFIGURATION
from tests.apiserver.access import Access, Right
from tests.apiserver.operators import CONFIGURATIONS
from tests.restow.commandline import Ran, restow

FAMILY = tuple(cloudprofiles.documents())
URL = "https://127.0.0.1:9"


@asynccontextmanager
async def aggregated(cluster: HttpCluster, name: str) -> AsyncIterator[None]:
    """An APIService of a Service, which need not be there."""
    version, _, group = name.partition(".")
    spec: dict[str, Any] = {"group": group, "version": version, "groupPriorityMinimum": 10000, "versionPriority": 20}
    spec |= {"service": {"namespace": "garden", "name": "gardener-apiserver"}, "insecureSkipTLSVerify": True}
    body = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}, "spec": spec}
    await cluster.create(API_SERVICES, json.dumps(body).encode())
    try:
        yield
    finally:
        await cluster.delete(API_SERVICES, name)


async def run(kubeconfig: Path, *flags: str) -> Ran:
    """Start an operator that is to refuse."""
    always = (f"--own-ca={URL}", "--port=0", "--metrics-port=0")
    return await asyncio.to_thread(restow, "operator", *always, *flags, kubeconfig=kubeconfig)


async def installed(cluster: HttpCluster) -> set[str]:
    """The names of the CRDs."""
    return {each["metadata"]["name"] for each in (await cluster.list_page(CRDS)).json()["items"]}


@pytest.mark.parametrize(
    ("service", "flags", "crds"),
    [
        ("v1beta1.core.gardener.cloud", (), FAMILY),
        ("v1beta1.core.gardener.cloud", ("--install-crds",), FAMILY),
        ("v1.restow.dev", ("--install-crds", "--conversions"), (conversionrules.NAME,)),
    ],
)
async def test_a_group_that_another_server_serves_is_left_alone(
    cluster: HttpCluster, kubeconfig: Path, service: str, flags: Sequence[str], crds: Sequence[str]
) -> None:
    """Gardener's Shoots would vanish from kubectl, and namespaces be deleted while their Shoots live on.

    Its API server would ask restow's admission about each write of them, and fail without an answer.
    """
    before = await installed(cluster)  # an earlier test may have left them
    async with aggregated(cluster, service):
        refusal = (await run(kubeconfig, *flags)).refusal
    assert f"APIService {service} " in refusal and "Service garden/gardener-apiserver" in refusal, refusal
    assert {*crds} & await installed(cluster) <= before
    for configurations in CONFIGURATIONS:
        found = {each["metadata"]["name"] for each in (await cluster.list_page(configurations)).json()["items"]}
        assert not found & {CONFIGURATION, RULES_CONFIGURATION}


async def test_the_look_before_a_plain_apply(cluster: HttpCluster, kubeconfig: Path) -> None:
    """docs/cloudprofile.md has the command for whoever applies the manifests without restow."""
    text = (Path(__file__).parents[2] / "docs" / "cloudprofile.md").read_text()
    (words,) = re.findall(r"^\$ kubectl (get apiservices .*)$", text, re.MULTILINE)
    kubectl = (await find_binaries(("kubectl",)))["kubectl"]

    def groups() -> list[str]:
        command = (kubectl, *shlex.split(words), f"--kubeconfig={kubeconfig}")
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert "core.gardener.cloud" not in await asyncio.to_thread(groups)
    async with aggregated(cluster, "v1beta1.core.gardener.cloud"):
        assert "core.gardener.cloud" in await asyncio.to_thread(groups)


@pytest.mark.parametrize("flags", [(), ("--install-crds",)])
async def test_who_may_not_look_installs_nothing(
    cluster: HttpCluster, access: Access, control_plane: ControlPlane, flags: Sequence[str]
) -> None:
    """Without the right, nobody knows whether objects of another server would be lost."""
    before = await installed(cluster)
    user = await access.user("blind", Right(CRDS.group, CRDS.plural, ("get", "list", "patch", "create")))
    refusal = (await run(user.kubeconfig, *flags)).refusal
    assert f'cannot list resource "apiservices" in API group "{API_SERVICES.group}"' in refusal, refusal
    assert "By this right the operator sees whether another API server serves the group" in refusal, refusal
    assert {*FAMILY} & await installed(cluster) <= before

"""Rights that ``restow operator --conversions`` lacks stand in the conditions of the rules, on a real API server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from restow.controlplane.plane import ControlPlane
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import PatchType
from restow.kube.client import HttpCluster
from restow.kube.errors import NotFound
from restow.kube.resources import CRDS
from restow.rbac import Asked, Command, Grant, grants, manifests, plain
from tests.apiserver.accounts import RESOURCES, Account, Accounts
from tests.apiserver.kind import until
from tests.apiserver.operators import CONFIGURATIONS
from tests.apiserver.test_conversions_in_cluster import Jobs, Replicas, keeping


@pytest.fixture
async def accounts(control_plane: ControlPlane, cluster: HttpCluster, tmp_path: Path) -> AsyncIterator[Accounts]:
    """Accounts of the test."""
    made = Accounts(control_plane, cluster, tmp_path)
    yield made
    await made.remove()


@pytest.mark.parametrize(
    ("resource", "verb", "gate"),
    [
        ("customresourcedefinitions", "watch", "Analyzed"),
        ("leases", "list", "Serving"),
        ("configmaps", "patch", "Rehearsed"),
        ("customresourcedefinitions", "patch", "Wired"),
        ("validatingwebhookconfigurations", "patch", "Wired"),
    ],
)
async def test_a_missing_right_is_the_reason_of_a_gate(
    accounts: Accounts, cluster: HttpCluster, group: str, resource: str, verb: str, gate: str
) -> None:
    """Who applies rules cannot read the operator's log: rules that stay closed without a reason look broken."""
    jobs = Jobs(cluster, group)
    asked = Asked(
        crds=(jobs.name,), own_ca=("default", "restow-webhook"), installs_crds=True, refuses_unconvertible=True
    )
    rights = grants([Command.CONVERSIONS], asked)
    about = {jobs.name, f"refuse-unconvertible.{jobs.name}", ""}
    lacking = [each for each in rights if (each.resource, each.verb) != (resource, verb) or each.name not in about]
    account = await accounts.granted(lacking, f"without-{resource}-{verb}")
    await cluster.create(CRDS, json.dumps(jobs.crd()).encode())
    await jobs.served()
    replicas = Replicas(account.kubeconfig)
    try:
        await replicas.start("--refuse-unconvertible")
        await jobs.declare(keeping(jobs))
        told = await refused(jobs, gate)
        assert f'cannot {verb} resource "{resource}"' in told
        assert "`restow rbac --for 'operator --conversions'` prints all that it needs" in told
        await widen(accounts, account, rights)
        label = b'{"metadata": {"labels": {"looked": "again"}}}'
        await cluster.patch(CONVERSION_RULES, jobs.name, label, patch_type=PatchType.MERGE)
        await jobs.condition("Ready", "True")
    finally:
        await replicas.end(cluster)
        await jobs.remove()
        with suppress(NotFound):
            await cluster.delete(CONFIGURATIONS[1], f"refuse-unconvertible.{jobs.name}")


async def test_rules_for_a_crd_that_is_not_open_say_so(accounts: Accounts, cluster: HttpCluster, group: str) -> None:
    """The administrator opens CRDs one by one: rules for another one of the group must neither pass nor disturb."""
    jobs = Jobs(cluster, group)
    closed = jobs.crd()
    closed["metadata"]["name"] = f"aims.{group}"  # which is looked at first
    closed["spec"]["names"] = {"plural": "aims", "singular": "aim", "kind": "Aim", "listKind": "AimList"}
    asked = Asked(crds=(jobs.name,), own_ca=("default", "restow-webhook"), installs_crds=True)
    account = await accounts.granted(grants([Command.CONVERSIONS], asked), "open-for-one")
    for document in (jobs.crd(), closed):
        await cluster.create(CRDS, json.dumps(document).encode())
    replicas = Replicas(account.kubeconfig)
    try:
        await jobs.served()
        await replicas.start()
        other = f"aims.{group}"
        await jobs.declare(jobs.rules(name=other, target={"group": group, "kind": "Aim"}))
        told = await jobs.condition("Analyzed", "False", name=other)
        assert told["reason"] == "Forbidden"
        assert f'"{other}" is forbidden' in told["message"] and "conversions.targets" in told["message"]
        await jobs.declare(jobs.rules())
        await jobs.condition("Ready", "True")
    finally:
        await replicas.end(cluster)
        await jobs.remove()
        await cluster.delete(CRDS, closed["metadata"]["name"])


async def refused(jobs: Jobs, gate: str) -> str:
    """Wait until a gate, and Ready, are False for want of a right; return the gate's message."""
    found = ""

    async def said() -> bool:
        nonlocal found
        conditions = {each["type"]: each for each in (await jobs.status()).get("conditions") or ()}
        reasons = {type_: (each["status"], each["reason"]) for type_, each in conditions.items()}
        if reasons.get(gate) != ("False", "Forbidden"):
            return False
        assert reasons["Ready"] == ("False", "Forbidden")
        found = conditions[gate]["message"]
        return True

    await until(said, f"{gate} is not Forbidden: {await jobs.status()}")
    return found


async def widen(accounts: Accounts, account: Account, rights: Iterable[Grant]) -> None:
    """Give an account these rights, in the place of those that it has."""
    every = tuple(rights)
    for document in plain(manifests(every, f"test-{account.account.name}", account.account)):
        if document["kind"] in ("Role", "ClusterRole"):
            metadata, body = document["metadata"], json.dumps({"rules": document["rules"]}).encode()
            resource = RESOURCES[document["kind"]]
            await accounts.cluster.patch(
                resource, metadata["name"], body, metadata.get("namespace"), patch_type=PatchType.MERGE
            )
    for grant in every:
        await until(lambda right=grant: accounts.allowed(account, right), f"{grant} is not in force")

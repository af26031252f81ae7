"""CRDs on which no mark can be left: each command says why, and what it says to do works."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from pathlib import Path

import pytest

from restow.controlplane.binaries import find_binaries
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.resources import CRDS
from restow.migrator import read_crd
from restow.migrator.requests.preflight import rehearse_mark
from tests.apiserver.access import Access, on_crd, on_objects
from tests.apiserver.kind import Document, Kind, until
from tests.restow.commandline import Cli, restow

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MOST = 256 * 1024
"""Bytes of all annotations of an object, names included."""


@pytest.fixture
async def due(kind: Kind) -> Kind:
    """Two objects of alice at v1alpha1; v1beta1 has become the storage version."""
    await kind.populate(2)
    await kind.change(kind.document(storage="v1beta1"))
    return kind


async def annotate(kind: Kind, annotations: dict[str, str]) -> None:
    """Write annotations of the CRD."""
    body = json.dumps({"metadata": {"annotations": annotations}}).encode()
    await kind.cluster.patch(CRDS, kind.name, body, patch_type=PatchType.MERGE, params={"fieldManager": "kubectl"})


async def fill(kind: Kind, name: str) -> None:
    """Leave so little of the annotations free that the mark does not fit."""
    found: Document = (await kind.cluster.get(CRDS, kind.name)).json()["metadata"].get("annotations", {})
    used = sum(len(key) + len(value) for key, value in found.items()) + len(name)
    await annotate(kind, {name: "x" * (MOST - used - 100)})


async def sentences(cli: Cli, due: Kind) -> tuple[str, str, str]:
    """What plan, migrate and ready say about the mark, each with the exit code that fails a pipeline."""
    plan = await cli("plan", due.name, "-o", "json")
    (finding,) = [each for each in plan.json["crds"][0]["findings"] if each["severity"] == "error"]
    assert (plan.code, finding["check"]) == (1, "crd"), plan.out
    rehearsed = await cli("migrate", due.name, "--dry-run", "--settle", "0")
    assert rehearsed.code == 1 and finding["message"] in rehearsed.err, rehearsed.err
    ran = await cli("migrate", due.name, "--settle", "0", "-o", "json")
    (crd,) = ran.json["crds"]
    assert (ran.code, ran.json["result"]) == (1, "Failed"), ran.out
    ready = await cli("ready", due.name, "--drop", "v1alpha1", "-o", "json")
    assert ready.code == 3 and not ready.json["mayBeRemoved"], ready.out
    (reason,) = [each for each in ready.json["againstRemoval"] if "mark" in each]
    return finding["message"], crd["unmarked"], reason


async def assert_done(cli: Cli, due: Kind) -> None:
    """After the way out, one more run is enough."""
    assert (await cli("plan", due.name)).code == 3
    ran = await cli("migrate", due.name, "--settle", "0")
    assert ran.code == 0, ran.err
    ready = await cli("ready", due.name, "--drop", "v1alpha1")
    assert ready.code == 0, (ready.out, ready.err)


async def test_annotations_that_kubectl_apply_has_filled(due: Kind, cli: Cli, kubeconfig: Path) -> None:
    """An upgrade Job would be green, and the old version would stay for ever."""
    await fill(due, LAST_APPLIED)
    for said in await sentences(cli, due):
        assert "metadata.annotations: Too long" in said and "kubectl apply --server-side" in said, said
    found = re.search(r"\((kubectl annotate [^)]*)\)", said)
    assert found is not None
    binary = (await find_binaries(("kubectl",)))["kubectl"]
    _, *arguments = shlex.split(found[1])
    process = await asyncio.create_subprocess_exec(str(binary), "--kubeconfig", str(kubeconfig), *arguments)
    assert await process.wait() == 0
    await assert_done(cli, due)


async def test_annotations_of_others_are_named(due: Kind, cli: Cli) -> None:
    """The user would look for an annotation of kubectl that is not there."""
    await fill(due, "example.com/notes")
    for said in await sentences(cli, due):
        assert "example.com/notes is the largest" in said


async def test_a_policy_that_guards_the_crd(due: Kind, cli: Cli, access: Access, cluster: HttpCluster) -> None:
    """The Gateway API guards its CRDs so; the run can prune, and the mark is refused."""
    await access.guard_crd(due, "")
    for said in await sentences(cli, due):
        assert "this CRD is guarded" in said and "Exempt the user that migrates in the policy" in said
    assert await due.stored_versions() == ["v1beta1"]
    await access.remove()
    crd = await read_crd(cluster, due.name)

    async def exempt() -> bool:
        return await rehearse_mark(cluster, crd) == ""

    await until(exempt, "the policy is still in force")
    await assert_done(cli, due)


async def test_a_policy_that_guards_the_status(due: Kind, cli: Cli, access: Access) -> None:
    """Nothing would be pruned after hours of writes, and plan would have had no word about it."""
    await access.guard_crd(due, "status")
    plan = await cli("plan", due.name)
    assert plan.code == 1 and "status.storedVersions" in plan.err and "this CRD is guarded" in plan.err
    ran = await cli("migrate", due.name, "--settle", "0")
    assert ran.code == 1 and "could not be pruned" in ran.err


async def test_a_run_without_the_right_to_leave_its_mark_fails(due: Kind, cli: Cli, access: Access) -> None:
    """Exit code 0 would promise that restow ready can say yes."""
    rights = on_crd(due, "get"), on_crd(due, "patch", subresource="status"), on_objects(due, "list", "get", "patch")
    user = await access.user("unmarking", *rights)
    ran = await asyncio.to_thread(restow, "migrate", due.name, "--settle", "0", kubeconfig=user.kubeconfig)
    assert ran.code == 1 and "Grant the user that migrates the right to patch" in ran.err, ran.err
    assert await due.stored_versions() == ["v1beta1"]
    ready = await asyncio.to_thread(
        restow, "ready", due.name, "--drop", "v1alpha1", "--no-references", kubeconfig=user.kubeconfig
    )
    assert ready.code == 3 and f"run restow migrate {due.name}" in ready.out + ready.err


async def test_a_run_that_is_not_to_prune_warns_of_the_mark_alone(due: Kind, cli: Cli) -> None:
    """It is run for the objects; without the prune ready says no anyway."""
    await fill(due, LAST_APPLIED)
    assert (await cli("plan", due.name, "--skip-phase", "prune")).code == 3
    ran = await cli("migrate", due.name, "--no-prune", "--settle", "0", "-o", "json")
    assert (ran.code, ran.json["crds"][0]["unmarked"]) == (0, "")
    assert any("refuses restow's mark" in each for each in ran.json["crds"][0]["warnings"])

"""docs/howto/helm-argocd-flux.md: health checks, who writes what, and the CI job, on rules of a real operator."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from lupa import LuaRuntime

from restow.conversion.certificates.wiring.fieldmanagers import FIELD_MANAGER
from restow.conversion.rules.cel import CelFunction
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import PatchType
from restow.kube.client import HttpCluster
from restow.kube.resources import CRDS
from tests.apiserver.kind import Document
from tests.apiserver.operators import ROOT
from tests.apiserver.test_conversions_in_cluster import Jobs, Replicas, jobs, replicas
from tests.docs.blocks import parse

__all__ = ["jobs", "replicas"]  # fixtures

PAGE = "docs/howto/helm-argocd-flux.md"
SCRIPT = ROOT / "docs" / "examples" / "ci" / "check-conversions.sh"
ARGO, APPLICATION, FLUX, WORKFLOW = (
    yaml.safe_load(block.text)
    for block in parse(PAGE, (ROOT / PAGE).read_text(encoding="utf-8"))
    if block.language == "yaml" and block.directives["tested by"].endswith(Path(__file__).name)
)
WRONG = {
    "pair": {"spoke": "spec.timeoutSeconds", "hub": "spec.timeout", "up": "string(self) + 's'", "down": "int(self)"}
}


def argo_health(document: Document) -> str:
    """What Argo CD's health check says of an object."""
    (script,) = ARGO["data"].values()
    lua = LuaRuntime()
    lua.globals().obj = table(lua, document)
    return str(lua.execute(script)["status"])


def table(lua: Any, value: Any) -> Any:
    """A document as Lua has it."""
    if isinstance(value, dict):
        return lua.table_from({key: table(lua, each) for key, each in value.items()})
    if isinstance(value, list):
        return lua.table_from([table(lua, each) for each in value])
    return value


def flux_health(document: Document) -> str:
    """What Flux's expressions say of an object; they are asked in the order in which Flux asks."""
    (checks,) = FLUX["spec"]["healthCheckExprs"]
    assert (checks["apiVersion"], checks["kind"]) == (document["apiVersion"], document["kind"])
    for state in ("inProgress", "failed", "current"):
        expression = CelFunction(checks[state], ("status", "metadata"))
        assert expression.problem() == ""
        if expression(document.get("status") or {}, document["metadata"]):
            return state
    return "inProgress"


async def health(jobs: Jobs) -> tuple[str, str]:
    """What both tools say of the rules."""
    document = (await jobs.cluster.get(CONVERSION_RULES, jobs.name)).json()
    return argo_health(document), flux_health(document)


async def test_tools_see_how_far_rules_are(cluster: HttpCluster, jobs: Jobs, replicas: Replicas) -> None:
    """Rules that count as healthy at once let an application start that the API server cannot serve."""
    new = jobs.rules() | {"metadata": {"name": jobs.name, "generation": 1}}
    assert (argo_health(new), flux_health(new)) == ("Progressing", "inProgress")
    await jobs.create("v1", "odd", timeout="1m30s")
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    assert await health(jobs) == ("Healthy", "current")
    document = (await cluster.get(CONVERSION_RULES, jobs.name)).json()
    document["metadata"]["generation"] += 1  # nothing has looked at the change yet
    assert (argo_health(document), flux_health(document)) == ("Progressing", "inProgress")
    for condition in document["status"]["conditions"]:
        if condition["type"] in ("Serving", "Ready"):
            condition |= {"status": "False", "reason": "RollingOut"}
    document["metadata"]["generation"] -= 1
    assert (argo_health(document), flux_health(document)) == ("Progressing", "inProgress")
    await jobs.condition("Rehearsed", "False", await jobs.change(jobs.rules(WRONG)))
    assert await health(jobs) == ("Degraded", "failed")


@pytest.mark.parametrize("manager", ["kustomize-controller", "argocd-controller"])
async def test_an_apply_of_the_crd_takes_nothing(
    manager: str, cluster: HttpCluster, jobs: Jobs, replicas: Replicas
) -> None:
    """Each sync that took the webhook out of the CRD would fail reads at the other version."""
    await jobs.create("v1", "a", timeout="30s")
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    before = (await cluster.get(CRDS, jobs.name)).json()
    params = {"fieldManager": manager, "force": "true"}
    body = json.dumps(jobs.crd()).encode()
    await cluster.patch(CRDS, jobs.name, body, patch_type=PatchType.APPLY, params=params)
    after = (await cluster.get(CRDS, jobs.name)).json()
    assert after["spec"] == before["spec"]
    assert await jobs.spec("v1beta1", "a") == {"timeoutSeconds": 30}
    # All that restow writes is below what Argo CD is told to leave alone.
    (ignored,) = APPLICATION["spec"]["ignoreDifferences"]
    assert ignored["jsonPointers"] == ["/spec/conversion"]
    (own,) = (each for each in after["metadata"]["managedFields"] if each["manager"] == FIELD_MANAGER)
    assert own["fieldsV1"].keys() == {"f:spec"}
    assert own["fieldsV1"]["f:spec"].keys() == {"f:conversion"}


async def test_the_ci_job_tries_all_contexts(
    cluster: HttpCluster, jobs: Jobs, replicas: Replicas, kubeconfig: Path, tmp_path: Path
) -> None:
    """A cluster that is left out, or whose failure does not count, finds out at night."""
    await jobs.create("v1", "odd", timeout="1m30s")
    document = yaml.safe_load(kubeconfig.read_text())
    (context,) = document["contexts"]
    document["contexts"] = [context | {"name": name} for name in ("staging", "production")]
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
    *_, step = WORKFLOW["jobs"]["try"]["steps"]
    words = shlex.split(step["run"].splitlines()[-1])
    assert words[:2] == ["KUBECONFIG=kubeconfig", str(SCRIPT.relative_to(ROOT))]
    contexts = words[4:]
    assert contexts == ["staging", "production"]

    async def tried(rules: Document, *contexts: str) -> tuple[int, str, str]:
        (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
        process = await asyncio.create_subprocess_exec(
            *("sh", SCRIPT, "rules.yaml", jobs.name, *contexts),
            cwd=tmp_path,
            env=os.environ
            | {"KUBECONFIG": "kubeconfig", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    code, out, err = await tried(jobs.rules(), *contexts)
    assert code == 0, err
    assert [line.split()[1] for line in out.splitlines() if line.startswith("== ")] == [
        "staging:",
        "staging:",
        "production:",
        "production:",
    ]
    code, out, err = await tried(jobs.rules(WRONG), *contexts)
    assert code == 1
    assert err.splitlines()[-1] == "rules.yaml fails in: staging production"
    assert "default/odd" in out

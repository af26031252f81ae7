"""The kustomize bases: what the chart renders, and what an overlay makes of them."""

from __future__ import annotations

import os
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from restow.kube.client import HttpCluster
from restow.rbac import Asked, Command, grants, manifests, plain
from tests.deploy.rendering import ROOT, Helm, container, of_kind, rights, the
from tests.deploy.test_chart_applied import dry_run, restricted
from tests.restow.commandline import restow

__all__ = ["restricted"]  # a fixture

KUSTOMIZE = ROOT / "deploy" / "kustomize"
BASES = ("migration", "webhook", "operator", "conversions")


def built(tools: dict[str, Path], name: str | Path) -> list[dict[str, Any]]:
    """What ``kubectl apply -k`` would apply."""
    command = [tools["kustomize"], "build", KUSTOMIZE / name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def test_bases_are_what_the_chart_renders(helm: Helm) -> None:
    """One source: a fix of the chart that the bases lack is half a fix. ``deploy/generate.py`` writes them."""
    made = runpy.run_path(str(ROOT / "deploy" / "generate.py"))
    found = dict(made["bases"](helm.binary))
    assert {file.parent.name for file in found} == set(BASES)
    for file, text in found.items():
        assert file.read_text() == text, f"{file} is out of date"
        assert "elm" not in text.replace("realm", ""), "of Helm's nothing is left"


def test_the_example_has_the_rights_that_its_crd_needs(tools: dict[str, Path]) -> None:
    """rbac.yaml is what the command in its head prints; and the Job is given what the base leaves open."""
    arguments = ("widgets.example.com", "--for", "migrate")
    account = ("--service-account", "my-system/restow-migration")
    assert (KUSTOMIZE / "example" / "rbac.yaml").read_text() == restow("rbac", *arguments, *account).out
    documents = built(tools, "example")
    expected = plain(manifests(grants([Command.MIGRATE], Asked(crds=("widgets.example.com",))), "x"))
    assert rights(documents) == rights(expected)
    job = the(documents, "Job")
    assert container(job)["args"] == ["migrate", "widgets.example.com", "--output=json"]
    account_of_job = job["spec"]["template"]["spec"]["serviceAccountName"]
    (subject,) = the(documents, "ClusterRoleBinding")["subjects"]
    assert (subject["namespace"], subject["name"]) == ("my-system", account_of_job)
    assert the(documents, "ServiceAccount")["metadata"]["name"] == account_of_job


@pytest.mark.parametrize("name", ["webhook", "operator", "conversions"])
def test_a_base_works_in_any_namespace(name: str, tools: dict[str, Path], tmp_path: Path) -> None:
    """An overlay moves it by one line: certificate, address, account and rights are then those of that namespace."""
    base = os.path.relpath(KUSTOMIZE / name, tmp_path)
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({"namespace": "edge", "resources": [base]}))
    documents = built(tools, tmp_path)
    text = yaml.safe_dump_all(documents)
    assert "restow-system" not in text and "$(WEBHOOK" not in text
    assert {each["metadata"].get("namespace", "edge") for each in documents} == {"edge"}
    subjects = [one for each in of_kind(documents, "RoleBinding", "ClusterRoleBinding") for one in each["subjects"]]
    assert {one["namespace"] for one in subjects} <= {"edge"}
    if name == "webhook":
        (leaf,) = (each for each in of_kind(documents, "Certificate") if "dnsNames" in each["spec"])
        assert leaf["spec"]["dnsNames"] == ["restow-webhook.edge.svc", "restow-webhook.edge.svc.cluster.local"]
        return
    used = container(the(documents, "Deployment"))
    assert f"--own-ca=$(POD_NAMESPACE)/restow-{name}" in used["args"]
    (variable,) = (each for each in used["env"] if each["name"] == "POD_NAMESPACE")
    assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}


@pytest.mark.parametrize("name", ["example", "webhook", "operator", "conversions"])
async def test_strict_validation_finds_nothing(
    name: str, tools: dict[str, Path], cluster: HttpCluster, restricted: str
) -> None:
    """As for the chart; kinds of cert-manager are tested there."""
    documents = [each for each in built(tools, name) if "cert-manager.io" not in each["apiVersion"]]
    for document in documents:
        if "namespace" in document["metadata"]:
            document["metadata"]["namespace"] = restricted
        assert await dry_run(cluster, document) == [], document["kind"]
    assert of_kind(documents, "Deployment", "Job")

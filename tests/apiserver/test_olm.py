"""What docs/howto/helm-argocd-flux.md says: the CSV, OLM's check of stored versions, and its update of the CRD."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import yaml

from restow.commands.serve import command as serve
from restow.kube import PatchType
from restow.kube.client import HttpCluster
from restow.kube.resources import CRDS
from tests.apiserver.kind import Kind
from tests.apiserver.others import Others
from tests.docs.blocks import parse
from tests.restow.commandline import Ran, restow

PAGE = "docs/howto/helm-argocd-flux.md"
OLD, NEW = "v1alpha1", "v1beta1"


def on_page() -> dict[str, Any]:
    """The ClusterServiceVersion of the page."""
    text = (Path(__file__).parents[2] / PAGE).read_text()
    (block,) = (each for each in parse(PAGE, text) if each.directives.get("file") == "csv.yaml")
    found: dict[str, Any] = yaml.safe_load(block.text)
    return found


def test_the_csv_serves_what_it_declares() -> None:
    """A path that restow does not serve, or a flag that it does not have, takes every read of the kind down."""
    spec = on_page()["spec"]
    owned = [crd["name"] for crd in spec["customresourcedefinitions"]["owned"]]
    (deployment,) = spec["install"]["spec"]["deployments"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["containerPort"] for port in container["ports"]}
    flags = {flag for parameter in serve.params for flag in parameter.opts}
    assert {argument.partition("=")[0] for argument in container["args"][1:]} <= flags
    for webhook in spec["webhookdefinitions"]:
        assert webhook["conversionCRDs"] == owned
        assert webhook["webhookPath"] == f"/convert/{owned[0]}"
        assert webhook["deploymentName"] == deployment["name"]
        assert webhook["targetPort"] in ports


def olm_takes(live: dict[str, Any], bundle: dict[str, Any]) -> bool:
    """OLM's check before it updates a CRD: each stored version is in the bundle's CRD."""
    return set(live["status"]["storedVersions"]) <= {version["name"] for version in bundle["spec"]["versions"]}


async def ready(kubeconfig: Path, name: str) -> Ran:
    """May the old version go?"""
    return await asyncio.to_thread(restow, "ready", name, "--drop", OLD, "-o", "json", kubeconfig=kubeconfig)


async def migrate(kubeconfig: Path, name: str) -> dict[str, Any]:
    """Migrate; the report of the CRD."""
    ran = await asyncio.to_thread(restow, "migrate", name, "--settle", "0", "-o", "json", kubeconfig=kubeconfig)
    assert ran.code == 0, ran.err
    report: dict[str, Any] = ran.json["crds"][0]
    return report


async def test_three_bundles(kind: Kind, others: Others, cluster: HttpCluster, kubeconfig: Path) -> None:
    """A user of OLM meets its refusal, or a bundle without the version is published while objects still need it."""

    async def live() -> dict[str, Any]:
        found: dict[str, Any] = (await cluster.get(CRDS, kind.name)).json()
        return found

    async def update_as_olm_does(bundle: dict[str, Any]) -> None:
        """OLM sends the bundle's CRD whole, with the resourceVersion of the live one."""
        sent = bundle | {
            "metadata": {"name": kind.name, "resourceVersion": (await live())["metadata"]["resourceVersion"]}
        }
        await cluster.replace(CRDS, kind.name, json.dumps(sent).encode())

    await kind.apply(kind.manifest(OLD, "w", spec={"size": 1}), "alice")
    csvs = await others.kind("clusterserviceversions.operators.coreos.com", "ClusterServiceVersion")
    owned = {"owned": [{"name": kind.name, "version": OLD, "kind": "Widget"}]}
    csv = f"c.{kind.group}"
    await others.made(csvs, csv, "ClusterServiceVersion", spec={"customresourcedefinitions": owned})
    first, third = kind.document(storage=NEW), kind.document(storage=NEW, versions=(NEW,))
    second = kind.document(storage=NEW, served=(NEW,))

    await update_as_olm_does(first)
    assert not olm_takes(await live(), third)
    assert (await migrate(kubeconfig, kind.name))["objects"]["rewritten"] == 1
    assert olm_takes(await live(), third)
    said = await ready(kubeconfig, kind.name)
    assert said.code == 3 and "olm" in said.out

    patch = [{"op": "replace", "path": "/spec/customresourcedefinitions/owned/0/version", "value": NEW}]
    await cluster.patch(csvs, csv, json.dumps(patch).encode(), "default", patch_type=PatchType.JSON)
    await update_as_olm_does(second)
    assert (await live())["status"]["storedVersions"] == [NEW]
    assert not (await live())["metadata"].get("annotations")
    said = await ready(kubeconfig, kind.name)
    assert said.code == 3 and "restow migrate" in said.out
    again = (await migrate(kubeconfig, kind.name))["objects"]
    assert (again["listed"], again["rewritten"]) == (1, 0)
    assert (await ready(kubeconfig, kind.name)).code == 0

    await update_as_olm_does(third)
    assert (await kind.get(NEW, "w"))["spec"]["size"] == 1

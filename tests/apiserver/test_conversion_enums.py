"""A value that an enum of the other version does not have, on a real API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from restow.conversion import Registry, rules
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import ApiError, Invalid
from restow.kube.resources import CRDS, Resource
from tests.apiserver.kind import until
from tests.apiserver.provider import url_of, webhook
from tests.apiserver.serving import certified, serving

GROUP = "probes.example.dev"
CRD = f"checks.{GROUP}"
V1BETA1, V1 = (Resource(GROUP, version, "checks", namespaced=True) for version in ("v1beta1", "v1"))

registry = Registry()


@registry.kind(GROUP, "Check", hub="v1").spoke("v1beta1")
def v1beta1() -> list[rules.Rule]:
    """The rule that ``restow check`` proposes where free text became an enum."""
    return [rules.enum("spec.protocol", {"TCP": "TCP", "UDP": "UDP"})]


def document(conversion: dict[str, Any]) -> dict[str, Any]:
    """The CRD."""
    protocols = {"v1beta1": {"type": "string"}, "v1": {"type": "string", "enum": ["TCP", "UDP"]}}
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1beta1",
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {"protocol": protocol, "port": {"type": "integer"}},
                        }
                    },
                }
            },
        }
        for name, protocol in protocols.items()
    ]
    names = {"kind": "Check", "plural": "checks", "singular": "check", "listKind": "CheckList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "conversion": conversion, "versions": versions},
    }


async def test_no_client_reads_what_the_enum_of_its_version_refuses(cluster: HttpCluster, tmp_path: Path) -> None:
    """A client would read a value that the API server refuses in every object which the client then makes."""
    bundle = certified(tmp_path)
    (tmp_path / "crd.json").write_text(json.dumps(document({"strategy": "None"})))
    flags = [f"--crd={tmp_path / 'crd.json'}"]
    async with serving(tmp_path, registry="tests.apiserver.test_conversion_enums:registry", flags=flags) as instance:
        await cluster.create(CRDS, json.dumps(document(webhook(url_of(instance.port, CRD), bundle))).encode())

        async def is_served() -> bool:
            try:
                await cluster.list_page(V1, "default")
            except ApiError:
                return False
            return True

        try:
            await until(is_served, f"{CRD} is not served")
            body = {"kind": "Check", "metadata": {"name": "a"}, "spec": {"protocol": "tcp", "port": 1}}
            await cluster.create(V1BETA1, json.dumps({**body, "apiVersion": V1BETA1.api_version}).encode(), "default")
            newer = (await cluster.get(V1, "a", "default")).json()
            assert newer["spec"] == {"port": 1}
            again = {**body, "apiVersion": V1.api_version, "metadata": {"name": "b"}}
            with pytest.raises(Invalid):
                await cluster.create(V1, json.dumps(again).encode(), "default")
            made = {**again, "spec": newer["spec"]}
            await cluster.create(V1, json.dumps(made).encode(), "default")

            change = json.dumps({"spec": {"port": 2}}).encode()
            await cluster.patch(V1, "a", change, "default", patch_type=PatchType.MERGE)
            assert (await cluster.get(V1BETA1, "a", "default")).json()["spec"] == {"protocol": "tcp", "port": 2}
            change = json.dumps({"spec": {"protocol": "UDP"}}).encode()
            await cluster.patch(V1, "a", change, "default", patch_type=PatchType.MERGE)
            assert (await cluster.get(V1BETA1, "a", "default")).json()["spec"] == {"protocol": "UDP", "port": 2}
        finally:
            await cluster.delete(CRDS, CRD)

"""Webhook configurations on a real API server: installed, kept, and shared with others by their fields."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from restow.conversion.certificates import Bundle, WiringRefused
from restow.conversion.certificates.apply import install, read_configuration
from restow.conversion.certificates.wiring.clientconfig import Address
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import NotFound
from restow.kube.resources import Resource
from tests.apiserver.kind import Document
from tests.apiserver.serving import certified

RESOURCE = Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", namespaced=False)
NAME = "restow-test"


def hook(name: str, **more: Any) -> Document:
    """A webhook about objects that nobody has."""
    rule = {"apiGroups": ["nowhere.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"]}
    return {
        "name": f"{name}.example.com",
        "clientConfig": {"service": {"namespace": "system", "name": "webhook", "port": 443, "path": f"/admit/{name}"}},
        "rules": [rule | {"resources": ["widgets"], "scope": "Namespaced"}],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": "always", "expression": "true"}],
        **more,
    }


def document(*hooks: Document) -> Document:
    """The configuration that is wanted."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": list(hooks),
    }


class Kept:
    """The configuration, and what was tried before it was written."""

    def __init__(self, cluster: HttpCluster) -> None:
        self.cluster = cluster
        self.tried: list[Bundle] = []

    async def install(self, wanted: Document, bundle: Bundle, dropped: Bundle | None = None) -> bool:
        """Bring it up to date; whether that was a change."""

        async def probe(_address: Address, trusted: Bundle) -> None:
            self.tried.append(trusted)

        return await install(self.cluster, wanted, bundle, dropped or Bundle(), probe=probe)

    async def edit(self, manager: str, body: Document, patch_type: PatchType) -> None:
        """Write as somebody else."""
        params = {"fieldManager": manager} | ({"force": "true"} if patch_type is PatchType.APPLY else {})
        await self.cluster.patch(RESOURCE, NAME, json.dumps(body).encode(), patch_type=patch_type, params=params)

    async def read(self) -> Document:
        """The configuration now."""
        found = await read_configuration(self.cluster, document())
        assert found is not None
        return found

    async def bundles(self) -> list[Bundle]:
        """Its bundles."""
        return [Bundle.from_base64(each["clientConfig"]["caBundle"]) for each in (await self.read())["webhooks"]]


@pytest.fixture
async def kept(cluster: HttpCluster) -> AsyncIterator[Kept]:
    """No configuration yet; none in the end."""
    yield Kept(cluster)
    try:
        await cluster.delete(RESOURCE, NAME)
    except NotFound:
        return


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bundle, Bundle]:
    """Two CAs."""
    first, second = (certified(tmp_path_factory.mktemp("ca")) for _ in range(2))
    return first, second


WANTED = document(hook("a"), hook("b"))


async def test_installed_once_and_rotated_with_overlap(kept: Kept, authorities: tuple[Bundle, Bundle]) -> None:
    """A second look that writes again would make every API server rebuild its webhooks, for ever."""
    old, new = authorities
    assert await kept.install(WANTED, old)
    assert [{**each["clientConfig"], "caBundle": ""} for each in (await kept.read())["webhooks"]] == [
        {**each["clientConfig"], "caBundle": ""} for each in WANTED["webhooks"]
    ]
    generation = (await kept.read())["metadata"]["generation"]
    assert not await kept.install(WANTED, old)
    assert await kept.install(WANTED, old | new)
    assert await kept.bundles() == [old | new] * 2
    assert await kept.install(WANTED, new, old)
    assert await kept.bundles() == [new] * 2
    assert (await kept.read())["metadata"]["generation"] == generation + 2
    assert kept.tried == [old] * 2 + [old | new] * 2 + [new] * 2


async def test_what_an_editor_set_survives_a_rotation(kept: Kept, authorities: tuple[Bundle, Bundle]) -> None:
    """``kubectl edit`` of a timeout, a further condition: both are meant, and neither holds the rotation up."""
    old, new = authorities
    await kept.install(WANTED, old)
    edited = (await kept.read())["webhooks"]
    edited[0]["timeoutSeconds"] = 3
    edited[0]["matchConditions"].append({"name": "narrower", "expression": "request.name != 'x'"})
    edited[1]["matchConditions"][0]["expression"] = "request.name != 'y'"
    await kept.edit("kubectl-edit", {"webhooks": edited}, PatchType.MERGE)
    assert not await kept.install(WANTED, old)
    assert await kept.install(WANTED, old | new)
    first, second = (await kept.read())["webhooks"]
    assert first["timeoutSeconds"] == 3
    assert [each["name"] for each in first["matchConditions"]] == ["always", "narrower"]
    assert second["matchConditions"] == [{"name": "always", "expression": "request.name != 'y'"}]
    assert await kept.bundles() == [old | new] * 2


async def test_of_one_that_helm_installed_only_the_bundle_is_written(
    kept: Kept, authorities: tuple[Bundle, Bundle]
) -> None:
    """Whatever else were ours, the chart's next release would conflict with it."""
    old, _ = authorities
    await kept.cluster.create(RESOURCE, json.dumps(WANTED).encode(), params={"fieldManager": "helm"})
    assert await kept.install(WANTED, old)
    (ours,) = (each for each in (await kept.read())["metadata"]["managedFields"] if each["manager"] == "restow-wiring")
    for fields in ours["fieldsV1"]["f:webhooks"].values():
        assert {*fields, ".", "f:name"} == {".", "f:name", "f:clientConfig"}
        assert fields["f:clientConfig"] == {"f:caBundle": {}}
    assert not await kept.install(WANTED, old)


async def test_a_webhook_that_is_wanted_no_more_goes_and_an_address_moves(
    kept: Kept, authorities: tuple[Bundle, Bundle]
) -> None:
    """A step of an earlier release is not served any more; a URL together with a Service is no address."""
    old, _ = authorities
    await kept.install(document(hook("a"), hook("b"), hook("c")), old)
    moved = copy.deepcopy(WANTED)
    for each in moved["webhooks"]:
        each["clientConfig"] = {"url": "https://127.0.0.1:9443/admit"}
    assert await kept.install(moved, old)
    assert [(each["name"], each["clientConfig"]) for each in (await kept.read())["webhooks"]] == [
        (f"{name}.example.com", {"url": "https://127.0.0.1:9443/admit", "caBundle": old.base64}) for name in "ab"
    ]


async def test_another_applier_of_the_bundle_is_refused(kept: Kept, authorities: tuple[Bundle, Bundle]) -> None:
    """Both would write it, one after the other, for ever; the sentence names who."""
    old, new = authorities
    applied = document(hook("a"))
    applied["webhooks"][0]["clientConfig"]["caBundle"] = old.base64
    await kept.edit("argocd", applied, PatchType.APPLY)
    with pytest.raises(WiringRefused, match=r"clientConfig\.caBundle of the webhook a\.example\.com .* by argocd"):
        await kept.install(WANTED, new)
    assert await kept.bundles() == [old]


async def test_replicas_that_install_together_agree(kept: Kept, authorities: tuple[Bundle, Bundle]) -> None:
    """They look at the same time, and both find nothing."""
    old, _ = authorities
    await asyncio.gather(*(kept.install(WANTED, old) for _ in range(4)))
    assert await kept.bundles() == [old] * 2
    assert not await kept.install(WANTED, old)

"""What clients are told, and what goes on, when a webhook cannot convert, or is not there yet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from restow.conversion.server import ServerPhase, WebhookServer
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import ApiError
from restow.kube.resources import CRDS, NAMESPACES, Resource
from tests.apiserver import brittle
from tests.apiserver.kind import until
from tests.apiserver.provider import GATEWAYS, Provider, url_of, webhook
from tests.apiserver.serving import Local, certified, serving

V1ALPHA1, V1 = (Resource(brittle.GROUP, version, "vases", namespaced=True) for version in ("v1alpha1", "v1"))


@pytest.fixture
async def vases(cluster: HttpCluster, tmp_path: Path) -> AsyncIterator[HttpCluster]:
    """The brittle kind, served by ``restow serve``."""
    bundle = certified(tmp_path)
    async with serving(tmp_path, registry="tests.apiserver.brittle:registry") as instance:
        document = brittle.crd(webhook(url_of(instance.port, brittle.CRD), bundle))
        await cluster.create(CRDS, json.dumps(document).encode())
        await until(lambda: listed(cluster), f"{brittle.CRD} is not served")
        yield cluster
        await cluster.delete(CRDS, brittle.CRD)


async def listed(cluster: HttpCluster) -> bool:
    """Whether vases can be listed at the older version."""
    try:
        await cluster.list_page(V1ALPHA1, "default")
    except ApiError:
        return False
    return True


async def test_the_message_names_the_object_and_the_place(vases: HttpCluster) -> None:
    """One bad object hides all of its kind at that version: whoever repairs it must know which one, and where."""
    for name, material in (("good", "clay"), ("bad", "cracked")):
        body = {
            "apiVersion": V1.api_version,
            "kind": "Vase",
            "metadata": {"name": name},
            "spec": {"material": material},
        }
        await vases.create(V1, json.dumps(body).encode(), "default")
    assert (await vases.get(V1ALPHA1, "good", "default")).json()["spec"] == {"clay": "clay"}
    for request in (vases.get(V1ALPHA1, "bad", "default"), vases.list_page(V1ALPHA1, "default")):
        with pytest.raises(ApiError) as refused:
            await request
        message = refused.value.message
        assert f"Vase default/bad ({V1.api_version})" in message and "/spec/material" in message
        assert "cracked" not in message, "values of objects stay where they are"
    assert (await vases.get(V1, "bad", "default")).json()["spec"] == {"material": "cracked"}
    repair = json.dumps({"spec": {"material": "glued"}}).encode()
    await vases.patch(V1, "bad", repair, "default", patch_type=PatchType.MERGE)
    await until(lambda: listed(vases), "the list did not recover")


async def test_a_deep_object_of_one_tenant_is_nothing_to_the_others(vases: HttpCluster) -> None:
    """API servers read JSON 10,000 levels deep; one such object must not end every list and watch of its kind."""
    await vases.create(NAMESPACES, b'{"metadata":{"name":"tenant"}}')
    deep = {levels: b'{"a":' * levels + b"1" + b"}" * levels for levels in (1_200, 9_000)}
    for levels, text in deep.items():
        about = b'{"apiVersion":"%s","kind":"Vase","metadata":{"name":"deep-%d"},' % (V1.api_version.encode(), levels)
        spec = b'"spec":{"material":"clay","more":%s},"data":%s}' % (text, text)
        await vases.create(V1, about + spec, "tenant")
    good = {"apiVersion": V1.api_version, "kind": "Vase", "metadata": {"name": "good"}, "spec": {"material": "clay"}}
    await vases.create(V1, json.dumps(good).encode(), "default")
    assert (await vases.get(V1ALPHA1, "good", "default")).json()["spec"] == {"clay": "clay"}
    for namespace in ("tenant", None):
        body = (await vases.list_page(V1ALPHA1, namespace)).body
        assert [body.count(b'"data":' + text) + body.count(b'"more":' + text) for text in deep.values()] == [2, 2]
    for namespace, seen in (("default", 1), ("tenant", 2), (None, 3)):
        events: list[bytes] = []
        async with asyncio.timeout(60), vases.watch(V1ALPHA1, namespace, params={"resourceVersion": "0"}) as lines:
            while len(events) < seen:
                events.append(await anext(lines))
        assert all(line.startswith(b'{"type":"ADDED"') and b'"clay":"clay"' in line for line in events)
    for levels, text in deep.items():
        old = (await vases.get(V1ALPHA1, f"deep-{levels}", "tenant")).body
        await vases.replace(V1ALPHA1, f"deep-{levels}", old.replace(b'"clay":"clay"', b'"clay":"fired"'), "tenant")
        stored = (await vases.get(V1, f"deep-{levels}", "tenant")).body
        assert stored.endswith(b'"spec":{"material":"fired","more":%s}}\n' % text) and b'"data":' + text in stored


async def test_clients_wait_for_a_webhook_that_starts(cluster: HttpCluster, tmp_path: Path) -> None:
    """503 with Retry-After: the API server asks again by itself, where a refused connection would fail its client."""
    bundle = certified(tmp_path)
    provider, server = Provider(cluster), Local(tmp_path)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run(ServerPhase.STARTING))
        try:
            await provider.create_crd(GATEWAYS, webhook(url_of(server.port, GATEWAYS), bundle))
            creating = asyncio.create_task(provider.create(GATEWAYS, "v1alpha1", "early", {"host": "a"}))
            await until(lambda: refused(server.webhook), "the API server did not ask")
            assert not creating.done()
            server.webhook.phase = ServerPhase.SERVING
            assert (await creating)["spec"] == {"host": "a"}
            assert (await provider.get(GATEWAYS, "v1", "early"))["spec"] == {"hosts": ["a"]}
        finally:
            server.webhook.phase = ServerPhase.SERVING
            await provider.remove()
            await server.stop()


async def refused(converting: WebhookServer) -> bool:
    """Whether the webhook has told somebody to come again."""
    return bool(converting.counts.snapshot().counters["restow_webhook_refused_total", "starting"])

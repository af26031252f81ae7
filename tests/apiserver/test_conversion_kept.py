"""``restow serve --on-error keep`` on a real API server: one object that a rule cannot convert hides no other."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from restow.controlplane.etcd import Etcd
from restow.conversion.certificates import Url
from restow.conversion.certificates.wiring.documents import refusal_name
from restow.conversion.model.errors import RuleFailed
from restow.conversion.reviews.conversion import KeptValue
from restow.conversion.server import KeptEvents
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import ApiError, Invalid, NotFound
from restow.kube.resources import CRDS, EVENTS, Resource
from tests.apiserver import brittle
from tests.apiserver.kind import until
from tests.apiserver.provider import url_of, webhook
from tests.apiserver.serving import Instance, certified, serving
from tests.ports import free_port

V1ALPHA1, V1 = (Resource(brittle.GROUP, version, "vases", namespaced=True) for version in ("v1alpha1", "v1"))
SECRETS = Resource("", "v1", "secrets", namespaced=True)
REFUSALS = Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", namespaced=False)
STASH = f"{brittle.GROUP}/conversion-stash"
RULE = "pair(spec.clay <-> spec.material)"


def vase(resource: Resource, name: str, **spec: Any) -> bytes:
    """An object, as it is sent."""
    return json.dumps(
        {"apiVersion": resource.api_version, "kind": "Vase", "metadata": {"name": name}, "spec": spec}
    ).encode()


async def listed(cluster: HttpCluster) -> bool:
    """Whether vases can be listed at the older version."""
    try:
        await cluster.list_page(V1ALPHA1, "default")
    except ApiError:
        return False
    return True


async def spec(cluster: HttpCluster, resource: Resource, name: str) -> Any:
    """The spec of an object at a version."""
    return (await cluster.get(resource, name, "default")).json()["spec"]


async def scraped(port: int) -> str:
    """What /metrics says."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        return await answer.text()


async def test_one_bad_object_hides_no_other_and_loses_nothing(
    cluster: HttpCluster, etcd: Etcd, tmp_path: Path
) -> None:
    """Without it, one object takes LIST and watch of its kind down for every client of that version."""
    bundle = certified(tmp_path)
    registry, flags = "tests.apiserver.brittle:registry", ["--on-error=keep"]
    async with serving(tmp_path, registry=registry, flags=flags) as instance:
        document = brittle.crd(webhook(url_of(instance.port, brittle.CRD), bundle))
        await cluster.create(CRDS, json.dumps(document).encode())
        try:
            await until(lambda: listed(cluster), f"{brittle.CRD} is not served")
            await cluster.create(V1, vase(V1, "good", material="clay"), "default")
            await cluster.create(V1, vase(V1, "bad", material="cracked", more={"a": 1}), "default")

            items = (await cluster.list_page(V1ALPHA1, "default")).json()["items"]
            assert [item["spec"] for item in items] == [{"more": {"a": 1}}, {"clay": "clay"}]
            async with asyncio.timeout(60), cluster.watch(V1ALPHA1, params={"resourceVersion": "0"}) as lines:
                events = [json.loads(await anext(lines)) for _ in range(2)]
            assert {event["type"] for event in events} == {"ADDED"}

            change = json.dumps({"spec": {"more": {"a": 2}}}).encode()
            await cluster.patch(V1ALPHA1, "bad", change, "default", patch_type=PatchType.MERGE)
            stored = await etcd.stored_object(brittle.GROUP, "vases", "default", "bad")
            assert stored["spec"] == {"material": "cracked", "more": {"a": 2}}
            assert STASH not in stored["metadata"].get("annotations", {})

            await cluster.create(V1ALPHA1, vase(V1ALPHA1, "old", clay="cracked"), "default")
            stored = await etcd.stored_object(brittle.GROUP, "vases", "default", "old")
            assert "spec" not in stored and RULE in stored["metadata"]["annotations"][STASH]
            assert await spec(cluster, V1ALPHA1, "old") == {"clay": "cracked"}
            repair = json.dumps({"spec": {"material": "glued"}}).encode()
            await cluster.patch(V1, "old", repair, "default", patch_type=PatchType.MERGE)
            assert await spec(cluster, V1ALPHA1, "old") == {"clay": "glued"}

            counted = await scraped(instance.probes)
            [line] = [line for line in counted.splitlines() if line.startswith("restow_conversion_kept_total{")]
            assert f'crd="{brittle.CRD}",rule="{RULE}"' in line and float(line.split()[-1]) >= 2
            await refuses(cluster, instance.port, bundle.base64)
        finally:
            await cluster.delete(CRDS, brittle.CRD)
    log = b"".join(instance.log).decode()
    assert "conversion kept a value" in log and "Vase default/bad" in log and "/spec/material" in log and RULE in log
    assert "cracked" not in log, "values of objects stay where they are"


async def refuses(cluster: HttpCluster, port: int, bundle: str) -> None:
    """Check that with the admission step a write of what no other version could show is refused, and no other."""
    url = f"https://127.0.0.1:{port}/admit/refuse-unconvertible"
    rule = {"apiGroups": [brittle.GROUP], "apiVersions": ["v1"], "resources": ["vases"]}
    step = {
        "name": "refuse.brittle.example.dev",
        "clientConfig": {"url": url, "caBundle": bundle},
        "rules": [{**rule, "operations": ["CREATE", "UPDATE"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "refuse"},
        "webhooks": [step],
    }
    await cluster.create(REFUSALS, json.dumps(body).encode())
    try:
        await until(lambda: refused(cluster, V1, "new", material="cracked"), "the step is not asked")
        assert await refused(cluster, V1ALPHA1, "new", clay="cracked")
        await cluster.create(V1ALPHA1, vase(V1ALPHA1, "fine", clay="clay"), "default")
        for resource in (V1, V1ALPHA1):  # what was there before may stay
            change = json.dumps({"spec": {"more": {"by": resource.version}}}).encode()
            await cluster.patch(resource, "bad", change, "default", patch_type=PatchType.MERGE)
        worse = json.dumps({"spec": {"clay": "cracked"}}).encode()
        with pytest.raises(ApiError, match="spec/clay"):
            await cluster.patch(V1ALPHA1, "fine", worse, "default", patch_type=PatchType.MERGE)
    finally:
        await cluster.delete(REFUSALS, "refuse")


async def test_the_step_is_installed_by_a_flag(cluster: HttpCluster, kubeconfig: Path, tmp_path: Path) -> None:
    """Who has to write the configuration by hand learns of a wrong path when the bad values are stored."""
    port, crd = free_port(), tmp_path / "crd.yaml"
    address = Url(f"https://127.0.0.1:{port}")
    document = brittle.crd({"strategy": "None"})
    crd.write_text(json.dumps(document))
    flags = [f"--crd={crd}", f"--own-ca={address.url}", f"--kubeconfig={kubeconfig}", f"--port={port}"]
    flags += ["--on-error=keep", "--refuse-unconvertible"]
    name = refusal_name(address)
    await cluster.create(CRDS, json.dumps(document).encode())
    instance = await Instance.start(tmp_path, registry="tests.apiserver.brittle:registry", flags=flags)
    try:
        await until(lambda: listed(cluster), f"{brittle.CRD} is not served")
        await until(lambda: refused(cluster, V1, "new", material="cracked"), "the step is not asked")
        assert await refused(cluster, V1ALPHA1, "new", clay="cracked")
        kept = json.dumps({"metadata": {"finalizers": ["example.dev/kept"]}}).encode()
        await cluster.create(V1, vase(V1, "fine", material="clay"), "default")
        await cluster.patch(V1, "fine", kept, "default", patch_type=PatchType.MERGE)
        await cluster.delete(V1, "fine", "default")
        (hook,) = (await cluster.get(REFUSALS, name)).json()["webhooks"]
        assert (hook["name"], hook["matchPolicy"]) == (f"refuse-unconvertible.{brittle.CRD}", "Equivalent")
        await instance.stop()
        # The webhook is gone, but what is being deleted can still end.
        free = json.dumps({"metadata": {"finalizers": None}}).encode()
        await cluster.patch(V1, "fine", free, "default", patch_type=PatchType.MERGE)
        with pytest.raises(ApiError, match="refuse-unconvertible"):
            await cluster.create(V1, vase(V1, "more", material="clay"), "default")
    finally:
        if instance.process.returncode is None:
            await instance.stop()
        with suppress(NotFound):
            await cluster.delete(REFUSALS, name)
        await cluster.delete(CRDS, brittle.CRD)
        for secret in ("restow-webhook", "restow-webhook-ca"):
            await cluster.delete(SECRETS, secret, "default")


async def refused(cluster: HttpCluster, resource: Resource, name: str, **fields: str) -> bool:
    """Whether the create of an object is refused by the step; one that is created goes again."""
    try:
        await cluster.create(resource, vase(resource, name, **fields), "default")
    except Invalid as error:
        return RULE in error.message and "cracked" not in error.message
    with suppress(NotFound):
        await cluster.delete(resource, name, "default")
    return False


async def test_an_object_gets_an_event(cluster: HttpCluster) -> None:
    """Whoever describes the object must see that a field of it is not shown; a LIST each second must not flood it."""
    metadata = {"name": "cup", "namespace": "default", "uid": "7c1d1f0e-1d5f-4a55-9d9b-2b7d9b8f0001"}
    obj = {"apiVersion": f"{brittle.GROUP}/v1", "kind": "Vase", "metadata": metadata, "spec": {"material": "cracked"}}
    kept = KeptValue(obj, RuleFailed(f"{RULE} raised ValueError", rule=RULE, pointer="/spec/material"))
    events = KeptEvents(instance="test")
    for _ in range(5):
        events.note(kept)

    async def written() -> list[Any]:
        params = {"fieldSelector": "reason=ConversionKept"}
        found = (await cluster.list_page(EVENTS, "default", params=params)).json()["items"]
        return [event for event in found if event["regarding"]["name"] == "cup"]

    async def is_written() -> bool:
        return bool(await written())

    async with asyncio.TaskGroup() as group:
        writing = group.create_task(events.run(cluster))
        await until(is_written, "no Event is written")
        writing.cancel()
    [event] = await written()
    assert event["note"].startswith(f"/spec/material: {RULE} raised ValueError") and event["type"] == "Warning"

"""``restow doctor`` on CRDs that are in trouble, and the commands that it prints, carried out.

The page is docs/howto/troubleshooting.md.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from restow.controlplane.etcd import Etcd
from restow.conversion.certificates import Bundle
from restow.conversion.diagnosis import ProblemKind, diagnose
from restow.conversion.diagnosis import doctor as doctor_module
from restow.kube import PatchType
from restow.kube.client import HttpCluster
from restow.kube.errors import NotFound
from restow.kube.resources import CRDS, NAMESPACES
from restow.migrator import Migration, Options, may_be_stored
from restow.migrator.planning.diagnosis import CrdExamination
from tests.apiserver.kind import Kind, until
from tests.apiserver.provider import GATEWAYS, Provider, url_of, webhook
from tests.apiserver.serving import certified, serving
from tests.apiserver.webhook import ConvertedKind, conversion_webhook, never
from tests.restow.commandline import Ran, restow

OLD, NEW = "v1alpha1", "v1beta1"


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """The CA of the certificate that a webhook serves by."""
    return certified(tmp_path / "tls")


@pytest.fixture
async def provider(cluster: HttpCluster) -> AsyncIterator[Provider]:
    """The kinds, none of them installed yet."""
    made = Provider(cluster)
    yield made
    await made.remove()


async def doctor(kubeconfig: Path, name: str, *arguments: str) -> Ran:
    """Run the command."""
    return await asyncio.to_thread(restow, "doctor", name, *arguments, kubeconfig=kubeconfig)


async def problems(kubeconfig: Path, name: str) -> list[dict[str, str]]:
    """What it finds."""
    ran = await doctor(kubeconfig, name, "-o", "json")
    found: list[dict[str, str]] = ran.json["problems"]
    assert ran.code == (1 if found else 0), ran.err
    return found


async def wire(cluster: HttpCluster, name: str, conversion: dict[str, Any]) -> None:
    """Write spec.conversion, as an installation does that knows no better."""
    body = json.dumps({"spec": {"conversion": conversion}}).encode()
    await cluster.patch(CRDS, name, body, patch_type=PatchType.MERGE)


async def test_a_namespace_that_a_dead_webhook_holds_is_freed(kind: Kind, kubeconfig: Path) -> None:
    """The user of the namespace sees Terminating for ever; the cause is a webhook that someone uninstalled."""
    cluster, namespace = kind.cluster, kind.group.replace(".", "-")
    await kind.change(kind.document(storage=OLD, keyed_conditions=False))
    await cluster.create(NAMESPACES, json.dumps({"metadata": {"name": namespace}}).encode())
    body = kind.manifest(OLD, "a", spec={"size": 1})
    body["metadata"]["namespace"] = namespace
    await cluster.create(kind.at(OLD), json.dumps(body).encode(), namespace)
    await Migration(cluster, Options(settle_s=0.0)).migrate(kind.name)
    assert await problems(kubeconfig, kind.name) == []
    await wire(cluster, kind.name, webhook("https://127.0.0.1:1/convert", None))
    await until(lambda: fails(kubeconfig, kind.name), "the API server still converts without the webhook")
    await cluster.delete(NAMESPACES, namespace)
    await until(lambda: held(kubeconfig, kind.name), "the namespace is not held")

    told = await asyncio.to_thread(restow, "doctor", "--namespace", namespace, kubeconfig=kubeconfig)
    assert told.code == 1
    assert told.out.startswith(f"{kind.name}:\n1. API servers cannot call the webhook")
    assert f"the namespace {namespace} cannot be deleted" in told.out
    command = f"restow unwire {kind.name} --although-needed"
    assert f"If the webhook is gone for good, run {command}" in " ".join(told.out.split())
    ran = await asyncio.to_thread(restow, *command.split()[1:], kubeconfig=kubeconfig)
    assert ran.code == 0, ran.err

    async def gone() -> bool:
        try:
            await cluster.get(NAMESPACES, namespace)
        except NotFound:
            return True
        await asyncio.sleep(0.2)
        return False

    await until(gone, "the namespace is still there")
    assert await problems(kubeconfig, kind.name) == []


async def test_a_namespace_that_nothing_holds_needs_no_crd(kubeconfig: Path) -> None:
    """A mistyped namespace, or one that is well, must not look like one that waits."""
    told = await asyncio.to_thread(restow, "doctor", "--namespace", "default", kubeconfig=kubeconfig)
    assert (told.code, told.out) == (0, "The namespace default is not being deleted.\n")
    told = await asyncio.to_thread(restow, "doctor", "--namespace", "defualt", kubeconfig=kubeconfig)
    assert told.code == 2 and "default" in told.err
    told = await asyncio.to_thread(restow, "doctor", kubeconfig=kubeconfig)
    assert told.code == 2 and "--namespace" in told.err


async def fails(kubeconfig: Path, name: str) -> bool:
    """Whether anything is wrong."""
    return bool(await problems(kubeconfig, name))


async def held(kubeconfig: Path, name: str) -> bool:
    """Whether a namespace waits for objects."""
    return "NamespaceStuck" in [each["kind"] for each in await problems(kubeconfig, name)]


async def test_each_trouble_of_a_webhook_has_its_command(
    provider: Provider, bundle: Bundle, kubeconfig: Path, tmp_path: Path
) -> None:
    """An error message of the API server names neither the CRD's namespace of the webhook nor what to do."""
    async with serving(tmp_path / "tls") as instance:
        await provider.install(GATEWAYS, instance.port, bundle)
        await provider.create(GATEWAYS, "v1", "a", {"hosts": ["a"]})
        await Migration(provider.cluster, Options(settle_s=0.0)).migrate(GATEWAYS)
        healthy = await doctor(kubeconfig, GATEWAYS)
        assert (healthy.code, healthy.out) == (0, f"Nothing is wrong with {GATEWAYS}.\n")
        assert "1 object converts to v1alpha1" in healthy.err

        stranger = certified(tmp_path / "stranger")
        await wire(provider.cluster, GATEWAYS, webhook(url_of(instance.port, GATEWAYS), stranger))
        await until(lambda: fails(kubeconfig, GATEWAYS), "the bundle is still right")
        (problem,) = await problems(kubeconfig, GATEWAYS)
        assert problem["kind"] == "CertificateNotTrusted" and "x509" in problem["what"]

    service = {"namespace": "default", "name": "gone", "path": "/convert"}
    config = {"url": None, "service": service}
    elsewhere = {"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}}
    await wire(provider.cluster, GATEWAYS, elsewhere)
    await until(lambda: says(kubeconfig, "Service default/gone"), "the address is still the old one")
    problem, _not_proved = await problems(kubeconfig, GATEWAYS)
    assert problem["kind"] == "WebhookUnreachable" and problem["command"] == "kubectl -n default get services"
    assert "objects of gateways" in problem["remedy"] and "--although-needed" in problem["remedy"]


async def says(kubeconfig: Path, text: str) -> bool:
    """Whether a problem names something."""
    return any(text in each["what"] for each in await problems(kubeconfig, GATEWAYS))


async def test_the_objects_that_fail_a_list_are_named(
    cluster: HttpCluster, etcd: Etcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One object fails every list and watch; without its name a person would read thousands one by one."""
    monkeypatch.setattr(doctor_module, "_PAGE", 3)
    async with conversion_webhook(tmp_path) as running:
        kind = ConvertedKind(cluster, etcd, "named.example.dev", running)
        await kind.create(kind.document(storage="v1"))
        try:
            for number in range(8):
                await kind.apply(kind.manifest("v1", f"w{number}", spec={"size": number}), "alice")
            running.fails = lambda found, desired: desired == "v2" and found["metadata"]["name"] in ("w4", "w7")
            found = await diagnose(cluster, kind.name, may_be_stored, CrdExamination)
            first, second, third = found.problems
            assert first.kind is second.kind is ProblemKind.OBJECT_NOT_CONVERTIBLE
            assert third.kind is ProblemKind.NOT_PROVED
            assert first.what == "Widget default/w4 cannot be converted to v2: the converter is out of order for w4"
            assert second.command == f"kubectl -n default edit widgets.v1.{kind.group} w7"
            assert "8 objects convert to v0" in found.looked_at
        finally:
            running.fails = never
            await kind.remove()

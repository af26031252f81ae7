"""The ways to a converter: in this process, and to the CRD's webhook from inside and outside of a cluster."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from restow.cli.registries import graph_converters
from restow.controlplane.etcd import Etcd
from restow.crds import Crd
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.resources import Resource
from restow.migrator import Converter, ConverterDown, Migration, Options, Unconverted, read_crd
from restow.migrator.model.report import Requests
from restow.migrator.requests.environment import Environment, RunStop
from restow.migrator.requests.webhook import open_converter
from tests.apiserver.access import Access, Right
from tests.apiserver.catalog_conversions import registry_for
from tests.apiserver.catalogs import CatalogKind
from tests.apiserver.kind import Document, Impatient, entry_versions, owners
from tests.apiserver.test_translation import ALICE, COUNT, OWNED, every_manager_applies_on, populate
from tests.apiserver.webhook import Webhook, conversion_webhook
from tests.restow.commandline import restow

HERE = Path(__file__).parents[2]
SERVICE_NAME = "hook.default.svc"


@pytest.fixture
async def kind(cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook) -> AsyncIterator[CatalogKind]:
    """Catalogs stored at v1; v2 is served too."""
    made = CatalogKind(cluster, etcd, group, webhook)
    await made.create(made.document(storage="v1"))
    yield made
    await made.remove()


async def test_an_in_process_graph_carries_the_same_ownership(
    kind: CatalogKind, cluster: HttpCluster, webhook: Webhook
) -> None:
    """A provider's own conversions must do what its webhook does, and cost it nothing."""
    await populate(kind)
    await kind.change(kind.document(storage="v2"))
    crd = await read_crd(cluster, kind.name)
    converters = graph_converters(registry_for(kind.group).freeze([crd]))
    report = await Migration(cluster, Options(settle_s=0.0), converters=converters).migrate(kind.name)
    assert report.pruned and report.objects.translated == COUNT and report.requests.write == COUNT, report.to_json()
    assert not webhook.asked and report.requests.review == 0 and report.conversions > 0
    for found in (await kind.stored()).values():
        assert entry_versions(found) == {"v2"} and owners(found) == OWNED
    await kind.change(kind.document(storage="v2", versions=("v2",)))
    await every_manager_applies_on(kind, "w0")


async def test_registry_on_the_command_line(
    kind: CatalogKind, webhook: Webhook, kubeconfig: Path, tmp_path: Path
) -> None:
    """What the flags name must be what converts; a plan must tell whose conversions it counts."""
    await populate(kind, 2)
    await kind.change(kind.document(storage="v2"))
    module = f"from tests.apiserver.catalog_conversions import registry_for\nregistry = registry_for({kind.group!r})\n"
    (tmp_path / "provider.py").write_text(module)
    (tmp_path / "crd.json").write_text(json.dumps(kind.document(storage="v2")))
    flags = ("--registry", "provider:registry", "--crd", "crd.json")
    more: dict[str, Any] = {"kubeconfig": kubeconfig, "cwd": tmp_path, "environment": {"PYTHONPATH": str(HERE)}}
    planned = await asyncio.to_thread(restow, "plan", kind.name, *flags, **more)
    assert planned.code == 3 and "conversions in this process" in planned.err
    planned = await asyncio.to_thread(restow, "plan", kind.name, "--sample", "0", **more)
    assert planned.code == 3 and "conversions by the conversion webhook" in planned.err
    ran = await asyncio.to_thread(restow, "migrate", kind.name, *flags, "--settle", "0", "-o", "json", **more)
    assert ran.code == 0 and ran.json["crds"][0]["objects"]["translated"] == 2 and not webhook.asked
    assert {version for found in (await kind.stored()).values() for version in entry_versions(found)} == {"v2"}


@asynccontextmanager
async def opened(crd: Crd, cluster: HttpCluster, url: str | None = None) -> AsyncIterator[Converter]:
    """The converter of a CRD's webhook."""
    environment = Environment(
        cluster, RunStop(), time.monotonic, Impatient(1), longest_wait=0.0, longest_patience_s=0.0
    )
    async with open_converter(None, environment, crd, Options(conversion_url=url), Requests()) as converter:
        yield converter


def behind_service(kind: CatalogKind, webhook: Webhook) -> Crd:
    """The CRD, as if its webhook were a service of the cluster."""
    document = kind.document(storage="v2")
    document["spec"]["conversion"]["webhook"]["clientConfig"] = {
        "service": {"namespace": "default", "name": "hook", "path": "/convert"},
        "caBundle": webhook.ca_bundle,
    }
    return Crd.from_document(document)


def objects(kind: CatalogKind) -> list[Document]:
    """Objects at v1."""
    return [kind.manifest("v1", f"w{number}", spec=ALICE) for number in range(2)]


async def test_a_forwarded_port_is_verified_for_the_name_of_the_service(
    kind: CatalogKind, cluster: HttpCluster, tmp_path: Path
) -> None:
    """From a laptop: whoever else listens on that port must not be sent objects, nor be believed."""
    v2 = f"{kind.group}/v2"
    async with conversion_webhook(tmp_path, name=SERVICE_NAME) as forwarded:
        forwarded.converts = kind.webhook.converts
        crd, url = behind_service(kind, forwarded), forwarded.url.removesuffix("/convert")
        async with opened(crd, cluster, url) as converter:
            answers = await converter.convert(objects(kind), v2)
        assert [answer["spec"]["address"] for answer in answers if isinstance(answer, dict)] == ["a.local"] * 2
        count = len(forwarded.asked)
        stranger = behind_service(kind, kind.webhook)
        async with opened(stranger, cluster, url) as converter:
            with pytest.raises(ConverterDown, match="certificate"):
                await converter.convert(objects(kind), v2)
        assert len(forwarded.asked) == count


def own_address() -> str:
    """An address of this machine that is not the loopback, which no endpoint may have."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))  # nothing is sent
        except OSError as error:
            pytest.skip(f"this machine has no address but the loopback ({error})")
        address: str = probe.getsockname()[0]
        return address


@asynccontextmanager
async def service(cluster: HttpCluster, address: str, port: int) -> AsyncIterator[None]:
    """A service ``hook`` whose one pod is at an address of this machine."""
    core = {name: Resource("", "v1", name, namespaced=True) for name in ("services", "endpoints", "pods")}
    slices = Resource("discovery.k8s.io", "v1", "endpointslices", namespaced=True)
    meta = {"name": "hook", "namespace": "default"}
    container = {"name": "hook", "image": "registry.example.com/hook"}
    pod = {"metadata": meta, "spec": {"containers": [container], "automountServiceAccountToken": False}}
    at = {"ip": address, "targetRef": {"kind": "Pod", "name": "hook", "namespace": "default"}}
    accounts = Resource("", "v1", "serviceaccounts", namespaced=True)

    async def make(resource: Resource, document: Document) -> None:
        await cluster.create(resource, json.dumps(document).encode(), "default")

    await make(accounts, {"metadata": {"name": "default"}})
    await make(core["pods"], pod)
    status = json.dumps({"status": {"podIP": address, "podIPs": [{"ip": address}]}}).encode()
    await cluster.patch(core["pods"], "hook", status, "default", patch_type=PatchType.MERGE, subresource="status")
    await make(core["services"], {"metadata": meta, "spec": {"ports": [{"port": 443, "targetPort": port}]}})
    # An API server looks for a service's endpoints here, and up to 1.36 there.
    await make(
        slices,
        {
            "metadata": meta | {"labels": {"kubernetes.io/service-name": "hook"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "targetRef": at["targetRef"], "conditions": {"ready": True}}],
            "ports": [{"name": "", "port": port, "protocol": "TCP"}],
        },
    )
    await make(core["endpoints"], {"metadata": meta, "subsets": [{"addresses": [at], "ports": [{"port": port}]}]})
    try:
        yield
    finally:
        await cluster.delete(core["services"], "hook", "default")  # and its endpoints
        await cluster.delete(slices, "hook", "default")
        await cluster.delete(core["pods"], "hook", "default", body=b'{"gracePeriodSeconds": 0}')
        await cluster.delete(accounts, "default", "default")


async def test_from_outside_a_service_is_reached_through_the_api_server(
    kind: CatalogKind, cluster: HttpCluster, access: Access, tmp_path: Path
) -> None:
    """A service's name means nothing on a laptop; without another way nobody could migrate from there."""
    address = own_address()
    v2 = f"{kind.group}/v2"
    user = await access.user("laptop")
    async with (
        conversion_webhook(tmp_path, address=address, name=SERVICE_NAME) as hook,
        connect(user.kubeconfig) as laptop,
    ):
        hook.converts = kind.webhook.converts
        crd = behind_service(kind, hook)
        async with opened(crd, laptop) as converter:
            with pytest.raises(ConverterDown, match=r"forbidden.*create services/proxy.*--conversion-url"):
                await converter.convert(objects(kind), v2)
        await access.grant(user, Right("", "services/proxy", ("create",), "https:hook:443"), namespace="default")
        async with opened(crd, laptop) as converter:
            with pytest.raises(ConverterDown, match=r'services "hook" not found'):
                await converter.convert(objects(kind), v2)
        port = int(hook.url.split(":")[2].split("/")[0])
        async with service(cluster, address, port), opened(crd, laptop) as converter:
            answers = await converter.convert(objects(kind), v2)
            assert [each["spec"]["address"] for each in answers if isinstance(each, dict)] == ["a.local"] * 2
            hook.fails = lambda found, _desired: found["metadata"]["name"] == "w1"
            first, second = await converter.convert(objects(kind), v2)
            assert isinstance(first, dict) and isinstance(second, Unconverted) and second.refused

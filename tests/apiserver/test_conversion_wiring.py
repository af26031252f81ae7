"""Wiring on a real API server: what restow owns of a CRD, what it leaves to others, and what it refuses to do.

The page is docs/certificates.md.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from restow.conversion.certificates import Bundle, NotAnswering, Url, Wiring, WiringRefused, unwire, wire
from restow.conversion.certificates.wiring.crd import bundle_of
from restow.conversion.certificates.wiring.fieldmanagers import FIELD_MANAGER
from restow.crds import Crd
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import ApiError, Conflict, Invalid
from restow.kube.resources import CRDS
from restow.migrator import Migration, Options, may_be_stored
from tests.apiserver.kind import until
from tests.apiserver.provider import CACHES, GATEWAYS, Document, Provider, manifest, url_of, webhook
from tests.apiserver.serving import Instance, certified, serving

GITOPS = {"fieldManager": "gitops"}


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """The CA of the certificate that the webhook serves by."""
    return certified(tmp_path / "tls")


@pytest.fixture
async def instance(bundle: Bundle, tmp_path: Path) -> AsyncIterator[Instance]:
    """A running webhook."""
    async with serving(tmp_path / "tls") as running:
        yield running


@pytest.fixture
async def provider(cluster: HttpCluster) -> AsyncIterator[Provider]:
    """The kinds, none of them installed yet."""
    made = Provider(cluster)
    yield made
    await made.remove()


def stranger(tmp_path: Path) -> Bundle:
    """A CA of somebody else."""
    return certified(tmp_path / "stranger")


def owned(document: Document, manager: str) -> Any:
    """What a manager owns of spec.conversion."""
    for entry in document["metadata"]["managedFields"]:
        if entry["manager"] == manager and entry["operation"] == "Apply":
            return entry["fieldsV1"]["f:spec"].get("f:conversion")
    return None


async def untouched(provider: Provider) -> bool:
    """Whether the gateways' CRD is as it was created."""
    return bool((await provider.crd(GATEWAYS))["metadata"]["generation"] == 1)


async def gitops(cluster: HttpCluster, document: Document) -> Document:
    """Apply a manifest, as Argo CD or Flux do."""
    body = json.dumps(document).encode()
    reply = await cluster.patch(CRDS, document["metadata"]["name"], body, patch_type=PatchType.APPLY, params=GITOPS)
    applied: Document = reply.json()
    return applied


def shipped(name: str, port: int, bundle: Bundle | None = None) -> Document:
    """A CRD's manifest as it should be shipped: with spec.conversion, usually without caBundle."""
    document = manifest(name)
    document["spec"]["conversion"] = webhook(url_of(port, name), bundle)
    return document


async def test_of_a_shipped_manifest_only_the_bundle_becomes_ours(
    provider: Provider, instance: Instance, bundle: Bundle
) -> None:
    """Whatever else restow owned, the manifest could not change any more; and both can apply for ever."""
    before = await gitops(provider.cluster, shipped(GATEWAYS, instance.port))
    wired = await wire(provider.cluster, GATEWAYS, Wiring(bundle))
    assert wired.changed and bundle_of(wired.crd) == bundle
    now = await provider.crd(GATEWAYS)
    assert owned(now, FIELD_MANAGER) == {"f:webhook": {"f:clientConfig": {"f:caBundle": {}}}}
    assert now["metadata"]["generation"] == before["metadata"]["generation"] + 1
    await provider.served(GATEWAYS)
    assert (await provider.create(GATEWAYS, "v1alpha1", "a", {"host": "a"}))["spec"] == {"host": "a"}
    await gitops(provider.cluster, shipped(GATEWAYS, instance.port))
    again = await wire(provider.cluster, GATEWAYS, Wiring(bundle))
    assert not again.changed
    assert again.crd.generation == now["metadata"]["generation"], "the same again is no reason to rebuild watch caches"


async def test_a_manifest_without_conversion_is_wired_whole(
    provider: Provider, instance: Instance, bundle: Bundle
) -> None:
    """The server counts its default, strategy None, as a field of whoever created the CRD: a conflict for nothing."""
    await provider.create_crd(GATEWAYS)
    address = Url(url_of(instance.port, GATEWAYS))
    await wire(provider.cluster, GATEWAYS, Wiring(bundle, address))
    await provider.served(GATEWAYS)
    assert (await provider.create(GATEWAYS, "v1alpha1", "a", {"host": "a"}))["spec"] == {"host": "a"}
    wired = await wire(provider.cluster, GATEWAYS, Wiring(bundle))
    assert not wired.changed and wired.crd.strategy == "Webhook"


async def test_a_second_bundle_keeps_the_rest_that_is_ours(
    provider: Provider, instance: Instance, bundle: Bundle, tmp_path: Path
) -> None:
    """An apply of the bundle alone would take the strategy with it: the server removes what its owner leaves out."""
    await provider.create_crd(GATEWAYS)
    await wire(provider.cluster, GATEWAYS, Wiring(bundle, Url(url_of(instance.port, GATEWAYS))))
    other = stranger(tmp_path)
    wired = await wire(provider.cluster, GATEWAYS, Wiring(bundle | other))
    assert wired.crd.strategy == "Webhook" and bundle_of(wired.crd) == bundle | other
    wired = await wire(provider.cluster, GATEWAYS, Wiring(bundle, dropped=other))
    assert wired.crd.strategy == "Webhook" and bundle_of(wired.crd) == bundle


async def test_nothing_is_written_before_the_webhook_answers(
    provider: Provider, instance: Instance, bundle: Bundle, tmp_path: Path
) -> None:
    """All versions but the stored one would be down from that moment on."""
    await provider.create_crd(GATEWAYS)
    wrong_path = Url(url_of(instance.port, CACHES))
    for wiring in (
        Wiring(stranger(tmp_path), Url(url_of(instance.port, GATEWAYS))),
        Wiring(bundle, Url(url_of(1, GATEWAYS))),
        Wiring(bundle, wrong_path),
    ):
        with pytest.raises(NotAnswering):
            await wire(provider.cluster, GATEWAYS, wiring)
    assert await untouched(provider)


async def test_what_gitops_applies_is_left_to_it(
    provider: Provider, instance: Instance, bundle: Bundle, tmp_path: Path
) -> None:
    """Two that write one field take turns for ever, and every turn rebuilds the watch caches."""
    await gitops(provider.cluster, shipped(GATEWAYS, instance.port, stranger(tmp_path)))
    with pytest.raises(WiringRefused, match=r"caBundle of .* is applied by gitops"):
        await wire(provider.cluster, GATEWAYS, Wiring(bundle))
    assert await untouched(provider)


async def test_next_to_cert_manager(provider: Provider, instance: Instance, bundle: Bundle) -> None:
    """Its injector and restow would take turns."""
    document = shipped(GATEWAYS, instance.port)
    document["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": "system/webhook"}
    await gitops(provider.cluster, document)
    wired = await wire(provider.cluster, GATEWAYS, Wiring(bundle))
    assert not wired.changed and "cert-manager writes its caBundle" in wired.notes[0]
    assert await untouched(provider)


async def test_a_write_on_an_outdated_view_is_refused_and_tried_again(
    provider: Provider, instance: Instance, bundle: Bundle, tmp_path: Path
) -> None:
    """Of two that add a certificate at once, one would take the other's out."""
    await gitops(provider.cluster, shipped(GATEWAYS, instance.port))
    other = stranger(tmp_path)
    asked = 0

    async def meanwhile(_crd: Crd, _address: object, _bundle: Bundle) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            await wire(provider.cluster, GATEWAYS, Wiring(bundle | other))

    wired = await wire(provider.cluster, GATEWAYS, Wiring(bundle), probe=meanwhile)
    assert asked == 1 and not wired.changed and bundle_of(wired.crd) == bundle | other


async def test_unwiring(provider: Provider, instance: Instance, bundle: Bundle) -> None:
    """An uninstall that leaves the webhook in the CRD takes its objects, and their namespaces, hostage."""
    await gitops(provider.cluster, shipped(GATEWAYS, instance.port))
    await wire(provider.cluster, GATEWAYS, Wiring(bundle))
    await provider.served(GATEWAYS)
    await provider.create(GATEWAYS, "v1", "a", {"hosts": ["a"]})
    with pytest.raises(WiringRefused, match=r"objects differ between v1 and v1alpha1 \(default/a at /spec/hosts"):
        await unwire(provider.cluster, GATEWAYS, may_be_stored)
    await Migration(provider.cluster, Options(settle_s=0.0)).migrate(GATEWAYS)
    served = await provider.crd(GATEWAYS)
    for version in served["spec"]["versions"]:
        version["served"] = version["name"] == "v1"
    await provider.cluster.replace(CRDS, GATEWAYS, json.dumps(served).encode())
    assert [(await unwire(provider.cluster, GATEWAYS, may_be_stored)).changed for _ in range(2)] == [True, False]
    assert (await provider.crd(GATEWAYS))["spec"]["conversion"] == {"strategy": "None"}
    await instance.stop()
    await until(lambda: readable(provider), "the object cannot be read without the webhook")
    await provider.delete(GATEWAYS, "v1", "a")


async def readable(provider: Provider) -> bool:
    """Whether an object can be read at the version that is left."""
    try:
        return (await provider.get(GATEWAYS, "v1", "a"))["spec"] == {"hosts": ["a"]}
    except ApiError:
        return False


async def test_a_manifest_that_drops_conversion_needs_unwiring_first(
    provider: Provider, instance: Instance, bundle: Bundle
) -> None:
    """As docs/certificates.md says: the server refuses a CRD in which our caBundle is all that is left."""
    await gitops(provider.cluster, shipped(GATEWAYS, instance.port))
    await wire(provider.cluster, GATEWAYS, Wiring(bundle))
    plain = manifest(GATEWAYS)
    with pytest.raises(Invalid, match="strategy"):
        await gitops(provider.cluster, plain)


async def test_the_server_refuses_what_was_read_too_early(provider: Provider) -> None:
    """That an apply carries the resourceVersion is only worth something if the server looks at it."""
    await provider.create_crd(CACHES)
    body = {**manifest(CACHES), "metadata": {"name": CACHES, "resourceVersion": "1"}}
    with pytest.raises(Conflict):
        await gitops(provider.cluster, body)

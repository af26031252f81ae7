"""``restow unwire``, the last step before a webhook is uninstalled: what it proves first, and what it removes.

The page is docs/certificates.md.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from restow.controlplane.etcd import Etcd
from restow.conversion.certificates import Url, WiringRefused, unwire
from restow.conversion.certificates.ca.store import SECRETS
from restow.conversion.certificates.wiring.crd import UNWIRED
from restow.conversion.certificates.wiring.documents import stash_name
from restow.kube import Cluster, PatchType, Reply, Resource
from restow.kube.client import HttpCluster
from restow.kube.errors import NotFound
from restow.kube.resources import CRDS
from restow.migrator import may_be_stored
from tests.apiserver.kind import Document, until
from tests.apiserver.provider import GATEWAYS, Provider
from tests.apiserver.serving import MANIFESTS, Instance
from tests.apiserver.test_proof import stored_at, trim
from tests.apiserver.test_serve_own_ca import HOOKS
from tests.apiserver.webhook import ConvertedKind, Webhook
from tests.ports import free_port
from tests.restow.commandline import Cli, Ran, restow

KEPT = "restow-webhook"


class Installation:
    """A webhook with a CA of its own, which keeps a CRD wired and its stashes restored."""

    def __init__(self, cluster: HttpCluster, kubeconfig: Path, folder: Path) -> None:
        self.cluster, self.provider, self.folder = cluster, Provider(cluster), folder
        self.kubeconfig = kubeconfig
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.instances: list[Instance] = []

    async def start(self) -> Instance:
        """Start a replica; return once the CRD is wired to it."""
        flags = [f"--crd={MANIFESTS / 'gateways.yaml'}", f"--own-ca={self.url}", "--restore-stashes"]
        instance = await Instance.start(
            self.folder, flags=[*flags, f"--kubeconfig={self.kubeconfig}", f"--port={self.port}"]
        )
        self.instances.append(instance)
        await until(self.wired, "the CRD is not wired")
        await until(self.exists(HOOKS, stash_name(Url(self.url))), "the configuration is not installed")
        await self.provider.served(GATEWAYS)
        return instance

    async def crd(self) -> Any:
        """The CRD as it is now."""
        return (await self.cluster.get(CRDS, GATEWAYS)).json()

    async def wired(self) -> bool:
        """Whether the CRD calls a webhook."""
        return bool((await self.crd())["spec"]["conversion"]["strategy"] == "Webhook")

    def exists(self, resource: Resource, name: str, namespace: str | None = None) -> Callable[[], Awaitable[bool]]:
        """Return what tells whether an object exists."""

        async def found() -> bool:
            try:
                await self.cluster.get(resource, name, namespace)
            except NotFound:
                return False
            return True

        return found

    async def left(self) -> list[str]:
        """What restow keeps for the server, of what is still there."""
        places: Sequence[tuple[Resource, str, str | None]] = (
            (HOOKS, stash_name(Url(self.url)), None),
            (SECRETS, KEPT, "default"),
            (SECRETS, f"{KEPT}-ca", "default"),
        )
        return [name for resource, name, namespace in places if await self.exists(resource, name, namespace)()]

    async def unwire(self, *arguments: str) -> Ran:
        """Run ``restow unwire``."""
        return await asyncio.to_thread(restow, "unwire", *arguments, kubeconfig=self.kubeconfig)

    async def remove(self) -> None:
        """Take everything away."""
        for instance in self.instances:
            await instance.stop()
        await self.provider.remove()
        with suppress(NotFound):
            await self.cluster.delete(HOOKS, stash_name(Url(self.url)))
        for name in (KEPT, f"{KEPT}-ca"):
            with suppress(NotFound):
                await self.cluster.delete(SECRETS, name, namespace="default")


@pytest.fixture
async def installation(cluster: HttpCluster, kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Installation]:
    """One that has not begun."""
    made = Installation(cluster, kubeconfig, tmp_path)
    yield made
    await made.remove()


async def test_the_webhook_goes_only_when_no_object_needs_it(installation: Installation) -> None:
    """Unwired too early, objects lose fields at their next write; wired again by a server that is about to go, they
    cannot be read at all.
    """
    provider = installation.provider
    await provider.create_crd(GATEWAYS)
    instance = await installation.start()
    await provider.create(GATEWAYS, "v1", "a", {"hosts": ["a.example.dev"]})

    refused = await installation.unwire(GATEWAYS)
    assert refused.code == 3 and "(default/a at /spec/hosts/0)" in refused.err, refused.err
    assert await installation.wired() and len(await installation.left()) == 3
    await provider.delete(GATEWAYS, "v1", "a")

    looked = await installation.unwire(f"--server={installation.url}", "--dry-run")
    assert looked.code == 0 and await installation.wired() and len(await installation.left()) == 3
    assert [row[-1] for row in looked.rows[1:]] == ["can be unwired", *["would be removed"] * 3]

    done = await installation.unwire(f"--server={installation.url}")
    assert done.code == 0, done.err
    assert [row[-1] for row in done.rows[1:]] == ["unwired", *["removed"] * 3]
    assert "; 0 were read." in done.err and "stop serving v1beta1, v1alpha1" in done.err
    await until(lambda: logged(instance, b"was unwired"), "the server does not notice it")
    instance.reload()
    again = await installation.unwire(GATEWAYS, "-o", "json")
    assert (again.code, again.json["crds"]) == (0, [{"name": GATEWAYS, "state": "has no webhook"}])
    assert not await installation.wired() and await installation.left() == []

    await instance.stop()
    await installation.start()
    assert UNWIRED not in (await installation.crd())["metadata"].get("annotations", {}), "a new installation begins"


async def test_a_server_stays_while_crds_trust_its_ca_at_another_address(installation: Installation) -> None:
    """The Service's name leads to the Secrets, and the CRDs name a URL: without the Secrets no object can be read."""
    await installation.provider.create_crd(GATEWAYS)
    await installation.start()
    for more in (("--dry-run",), ()):
        refused = await installation.unwire(f"--server=default/{KEPT}", *more)
        assert refused.code == 3 and await installation.wired() and len(await installation.left()) == 3
        assert f"the CRD {GATEWAYS}, the MutatingWebhookConfiguration " in refused.err, refused.err
        assert f"rely on the CA in the Secret default/{KEPT}-ca" in refused.err
        assert f"run restow unwire --server {installation.url} instead" in refused.err
    kept = await installation.unwire(f"--server=default/{KEPT}", "--keep-server")
    assert kept.code == 0 and await installation.wired() and len(await installation.left()) == 3
    done = await installation.unwire(f"--server={installation.url}")
    assert (done.code, await installation.left()) == (0, []), done.err


@pytest.mark.parametrize("called", ["hook.my-system.svc", "hook.my-system.svc.cluster.local"])
async def test_a_url_with_the_name_of_the_service_is_that_server(installation: Installation, called: str) -> None:
    """A URL is how a CRD names a port that the Service maps elsewhere; overlooked, it would outlive its webhook."""
    await installation.provider.create_crd(GATEWAYS)
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": f"https://{called}/convert/{GATEWAYS}"}}
    body = json.dumps({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}}).encode()
    await installation.cluster.patch(CRDS, GATEWAYS, body, patch_type=PatchType.MERGE)
    done = await installation.unwire("--server=my-system/hook")
    assert (done.code, done.rows[1:]) == (0, [["CRD", GATEWAYS, "unwired"]]), done.err
    assert not await installation.wired()


async def test_a_configuration_of_others_keeps_the_server(installation: Installation) -> None:
    """Without the webhook that it names, writes of its kinds are refused, or no longer checked."""
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["as"], "operations": ["CREATE"]}
    service = {"namespace": "my-system", "name": "hook", "path": "/admit/mine"}
    hook = {"name": "mine.example.com", "clientConfig": {"service": service}, "rules": [rule]}
    hook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"]}
    body = {"metadata": {"name": "mine"}, "webhooks": [hook]}
    await installation.cluster.create(HOOKS, json.dumps(body).encode())
    try:
        refused = await installation.unwire("--server=my-system/hook")
        assert refused.code == 3, refused.err
        assert "still called by the MutatingWebhookConfiguration mine: unwire or delete these first" in refused.err
    finally:
        await installation.cluster.delete(HOOKS, "mine")
    assert (await installation.unwire("--server=my-system/hook")).code == 0


async def logged(instance: Instance, text: bytes) -> bool:
    """Whether the process said so."""
    assert instance.process.stderr is not None
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            instance.log.append(await instance.process.stderr.readline())
    return any(text in line for line in instance.log)


COUNT = 3


async def prepared(kind: ConvertedKind, cli: Cli, *, history: str) -> None:
    """Objects stored at v1, although v2 is the storage version, alone is served, and alone is in storedVersions."""
    await kind.create(kind.document(storage="v1", versions=("v1", "v2")))
    if history == "migrated once":
        await kind.change(kind.document(storage="v2", versions=("v1", "v2")))
        assert (await cli("migrate", kind.name, "--settle=0")).code == 0
        await kind.change(kind.document(storage="v1", versions=("v1", "v2")))
    for number in range(COUNT):
        await kind.apply(kind.manifest("v1", f"w{number}", spec={"host": f"h{number}"}), "alice")
    await kind.change(kind.document(storage="v2", versions=("v1", "v2"), served=["v2"]))
    await trim(kind.cluster, kind, "v2")
    assert await stored_at(kind) == {"v1"}


@pytest.mark.parametrize("way", ["by name", "by the hook of the chart"])
@pytest.mark.parametrize("history", ["never migrated", "migrated once"])
async def test_stored_versions_prove_nothing(
    cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook, cli: Cli, history: str, way: str
) -> None:
    """With the strategy None the field of the old version reads as absent, and the next write stores that."""
    kind = ConvertedKind(cluster, etcd, group, webhook)
    arguments = [kind.name, "--keep-server"] if way == "by name" else [f"--server={webhook.url}", "--keep-server"]
    try:
        await prepared(kind, cli, history=history)
        refused = await cli("unwire", *arguments)
        assert refused.code == 3 and f"run restow migrate {kind.name}" in refused.err, refused.err
        assert await strategy(kind) == "Webhook"
        assert (await kind.get("v2", "w1"))["spec"] == {"address": "h1"}

        migrated = await cli("migrate", kind.name, "--settle=0")
        assert migrated.code == 0 and await stored_at(kind) == {"v2"}, migrated.err
        done = await cli("unwire", *arguments)
        assert (done.code, await strategy(kind)) == (0, "None"), done.err
        await kind.merge("v2", "w1", {"metadata": {"labels": {"a": "b"}}}, "bob")
        assert (await kind.stored())["default/w1"]["spec"] == {"address": "h1"}
    finally:
        await kind.remove()


async def strategy(kind: ConvertedKind) -> str:
    """The conversion strategy of the CRD."""
    crd = (await kind.cluster.get(CRDS, kind.name)).json()
    return str((crd["spec"].get("conversion") or {}).get("strategy"))


class Measured(ConvertedKind):
    """A size in MiB at v1 and in KiB at v2, with one schema."""

    canary = {"size": 1024}  # noqa: RUF012 as the class above
    schemas = {  # noqa: RUF012 as the class above
        version: {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
        }
        for version in ("v1", "v2")
    }

    @staticmethod
    def converts(found: Document, desired: str) -> Document:
        """Multiply or divide, where the version changes."""
        spec = dict(found.get("spec", {}))
        if "size" in spec and found["apiVersion"] != desired:
            spec["size"] = spec["size"] * 1024 if desired.endswith("v2") else spec["size"] // 1024
        return found | {"apiVersion": desired, "spec": spec}


@pytest.mark.parametrize("migrated", [False, True])
async def test_equal_schemas_prove_nothing(
    cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook, cli: Cli, *, migrated: bool
) -> None:
    """A unit of two versions shows in no schema, and readers would see a thousandth of the size, or a thousandfold."""
    kind = Measured(cluster, etcd, group, webhook)
    try:
        await kind.create(kind.document(storage="v1"))
        for number in range(7):
            await kind.apply(kind.manifest("v1", f"w{number}", spec={"size": number}), "alice")
        await kind.change(kind.document(storage="v2"))
        if migrated:
            assert (await cli("migrate", kind.name, "--settle=0")).code == 0
        refused = await cli("unwire", kind.name)
        assert refused.code == 3 and "default/w1 at /spec/size" in refused.err, refused.err
        assert "default/w0" not in refused.err and "default/w6" not in refused.err, "0 is 0, and five are named"
        assert f"restow ready {kind.name} --drop v1" in refused.err
        assert ("restow migrate" in refused.err) is not migrated
        assert await strategy(kind) == "Webhook"

        for number in range(1, 7):
            await kind.delete("v2", f"w{number}")
        done = await cli("unwire", kind.name)
        assert (done.code, await strategy(kind)) == (0, "None"), done.err
        assert "1 was read" in done.err and "stop serving v1" in done.err
    finally:
        await kind.remove()


async def test_a_webhook_that_is_away_shows_nothing(
    cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook, cli: Cli
) -> None:
    """What it would have converted is not known, so only a person can decide; without an object nothing is at stake."""
    kind = Measured(cluster, etcd, group, webhook)
    try:
        await kind.create(kind.document(storage="v2"))
        await kind.apply(kind.manifest("v2", "w", spec={"size": 2048}), "alice")
        webhook.url = "https://127.0.0.1:1/convert"
        away = kind.document(storage="v2")
        await kind.cluster.patch(
            CRDS, kind.name, json.dumps({"spec": away["spec"]}).encode(), patch_type=PatchType.MERGE
        )
        refused = await cli("unwire", kind.name)
        assert refused.code == 3 and "it is not known" in refused.err and "connection refused" in refused.err
        assert await strategy(kind) == "Webhook"
        forced = await cli("unwire", kind.name, "--although-needed")
        assert (forced.code, await strategy(kind)) == (0, "None"), forced.err
    finally:
        await kind.remove()


class Meanwhile:
    """A cluster in which something happens just before the first patch."""

    def __init__(self, cluster: HttpCluster, happens: Callable[[], Awaitable[None]]) -> None:
        self._cluster, self._happens = cluster, [happens]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def patch(self, *arguments: Any, **more: Any) -> Reply:
        """Let it happen, then patch."""
        while self._happens:
            await self._happens.pop()()
        return await self._cluster.patch(*arguments, **more)


async def test_a_flip_during_the_comparison_is_noticed(
    cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook
) -> None:
    """An object that is stored at another version meanwhile was compared with nothing, and would lose its field."""
    kind = ConvertedKind(cluster, etcd, group, webhook)

    async def flip() -> None:
        await kind.change(kind.document(storage="v1", versions=("v1", "v2")))
        await kind.apply(kind.manifest("v1", "late", spec={"host": "a"}), "alice")

    try:
        await kind.create(kind.document(storage="v2", versions=("v1", "v2")))
        await kind.apply(kind.manifest("v2", "w", spec={"size": 1}), "alice")
        with pytest.raises(WiringRefused, match="default/late at /spec/"):
            await unwire(cast("Cluster", Meanwhile(cluster, flip)), kind.name, may_be_stored)
        assert await strategy(kind) == "Webhook"
    finally:
        await kind.remove()

"""``restow unwire`` while ``restow serve --own-ca`` runs: the last step before a webhook is uninstalled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from restow.conversion.certificates import Url, stash_name
from restow.conversion.certificates.ca.store import SECRETS
from restow.conversion.certificates.wiring.crd import UNWIRED
from restow.kube import Resource
from restow.kube.client import HttpCluster
from restow.kube.errors import NotFound
from restow.kube.resources import CRDS
from tests.apiserver.kind import until
from tests.apiserver.provider import GATEWAYS, Provider
from tests.apiserver.serving import MANIFESTS, Instance
from tests.apiserver.test_serve_own_ca import HOOKS, free_port
from tests.restow.commandline import Ran, restow

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
    assert refused.code == 3 and "1 of 1 objects (default/a) have fields" in refused.err, refused.err
    assert await installation.wired() and len(await installation.left()) == 3
    await provider.delete(GATEWAYS, "v1", "a")

    looked = await installation.unwire(f"--server={installation.url}", "--dry-run")
    assert looked.code == 0 and await installation.wired() and len(await installation.left()) == 3
    assert [row[-1] for row in looked.rows[1:]] == ["can be unwired", *["would be removed"] * 3]

    done = await installation.unwire(f"--server={installation.url}")
    assert done.code == 0, done.err
    assert [row[-1] for row in done.rows[1:]] == ["unwired", *["removed"] * 3]
    assert "none of the 0 objects" in done.err and "stop serving it" in done.err
    await until(lambda: logged(instance, b"was unwired"), "the server does not notice it")
    instance.reload()
    again = await installation.unwire(GATEWAYS, "-o", "json")
    assert (again.code, again.json["crds"]) == (0, [{"name": GATEWAYS, "state": "has no webhook"}])
    assert not await installation.wired() and await installation.left() == []

    await instance.stop()
    await installation.start()
    assert UNWIRED not in (await installation.crd())["metadata"].get("annotations", {}), "a new installation begins"


async def logged(instance: Instance, text: bytes) -> bool:
    """Whether the process said so."""
    assert instance.process.stderr is not None
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            instance.log.append(await instance.process.stderr.readline())
    return any(text in line for line in instance.log)

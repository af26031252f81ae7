"""The operator's own CA is lost under load: a new one takes its place, and no API server ever distrusts the webhook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

from restow.conversion.certificates import Bundle, NotAnswering, Url
from restow.conversion.certificates.ca import Lifetimes
from restow.conversion.certificates.ca.store import SECRETS
from restow.conversion.certificates.probe import probe_hook
from restow.conversion.server import Limits, bind
from restow.kube.client import HttpCluster, connect
from restow.kube.cluster import PatchType
from restow.operator import Settings, run
from tests.apiserver.kind import Document, until
from tests.apiserver.load import Load
from tests.apiserver.operators import bundles, clean
from tests.apiserver.profile_api import Api
from tests.apiserver.profile_controllers import World
from tests.apiserver.proxy import Proxy, Seen
from tests.ports import free_port

LIVES = Lifetimes(settle=timedelta(seconds=2), margin=timedelta(seconds=4))
PATIENCE = 120.0
LOOK = 0.25  # seconds between two looks at all bundles, which are in large documents


@asynccontextmanager
async def running(kubeconfig: Path, port: int) -> AsyncIterator[None]:
    """Run the operator in this process, with short lifetimes, inside of the block."""
    stop = asyncio.Event()
    settings = Settings(
        identity=Url(f"https://127.0.0.1:{port}"),
        listen=lambda _webhook, _certificate: (bind("127.0.0.1", port), bind("127.0.0.1", 0)),
        connect=lambda: connect(kubeconfig),
        limits=Limits(drain_seconds=0.0),
        installs_crds=True,
        lifetimes=LIVES,
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(run(settings, stop))
        try:
            yield
        finally:
            stop.set()


async def edit(cluster: HttpCluster, load: Load) -> None:
    """Change specs as a client of v1beta1, by which conversion and both configurations are called."""
    old, turn = Api(cluster, "v1beta1"), 0
    while True:
        turn += 1
        day = f"29{turn % 90 + 10}-01-01T00:00:00Z"
        versions = [{"version": "1.30.5", "classification": "supported", "expirationDate": day}]
        body = b'{"spec": {"kubernetes": {"versions": %s}}}' % encoded(versions)
        change = partial(cluster.patch, old.at("CloudProfile"), "a", body, patch_type=PatchType.MERGE)
        await load.count(change)
        await asyncio.sleep(0.05)


def encoded(versions: list[Document]) -> bytes:
    """Versions as JSON."""
    return json.dumps(versions).encode()


async def look(cluster: HttpCluster, port: int) -> None:
    """Verify what is served by every bundle, over a new connection each: API servers keep theirs and would not see."""
    address = Url(f"https://127.0.0.1:{port}/admit/cloudprofiles")
    while True:
        for bundle in dict.fromkeys(await bundles(cluster)):
            try:
                await probe_hook(address, bundle)
            except NotAnswering:
                # It may have changed between reading and connecting; then, and only then, that is no outage.
                if bundle in await bundles(cluster):
                    raise
        await asyncio.sleep(0.2)


async def hesitate(request: Seen) -> None:
    """Let each write of a bundle take longer than a server needs to load a new certificate."""
    if request.method == "PATCH" and (request.of_crd or "webhookconfigurations" in request.path):
        await asyncio.sleep(2.0)


async def test_a_lost_authority_is_replaced_without_a_refused_request(cluster: HttpCluster, proxy: Proxy) -> None:
    """With failurePolicy Fail, as long as a certificate does not verify nothing can be written."""
    port = free_port()
    try:
        async with running(proxy.kubeconfig, port):
            await until(lambda: bundles(cluster), "CRDs and configurations do not name the operator")
            world, load = World(cluster), Load()
            await world.profile("a", {"version": "1.30.5"})
            first = await one(cluster)
            proxy.hook = hesitate
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(edit(cluster, load)), group.create_task(look(cluster, port))]
                await cluster.delete(SECRETS, "restow-webhook-ca", "default")
                both = await asyncio.wait_for(overlapping(cluster), PATIENCE)
                last = await asyncio.wait_for(replaced(cluster, first), PATIENCE)
                for task in tasks:
                    task.cancel()
            assert all(first & bundle for bundle in both), "the old CA has to stay until the new one signs"
            assert not load.failures, load.failures[:3]
            assert load.succeeded >= 5, load
            assert last & both[0]
    finally:
        await clean(cluster, "default")


async def one(cluster: HttpCluster) -> Bundle:
    """The bundle that all have."""
    found = dict.fromkeys(await bundles(cluster))
    assert len(found) == 1
    return next(iter(found))


async def overlapping(cluster: HttpCluster) -> list[Bundle]:
    """Wait until all bundles have a second CA; return them."""
    while True:
        found = await bundles(cluster)
        if all(len(bundle) == 2 for bundle in found):
            return found
        await asyncio.sleep(LOOK)


async def replaced(cluster: HttpCluster, first: Bundle) -> Bundle:
    """Wait until the first CA is in no bundle; return the one that all have."""
    while any(bundle & first for bundle in await bundles(cluster)):
        await asyncio.sleep(LOOK)
    return await one(cluster)

"""Rules in the cluster through their whole life, with clients at work at both versions: no conversion ever fails.

The rules change ten times; ``RESTOW_RULE_CHANGES=100`` makes it a hundred.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

from restow.conversion.certificates import Url
from restow.conversion.certificates.ca import Certificates, Lifetimes
from restow.conversion.certificates.ca.store import SecretStore
from restow.conversion.server import Limits, ServerPhase, ServingCertificate, WebhookServer, bind
from restow.kube import LeaseTiming, PatchType, connect
from restow.kube.client import HttpCluster
from restow.kube.resources import CRDS
from restow.operator import Settings
from restow.operator.conversions import run
from tests.apiserver.balancer import Balancer, balancing
from tests.apiserver.kind import Document, until
from tests.apiserver.load import Load
from tests.apiserver.test_conversions_in_cluster import Jobs, clean
from tests.ports import free_port

CHANGES = int(os.environ.get("RESTOW_RULE_CHANGES", "10"))
LIVES = Lifetimes(settle=timedelta(seconds=2), margin=timedelta(seconds=35))
"""The margin is longer than the 30 s after which each replica looks at the Secrets."""
TIMING = LeaseTiming(lease_duration=4, renew_deadline=3.0, retry_period=0.5)


@dataclass
class Seen:
    """What clients were shown that was not what they had written."""

    load: Load = field(default_factory=Load)
    wrong: list[Document] = field(default_factory=list)


@asynccontextmanager
async def replica(kubeconfig: Path, balancer: Balancer) -> AsyncIterator[WebhookServer]:
    """Run a replica in this process, behind the balancer, inside of the block."""
    stop, served = asyncio.Event(), asyncio.get_running_loop().create_future()
    port = free_port()

    def listen(webhook: WebhookServer, _certificate: ServingCertificate) -> tuple[object, object]:
        served.set_result(webhook)
        return bind("127.0.0.1", port), bind("127.0.0.1", 0)

    settings = Settings(
        identity=Url(f"https://127.0.0.1:{balancer.port}"),
        listen=listen,  # type: ignore[arg-type]
        connect=lambda: connect(kubeconfig),
        limits=Limits(drain_seconds=3.0),  # the balancer goes on sending for a while, on a busy machine for longer
        installs_crds=True,
        lifetimes=LIVES,
        timing=TIMING,
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(run(settings, stop))
        webhook: WebhookServer = await served

        async def is_ready() -> bool:
            return webhook.phase is ServerPhase.SERVING

        backend = balancer.add(port, is_ready)
        try:
            yield webhook
        finally:
            stop.set()
            while webhook.phase is ServerPhase.SERVING:
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.2)
            balancer.remove(backend)


async def client(jobs: Jobs, name: str, seen: Seen) -> None:
    """Write at one version and read at the other, in turn; list at both."""
    turn = 0
    while True:
        turn += 1
        seconds = turn % 59 + 1
        number, text = {"timeoutSeconds": seconds}, {"timeout": f"{seconds}s"}
        (writes, said), (reads, shown) = (("v1beta1", number), ("v1", text))[:: -1 if turn % 2 else 1]
        body = json.dumps({"spec": said}).encode()
        patch = partial(jobs.cluster.patch, jobs.at(writes), name, body, "default", patch_type=PatchType.MERGE)
        await seen.load.count(patch)

        async def read(version: str = reads, wanted: Document = shown) -> None:
            found = await jobs.spec(version, name)
            if found != {"image": "a", **wanted}:
                seen.wrong.append(found)

        await seen.load.count(read)
        await seen.load.count(partial(jobs.cluster.list_page, jobs.at(reads), "default"))
        await asyncio.sleep(0.02)


async def rotate(cluster: HttpCluster, port: int, tmp_path: Path) -> None:
    """Begin a rotation of the CA, and wait until the new one alone signs."""
    store = SecretStore(cluster, "default", "restow-webhook")
    before = await store.read_trust()
    assert before is not None
    certificates = Certificates(
        cluster, "restow-webhook", "default", hosts={"127.0.0.1"}, folder=tmp_path, crds={}, lifetimes=LIVES
    )
    await certificates.rotate_authority()

    async def rotated() -> bool:
        now = await store.read_trust()
        return now is not None and now.successor is None and now.signing != before.signing

    await until(rotated, "the CA is not rotated")


async def test_the_whole_life(cluster: HttpCluster, kubeconfig: Path, group: str, tmp_path: Path) -> None:
    """Rules change, a wrong change is made in between, replicas restart and the CA rotates: 0 failed conversions."""
    jobs, seen = Jobs(cluster, group), Seen()
    await cluster.create(CRDS, json.dumps(jobs.crd()).encode())
    await jobs.served()
    try:
        async with balancing() as balancer, replica(kubeconfig, balancer):
            await jobs.create("v1", "odd", timeout="1h30m")
            for number in range(2):
                await jobs.create("v1", f"load-{number}", image="a")
            await jobs.declare(jobs.rules())
            await jobs.condition("Ready", "True")
            async with asyncio.TaskGroup() as work:
                clients = [work.create_task(client(jobs, f"load-{number}", seen)) for number in range(2)]
                rotating = work.create_task(rotate(cluster, balancer.port, tmp_path))
                for number in range(CHANGES):
                    if number % 3 == 0:
                        async with replica(kubeconfig, balancer):
                            await change(jobs, number)
                    else:
                        await change(jobs, number)
                await rotating
                for each in clients:
                    each.cancel()
    finally:
        await jobs.remove()
        await clean(cluster)
    assert seen.load.failures == []
    assert seen.wrong == []
    assert seen.load.succeeded > 10 * CHANGES


async def change(jobs: Jobs, number: int) -> None:
    """Change the rules; each third time first to wrong ones, which must not serve."""
    if number % 3 == 1:
        served = (await jobs.status())["served"]
        wrong = {"up": "string(self) + 's'", "down": "int(self)"}
        pair = {"pair": {"spoke": "spec.timeoutSeconds", "hub": "spec.timeout", **wrong}}
        told = await jobs.condition("Rehearsed", "False", await jobs.change(jobs.rules(pair)))
        assert "default/odd: " in told["message"]
        assert (await jobs.status())["served"] == served
    generation = await jobs.change(jobs.rules(stash={"budget": 10_000 + number}))
    await jobs.condition("Ready", "True", generation)
    assert (await jobs.status())["served"]["generation"] == generation

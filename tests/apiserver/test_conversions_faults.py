"""``restow operator --conversions`` on a real API server that restarts, with a killed leader, with spoilt Secrets."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from restow.controlplane.plane import ControlPlane
from restow.conversion.certificates.ca.store import SECRETS
from restow.conversion.certificates.wiring.documents import configuration_document, webhook_document, webhook_rule
from restow.conversion.operate.declarations import declaration_name
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import PatchType
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError, NotFound
from restow.kube.resources import CONFIG_MAPS, CRDS, LEASES
from tests.apiserver.balancer import Balancer, balancing
from tests.apiserver.kind import until
from tests.apiserver.load import Load
from tests.apiserver.operators import CONFIGURATIONS, ROOT
from tests.apiserver.test_conversions_in_cluster import LEASE, Jobs, Replicas, clean, jobs, replicas
from tests.ports import free_port
from tests.restow.commandline import restow

__all__ = ["jobs", "replicas"]


@asynccontextmanager
async def quick_replica(kubeconfig: Path, balancer: Balancer) -> AsyncIterator[asyncio.subprocess.Process]:
    """A replica with short Leases, which is killed in the end; returns once it is ready."""
    probes = free_port()
    arguments = (str(kubeconfig), str(free_port()), str(probes), f"https://127.0.0.1:{balancer.port}")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.apiserver.quick_replica", *arguments, cwd=ROOT
    )

    async def ready() -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{probes}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    backend = balancer.add(int(arguments[1]), ready)
    try:
        await until(ready, "the replica does not become ready")
        yield process
    finally:
        balancer.remove(backend)
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_the_leader_is_killed(cluster: HttpCluster, kubeconfig: Path, group: str) -> None:
    """New rules would pass no gate until a user deletes the Lease, or the other replica would stop converting."""
    kind, load = Jobs(cluster, group), Load()
    await cluster.create(CRDS, json.dumps(kind.crd()).encode())
    await kind.served()
    try:
        async with balancing() as balancer, quick_replica(kubeconfig, balancer) as leader:
            await kind.create("v1", "a", timeout="30s")
            await kind.declare(kind.rules())
            await kind.condition("Ready", "True")
            async with quick_replica(kubeconfig, balancer):
                await serving(kind, "served by 2 replicas")
                former = await holder(cluster)
                leader.kill()
                await leader.wait()
                # The Service leaves it out, and connections to it have broken.
                await until(lambda: left_out(balancer), "the killed replica gets connections")
                balancer.hang_up()
                await kind.spec("v1beta1", "a")
                reading = asyncio.create_task(read_always(kind, load))
                generation = await kind.change(kind.rules(stash={"budget": 10_000}))
                await kind.condition("Ready", "True", generation)
                reading.cancel()
                assert (await kind.status())["served"]["generation"] == generation
                assert await holder(cluster) not in ("", former)
    finally:
        await kind.remove()
        await clean(cluster)
    assert load.failures == []
    assert load.succeeded > 10


async def test_rules_that_another_webhook_refuses_leave_no_record(
    cluster: HttpCluster, kubeconfig: Path, group: str
) -> None:
    """Each creation under another name would leave a ConfigMap for ever, until etcd is full."""
    kind, lost = Jobs(cluster, group), f"lost.{group}"
    await cluster.create(CRDS, json.dumps(kind.crd()).encode())
    await kind.served()

    async def record(name: str) -> bool:
        try:
            await cluster.get(CONFIG_MAPS, declaration_name(name), "default")
        except NotFound:
            return False
        return True

    async def collected() -> bool:
        return not await record(lost)

    try:
        async with balancing() as balancer, quick_replica(kubeconfig, balancer):
            await kind.declare(kind.rules())
            await kind.condition("Ready", "True")
            rule = webhook_rule(
                CONVERSION_RULES.group, "v1alpha1", CONVERSION_RULES.plural, ("CREATE",), namespaced=False
            )
            webhook = webhook_document(f"refuse.{group}", {"url": "https://127.0.0.1:1/"}, [rule])
            webhook |= {"objectSelector": {"matchLabels": {"refused": "yes"}}}
            whole = configuration_document("ValidatingWebhookConfiguration", f"refuse.{group}", [webhook])
            await cluster.create(CONFIGURATIONS[1], json.dumps(whole).encode())
            rules = kind.rules(name=lost)
            rules["metadata"]["labels"] = {"refused": "yes"}

            async def refused() -> bool:
                try:
                    await cluster.create(CONVERSION_RULES, json.dumps(rules).encode())
                except ApiError as error:
                    return "refuse." in str(error) and await record(lost)
                await cluster.delete(CONVERSION_RULES, lost)
                return False

            await until(refused, "no creation fails after restow's answer")
            await until(collected, "the record stays")
            assert await record(kind.name), "that of the rules which exist"
    finally:
        with suppress(NotFound):
            await cluster.delete(CONFIGURATIONS[1], f"refuse.{group}")
        await kind.remove()
        await clean(cluster)


async def left_out(balancer: Balancer) -> bool:
    """Whether one backend alone gets connections."""
    return [each.ready for each in balancer.backends].count(True) == 1


async def serving(kind: Jobs, said: str) -> None:
    """Wait until the condition Serving says something."""

    async def says() -> bool:
        conditions = {each["type"]: each["message"] for each in (await kind.status())["conditions"]}
        return said in conditions["Serving"]

    await until(says, f"Serving does not say: {said}")


async def holder(cluster: HttpCluster) -> str:
    """Who leads."""
    return str((await cluster.get(LEASES, LEASE, "default")).json()["spec"].get("holderIdentity") or "")


async def read_always(kind: Jobs, load: Load) -> None:
    """Read an object at the other version, again and again."""
    while True:
        await load.count(lambda: kind.spec("v1beta1", "a"))
        await asyncio.sleep(0.02)


async def test_the_api_server_restarts_while_the_operator_starts(
    cluster: HttpCluster, control_plane: ControlPlane, replicas: Replicas, group: str
) -> None:
    """An upgrade of the control plane would leave an operator that started meanwhile in a crash loop, or half wired."""
    server, called = control_plane.apiservers[0], asyncio.Event()

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()
        writer.transport.abort()

    await server.stop(10)
    try:
        async with await asyncio.start_server(hang_up, "127.0.0.1", urlsplit(server.server).port):
            starting = asyncio.create_task(replicas.start())
            await asyncio.wait([starting, asyncio.create_task(called.wait())], return_when=asyncio.FIRST_COMPLETED)
    finally:
        await server.start(60)
    operator = await starting
    assert any("the start waits" in line for line in operator.log)
    kind = Jobs(cluster, group)
    await cluster.create(CRDS, json.dumps(kind.crd()).encode())
    try:
        await kind.served()
        await until(operator.ready, "the operator does not become ready")
        await kind.create("v1", "a", timeout="30s")
        await kind.declare(kind.rules())
        await kind.condition("Ready", "True")
        assert await kind.spec("v1beta1", "a") == {"timeoutSeconds": 30}
    finally:
        await kind.remove()


@pytest.mark.parametrize("key", ["ca.crt", "ca.key"])
async def test_a_spoilt_ca_secret(cluster: HttpCluster, jobs: Jobs, replicas: Replicas, key: str) -> None:
    """Conversions would stop with the Secret, or nothing would say which Secret is the cause."""
    await jobs.create("v1", "a", timeout="30s")
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    right = await put(cluster, "restow-webhook-ca", key, b"nonsense")
    # Another replica starts by the serving certificate, which the first one keeps on serving too.
    second = await replicas.start(port=0)
    await until(second.ready, "a replica does not start although there is a certificate")
    generation = await jobs.change(jobs.rules(stash={"budget": 10_000}))
    await jobs.condition("Ready", "True", generation)
    assert await jobs.spec("v1beta1", "a") == {"timeoutSeconds": 30}
    told = "".join(second.log)
    assert "the certificate restow-webhook cannot be kept: the Secret default/restow-webhook-ca" in told, told
    assert "nonsense" not in told
    # Without a certificate nothing can be served, and the reason is the same.
    leaf = await put(cluster, "restow-webhook", "tls.key", b"nonsense")
    ran = await asyncio.to_thread(
        restow,
        *("operator", "--conversions", "--port=0", "--metrics-port=0", "--bind=127.0.0.1"),
        *(f"--own-ca=https://127.0.0.1:{replicas.port}", f"--kubeconfig={replicas.kubeconfig}"),
    )
    assert ran.code == 2, ran.err
    assert "the Secret default/restow-webhook-ca" in ran.err, ran.err
    assert "Traceback" not in ran.err and "nonsense" not in ran.err
    await put(cluster, "restow-webhook", "tls.key", leaf)
    await put(cluster, "restow-webhook-ca", key, right)


async def put(cluster: HttpCluster, secret: str, key: str, text: bytes) -> bytes:
    """Change an entry of a Secret; return what it was."""
    before = base64.b64decode((await cluster.get(SECRETS, secret, "default")).json()["data"][key])
    body = json.dumps({"data": {key: base64.b64encode(text).decode()}}).encode()
    await cluster.patch(SECRETS, secret, body, "default", patch_type=PatchType.MERGE)
    return before

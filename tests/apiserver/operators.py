"""``restow operator`` as a process of its own, as a platform team runs it; and what API servers know of it."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import aiohttp

from restow.conversion.certificates import Bundle
from restow.conversion.certificates.ca.store import SECRETS
from restow.crds import Crd
from restow.crds.cloudprofiles import documents
from restow.kube.client import HttpCluster
from restow.kube.errors import NotFound
from restow.kube.resources import CRDS, LEASES, Resource
from restow.migrator import Migrator
from tests.apiserver.kind import Document
from tests.apiserver.profile_api import uninstall
from tests.apiserver.profile_controllers import World
from tests.ports import free_port
from tests.restow.forked import Forked, start_unforked
from tests.restow.forkserver import CLOCK

__all__ = [
    "CONFIGURATIONS",
    "LEASE",
    "Operator",
    "Starter",
    "bundles",
    "clean",
    "holder",
    "operators",
]

ROOT = Path(__file__).parents[2]
LEASE = "restow-operator"
CONFIGURATIONS = tuple(
    Resource("admissionregistration.k8s.io", "v1", plural, namespaced=False)
    for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
)

_PORTS = re.compile(r"at port (\d+), probes and metrics at port (\d+)")
_DEADLINE = 60.0


class LoggedProcess:
    """A process of restow. Its log grows while it runs."""

    def __init__(self, process: Forked | asyncio.subprocess.Process) -> None:
        self.process = process
        self.log: list[str] = []
        self._reading: asyncio.Task[None] | None = None

    async def found(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Wait until the log has a pattern, and keep reading it from then on."""
        assert self.process.stderr is not None
        async with asyncio.timeout(_DEADLINE):
            while (found := pattern.search("".join(self.log))) is None:
                line = await self.process.stderr.readline()
                assert line, f"restow ended: {''.join(self.log)}"
                self.log.append(line.decode())
        self._reading = asyncio.create_task(self._read())
        return found

    async def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait until it has ended; return its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(_DEADLINE):
            code = await self.process.wait()
            if self._reading is not None:
                await self._reading
        assert not any("Traceback" in line for line in self.log), "".join(self.log)
        return code

    async def _read(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.log.append(line.decode())


class Operator(LoggedProcess):
    """One process that serves."""

    def __init__(self, process: Forked | asyncio.subprocess.Process) -> None:
        super().__init__(process)
        self.port = self.probes = 0
        self.namespace = "default"

    @classmethod
    async def start(cls, *flags: str | Path, forked: bool = True, clock: Path | None = None) -> Self:
        """Start one; return when it listens.

        One that is not forked has only its own imports in memory. ``clock`` is a file with the seconds by which its
        clock is ahead.
        """
        env = {} if clock is None else {CLOCK: str(clock)}
        start = partial(Forked.start, env=env) if forked else start_unforked
        always = ("--bind=127.0.0.1", "--metrics-port=0", "--drain-seconds=0.2")
        process = await start("operator", *always, *flags, cwd=ROOT, stderr=asyncio.subprocess.PIPE)
        started = cls(process)
        try:
            found = await started.found(_PORTS)
        except BaseException:
            if process.returncode is None:
                process.kill()
                await process.wait()
            raise
        started.port, started.probes = int(found[1]), int(found[2])
        return started

    async def get(self, path: str) -> tuple[int, str]:
        """Ask the probes' port."""
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
            session.get(f"http://127.0.0.1:{self.probes}{path}") as answer,
        ):
            return answer.status, await answer.text()

    async def ready(self) -> bool:
        """What /readyz says."""
        try:
            return (await self.get("/readyz"))[0] == 200
        except aiohttp.ClientError:
            return False

    async def leads(self) -> bool:
        """Whether it says so in its metrics."""
        return f'restow_leader{{lease="{self.namespace}/{LEASE}"}} 1.0' in (await self.get("/metrics"))[1]


@asynccontextmanager
async def migrating(migrator: Migrator) -> AsyncIterator[None]:
    """A migrator that runs in this process, inside of the block."""
    task = asyncio.create_task(migrator.run_forever())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def operators(cluster: HttpCluster) -> AsyncIterator[Starter]:
    """Give a way to start operators; in the end they are stopped, and all that they left in the cluster goes."""
    starter = Starter()
    try:
        yield starter
    finally:
        try:
            for each in starter.started:
                await each.stop()
        finally:
            await clean(cluster, starter.namespace)


class Starter:
    """Starts operators that keep a CA of their own for one address, in a namespace."""

    def __init__(self) -> None:
        self.port = free_port()
        self.namespace = "default"
        self.started: list[Operator] = []

    @property
    def url(self) -> str:
        """Where API servers find the first one."""
        return f"https://127.0.0.1:{self.port}"

    async def start(
        self,
        kubeconfig: Path,
        *flags: str | Path,
        port: int | None = None,
        forked: bool = True,
        clock: Path | None = None,
    ) -> Operator:
        """Start one, at the port of the address unless another is given."""
        own = (f"--own-ca={self.url}", f"--kubeconfig={kubeconfig}", f"--port={self.port if port is None else port}")
        operator = await Operator.start(*own, *flags, forked=forked, clock=clock)
        operator.namespace = self.namespace
        self.started.append(operator)
        return operator


async def clean(cluster: HttpCluster, namespace: str) -> None:
    """Take away what operators that have ended leave: configurations first, so that nothing is asked any more.

    Nobody takes finalizers off, nor puts them on again.
    """
    for resource in CONFIGURATIONS:
        await _delete(cluster, resource, "restow-cloudprofile")
    for name in ("restow-webhook", "restow-webhook-ca"):
        await _delete(cluster, SECRETS, name, namespace)
    for name in (LEASE, f"{LEASE}-migrator"):
        await _delete(cluster, LEASES, name, namespace)
    with suppress(NotFound):
        await World(cluster).clear()
    for name in documents():
        try:
            await cluster.get(CRDS, name)
        except NotFound:
            continue
        await uninstall(cluster, [name])


async def bundles(cluster: HttpCluster) -> list[Bundle]:
    """All bundles by which API servers verify the operator; none where something does not name it yet."""
    found: list[dict[str, Any]] = []
    try:
        for name in documents():
            crd = Crd.from_document((await cluster.get(CRDS, name)).json())
            found.append((crd.webhook or {}).get("clientConfig") or {})
        for resource in CONFIGURATIONS:
            document: Document = (await cluster.get(resource, "restow-cloudprofile")).json()
            found += [hook["clientConfig"] for hook in document["webhooks"]]
    except NotFound:
        return []
    if not all(config.get("caBundle") for config in found):
        return []
    return [Bundle.from_base64(config["caBundle"]) for config in found]


async def holder(cluster: HttpCluster) -> str:
    """Who holds the lease; empty if nobody does."""
    try:
        lease = (await cluster.get(LEASES, LEASE, "default")).json()
    except NotFound:
        return ""
    return lease["spec"].get("holderIdentity") or ""


async def _delete(cluster: HttpCluster, resource: Resource, name: str, namespace: str | None = None) -> None:
    try:
        await cluster.delete(resource, name, namespace)
    except NotFound:
        return

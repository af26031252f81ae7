"""``restow serve`` as a process of its own, or its server in this one; and the certificate that it serves by."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import aiohttp

from docs.examples.provider.conversions import CRDS, graph
from restow.conversion.certificates import Bundle
from restow.conversion.certificates.ca.authority import Authority
from restow.conversion.certificates.ca.store import CERTIFICATE, KEY, install
from restow.conversion.server import (
    Limits,
    ServerPhase,
    ServingCertificate,
    WebhookServer,
    bind,
    conversions_by_crd,
    run_alone,
)
from tests.restow.forked import Forked, start_unforked

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "docs" / "examples" / "provider" / "manifests"
PROVIDER = "docs.examples.provider.conversions:graph"

_PORTS = re.compile(rb"at port (\d+), probes and metrics at port (\d+)")
_DEADLINE = 60.0


class Instance:
    """One process. Ports are known once it is started."""

    def __init__(self, process: Forked | asyncio.subprocess.Process, port: int, probes: int, log: list[bytes]) -> None:
        self.process = process
        self.port = port
        self.probes = probes
        self.log = log

    @classmethod
    async def start(
        cls, folder: Path, *, registry: str = PROVIDER, flags: Sequence[str] = (), forked: bool = True
    ) -> Self:
        """Start one with the certificate in a folder; return when it listens.

        One that is not forked has only its own imports in memory.
        """
        start = Forked.start if forked else start_unforked
        process = await start(
            "serve",
            f"--registry={registry}",
            f"--cert={folder / CERTIFICATE}",
            f"--key={folder / KEY}",
            *("--bind=127.0.0.1", "--port=0", "--metrics-port=0", "--drain-seconds=0.5"),
            *flags,
            cwd=ROOT,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        log: list[bytes] = []
        try:
            async with asyncio.timeout(_DEADLINE):
                while (found := _PORTS.search(b"".join(log))) is None:
                    line = await process.stderr.readline()
                    if not line:
                        raise AssertionError(f"restow serve ended: {b''.join(log).decode()}")
                    log.append(line)
        except BaseException:
            if process.returncode is None:
                process.kill()
            raise
        return cls(process, int(found[1]), int(found[2]), log)

    async def ready(self) -> bool:
        """What /readyz says."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{self.probes}/readyz") as answer,
            ):
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    def reload(self) -> None:
        """Have it look for a new certificate now."""
        self.process.send_signal(signal.SIGHUP)

    async def stop(self) -> int:
        """Ask it to end, as a kubelet does; return its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        assert self.process.stderr is not None
        async with asyncio.timeout(_DEADLINE):
            self.log.append(await self.process.stderr.read())
            return await self.process.wait()


class Local:
    """The same server in this process: it starts and ends the same way, but costs no time to start."""

    def __init__(self, folder: Path) -> None:
        self.webhook = WebhookServer(conversions_by_crd(graph, CRDS), limits=Limits(drain_seconds=0.5))
        counts, clock = self.webhook.counts, self.webhook.clock
        self._certificate = ServingCertificate(folder / CERTIFICATE, folder / KEY, counts=counts, clock=clock)
        self._listener, self._probes = bind("127.0.0.1", 0), bind("127.0.0.1", 0)
        self._stop = asyncio.Event()
        self._ended = asyncio.Event()
        self.port: int = self._listener.getsockname()[1]

    async def run(self, phase: ServerPhase = ServerPhase.SERVING) -> None:
        """Serve until asked to stop."""
        self.webhook.phase = phase
        try:
            await run_alone(self.webhook, self._certificate, self._listener, self._probes, self._stop)
        finally:
            self._ended.set()

    async def ready(self) -> bool:
        """Whether it should get requests."""
        return self.webhook.phase is ServerPhase.SERVING

    async def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self._stop.set()
        async with asyncio.timeout(_DEADLINE):
            await self._ended.wait()


@asynccontextmanager
async def serving(folder: Path, *, registry: str = PROVIDER, flags: Sequence[str] = ()) -> AsyncIterator[Instance]:
    """Run one."""
    instance = await Instance.start(folder, registry=registry, flags=flags)
    try:
        yield instance
    finally:
        await instance.stop()


def certified(folder: Path, *, host: str = "127.0.0.1") -> Bundle:
    """Put a certificate for a host into a folder; return what verifies it."""
    now = datetime.now(UTC)
    authority = Authority.create("test", now=now, valid_for=timedelta(days=2))
    install(folder, authority.issue([host], now=now, valid_for=timedelta(days=1)))
    return Bundle.of([authority.der])

"""A webhook on the loopback with TLS, as the tests of the server need it; and who signs its certificates."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from restow.controlplane.users import ControlPlaneAuthority
from restow.conversion import Graph
from restow.conversion.server import (
    AdmissionStep,
    Clients,
    Limits,
    ServerPhase,
    ServingCertificate,
    WebhookServer,
    bind,
    conversions_by_crd,
    run_alone,
)
from restow.kube.clock import SYSTEM_CLOCK, Clock
from tests.conversion.server.gateways import CRD, CRD_NAME, graph

LOOPBACK = "127.0.0.1"
GATEWAYS = f"/convert/{CRD_NAME}"

#: Short enough for tests that drain; nothing waits for the rest.
QUICK = Limits(drain_seconds=0.05, finish_seconds=5.0)


class Authority:
    """Issues serving certificates into a folder, and makes clients that trust them."""

    def __init__(self, folder: Path) -> None:
        self._ca = ControlPlaneAuthority.create()
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"

    def pair(self, not_after: datetime | None = None) -> tuple[bytes, bytes]:
        """Return a new certificate, and its key."""
        not_after = not_after or datetime.now(UTC) + timedelta(days=1)
        issued = self._ca.issue_server([LOOPBACK, "localhost"], not_after=not_after)
        return issued.certificate, issued.key

    def issue(self, not_after: datetime | None = None) -> None:
        """Write a new pair over the files."""
        certificate, key = self.pair(not_after)
        self.certificate.write_bytes(certificate)
        self.key.write_bytes(key)

    def client(self) -> ssl.SSLContext:
        """Return what an API server's client would check with."""
        return ssl.create_default_context(cadata=self._ca.certificate.decode())


@dataclass
class Running:
    """A webhook that runs in this process."""

    webhook: WebhookServer
    certificate: ServingCertificate
    port: int
    probes_port: int
    authority: Authority
    stop: asyncio.Event
    ended: asyncio.Task[None]

    @property
    def url(self) -> str:
        """Where conversions of gateways are served."""
        return f"https://{LOOPBACK}:{self.port}{GATEWAYS}"

    @property
    def probes(self) -> str:
        """Where probes are answered."""
        return f"http://{LOOPBACK}:{self.probes_port}"


@asynccontextmanager
async def running(
    authority: Authority,
    *,
    conversions: Mapping[str, Graph] | None = None,
    phase: ServerPhase = ServerPhase.SERVING,
    limits: Limits = QUICK,
    clock: Clock = SYSTEM_CLOCK,
    certificate_clock: Clock = SYSTEM_CLOCK,
    validating: Mapping[str, AdmissionStep] | None = None,
    mutating: Mapping[str, AdmissionStep] | None = None,
    clients: Clients | None = None,
    client_ca: Path | None = None,
) -> AsyncIterator[Running]:
    """Run one until the end of the block; it has to end by itself once it was asked to stop."""
    webhook = WebhookServer(
        conversions_by_crd(graph, [CRD]) if conversions is None else conversions,
        limits=limits,
        clock=clock,
        validating=validating or {},
        mutating=mutating or {},
        clients=clients or Clients(),
    )
    if not authority.certificate.exists():
        authority.issue()
    certificate = ServingCertificate(
        authority.certificate,
        authority.key,
        client_ca=client_ca,
        counts=webhook.counts,
        clock=certificate_clock,
    )
    webhook.phase = phase
    listener, probes, stop = bind(LOOPBACK, 0), bind(LOOPBACK, 0), asyncio.Event()
    ports = listener.getsockname()[1], probes.getsockname()[1]
    ended = asyncio.create_task(run_alone(webhook, certificate, listener, probes, stop))
    try:
        yield Running(webhook, certificate, *ports, authority, stop, ended)
    finally:
        stop.set()
        async with asyncio.timeout(20):
            await ended

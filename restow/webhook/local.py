"""A conversion webhook in this process, for an API server on this machine."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from restow.conversion import Graph
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
from restow.crds import Crd

_HOST: Final = "127.0.0.1"
_DAY: Final = timedelta(days=1)


@asynccontextmanager
async def serve_locally(graph: Graph, crds: Iterable[Crd]) -> AsyncIterator[Mapping[str, Mapping[str, Any]]]:
    """Serve a graph over TLS at 127.0.0.1; yield ``spec.conversion`` of each CRD, by its name."""
    crds = tuple(crds)
    with tempfile.TemporaryDirectory() as folder:
        bundle = _certified(Path(folder))
        webhook = WebhookServer(conversions_by_crd(graph, crds), limits=Limits(drain_seconds=0.0))
        certificate = ServingCertificate(
            Path(folder) / CERTIFICATE, Path(folder) / KEY, counts=webhook.counts, clock=webhook.clock
        )
        listener, probes, stop = bind(_HOST, 0), bind(_HOST, 0), asyncio.Event()
        port = listener.getsockname()[1]
        webhook.phase = ServerPhase.SERVING
        serving = asyncio.create_task(run_alone(webhook, certificate, listener, probes, stop))
        try:
            yield {crd.name: _conversion(f"https://{_HOST}:{port}/convert/{crd.name}", bundle) for crd in crds}
        finally:
            stop.set()
            await serving


def _conversion(url: str, bundle: Bundle) -> Mapping[str, Any]:
    client = {"url": url, "caBundle": bundle.base64}
    return {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}}


def _certified(folder: Path) -> Bundle:
    now = datetime.now(UTC)
    authority = Authority.create("conversions", now=now, valid_for=2 * _DAY)
    install(folder, authority.issue([_HOST], now=now, valid_for=_DAY))
    return Bundle.of([authority.der])

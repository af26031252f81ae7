"""Runs a webhook with its probes in this process.

One process uses one core; replicas of the pod use more. An embedding program runs it so:

    webhook = Webhook(conversions_by_crd(graph, crds))
    certificate = ServingCertificate(cert, key, counts=webhook.counts, clock=webhook.clock)
    webhook.phase = Phase.SERVING
    await run_alone(webhook, certificate, bind("", 9443), bind("", 8080), stop)
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from restow.conversion.server.connections import Connections
from restow.conversion.server.exposition import exposition
from restow.conversion.server.probes import Probes
from restow.conversion.server.serving import listening, serve
from restow.conversion.server.tls import ServingCertificate
from restow.conversion.server.webhook import Phase, Webhook

__all__ = ["run_alone"]


async def run_alone(
    webhook: Webhook,
    certificate: ServingCertificate,
    listener: socket.socket,
    probes: socket.socket,
    stop: asyncio.Event,
    *,
    further_metrics: Callable[[], bytes] = bytes,
) -> None:
    """Serve a webhook and its probes in this process until asked to stop, then drain. Cancelling ends it at once.

    ``further_metrics`` gives what else ``/metrics`` says, as Prometheus text.
    """

    def metrics() -> bytes:
        return exposition(webhook.counts.snapshot()) + further_metrics()

    probing = Probes(lambda: _unready(webhook), metrics)
    answers = Connections(probing.handle, webhook.limits.of_probes, webhook.counts, webhook.clock, webhook.complaints)
    async with asyncio.TaskGroup() as group, listening(answers, probes):
        watching = group.create_task(certificate.watch())
        await serve(webhook, listener, certificate.context, stop)
        watching.cancel()


def _unready(webhook: Webhook) -> str:
    return "" if webhook.phase is Phase.SERVING else webhook.phase.value

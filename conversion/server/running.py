"""The processes of a webhook: one that does everything, or a parent with workers.

An embedding program runs it so:

    webhook = Webhook(conversions_by_crd(graph, crds))
    certificate = ServingCertificate(cert, key, counts=webhook.counts, clock=webhook.clock)
    webhook.phase = Phase.SERVING
    await run_alone(webhook, certificate, bind("", 9443), bind("", 8080), stop)
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from restow.conversion.server.complaints import Complaints
from restow.conversion.server.connections import Connections
from restow.conversion.server.counts import Snapshot, merged
from restow.conversion.server.exposition import exposition
from restow.conversion.server.limits import Limits
from restow.conversion.server.link import Inheritance, Link, Report, report_to_parent
from restow.conversion.server.probes import Probes
from restow.conversion.server.process import process_numbers
from restow.conversion.server.serving import listening, serve
from restow.conversion.server.tls import ServingCertificate
from restow.conversion.server.webhook import Phase, Webhook
from restow.conversion.server.workers import Workers
from restow.kube.clock import SYSTEM_CLOCK, Clock

__all__ = ["run_alone", "run_parent", "run_worker"]


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

    `further_metrics` gives what else `/metrics` says, as Prometheus text.
    """

    async def metrics() -> bytes:
        return exposition(_numbers(webhook)) + further_metrics()

    probing = Probes(lambda: _unready(webhook), metrics)
    answers = Connections(probing.handle, webhook.limits.of_probes, webhook.counts, webhook.clock, webhook.complaints)
    async with asyncio.TaskGroup() as group, listening(answers, probes):
        watching = group.create_task(certificate.watch())
        await serve(webhook, listener, certificate.context, stop)
        watching.cancel()


async def run_worker(
    webhook: Webhook, certificate: ServingCertificate, inheritance: Inheritance, stop: asyncio.Event
) -> None:
    """Serve a webhook on its parent's socket until asked to stop, then drain. Without its parent it ends at once."""

    def report() -> Report:
        return Report(_unready(webhook), _numbers(webhook))

    link = await Link.over(inheritance.parent)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(certificate.watch())
        reporting = group.create_task(report_to_parent(link, report))
        serving = group.create_task(serve(webhook, inheritance.listener, certificate.context, stop))
        await asyncio.wait((reporting, serving), return_when=asyncio.FIRST_COMPLETED)
        link.send_report(report())
        for task in (watching, reporting, serving):
            task.cancel()
    await link.close()


async def run_parent(
    workers: Workers,
    probes: socket.socket,
    stop: asyncio.Event,
    *,
    limits: Limits,
    clock: Clock = SYSTEM_CLOCK,
    further_metrics: Callable[[], bytes] = bytes,
) -> None:
    """Run workers, and answer probes for them, until asked to stop. Raises WorkersKeepDying.

    `further_metrics` gives what else `/metrics` says, as Prometheus text.
    """

    async def metrics() -> bytes:
        return exposition(merged((await workers.snapshot(), process_numbers()))) + further_metrics()

    probing = Probes(lambda: workers.unready, metrics)
    answers = Connections(probing.handle, limits.of_probes, workers.counts, clock, Complaints(clock))
    async with listening(answers, probes):
        await workers.run(stop)


def _numbers(webhook: Webhook) -> Snapshot:
    return merged((webhook.counts.snapshot(), process_numbers()))


def _unready(webhook: Webhook) -> str:
    return "" if webhook.phase is Phase.SERVING else webhook.phase.value

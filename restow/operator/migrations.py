"""The process of ``restow operator --migrate`` without a webhook: it only keeps CRDs migrated.

Each replica answers probes; the one that holds the Lease migrates. A conversion webhook in any language is asked as API
servers ask it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Final

from restow.conversion.server import ServerPhase, WebhookServer
from restow.conversion.server.run import probed
from restow.kube import unique_identity
from restow.kube.clockcheck import ClockCheck
from restow.operator.metrics import OperatorMetrics
from restow.operator.process import Settings, migrator
from restow.webhook.supervise import keep_running, run_alongside

_SUFFIX: Final = "-standalone"

_log = logging.getLogger(__name__)


async def run(settings: Settings, probes: socket.socket, stop: asyncio.Event) -> None:
    """Run until asked to stop; then finish writes in flight, and release the Lease. No error ends it before."""
    async with settings.connect() as cluster:
        clocks = ClockCheck(cluster, settings.clock)
        metrics = OperatorMetrics(clocks)
        work = migrator(cluster, settings, metrics, unique_identity(), suffix=_SUFFIX)
        webhook = WebhookServer({})
        webhook.phase = ServerPhase.SERVING
        ended, clock = metrics.ended, settings.clock
        async with (
            probed(webhook, probes, metrics.text),
            run_alongside(
                keep_running("clock", clocks.run, ended=ended, clock=clock),
                keep_running("migrator", work.run_forever, ended=ended, clock=clock),
            ),
        ):
            _log.info("probes and metrics at port %d", probes.getsockname()[1])
            await stop.wait()

"""A worker process for the tests of `Workers`; also a plain script: `python worker.py CERT KEY`.

Besides conversions it has three steps: `pid` tells its process, `die` ends it, `hang` keeps its loop from turning.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from restow.conversion.admission import AdmissionRequest, Verdict
from restow.conversion.server import (
    Inheritance,
    Limits,
    Phase,
    ServingCertificate,
    Webhook,
    conversions_by_crd,
    run_worker,
)
from tests.conversion.server.gateways import CRD, graph

LIMITS = Limits(drain_seconds=0.2, finish_seconds=5.0, silence_seconds=6.0)


async def pid(_request: AdmissionRequest) -> Verdict:
    """Tell the process."""
    return Verdict(message=str(os.getpid()))


async def die(_request: AdmissionRequest) -> Verdict:
    """End it as a crash in a C library would."""
    os._exit(13)


async def hang(_request: AdmissionRequest) -> Verdict:
    """Do what no step may."""
    time.sleep(3600)  # noqa: ASYNC251 - that is the point
    return Verdict()


async def main() -> None:
    """Serve until the parent wants no more."""
    inheritance = Inheritance.claimed(os.environ)
    assert inheritance is not None
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    steps = {"pid": pid, "die": die, "hang": hang}
    webhook = Webhook(conversions_by_crd(graph, [CRD]), validating=steps, limits=LIMITS)
    certificate = ServingCertificate(*map(Path, sys.argv[1:]), counts=webhook.counts, clock=webhook.clock)
    webhook.phase = Phase.SERVING
    await run_worker(webhook, certificate, inheritance, stop)


if __name__ == "__main__":
    asyncio.run(main())

"""One pass over all objects of a CRD: a lister, a bounded queue, and workers that finish objects side by side.

Memory is bounded by two pages, whatever the number of objects. A pass ends in a report, never in an exception about an
object; when the run is asked to stop, no new object is begun and writes in flight are finished.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.resources import Resource
from restow.migrator.halt import Halt
from restow.migrator.limiter import Limiter
from restow.migrator.lister import Item, ListFailed, list_objects
from restow.migrator.model import Options
from restow.migrator.report import CrdReport
from restow.migrator.treatment import Treatments
from restow.migrator.writer import Writer

__all__ = ["Environment", "page_size", "run_pass", "unfinished"]


@dataclass(frozen=True, slots=True)
class Environment:
    """What a pass takes from the world around it.

    Attributes:
        cluster: the API server.
        halt: raised to end the run early.
        clock: a monotonic clock, in seconds.
        random: spreads waits; seeded in tests.
    """

    cluster: Cluster
    halt: Halt
    clock: Callable[[], float]
    random: random.Random = field(default_factory=random.Random)

    def jitter(self, seconds: float) -> float:
        """Spread a wait over half to one and a half times its length."""
        return seconds * self.random.uniform(0.5, 1.5)


def page_size(options: Options, crd: Crd, rules: Treatments) -> int:
    """Objects per LIST: fewer where each costs a conversion, or is read whole."""
    if options.page_size is not None:
        return options.page_size
    return 100 if crd.strategy != "None" or rules.whole_objects else 500


async def run_pass(environment: Environment, crd: Crd, rules: Treatments, options: Options, report: CrdReport) -> None:
    """List every object and finish it; what happened is counted in ``report``.

    Args:
        environment: the API server, the clock and the end of the run.
        crd: the CRD as read before; objects are listed and written at its storage version.
        rules: the treatments by which objects are decided.
        options: what is asked for.
        report: counts, failures, and ``unfinished`` where not every object was looked at.
    """
    halt = environment.halt
    limiter = Limiter(concurrency=options.concurrency, rate=options.rate, clock=environment.clock)
    writer = Writer(
        environment.cluster,
        crd,
        rules,
        report,
        limiter=limiter,
        halt=halt,
        clock=environment.clock,
        jitter=environment.jitter,
        dry_run=options.dry_run,
    )
    size = page_size(options, crd, rules)
    queue: asyncio.Queue[Item | None] = asyncio.Queue(maxsize=size)
    report.begin_pass()
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(_work(queue, writer, halt)) for _ in range(options.concurrency)]
        lister = group.create_task(_list(environment, crd, rules, options, report, queue, size))
        await asyncio.wait(workers)
        lister.cancel()
    if halt:
        report.unfinished = unfinished(report, halt)


async def _list(
    environment: Environment,
    crd: Crd,
    rules: Treatments,
    options: Options,
    report: CrdReport,
    queue: asyncio.Queue[Item | None],
    size: int,
) -> None:
    """Feed the queue, then tell every worker that nothing follows."""
    resource = Resource(crd.group, crd.storage.name, crd.plural, crd.namespaced)
    try:
        async for page in list_objects(
            environment.cluster,
            resource,
            page_size=size,
            requests=report.requests,
            halt=environment.halt,
            jitter=environment.jitter,
            namespace=options.namespace,
            selector=options.selector,
            whole=rules.whole_objects,
        ):
            report.objects.listed += len(page.items)
            report.expected = report.objects.listed + (page.remaining or 0)
            for item in page.items:
                await queue.put(item)
    except ListFailed as failure:
        report.unfinished = str(failure)
    for _ in range(options.concurrency):
        await queue.put(None)


async def _work(queue: asyncio.Queue[Item | None], writer: Writer, halt: Halt) -> None:
    while (item := await queue.get()) is not None:
        if not halt:
            await writer.finish(*item)


def unfinished(report: CrdReport, halt: Halt) -> str:
    """Say why a run ended before its end, and what it leaves."""
    expected = max(report.expected, report.objects.listed)
    left = f"{expected - report.done} of {expected} objects were not begun" if expected else "no object was begun"
    return f"{halt.why}; {left}. Run again to go on"

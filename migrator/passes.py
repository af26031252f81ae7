"""One pass over all objects of a CRD: a lister, a bounded queue, and workers that finish objects side by side.

Entries that have to be converted are so page by page, on the way into the queue, so that a converter is asked for many
objects at once. Memory is bounded by two pages, whatever the number of objects. A pass ends in a report, never in an
exception about an object; when the run is asked to stop, no new object is begun and writes in flight are finished.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.resources import Resource
from restow.migrator.converter import Converter, ConverterDown
from restow.migrator.halt import Halt
from restow.migrator.limiter import Limiter
from restow.migrator.lister import Item, ListFailed, list_objects
from restow.migrator.model import Options
from restow.migrator.report import CrdReport
from restow.migrator.translation import Translation
from restow.migrator.translator import Translator
from restow.migrator.treatment import Treatments
from restow.migrator.webhook import webhook_converter
from restow.migrator.wire import Meta
from restow.migrator.writer import Writer

__all__ = ["Converters", "Environment", "own_webhook", "page_size", "run_pass", "unfinished"]

Converters: TypeAlias = Callable[[Crd], Converter | None]
"""Gives the converter for a CRD, or None for its own webhook."""

_Work: TypeAlias = tuple[Meta, dict[str, Any] | None, Translation | None]


def own_webhook(_crd: Crd) -> None:
    """Leave every CRD to its own webhook."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What a pass takes from the world around it.

    Attributes:
        cluster: the API server.
        halt: raised to end the run early.
        clock: a monotonic clock, in seconds.
        random: spreads waits; seeded in tests.
        converters: what converts objects of CRDs with strategy Webhook.
    """

    cluster: Cluster
    halt: Halt
    clock: Callable[[], float]
    random: random.Random = field(default_factory=random.Random)
    converters: Converters = own_webhook

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
    async with _converter(environment, crd, options, report) as converter:
        translator = Translator(converter, rules, report)
        await _finish_all(environment, crd, rules, options, report, translator)
    if environment.halt:
        report.unfinished = unfinished(report, environment.halt)


@asynccontextmanager
async def _converter(
    environment: Environment, crd: Crd, options: Options, report: CrdReport
) -> AsyncIterator[Converter]:
    chosen = environment.converters(crd) if crd.strategy != "None" else None
    if chosen is not None:
        yield chosen
        return
    async with webhook_converter(
        crd,
        environment.cluster,
        url=options.conversion_url,
        halt=environment.halt,
        jitter=environment.jitter,
        chance=environment.random,
        requests=report.requests,
    ) as webhook:
        yield webhook


async def _finish_all(
    environment: Environment,
    crd: Crd,
    rules: Treatments,
    options: Options,
    report: CrdReport,
    translator: Translator,
) -> None:
    halt = environment.halt
    writer = Writer(
        environment.cluster,
        crd,
        rules,
        report,
        translator=translator,
        limiter=Limiter(concurrency=options.concurrency, rate=options.rate, clock=environment.clock),
        halt=halt,
        clock=environment.clock,
        jitter=environment.jitter,
        dry_run=options.dry_run,
    )
    size = page_size(options, crd, rules)
    queue: asyncio.Queue[_Work | None] = asyncio.Queue(maxsize=size)
    report.begin_pass()
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(_work(queue, writer, halt)) for _ in range(options.concurrency)]
        lister = group.create_task(_list(environment, crd, rules, options, report, translator, queue, size))
        await asyncio.wait(workers)
        lister.cancel()


async def _list(
    environment: Environment,
    crd: Crd,
    rules: Treatments,
    options: Options,
    report: CrdReport,
    translator: Translator,
    queue: asyncio.Queue[_Work | None],
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
            whole=rules.whole_objects or rules.translates,
        ):
            report.objects.listed += len(page.items)
            report.expected = report.objects.listed + (page.remaining or 0)
            for work in await _translated(page.items, rules, translator):
                await queue.put(work)
    except ListFailed as failure:
        report.unfinished = str(failure)
    except ConverterDown as down:
        environment.halt.because(str(down))
    for _ in range(options.concurrency):
        await queue.put(None)


async def _translated(items: Sequence[Item], rules: Treatments, translator: Translator) -> list[_Work]:
    """A page of objects, with what became of their entries where those have to be converted."""
    if not rules.translates:
        return [(meta, live, None) for meta, live in items]
    whole = [(meta, live) for meta, live in items if live is not None]
    translations = await translator.translate(whole)
    return [(*item, translation) for item, translation in zip(whole, translations, strict=True)]


async def _work(queue: asyncio.Queue[_Work | None], writer: Writer, halt: Halt) -> None:
    while (item := await queue.get()) is not None:
        if not halt:
            await writer.finish(*item)


def unfinished(report: CrdReport, halt: Halt) -> str:
    """Say why a run ended before its end, and what it leaves."""
    expected = max(report.expected, report.objects.listed)
    left = f"{expected - report.done} of {expected} objects were not begun" if expected else "no object was begun"
    return f"{halt.why}; {left}. Run again to go on"

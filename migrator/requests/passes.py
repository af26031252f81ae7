"""One pass over all objects of a CRD: a lister, a bounded queue, and concurrent workers that finish the objects.

Managed-fields entries are converted page by page on the way into the queue, so that one request to the converter covers
many objects. Memory is bounded by two pages, whatever the number of objects. A pass ends in a report, never in an
exception about an object. When the run is asked to stop, no new object is begun and writes in flight are finished.

``scan`` is for callers that wait for an answer: it reads metadata only, does not wait for long, and writes nothing.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TypeAlias

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import NotFound
from restow.kube.retry import jittered, with_retries
from restow.migrator.decide.policies import entry_policies, hazard_warnings
from restow.migrator.model.converter import Converter, ConverterDown
from restow.migrator.model.options import Options
from restow.migrator.model.report import CrdReport, Requests
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.requests.crdaccess import deleted
from restow.migrator.requests.lister import ListFailed, list_objects
from restow.migrator.requests.listfailure import explain_list_failure
from restow.migrator.requests.pace import Limiter
from restow.migrator.requests.stop import RunStop
from restow.migrator.requests.translator import Translator, Work
from restow.migrator.requests.webhook import webhook_converter
from restow.migrator.requests.wire import Meta
from restow.migrator.requests.writer import ObjectWriter

__all__ = [
    "LONGEST_WAIT",
    "WHOLE_OBJECTS",
    "Converters",
    "Environment",
    "open_converter",
    "own_webhook",
    "page_size",
    "run_pass",
    "scan",
    "unfinished",
]


WHOLE_OBJECTS = 100
"""Objects per LIST where each costs a conversion, or is read whole."""

Converters: TypeAlias = Callable[[Crd], Converter | None]
"""Gives the converter for a CRD, or None for its own webhook."""


_MOST_ASKED = 5
"""Times that a pass asks whether its CRD is gone."""


def own_webhook(_crd: Crd) -> None:
    """Leave every CRD to its own webhook."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What a pass takes from the world around it.

    Attributes:
        cluster: the API server.
        stop: raised to end the run early.
        clock: a monotonic clock, in seconds.
        random: spreads waits; seeded in tests.
        converters: what converts objects of CRDs with strategy Webhook.
        longest_wait: seconds that a wait is cut to.
        longest_patience_s: most seconds that an outage is waited for, beyond the usual attempts.
    """

    cluster: Cluster
    stop: RunStop
    clock: Callable[[], float]
    random: random.Random = field(default_factory=random.Random)
    converters: Converters = own_webhook
    longest_wait: float = math.inf
    longest_patience_s: float = math.inf

    def jitter(self, seconds: float) -> float:
        """Return a wait with jitter, cut to ``longest_wait``."""
        return min(self.longest_wait, jittered(seconds, self.random))

    def converter(self, crd: Crd) -> Converter | None:
        """Return what was given to convert the objects of a CRD, or None where its own webhook does.

        Raises:
            MigrationRefused: the embedder's converter does not fit the CRD.
        """
        return self.converters(crd) if crd.strategy != "None" else None


def page_size(options: Options, crd: Crd, rules: EntryPolicies) -> int:
    """Objects per LIST: fewer where each costs a conversion, or is read whole."""
    if options.page_size is not None:
        return options.page_size
    return WHOLE_OBJECTS if crd.strategy != "None" or rules.whole_objects else 500


async def run_pass(
    environment: Environment,
    crd: Crd,
    rules: EntryPolicies,
    options: Options,
    report: CrdReport,
    *,
    listed: Callable[[str], Awaitable[None]] | None = None,
) -> None:
    """List every object and finish it, or those of a shard; what happened is counted in ``report``.

    Args:
        environment: the API server, the clock and the end of the run.
        crd: the CRD as read before; objects are listed and written at its storage version.
        rules: the policies by which objects are decided.
        options: what is asked for.
        report: counts, failures, and ``unfinished`` where not every object was looked at.
        listed: receives the list's resourceVersion before the first object is begun.
    """
    chosen = environment.converter(crd)
    async with open_converter(chosen, environment, crd, options, report.requests) as converter:
        await _Pass(environment, crd, rules, options, report, Translator(converter, rules, report)).run(listed)
    report.warn(hazard_warnings(rules.hazards, report.hazards, rules.storage))
    if environment.stop:
        report.unfinished, report.unreachable = unfinished(report, environment.stop), environment.stop.unreachable


def open_converter(
    chosen: Converter | None, environment: Environment, crd: Crd, options: Options, requests: Requests
) -> AbstractAsyncContextManager[Converter]:
    """Open what converts: the converter that was chosen, or the CRD's own webhook, whose reviews are counted."""
    if chosen is not None:
        return nullcontext(chosen)
    return webhook_converter(
        crd,
        environment.cluster,
        url=options.conversion_url,
        stop=environment.stop,
        jitter=environment.jitter,
        chance=environment.random,
        requests=requests,
        patience_s=min(options.patience_s, environment.longest_patience_s),
    )


class _Pass:
    """One pass, whose converter is open."""

    def __init__(
        self,
        environment: Environment,
        crd: Crd,
        rules: EntryPolicies,
        options: Options,
        report: CrdReport,
        translator: Translator,
    ) -> None:
        self._environment = environment
        self._stop = environment.stop
        self._crd = crd
        self._rules = rules
        self._options = options
        self._report = report
        self._translator = translator
        self._page_size = page_size(options, crd, rules)
        self._queue: asyncio.Queue[Work | None] = asyncio.Queue(maxsize=self._page_size)
        self._writer = ObjectWriter(
            environment.cluster,
            crd,
            rules,
            report,
            translator=translator,
            limiter=Limiter(concurrency=options.concurrency, rate=options.rate, clock=environment.clock),
            stop=environment.stop,
            clock=environment.clock,
            jitter=environment.jitter,
            patience_s=options.patience_s,
            dry_run=options.dry_run,
            crd_deleted=self._crd_deleted,
        )
        self._asking = asyncio.Lock()
        self._asked = 0

    async def run(self, listed: Callable[[str], Awaitable[None]] | None) -> None:
        """List and finish all objects, side by side."""
        self._report.begin_pass()
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(self._work()) for _ in range(self._options.concurrency)]
            lister = group.create_task(self._list(listed))
            await asyncio.wait(workers)
            lister.cancel()

    async def _list(self, listed: Callable[[str], Awaitable[None]] | None) -> None:
        """Feed the queue, and end it with one None for each worker."""
        report, shard = self._report, self._options.shard
        try:
            async for page in list_objects(
                self._environment.cluster,
                self._crd.resource_at(self._crd.storage.name),
                page_size=self._page_size,
                requests=report.requests,
                stop=self._stop,
                jitter=self._environment.jitter,
                namespace=self._options.namespace,
                selector=self._options.selector,
                whole=self._rules.whole_objects or self._rules.translates,
                patience_s=self._options.patience_s,
            ):
                if listed is not None:
                    await listed(page.resource_version)
                    listed = None
                items = page.items if shard is None else [item for item in page.items if shard.owns(item[0].uid)]
                report.objects.listed += len(items)
                report.expected = report.objects.listed + (page.remaining or 0) // (1 if shard is None else shard.count)
                for work in await self._translator.works(items):
                    await self._queue.put(work)
        except ListFailed as failure:
            if not (isinstance(failure.__cause__, NotFound) and await self._crd_deleted()):
                cause = await explain_list_failure(self._environment.cluster, self._crd, failure, report.requests)
                report.unfinished, report.unreachable = str(cause), cause.unreachable
        except ConverterDown as down:
            self._stop.because(str(down), unreachable=down.unreachable)
        for _ in range(self._options.concurrency):
            await self._queue.put(None)

    async def _crd_deleted(self) -> bool:
        """Whether the CRD is gone, which ends the pass; asked a few times only, since a 404 may have other causes."""
        async with self._asking:
            if not self._stop and self._asked < _MOST_ASKED:
                self._asked += 1
                if why := await deleted(self._environment.cluster, self._crd):
                    self._stop.because(why, final=True)
        return self._stop.final

    async def _work(self) -> None:
        while (item := await self._queue.get()) is not None:
            if not self._stop:
                await self._writer.finish(*item)


def unfinished(report: CrdReport, stop: RunStop) -> str:
    """Say why a run ended before its end, and what it leaves."""
    if stop.final:
        return stop.why
    expected = max(report.expected, report.objects.listed)
    left = f"{expected - report.done} of {expected} objects were not begun" if expected else "no object was begun"
    return f"{stop.why}; {left}. Run again to go on"


LONGEST_WAIT = 2.0
"""Seconds between attempts, also where the server asks for more: a user waits for the answer, and giving up after the
few attempts loses nothing."""


async def scan(cluster: Cluster, crd: Crd) -> AsyncIterator[Meta]:
    """Yield the metadata of every object of a CRD, listed at the storage version page by page.

    Raises:
        ListFailed: no attempt could read a page of the objects.
    """
    options = Options()
    environment = Environment(cluster, RunStop(), time.monotonic, random.Random(), longest_wait=LONGEST_WAIT)
    async for page in list_objects(
        cluster,
        crd.resource_at(crd.storage.name),
        page_size=page_size(options, crd, entry_policies(crd, options)),
        requests=Requests(),
        stop=environment.stop,
        jitter=environment.jitter,
        patience_s=with_retries(cluster).patience_s,
    ):
        for meta, _live in page.items:
            yield meta

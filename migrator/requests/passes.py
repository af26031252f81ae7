"""One pass over all objects of a CRD: a list, a bounded queue, and concurrent tasks that finish the objects.

Managed-fields entries are converted page by page on the way into the queue, so that one request to the converter covers
many objects. Memory is bounded by two pages, whatever the number of objects. A pass ends in a report, never in an
exception about an object. When the run is asked to stop, no new object is begun and writes in flight are finished.

``scan`` is for callers that wait for a reply: it reads only metadata, retries briefly, and writes nothing.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import BadReply, NotFound
from restow.kube.retry import jittered, with_retries
from restow.migrator.decide.policies import entry_policies, hazard_warnings
from restow.migrator.model.converter import Converter, ConverterDown
from restow.migrator.model.options import Options
from restow.migrator.model.report import CrdReport, Requests
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.requests.crdaccess import deleted
from restow.migrator.requests.lister import Item, ListedPage, ListFailed, list_objects, read_items
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
    "CrdDeleted",
    "Environment",
    "Finisher",
    "open_converter",
    "own_webhook",
    "page_size",
    "reads_whole",
    "run_pass",
    "scan",
    "unfinished",
]


WHOLE_OBJECTS = 100
"""Objects per LIST where each costs a conversion, or is read whole."""

Converters: TypeAlias = Callable[[Crd], Converter | None]
"""Gives the converter for a CRD, or None for its own webhook."""


_UNREADABLE = "the objects of {name} could not all be listed: {said}"

_MOST_ASKED = 5
"""Times that a pass asks whether its CRD is gone."""


def own_webhook(_crd: Crd) -> None:
    """Choose the CRD's own webhook, for every CRD."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The dependencies of a pass: API server, clock, chance and converters.

    Attributes:
        cluster: the API server.
        stop: requested to end the run early.
        clock: a monotonic clock, in seconds.
        random: spreads waits; seeded in tests.
        converters: choose the converter of a CRD with strategy Webhook.
        longest_wait: the longest wait, in seconds.
        longest_patience_s: the longest wait for the end of an outage, in seconds, after the usual attempts.
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
        """Return the converter of a CRD's objects; None for its own webhook.

        Raises:
            MigrationRefused: the embedder's converter does not fit the CRD.
        """
        return self.converters(crd) if crd.strategy != "None" else None


def page_size(options: Options, crd: Crd, rules: EntryPolicies) -> int:
    """Return the objects per LIST: fewer if each costs a conversion or is read whole."""
    if options.page_size is not None:
        return options.page_size
    return WHOLE_OBJECTS if crd.strategy != "None" or rules.whole_objects else 500


Deal: TypeAlias = Callable[[AsyncIterator[ListedPage]], Awaitable[None]]
"""Has other processes finish the objects of these pages, which are as they were sent."""


async def run_pass(
    environment: Environment,
    crd: Crd,
    rules: EntryPolicies,
    options: Options,
    report: CrdReport,
    *,
    listed: Callable[[str], Awaitable[None]] | None = None,
    deal: Deal | None = None,
) -> None:
    """List and finish every object, or those of a shard; ``report`` counts the outcomes.

    Args:
        environment: the API server, the clock and the end of the run.
        crd: the CRD; objects are listed and written at its storage version.
        rules: the policies by which objects are decided.
        options: what is asked for.
        report: counts, failures, and ``unfinished`` if not every object was processed.
        listed: receives the list's resourceVersion before the first object is begun.
        deal: finishes the objects of a list of several pages; by default, this process finishes them.
    """
    chosen = environment.converter(crd)
    deleted_crd = CrdDeleted(environment, crd)
    async with open_converter(chosen, environment, crd, options, report.requests) as converter:
        finisher = Finisher(environment, crd, rules, options, report, converter, deleted_crd)
        listing = _Listing(environment, crd, rules, options, report, deleted_crd, undecoded=deal is not None)
        report.begin_pass()
        async with aclosing(listing.pages(listed)) as pages:
            if deal is None:
                await finisher.run(page.items async for page in pages)
            elif (first := await anext(pages, None)) is not None and not first.last:
                await deal(_chained(first, pages))
            elif first is not None:
                await finisher.run(listing.decoded(page) async for page in _chained(first, pages))
    report.warn(hazard_warnings(rules.hazards, report.hazards, rules.storage))
    if environment.stop:
        report.unfinished, report.unreachable = unfinished(report, environment.stop), environment.stop.unreachable


async def _chained(first: ListedPage, more: AsyncIterator[ListedPage]) -> AsyncIterator[ListedPage]:
    yield first
    async for page in more:
        yield page


def open_converter(
    chosen: Converter | None, environment: Environment, crd: Crd, options: Options, requests: Requests
) -> AbstractAsyncContextManager[Converter]:
    """Open the converter that was chosen, or the CRD's own webhook, whose reviews are counted."""
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


class CrdDeleted:
    """Asks the API server whether the CRD of a pass is gone, and ends the pass then.

    It asks a few times only, because a 404 may have other causes.

    Args:
        environment: the API server, and the end of the run.
        crd: the CRD.
    """

    def __init__(self, environment: Environment, crd: Crd) -> None:
        self._environment = environment
        self._crd = crd
        self._asking = asyncio.Lock()
        self._asked = 0

    async def __call__(self) -> bool:
        """Return whether the CRD is gone; the run is stopped then."""
        stop = self._environment.stop
        async with self._asking:
            if not stop and self._asked < _MOST_ASKED:
                self._asked += 1
                if why := await deleted(self._environment.cluster, self._crd):
                    stop.because(why, final=True)
        return stop.final


class _Listing:
    """The list of a pass. Its pages are undecoded where other processes finish the objects."""

    def __init__(
        self,
        environment: Environment,
        crd: Crd,
        rules: EntryPolicies,
        options: Options,
        report: CrdReport,
        crd_deleted: CrdDeleted,
        *,
        undecoded: bool,
    ) -> None:
        self._environment = environment
        self._crd = crd
        self._rules = rules
        self._options = options
        self._report = report
        self._crd_deleted = crd_deleted
        self._undecoded = undecoded

    async def pages(self, listed: Callable[[str], Awaitable[None]] | None) -> AsyncGenerator[ListedPage, None]:
        """Yield the pages, and count their objects; a failure of the list becomes a row of the report."""
        options, report = self._options, self._report
        try:
            async for page in list_objects(
                self._environment.cluster,
                self._crd.resource_at(self._crd.storage.name),
                page_size=page_size(options, self._crd, self._rules),
                requests=report.requests,
                stop=self._environment.stop,
                jitter=self._environment.jitter,
                namespace=options.namespace,
                selector=options.selector,
                whole=reads_whole(self._rules),
                undecoded=self._undecoded,
                patience_s=options.patience_s,
            ):
                if listed is not None:
                    await listed(page.resource_version)
                    listed = None
                owned, count = self._owned(page), 1 if options.shard is None else options.shard.count
                report.objects.listed += len(owned.texts if self._undecoded else owned.items)
                report.expected = report.objects.listed + (page.remaining or 0) // count
                yield owned
        except ListFailed as failure:
            if not (isinstance(failure.__cause__, NotFound) and await self._crd_deleted()):
                cause = await explain_list_failure(self._environment.cluster, self._crd, failure, report.requests)
                report.unfinished, report.unreachable = str(cause), cause.unreachable
        except BadReply as error:  # an object of an undecoded page, of which a shard reads the uid
            report.unfinished = _UNREADABLE.format(name=self._crd.name, said=error.said)

    def decoded(self, page: ListedPage) -> Sequence[Item]:
        """Return the objects of an undecoded page."""
        resource = self._crd.resource_at(self._crd.storage.name)
        return read_items(page.texts, resource, whole=reads_whole(self._rules))

    def _owned(self, page: ListedPage) -> ListedPage:
        """Return a page with the objects of the shard."""
        shard = self._options.shard
        if shard is None:
            return page
        if self._undecoded:
            uids = [item[0].uid for item in self.decoded(page)]
            return replace(page, texts=[text for text, uid in zip(page.texts, uids, strict=True) if shard.owns(uid)])
        return replace(page, items=[item for item in page.items if shard.owns(item[0].uid)])


def reads_whole(rules: EntryPolicies) -> bool:
    """Return whether whole objects must be listed."""
    return rules.whole_objects or rules.translates


class Finisher:
    """Finishes objects of one CRD, ``Options.concurrency`` of them concurrently.

    Args:
        environment: the API server, the clock and the end of the run.
        crd: the CRD.
        rules: the policies by which objects are decided.
        options: what is asked for.
        report: where everything is counted.
        converter: converts the objects; already open.
        crd_deleted: asks whether the CRD is gone.
        limiter: paces the writes; by default that of the options.
    """

    def __init__(
        self,
        environment: Environment,
        crd: Crd,
        rules: EntryPolicies,
        options: Options,
        report: CrdReport,
        converter: Converter,
        crd_deleted: CrdDeleted,
        *,
        limiter: Limiter | None = None,
    ) -> None:
        self._stop = environment.stop
        self._crd_name = crd.name
        self._concurrency = options.concurrency
        self._translator = Translator(converter, rules, report)
        self._queue: asyncio.Queue[tuple[int, Work] | None] = asyncio.Queue(maxsize=page_size(options, crd, rules))
        self._writer = ObjectWriter(
            environment.cluster,
            crd,
            rules,
            report,
            translator=self._translator,
            limiter=limiter or Limiter(concurrency=options.concurrency, rate=options.rate, clock=environment.clock),
            stop=environment.stop,
            clock=environment.clock,
            jitter=environment.jitter,
            patience_s=options.patience_s,
            dry_run=options.dry_run,
            crd_deleted=crd_deleted,
        )

    async def run(
        self, batches: AsyncIterator[Sequence[Item]], done: Callable[[int], None] = lambda _place: None
    ) -> None:
        """Finish the objects of all batches.

        Args:
            batches: the objects.
            done: called for each finished object with its index over all batches, from 0. After a request to stop, it
                is not called for objects that were not begun.
        """
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(self._work(done)) for _ in range(self._concurrency)]
            feeder = group.create_task(self._feed(batches))
            await asyncio.wait(workers)
            feeder.cancel()

    async def _feed(self, batches: AsyncIterator[Sequence[Item]]) -> None:
        """Feed the queue, and end it with one None for each worker."""
        place = 0
        try:
            async for items in batches:
                for work in await self._translator.works(items):
                    await self._queue.put((place, work))
                    place += 1
        except ConverterDown as down:
            self._stop.because(str(down), unreachable=down.unreachable)
        except BadReply as error:  # of a batch that was listed undecoded
            self._stop.because(_UNREADABLE.format(name=self._crd_name, said=error.said))
        for _ in range(self._concurrency):
            await self._queue.put(None)

    async def _work(self, done: Callable[[int], None]) -> None:
        while (item := await self._queue.get()) is not None:
            if not self._stop:
                place, work = item
                await self._writer.finish(*work)
                done(place)


def unfinished(report: CrdReport, stop: RunStop) -> str:
    """Return why a run ended early, and how many objects it leaves."""
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

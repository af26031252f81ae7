"""One pass over all objects of a CRD: a list, a bounded queue, and concurrent tasks that finish the objects.

Managed-fields entries are converted page by page on the way into the queue, so that one request to the converter covers
many objects. Memory is bounded by two pages, whatever the number of objects. A pass ends in a report, never in an
exception about an object. When the run is asked to stop, no new object is begun and writes in flight are finished.

``scan`` is for callers that wait for a reply: it reads only metadata, retries briefly, and writes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import NotFound
from restow.kube.retry import with_retries
from restow.migrator.decide.policies import entry_policies, hazard_warnings
from restow.migrator.model.converter import Converter, ConverterDown
from restow.migrator.model.options import Options
from restow.migrator.model.report import CrdReport, Requests
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.requests.crdaccess import deleted
from restow.migrator.requests.environment import Environment, RunStop
from restow.migrator.requests.lister import Item, ListFailed, explain_list_failure, object_pages
from restow.migrator.requests.premisecheck import PremiseCheck, Unconfirmed
from restow.migrator.requests.translator import Translator, Work
from restow.migrator.requests.webhook import open_converter
from restow.migrator.requests.wire import Meta
from restow.migrator.requests.writer import ObjectWriter

WHOLE_OBJECTS = 100
"""Objects per LIST where each costs a conversion, or is read whole."""

_MOST_ASKED = 5
"""Times that a pass asks whether its CRD is gone."""


def page_size(options: Options, crd: Crd, rules: EntryPolicies) -> int:
    """Return the objects per LIST: fewer if each costs a conversion or is read whole."""
    if options.page_size is not None:
        return options.page_size
    return WHOLE_OBJECTS if crd.strategy != "None" or rules.whole_objects else 500


async def run_pass(
    environment: Environment,
    check: PremiseCheck,
    rules: EntryPolicies,
    options: Options,
    report: CrdReport,
    *,
    listed: Callable[[str], Awaitable[None]] | None = None,
    unconfirmed: Sequence[Unconfirmed] = (),
) -> None:
    """List and finish every object, or those of a shard; ``report`` counts the outcomes.

    Once the premise has changed, no further object is begun.

    Args:
        environment: the API server, the clock and the end of the run.
        check: the premise of the pass; objects are listed and written at the storage version of its CRD.
        rules: the policies by which objects are decided.
        options: what is asked for.
        report: counts, failures, and ``unfinished`` if not every object was processed.
        listed: receives the list's resourceVersion before the first object is begun.
        unconfirmed: the writes of an earlier pass that are to be checked before the objects are listed.
    """
    crd = check.premise.crd
    chosen = environment.converter(crd)
    async with open_converter(chosen, environment, crd, options, report.requests) as converter:
        report.begin_pass()
        one = _Pass(environment, check, rules, options, report, converter)
        await one.check_again(unconfirmed)
        await one.run(listed)
    report.warn(hazard_warnings(rules.hazards, report.hazards, rules.storage))
    if environment.stop:
        report.unfinished, report.unreachable = unfinished(report, environment.stop), environment.stop.unreachable


class _Pass:
    """One pass, whose converter is open: it lists the objects, and finishes ``Options.concurrency`` of them at once."""

    def __init__(
        self,
        environment: Environment,
        check: PremiseCheck,
        rules: EntryPolicies,
        options: Options,
        report: CrdReport,
        converter: Converter,
    ) -> None:
        self._environment = environment
        self._stop = environment.stop
        self._check = check
        self._crd = crd = check.premise.crd
        self._rules = rules
        self._options = options
        self._report = report
        self._translator = Translator(converter, rules, report)
        self._page_size = page_size(options, crd, rules)
        self._queue: asyncio.Queue[Work | None] = asyncio.Queue(maxsize=self._page_size)
        self._writer = ObjectWriter(
            environment, rules, options, report, translator=self._translator, check=check, crd_deleted=self._crd_deleted
        )
        self._asking = asyncio.Lock()
        self._asked = 0

    async def check_again(self, unconfirmed: Sequence[Unconfirmed]) -> None:
        """Check the writes of an earlier pass during which the CRD changed."""
        for each in unconfirmed:
            await self._writer.check_again(each)

    async def run(self, listed: Callable[[str], Awaitable[None]] | None) -> None:
        """List and finish all objects, or those of the shard."""
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(self._work()) for _ in range(self._options.concurrency)]
            feeder = group.create_task(self._feed(listed))
            await asyncio.wait(workers)
            feeder.cancel()

    async def _feed(self, listed: Callable[[str], Awaitable[None]] | None) -> None:
        """Feed the queue, and end it with one None for each worker; a failed list becomes a row of the report."""
        report = self._report
        try:
            async for items in self._batches(listed):
                if self._check.changed:
                    break
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

    async def _batches(self, listed: Callable[[str], Awaitable[None]] | None) -> AsyncIterator[Sequence[Item]]:
        """Yield the objects page by page, those of the shard only, and count them."""
        options, report, shard = self._options, self._report, self._options.shard
        async for page in object_pages(
            self._environment,
            self._crd,
            options,
            report.requests,
            self._page_size,
            whole=self._rules.whole_objects or self._rules.translates,
            patience_s=options.patience_s,
        ):
            if listed is not None:
                await listed(page.resource_version)
                listed = None
            items = page.items if shard is None else [item for item in page.items if shard.owns(item[0].uid)]
            report.objects.listed += len(items)
            report.expected = report.objects.listed + (page.remaining or 0) // (1 if shard is None else shard.count)
            yield items

    async def _crd_deleted(self) -> bool:
        """Return whether the CRD is gone, which stops the run.

        It asks a few times only, because a 404 may have other causes.
        """
        async with self._asking:
            if not self._stop and self._asked < _MOST_ASKED:
                self._asked += 1
                if why := await deleted(self._environment.cluster, self._crd):
                    self._stop.because(why, final=True)
        return self._stop.final

    async def _work(self) -> None:
        while (work := await self._queue.get()) is not None:
            if not self._stop and not self._check.changed:
                await self._writer.finish(*work)


def unfinished(report: CrdReport, stop: RunStop) -> str:
    """Return why a run ended early, and how many objects it leaves."""
    if stop.final:
        return stop.why
    expected = max(report.expected, report.objects.listed)
    left = f"{expected - report.done} of {expected} objects were not begun" if expected else "no object was begun"
    return f"{stop.why}; {left}. Run again to go on"


async def scan(cluster: Cluster, crd: Crd) -> AsyncIterator[Meta]:
    """Yield the metadata of every object of a CRD, listed at the storage version page by page.

    Raises:
        ListFailed: no attempt could read a page of the objects.
    """
    options, patience_s = Options(), with_retries(cluster).patience_s
    size = page_size(options, crd, entry_policies(crd, options))
    pages = object_pages(Environment.brief(cluster), crd, options, Requests(), size, patience_s=patience_s)
    try:
        async for page in pages:
            for meta, _live in page.items:
                yield meta
    except ListFailed as failure:
        raise await explain_list_failure(cluster, crd, failure) from failure

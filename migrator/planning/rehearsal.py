"""Send the very writes that a migration would send, with ``dryRun=All``: what is refused shows, and nothing is stored.

Conversion of entries, admission and validation all take place; etcd is not reached, so its own limit of an object's
size is not. The time that the writes take is what a plan's estimate is made of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import KubeError, NotFound
from restow.kube.retry import patient
from restow.migrator.converters.converter import Converter, ConverterDown
from restow.migrator.halt import Halt
from restow.migrator.limiter import Limiter
from restow.migrator.lister import Item
from restow.migrator.managedfields.translation import supposed
from restow.migrator.managedfields.translator import Translator, Work
from restow.migrator.managedfields.treatment import Treatments
from restow.migrator.model import Options
from restow.migrator.planning.cost import Measured
from restow.migrator.planning.findings import Check, Finding, Findings, of_failure
from restow.migrator.planning.foretold import Foretold
from restow.migrator.report import CrdReport, Failure
from restow.migrator.wire import Meta, whole_object_decoder
from restow.migrator.writer import Writer

__all__ = ["Rehearsal"]


class Rehearsal:
    """Tries objects of one CRD, and measures.

    Args:
        cluster: where to.
        crd: the CRD.
        rules: the treatments by which objects are decided.
        options: what the migration is asked for; concurrency and rate are kept.
        converter: what converts entries.
        findings: where refusals are told.
        foretold: where it is told what cannot be carried over.
        halt: once raised, nothing more is tried.
        clock: a monotonic clock, in seconds.
        jitter: spreads a wait, ``seconds -> seconds``.
    """

    def __init__(
        self,
        cluster: Cluster,
        crd: Crd,
        rules: Treatments,
        options: Options,
        *,
        converter: Converter,
        findings: Findings,
        foretold: Foretold,
        halt: Halt,
        clock: Callable[[], float],
        jitter: Callable[[float], float],
    ) -> None:
        self._cluster = cluster
        self._resource = crd.resource_at(crd.storage.name)
        self._rules = rules
        self._workers = options.concurrency
        self._findings = findings
        self._foretold = foretold
        self._halt = halt
        self._clock = clock
        self._report = CrdReport(name=crd.name)
        self._translator = Translator(converter, rules, self._report)
        self._writer = Writer(
            cluster,
            crd,
            rules,
            self._report,
            translator=self._translator,
            limiter=Limiter(concurrency=options.concurrency, rate=options.rate, clock=clock),
            halt=halt,
            clock=clock,
            jitter=jitter,
            patience_s=0.0,
            dry_run=True,
        )
        self._told_end = False
        self.tried = 0
        self.measured = Measured(concurrency=options.concurrency)

    async def try_out(self, items: Sequence[Item]) -> None:
        """Try some objects side by side; what is refused is told in the findings."""
        if self._halt:
            return
        try:
            works = await self._translated(items)
        except ConverterDown as down:
            self._halt.because(str(down))
            self._findings.add(Finding(check=Check.WEBHOOK, message=str(down), fails=True, reason="ConverterDown"))
            self._told_end = True
            return
        for meta, live, translation in works:
            if translation is not None and live is not None:
                self._foretold.see(meta, live, translation, self._rules)
        before, sent = self._clock(), self._report.requests.write
        await self._side_by_side(works)
        took, sent = self._clock() - before, self._report.requests.write - sent
        self.tried += len(works)
        self.measured = replace(self.measured, writes=self.measured.writes + sent, write_s=self.measured.write_s + took)
        for failure in self._report.failures:
            self._tell(failure)
        self._report.failures.clear()
        if self._halt and not self._told_end:
            self._told_end = True
            message = f"the rehearsal ended before its end: {self._halt.why}. Plan again once that is mended"
            self._findings.add(Finding(check=Check.REHEARSAL, message=message))

    def _tell(self, failure: Failure) -> None:
        if not (self._halt and failure.reason == "Interrupted"):
            self._findings.add(of_failure(failure))

    async def _translated(self, items: Sequence[Item]) -> list[Work]:
        """Convert what has to be, in one batch as a migration does with a page."""
        converted: list[Item] = []
        others: list[Item] = []
        for item in items:
            (converted if self._is_converted(item[0]) else others).append(item)
        if not converted:
            return await self._translator.works(items)
        whole = await self._whole(converted)
        before, asked = self._clock(), self._report.conversions
        translations = await self._translator.translate(whole)
        self.measured = replace(
            self.measured,
            conversions=self.measured.conversions + self._report.conversions - asked,
            conversion_s=self.measured.conversion_s + self._clock() - before,
        )
        works: list[Work] = [(meta, live, done) for (meta, live), done in zip(whole, translations, strict=True)]
        return works + [(meta, live, None) for meta, live in others]

    def _is_converted(self, meta: Meta) -> bool:
        """Whether an object is; where no version of the CRD is any more, entries of removed ones still are."""
        return self._rules.translates or bool(supposed(meta.managed_fields, self._rules)[0].carried)

    async def _whole(self, items: Sequence[Item]) -> list[tuple[Meta, dict[str, Any]]]:
        """Read those objects whole that were listed without their content; those that are gone are left out."""
        found: dict[int, dict[str, Any]] = {}

        async def read(todo: Iterator[tuple[int, Item]]) -> None:
            for number, (meta, live) in todo:
                if live is not None:
                    found[number] = live
                    continue
                try:
                    reply = await patient(self._cluster).get(self._resource, meta.name, meta.namespace or None)
                except NotFound:
                    continue
                except KubeError as error:
                    self._tell(Failure(meta.namespace, meta.name, type(error).__name__, str(error)))
                    continue
                found[number] = reply.decode(whole_object_decoder)

        todo = iter(enumerate(items))
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._workers, len(items))):
                group.create_task(read(todo))
        return [(items[number][0], found[number]) for number in sorted(found)]

    async def _side_by_side(self, works: Sequence[Work]) -> None:
        async def work(todo: Iterator[Work]) -> None:
            for each in todo:
                if not self._halt:
                    await self._writer.finish(*each)

        todo = iter(works)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._workers, len(works))):
                group.create_task(work(todo))

"""Try a migration on a sample of objects: the conversion webhook, and the migration's own writes with ``dryRun=All``.

The dry run finds objects that would be refused, and stores nothing. Conversion of entries, admission and validation
run. The writes do not reach etcd, so its size limit is not checked. A plan estimates its time from these writes.

To test the webhook, the module converts an object of the sample from the storage version to every other one and back,
and once more without its content, because API servers send such partial objects too, for managedFields.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from restow.crds import Crd, pruned_paths
from restow.kube.cluster import Cluster
from restow.kube.errors import KubeError, NotFound
from restow.kube.resources import qualified_name
from restow.kube.retry import with_retries
from restow.migrator.decide.premise import Premise
from restow.migrator.model.converter import Answer, Converter, ConverterDown, Json, Unconverted
from restow.migrator.model.findings import PlanCheck, PlanFinding, PlanFindings, of_failure
from restow.migrator.model.options import Options
from restow.migrator.model.report import CrdReport, ObjectFailure
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.ownership.translation import supposed
from restow.migrator.planning.plan import Measured
from restow.migrator.planning.strippreview import StripPrediction
from restow.migrator.requests.lister import Item
from restow.migrator.requests.pace import Limiter
from restow.migrator.requests.premisecheck import PremiseCheck
from restow.migrator.requests.stop import RunStop
from restow.migrator.requests.translator import Translator, Work
from restow.migrator.requests.wire import Meta, whole_object_decoder
from restow.migrator.requests.writer import ObjectWriter

_MOST_PATHS = 5


async def probe(converter: Converter, crd: Crd, sample: Json | None, *, needed: bool) -> list[PlanFinding]:
    """Return the problems of a CRD's conversion webhook.

    Args:
        converter: calls the webhook.
        crd: the CRD.
        sample: an object at the storage version; None if there is none.
        needed: whether a migration has to convert entries through the webhook; otherwise only the API server needs it.
    """
    found: list[PlanFinding] = []
    whole = _plain(sample) if sample is not None else None
    partial = _without_content(whole or _made_up(crd))
    try:
        for version in crd.versions:
            if version.storage:
                continue
            if whole is not None:
                found += await _there_and_back(converter, crd, whole, version.name, needed=needed)
            found += await _partial(converter, crd, partial, version.name)
    except ConverterDown as down:
        then = "The migration has nothing to translate through it, and the API server may reach it all the same"
        if needed:
            then = "Until then a migration cannot translate managedFields"
        message = f"{str(down).rstrip('.')}. {then}"
        found.append(PlanFinding(check=PlanCheck.WEBHOOK, message=message, fails=needed, reason="ConverterDown"))
    return found


async def _there_and_back(converter: Converter, crd: Crd, obj: Json, name: str, *, needed: bool) -> list[PlanFinding]:
    version, storage = crd.version(name), crd.storage
    assert version is not None
    old = await _one(converter, obj, version.api_version)
    if isinstance(old, Unconverted):
        return [_refused(crd, obj, name, old, fails=needed)]
    new = await _one(converter, old, storage.api_version)
    if isinstance(new, Unconverted):
        return [_refused(crd, old, storage.name, new, fails=needed)]
    found = []
    for answer, at in ((old, version), (new, storage)):
        if paths := pruned_paths(answer, at.schema):
            message = (
                f"the conversion webhook of {crd.name} answers {_where(obj)} at {at.name} with fields that {at.name} "
                f"does not declare, and the API server prunes them: {_few(paths)}. Declare them, or fix the conversion"
            )
            found.append(_finding(obj, message))
    return found


async def _partial(converter: Converter, crd: Crd, obj: Json, name: str) -> list[PlanFinding]:
    version = crd.version(name)
    assert version is not None
    answer = await _one(converter, obj, version.api_version)
    if not isinstance(answer, Unconverted):
        return []
    message = (
        f"the conversion webhook of {crd.name} does not convert an object without spec and status to {name}: "
        f"{answer.message.rstrip('.')}. API servers send such objects when they work on managedFields, and empty these "
        "where that fails: have it leave out what it is not given"
    )
    return [PlanFinding(check=PlanCheck.WEBHOOK, message=message, reason="CannotConvert")]


def _refused(crd: Crd, obj: Json, name: str, answer: Unconverted, *, fails: bool) -> PlanFinding:
    message = (
        f"{_where(obj)} cannot be converted to {name} by the conversion webhook of {crd.name}: "
        f"{answer.message.rstrip('.')}. Fix the object, or the webhook, then plan again"
    )
    return _finding(obj, message, fails=fails, reason="CannotConvert")


def _finding(obj: Json, message: str, *, fails: bool = False, reason: str = "") -> PlanFinding:
    metadata = obj["metadata"]
    return PlanFinding(
        check=PlanCheck.WEBHOOK,
        message=message,
        fails=fails,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        reason=reason,
    )


async def _one(converter: Converter, obj: Json, api_version: str) -> Answer:
    [answer] = await converter.convert([obj], api_version)
    return answer


def _plain(obj: Json) -> Json:
    return obj | {"metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def _without_content(obj: Json) -> Json:
    return {key: obj[key] for key in ("apiVersion", "kind", "metadata")}


def _made_up(crd: Crd) -> Json:
    metadata = {"name": "restow-probe", "uid": "00000000-0000-4000-8000-000000000000"}
    if crd.namespaced:
        metadata["namespace"] = "default"
    return {"apiVersion": crd.storage.api_version, "kind": crd.kind, "metadata": metadata}


def _where(obj: Json) -> str:
    return qualified_name(obj["metadata"].get("namespace"), obj["metadata"]["name"])


def _few(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
    return ", ".join(paths[:_MOST_PATHS]) + more


class DryRun:
    """Tries the writes of objects of one CRD, and measures them.

    Args:
        cluster: the API server.
        crd: the CRD.
        rules: the policies for the decisions about objects.
        options: the options of the migration; the dry run obeys its concurrency and rate.
        converter: converts entries.
        findings: receives the refusals.
        predicted: receives entries that cannot be carried over.
        stop: ends the dry run once it is set.
        clock: a monotonic clock, in seconds.
        jitter: adds jitter to a wait, ``seconds -> seconds``.
    """

    def __init__(
        self,
        cluster: Cluster,
        crd: Crd,
        rules: EntryPolicies,
        options: Options,
        *,
        converter: Converter,
        findings: PlanFindings,
        predicted: StripPrediction,
        stop: RunStop,
        clock: Callable[[], float],
        jitter: Callable[[float], float],
    ) -> None:
        self._cluster = cluster
        self._resource = crd.resource_at(crd.storage.name)
        self._rules = rules
        self._workers = options.concurrency
        self._findings = findings
        self._predicted = predicted
        self._stop = stop
        self._clock = clock
        self._report = CrdReport(name=crd.name)
        self._translator = Translator(converter, rules, self._report)
        self._writer = ObjectWriter(
            cluster,
            crd,
            rules,
            self._report,
            translator=self._translator,
            check=PremiseCheck(cluster, Premise(crd)),
            limiter=Limiter(concurrency=options.concurrency, rate=options.rate, clock=clock),
            stop=stop,
            clock=clock,
            jitter=jitter,
            patience_s=0.0,
            dry_run=True,
        )
        self._told_end = False
        self.tried = 0
        self.measured = Measured(concurrency=options.concurrency)

    async def try_out(self, items: Sequence[Item]) -> None:
        """Try the writes of some objects concurrently; refusals become findings."""
        if self._stop:
            return
        try:
            works = await self._translated(items)
        except ConverterDown as down:
            self._stop.because(str(down))
            self._findings.add(
                PlanFinding(check=PlanCheck.WEBHOOK, message=str(down), fails=True, reason="ConverterDown")
            )
            self._told_end = True
            return
        for meta, live, translation in works:
            if translation is not None and live is not None:
                self._predicted.see(meta, live, translation, self._rules)
        before, sent = self._clock(), self._report.requests.write
        await self._side_by_side(works)
        took, sent = self._clock() - before, self._report.requests.write - sent
        self.tried += len(works)
        self.measured = replace(self.measured, writes=self.measured.writes + sent, write_s=self.measured.write_s + took)
        for failure in self._report.failures:
            self._tell(failure)
        self._report.failures.clear()
        for warning in self._report.warnings:
            self._findings.add(PlanFinding(check=PlanCheck.REHEARSAL, message=warning))
        self._report.warnings.clear()
        if self._stop and not self._told_end:
            self._told_end = True
            message = f"the rehearsal ended before its end: {self._stop.why}. Plan again once that is fixed"
            self._findings.add(PlanFinding(check=PlanCheck.REHEARSAL, message=message))

    def _tell(self, failure: ObjectFailure) -> None:
        if not (self._stop and failure.reason == "Interrupted"):
            self._findings.add(of_failure(failure))

    async def _translated(self, items: Sequence[Item]) -> list[Work]:
        """Convert the entries that need it in one batch, as a migration does for a page."""
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
        """Return whether entries of an object are converted: those of the CRD's versions, or only of removed ones."""
        return self._rules.translates or bool(supposed(meta.managed_fields, self._rules)[0].converted)

    async def _whole(self, items: Sequence[Item]) -> list[tuple[Meta, dict[str, Any]]]:
        """Return the objects with their content, which is read if the list left it out; skip deleted objects."""
        found: dict[int, dict[str, Any]] = {}

        async def read(todo: Iterator[tuple[int, Item]]) -> None:
            for number, (meta, live) in todo:
                if live is not None:
                    found[number] = live
                    continue
                try:
                    reply = await with_retries(self._cluster).get(self._resource, meta.name, meta.namespace or None)
                except NotFound:
                    continue
                except KubeError as error:
                    self._tell(ObjectFailure(meta.namespace, meta.name, type(error).__name__, str(error)))
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
                if not self._stop:
                    await self._writer.finish(*each)

        todo = iter(works)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._workers, len(works))):
                group.create_task(work(todo))

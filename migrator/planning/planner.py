"""Plan a migration, the work of ``restow plan``, without storing anything.

The plan lists objects and decides about them with the functions of the migration, so the two cannot disagree. It tries
the writes of a sample, or of all objects, as dry runs (``restow.migrator.planning.dryrun``). Beyond the sample it
assumes that all entries can be carried over and only counts the conversions, because a plan must not load a webhook as
much as the migration does.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import KubeError
from restow.kube.retry import with_retries
from restow.migrator.decide.decision import ObjectDecision, decide
from restow.migrator.decide.policies import entry_policies, hazard_warnings
from restow.migrator.decide.proof import may_be_stored, what_is_proved
from restow.migrator.model.callbacks import Callbacks, MigrationRefused, Silent
from restow.migrator.model.converter import Converter, Json
from restow.migrator.model.findings import PlanCheck, PlanFinding, of_failure
from restow.migrator.model.options import Options
from restow.migrator.model.report import OWNERS_LOST, ObjectFailure, Requests
from restow.migrator.ownership.policy import EntryPolicies, EntryPolicy
from restow.migrator.ownership.translation import supposed
from restow.migrator.planning.dryrun import DryRun, probe
from restow.migrator.planning.plan import MigrationPlan, ride_along
from restow.migrator.planning.sample import Sample, detached
from restow.migrator.requests.lister import Item, ListedPage, ListFailed, list_objects
from restow.migrator.requests.listfailure import explain_list_failure
from restow.migrator.requests.lostfields import find_lost_fields
from restow.migrator.requests.lostowners import still_lost
from restow.migrator.requests.marking import rehearse_writes
from restow.migrator.requests.native import left_behind, without_condition
from restow.migrator.requests.passes import (
    LONGEST_WAIT,
    Converters,
    Environment,
    open_converter,
    own_webhook,
    page_size,
)
from restow.migrator.requests.preflight import missing, missing_namespace, of_missing, permissions, refusal
from restow.migrator.requests.stop import RunStop
from restow.migrator.requests.wire import Meta


async def plan(
    cluster: Cluster,
    crd: Crd,
    options: Options,
    converters: Converters = own_webhook,
    *,
    sample: int | None = 0,
    observe: Callable[[MigrationPlan], None] = lambda _plan: None,
    clock: Callable[[], float] = time.monotonic,
    chance: random.Random | None = None,
) -> MigrationPlan:
    """List all objects of a CRD and count the work of a migration with these options and converters.

    Args:
        cluster: the API server.
        crd: the CRD as just read.
        options: the options of the migration.
        converters: the converters of the migration.
        sample: the number of objects whose writes to try as dry runs; None for all, 0 for none.
        observe: receives the plan in its current state after each page.
        clock: a monotonic clock, in seconds.
        chance: spreads waits, and makes the uids of ConversionReviews.

    Raises:
        KubeError: the API server cannot be reached.
    """
    cluster = with_retries(cluster)
    left = await left_behind(cluster, crd) if crd.storage_migrating else ""
    crd = without_condition(crd) if left else crd
    found = MigrationPlan(crd=crd, refused=refusal(crd, options.namespace))
    if left:
        found.findings.add(PlanFinding(check=PlanCheck.NATIVE, message=left))
    stop = RunStop()
    callbacks = Callbacks(Silent(), converters, stop.because)
    environment = Environment(
        cluster,
        stop,
        clock,
        chance or random.Random(),
        callbacks.converter,
        longest_wait=LONGEST_WAIT,
        longest_patience_s=0.0,
    )
    chosen: Converter | None = None
    try:
        chosen = environment.converter(crd)
    except MigrationRefused as refused:
        found.refused = found.refused or str(refused)
    if found.refused:
        return found
    found.in_process = chosen is not None
    found.completed = what_is_proved(crd).managed_fields_done(options)
    rules = entry_policies(crd, options, completed=found.completed)
    found.new_defaults = rules.new_defaults
    found.reencode = rules.reencode
    pruned = crd.stored_versions == (crd.storage.name,)
    found.prune = options.prunes and not options.partial and (rules.reencode or not pruned)
    if said := (await still_lost(cluster, crd, forget=False)).sentence:
        found.findings.add(PlanFinding(check=PlanCheck.OBJECTS, message=said, reason=OWNERS_LOST))
    planner = _Planner(environment, found, rules, options, sample, observe)
    async with open_converter(chosen, environment, crd, options, Requests()) as converter:
        try:
            await planner.look(converter)
        except ListFailed as failure:
            cause = await explain_list_failure(cluster, crd, failure)
            found.unfinished, found.unreachable = str(cause), cause.unreachable
        if options.namespace and not found.objects and (why := await missing_namespace(cluster, options.namespace)):
            found.findings.add(PlanFinding(check=PlanCheck.OBJECTS, message=why))
        if crd.strategy == "Webhook" and not found.in_process and sample != 0:
            await planner.probe(converter)
    return found


class _Planner:
    """Fills one plan."""

    def __init__(
        self,
        environment: Environment,
        found: MigrationPlan,
        rules: EntryPolicies,
        options: Options,
        sample: int | None,
        observe: Callable[[MigrationPlan], None],
    ) -> None:
        self._environment = environment
        self._cluster = environment.cluster
        self._crd = found.crd
        self._found = found
        self._rules = rules
        self._options = options
        self._observe = observe
        self._tries, self._everything = sample != 0, sample is None
        self._sample = Sample[Item](sample or 0, _detached)
        self._may_write: bool | None = None
        self._list_s = 0.0
        self._anyone: Meta | None = None

    async def look(self, converter: Converter) -> None:
        """List objects, decide about them, try writes, and search for fields that would be lost.

        Raises:
            ListFailed: no attempt could read a page of the objects.
        """
        found = self._found
        rehearsal = DryRun(
            self._cluster,
            self._crd,
            self._rules,
            self._options,
            converter=converter,
            findings=found.findings,
            predicted=found.predicted,
            stop=self._environment.stop,
            clock=self._environment.clock,
            jitter=self._environment.jitter,
        )
        whole = self._rules.whole_objects or (self._everything and self._rules.translates)
        try:
            async for page in self._timed(self._pages(self._crd.storage.name, found.requests, whole=whole)):
                due = [item for item in page.items if self._takes_a_write(*item)]
                if self._everything and due and await self._may_try():
                    await rehearsal.try_out(due)
                found.tried = rehearsal.tried
                self._observe(found)
            if found.due and await self._may_try() and (picked := self._sample.items):
                await rehearsal.try_out(picked)
        finally:
            found.tried = rehearsal.tried
            found.measured = replace(rehearsal.measured, list_s=self._list_s)
        if self._tries and found.due:
            for finding in await rehearse_writes(self._cluster, self._crd, self._options, rewritten=found.writes > 0):
                found.findings.add(finding)
        found.stripped += found.predicted.stripped
        found.remaining += found.predicted.remaining
        for finding in found.predicted.findings(self._crd):
            found.findings.add(finding)
        for said in hazard_warnings(self._rules.hazards, found.hazards, self._rules.storage):
            found.findings.add(PlanFinding(check=PlanCheck.OBJECTS, message=said))
        if found.writes and may_be_stored(self._crd) != (self._crd.storage.name,):
            found.lost = await find_lost_fields(self._crd, self._objects_at)
            for finding in found.lost.findings(self._crd):
                found.findings.add(finding)

    async def probe(self, converter: Converter) -> None:
        """Test the webhook if work is due, or if the webhook may be why the objects cannot be listed."""
        found = self._found
        if self._environment.stop or len(self._crd.versions) < 2 or not (found.due or found.unfinished):
            return
        obj: Json | None = None
        if self._anyone is not None:
            try:
                reply = await self._cluster.get(self._crd.resource_at(self._crd.storage.name), *self._key(self._anyone))
                obj = reply.json()
            except KubeError:
                pass  # gone, or not readable: test the webhook with a generated object
        needed = found.translations > 0 or (bool(found.unfinished) and self._rules.translates)
        for finding in await probe(converter, self._crd, obj, needed=needed):
            found.findings.add(finding)

    def _takes_a_write(self, meta: Meta, live: Json | None) -> bool:
        """Count an object; return whether it needs a write to try."""
        found, rules = self._found, self._rules
        self._anyone = self._anyone or meta
        found.objects += 1
        for entry in meta.managed_fields:
            if entry.api_version != rules.storage:
                found.entries[entry.api_version, rules.of(entry.api_version).value] += 1
        for owner in {(entry.manager, entry.api_version) for entry in meta.managed_fields}:
            if owner[1] != rules.storage:
                found.owners[owner] += 1
        decision = self._decided(meta, live)
        found.steps[tuple(step.value for step in decision.steps)] += 1
        found.stripped.update(decision.stripped)
        found.remaining += decision.remaining > 0
        found.hazards.update(
            (entry.manager, entry.api_version) for entry in decision.entries if entry.api_version in rules.hazards
        )
        if decision.refusal:
            self._blocked(meta, decision.reason, decision.refusal)
            return False
        if decision.steps:
            found.rehearsals += decision.rehearse
            if decision.remaining:
                others = {entry.api_version for entry in decision.entries} - {rules.storage}
                requests = len(decision.steps) + decision.rehearse
                found.riding_along += requests * ride_along(len(others), decision.remaining)
            versions = frozenset(entry.api_version for entry in meta.managed_fields)
            converted = frozenset(
                (entry.manager, entry.api_version)
                for entry in meta.managed_fields
                if rules.of(entry.api_version) is EntryPolicy.TRANSLATE
            )
            self._sample.offer((versions, converted, decision.steps), meta.namespace, meta.uid, (meta, live))
        return bool(decision.steps)

    def _decided(self, meta: Meta, live: Json | None) -> ObjectDecision:
        found, rules = self._found, self._rules
        decision = decide(meta.managed_fields, rules, live)
        if not decision.needs_object:
            return decision
        translation, conversions = supposed(meta.managed_fields, rules)
        found.reads += live is None and not rules.translates
        found.translations += len(translation.converted)
        found.conversions += conversions
        return decide(meta.managed_fields, rules, live or {}, translation)

    def _blocked(self, meta: Meta, reason: str, message: str) -> None:
        self._found.blocked += 1
        self._found.findings.add(of_failure(ObjectFailure(meta.namespace, meta.name, reason, message)))

    async def _may_try(self) -> bool:
        """Check once the rights that a migration needs; return whether the writes may be tried."""
        if self._may_write is None:
            lacking = await missing(self._cluster, permissions(self._crd, self._options))
            for each in lacking:
                self._found.findings.add(of_missing(each))
            self._may_write = not any(each.verb in ("get", "patch") and not each.name for each in lacking)
        return self._may_write

    async def _timed(self, pages: AsyncIterator[ListedPage]) -> AsyncIterator[ListedPage]:
        """Sum up the waits for pages, without the time for their processing."""
        begun = self._environment.clock()
        async for page in pages:
            self._list_s += self._environment.clock() - begun
            yield page
            begun = self._environment.clock()

    async def _objects_at(self, version: str) -> AsyncIterator[Item]:
        async for page in self._pages(version, self._found.requests, whole=True):
            for item in page.items:
                yield item

    def _pages(self, version: str, requests: Requests, *, whole: bool) -> AsyncIterator[ListedPage]:
        return list_objects(
            self._cluster,
            self._crd.resource_at(version),
            page_size=page_size(self._options, self._crd, replace(self._rules, whole_objects=whole)),
            requests=requests,
            stop=RunStop(),
            jitter=self._environment.jitter,
            namespace=self._options.namespace,
            selector=self._options.selector,
            whole=whole,
            patience_s=with_retries(self._cluster).patience_s,
        )

    def _key(self, meta: Meta) -> tuple[str, str | None]:
        return meta.name, meta.namespace or None


def _detached(item: Item) -> Item:
    """Copy an item, because a few picked objects would otherwise keep as many pages in memory."""
    return detached(item[0]), item[1]

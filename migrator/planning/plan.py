"""Plan a migration, the work of ``restow plan``, without storing anything: its work, its cost and its failures.

The plan lists objects and decides about them with the functions of the migration, so the two cannot disagree. It tries
the writes of a sample, or of all objects, as dry runs (``restow.migrator.planning.dryrun``), from which the cost
(requests, conversions, and a time) is estimated. Beyond the sample it assumes that all entries can be carried over and
only counts the conversions, because a plan must not load a webhook as much as the migration does.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import KubeError
from restow.kube.retry import with_retries
from restow.migrator.decide.decision import ObjectDecision, WriteStep, decide
from restow.migrator.decide.policies import entry_policies, hazard_warnings
from restow.migrator.decide.proof import may_be_stored, what_is_proved
from restow.migrator.model.callbacks import Callbacks, MigrationRefused, Silent
from restow.migrator.model.converter import Converter, Json
from restow.migrator.model.options import Options, Phase
from restow.migrator.model.report import (
    OWNERS_LOST,
    ObjectFailure,
    PlanCheck,
    PlanFinding,
    PlanFindings,
    Requests,
    of_failure,
    rows,
)
from restow.migrator.ownership.policy import EntryPolicies, EntryPolicy
from restow.migrator.ownership.translation import supposed
from restow.migrator.planning.dryrun import DryRun, Measured, Sample, StripPrediction, detached, probe
from restow.migrator.requests.environment import Converters, Environment, RunStop, own_webhook
from restow.migrator.requests.lister import Item, ListedPage, ListFailed, explain_list_failure, object_pages
from restow.migrator.requests.lostfields import LostFields, find_lost_fields
from restow.migrator.requests.lostowners import still_lost
from restow.migrator.requests.native import left_behind, without_condition
from restow.migrator.requests.passes import page_size
from restow.migrator.requests.preflight import (
    missing,
    missing_namespace,
    of_missing,
    permissions,
    refusal,
    rehearse_writes,
)
from restow.migrator.requests.webhook import open_converter
from restow.migrator.requests.wire import Meta

if TYPE_CHECKING:
    from restow.migrator.references.reference import FoundReferences


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a migration.

    Attributes:
        objects: the number of objects to write.
        lists, reads, writes: the numbers of requests; ``writes`` includes second writes of an object.
        rehearsals: the number of dry-run writes before writes of objects that keep entries of other versions.
        conversions: the most conversions through the converter, for translation.
        server_conversions: the most conversions by the API server through the CRD's webhook.
        measured: the measurements from which the time is estimated.
    """

    objects: int = 0
    lists: int = 0
    reads: int = 0
    writes: int = 0
    rehearsals: int = 0
    conversions: int = 0
    server_conversions: int = 0
    measured: Measured = field(default_factory=Measured)

    @property
    def seconds(self) -> float | None:
        """The estimated time, or None without measurements.

        Writes run while the lists are read and pages are converted, so the slower of the two counts. The time for
        settling and pruning is not included.
        """
        rate = self.measured.writes_per_s
        if rate is None or (self.conversions and not self.measured.conversions):
            return None
        converting = 0.0
        if self.conversions:
            converting = self.conversions * self.measured.conversion_s / self.measured.conversions
        return max(self.measured.list_s + converting, (self.writes + self.rehearsals) / rate)

    def to_json(self) -> dict[str, Any]:
        """Return ``cost`` of ``restow plan -o json``; measured numbers are in ``estimate``."""
        rate, seconds = self.measured.writes_per_s, self.seconds
        estimate = None
        if rate is not None and seconds is not None:
            estimate = {
                "seconds": round(seconds, 1),
                "writesPerSecond": round(rate, 1),
                "measuredWrites": self.measured.writes,
                "concurrency": self.measured.concurrency,
            }
        return {
            "objects": self.objects,
            "lists": self.lists,
            "reads": self.reads,
            "writes": self.writes,
            "rehearsals": self.rehearsals,
            "conversions": {"translation": self.conversions, "apiServer": self.server_conversions},
            "estimate": estimate,
        }


def server_conversions(crd: Crd, *, listed: int, writes: int, applies: int, rehearsals: int, riding_along: int) -> int:
    """Return the most conversions by a CRD's webhook for the API server in a migration without other writers.

    Each listed object is converted (one ConversionReview each). A write converts the stored object, an apply converts
    it once more, and the result is converted for the watch cache of every other served version. All of this was
    counted on a kube-apiserver 1.36.3.

    Args:
        crd: the CRD.
        listed: the number of objects in the lists.
        writes: the number of writes without rehearsals.
        applies: the number of server-side applies among them.
        rehearsals: the number of dry runs of writes.
        riding_along: the conversions of entries that stay, see ``ride_along``.
    """
    if crd.strategy == "None":
        return 0
    others = len(crd.served) - 1
    return listed + writes * (1 + others) + applies + rehearsals + riding_along


def ride_along(versions: int, entries: int) -> int:
    """Return the conversions that entries of other versions cost each write of their object.

    Args:
        versions: the number of their versions.
        entries: the number of entries.
    """
    return 4 * versions + 2 * entries


@dataclass(slots=True, kw_only=True)
class MigrationPlan:
    """The plan of one CRD's migration.

    Attributes:
        refused: why the CRD cannot be migrated in its present state, or empty.
        unfinished: why the plan does not cover all objects, or empty.
        unreachable: what was unreachable for too long, if that is the reason; or empty.
        objects: the number of objects (in the selected part).
        steps: the numbers of objects by the requests that each needs, e.g. ``{("combined-patch",): 12, (): 3}``.
        entries: the numbers of managedFields entries of other versions, by (apiVersion, policy).
        owners: the numbers of objects by (manager, apiVersion) of such entries.
        stripped: the numbers of entries that would be stripped, by (manager, apiVersion), among the tried objects.
        remaining: the number of objects that would keep entries of other versions.
        blocked: the number of objects that cannot be written without losing an owner.
        reads: the number of objects that have to be read whole.
        translations: the number of entries that would be converted.
        conversions: the most conversions for them.
        in_process: whether they run in this process, and not in the CRD's webhook.
        riding_along: the conversions for entries of other versions that stay on objects to write.
        rehearsals: the number of objects with such entries, whose write is tried as a dry run first.
        new_defaults: paths of defaults that a write would persist, which costs two writes per object.
        hazards: the numbers of entries that would stay and may cost their objects all owners, by (manager,
            apiVersion).
        lost: fields that would be pruned permanently (strategy None).
        findings: the obstacles, and further warnings.
        predicted: the results of the converted entries that cannot be carried over.
        tried: the number of objects whose writes were tried as dry runs.
        measured: the durations of these writes and of the lists.
        reencode: whether every object has to be written, because storedVersions names another version.
        prune: whether storedVersions would be pruned if no object fails.
        references: references in the cluster to a version that can be removed, a result for each version; None without
            a search.
    """

    crd: Crd
    refused: str = ""
    unfinished: str = ""
    unreachable: str = ""
    completed: bool = False
    objects: int = 0
    steps: Counter[tuple[str, ...]] = field(default_factory=Counter)
    entries: Counter[tuple[str, str]] = field(default_factory=Counter)
    owners: Counter[tuple[str, str]] = field(default_factory=Counter)
    stripped: Counter[tuple[str, str]] = field(default_factory=Counter)
    remaining: int = 0
    blocked: int = 0
    reads: int = 0
    translations: int = 0
    conversions: int = 0
    in_process: bool = False
    riding_along: int = 0
    rehearsals: int = 0
    new_defaults: tuple[str, ...] = ()
    hazards: Counter[tuple[str, str]] = field(default_factory=Counter)
    lost: LostFields = field(default_factory=LostFields)
    findings: PlanFindings = field(default_factory=PlanFindings)
    predicted: StripPrediction = field(default_factory=StripPrediction)
    tried: int = 0
    measured: Measured = field(default_factory=Measured)
    reencode: bool = False
    prune: bool = False
    references: tuple[FoundReferences, ...] | None = None
    requests: Requests = field(default_factory=Requests)

    @property
    def lost_fields(self) -> Counter[str]:
        """The numbers of objects by field that would be pruned permanently."""
        return self.lost.objects

    @property
    def warnings(self) -> list[str]:
        """The warnings about problems for which no object would fail."""
        return [finding.message for finding in self.findings.listed if not finding.fails]

    @property
    def cost(self) -> Cost:
        """The cost of the migration."""
        written = sum(count for steps, count in self.steps.items() if steps)
        writes = self.writes
        return Cost(
            objects=written,
            lists=self.requests.list,
            reads=self.reads,
            writes=writes,
            rehearsals=self.rehearsals,
            conversions=self.conversions,
            server_conversions=server_conversions(
                self.crd,
                listed=self.objects,
                writes=writes,
                applies=sum(count for steps, count in self.steps.items() if WriteStep.IDENTITY_APPLY in steps),
                rehearsals=self.rehearsals,
                riding_along=self.riding_along,
            ),
            measured=self.measured,
        )

    @property
    def writes(self) -> int:
        """The write requests of a migration, without retries and dry-run rehearsals."""
        return sum(len(steps) * count for steps, count in self.steps.items())

    @property
    def due(self) -> tuple[Phase, ...]:
        """The phases with work to do."""
        due = []
        if self.reencode and self.objects:
            due.append(Phase.STORAGE)
        if self.entries and any("combined-patch" in steps for steps in self.steps):
            due.append(Phase.MANAGED_FIELDS)
        if self.prune:
            due.append(Phase.PRUNE)
        return tuple(due)

    def to_json(self) -> dict[str, Any]:
        """Return one element of ``crds`` in ``restow plan -o json``."""
        crd = self.crd
        return {
            "name": crd.name,
            "storageVersion": crd.storage.name,
            "servedVersions": list(crd.served),
            "storedVersions": list(crd.stored_versions),
            "strategy": crd.strategy,
            "refused": self.refused,
            "unfinished": self.unfinished,
            "unreachable": self.unreachable,
            "due": [phase.value for phase in self.due],
            "objects": self.objects,
            "requests": {"list": self.requests.list, "read": self.reads, "write": self.writes},
            "steps": [{"requests": list(steps), "objects": count} for steps, count in sorted(self.steps.items())],
            "entries": rows(self.entries, "apiVersion", "treatment", "entries"),
            "owners": rows(self.owners, "manager", "apiVersion", "objects"),
            "stripped": rows(self.stripped, "manager", "apiVersion", "entries"),
            "remaining": self.remaining,
            "blocked": self.blocked,
            "conversions": {"entries": self.translations, "atMost": self.conversions},
            "newDefaults": list(self.new_defaults),
            "lostFields": [{"path": path, "objects": count} for path, count in sorted(self.lost_fields.items())],
            "findings": [finding.to_json() for finding in self.findings.listed],
            "moreFindings": {check.value: count for check, count in sorted(self.findings.more().items())},
            "references": None if self.references is None else [each.to_json() for each in self.references],
            "rehearsed": self.tried,
            "cost": self.cost.to_json(),
        }


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
    environment = replace(
        Environment.brief(cluster),
        stop=stop,
        clock=clock,
        random=chance or random.Random(),
        converters=callbacks.converter,
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
            self._environment,
            self._crd,
            self._rules,
            self._options,
            converter=converter,
            findings=found.findings,
            predicted=found.predicted,
        )
        whole = self._rules.whole_objects or (self._everything and self._rules.translates)
        try:
            async for page in self._timed(self._pages(self._crd.storage.name, whole=whole)):
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
            found.lost = await find_lost_fields(self._crd, self._pages_at)
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
                reply = await self._cluster.get(
                    self._crd.resource_at(self._crd.storage.name), self._anyone.name, self._anyone.namespace or None
                )
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

    def _pages_at(self, version: str) -> AsyncIterator[ListedPage]:
        return self._pages(version, whole=True)

    def _pages(self, version: str, *, whole: bool) -> AsyncIterator[ListedPage]:
        return object_pages(
            replace(self._environment, stop=RunStop()),  # a rehearsal that ends early does not end the lists
            self._crd,
            self._options,
            self._found.requests,
            page_size(self._options, self._crd, replace(self._rules, whole_objects=whole)),
            version=version,
            whole=whole,
            patience_s=with_retries(self._cluster).patience_s,
        )


def _detached(item: Item) -> Item:
    """Copy an item, because a few picked objects would otherwise keep as many pages in memory."""
    return detached(item[0]), item[1]

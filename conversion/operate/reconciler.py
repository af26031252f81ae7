"""The leader's part: takes every ``ConversionRules`` object through its gates, and keeps the ConfigMap of its CRD.

A revision becomes the candidate once it is analyzed and rehearsed. It becomes active once every live replica has
compiled it, and the CRD is wired once every live replica serves it. So the API server never asks for conversions that
some replica lacks, and rules that fail at any gate leave the last good ones in their place.

There is one exception to the order. If the CRD already calls this webhook and no revision is active, for instance
because the ConfigMap was lost, objects can be neither read nor listed. The revision is then served first, and rehearsed
afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from restow.conversion.certificates import WiringRefused
from restow.conversion.certificates.unwire import MayBeStored
from restow.conversion.certificates.wiring.crd import composite_of
from restow.conversion.operate import gates
from restow.conversion.operate.declarations import Declarations
from restow.conversion.operate.gates import Gate, listed, mistakes, target_of
from restow.conversion.operate.members import LeasesOfReplicas
from restow.conversion.operate.records import Records
from restow.conversion.operate.rehearsal import Rehearsals
from restow.conversion.operate.revisions import (
    BREAK_GLASS,
    FINALIZER,
    LABEL,
    Former,
    Report,
    Revision,
    RevisionRecord,
    StepState,
)
from restow.conversion.operate.statuses import Assessment, RulesStatus, Told, denied
from restow.conversion.operate.targets import CrdFinder, RulesByTarget
from restow.conversion.operate.wiring import REFUSING, STEPS, At, Obstacle, RulesStep, WiringGate
from restow.conversion.operate.workers import Workers
from restow.crds import Crd, CrdError
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import Cluster, Controller, ControllerEvent, Key, PatchType, ReconcileResult, Selection, Source
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.errors import Conflict, Forbidden, NotFound, first_error
from restow.kube.pager import list_pages
from restow.kube.resources import CONFIG_MAPS, CRDS
from restow.kube.watchevents import Item

_log = logging.getLogger(__name__)

_SOON: Final = 1.0  # seconds: replicas report through the ConfigMap, whose events arrive by themselves
_LATER: Final = 30.0
_NEXT: Final = 5.0  # for the younger of two objects: the older one may hand over


@dataclass(slots=True)
class _Analysis:
    """The mistakes of one generation: without its CRD under "", and for a revision's CRD under the revision's name."""

    of: tuple[str, int]
    found: dict[str, list[str]] = field(default_factory=dict)


class RulesReconciler:
    """Reconciles ``ConversionRules`` while this process leads.

    Args:
        cluster: the API server.
        namespace: the namespace of the ConfigMaps and Leases.
        at: returns the webhook's address for a path.
        may_be_stored: ``restow.migrator.may_be_stored``, without which no CRD loses its webhook.
        instance: the name of this process, for Events.
        hook: called for the watches and the reconciles.
        told: called after each look at an object; must not block.
        processes: rehearse the revisions that may be costly.
        clock: the clock for all waiting.
        workers: the number of objects that are reconciled concurrently.
        steps: the admission steps that API servers call for the kinds that need them.
        obstacle: returns why this process could not write a CRD or a webhook configuration; see ``WiringGate``.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        at: At,
        may_be_stored: MayBeStored,
        *,
        instance: str,
        hook: Callable[[ControllerEvent], None],
        told: Told,
        processes: Workers,
        clock: Clock = SYSTEM_CLOCK,
        workers: int = 4,
        steps: Collection[RulesStep] = (),
        obstacle: Obstacle = lambda _name: None,
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._hook = hook
        self._clock = clock
        self._workers = workers
        self._crds = CrdFinder(cluster, clock)
        self._leases = LeasesOfReplicas(cluster, namespace, clock)
        self._status = RulesStatus(cluster, clock, instance, told)
        self._rules = RulesByTarget()
        self._analyses: dict[str, _Analysis] = {}
        self._records = Records(cluster, namespace)
        self._declarations = Declarations(cluster, namespace, clock)
        self._rehearsals = Rehearsals(cluster, clock, self._records, processes)
        self._claims: dict[str, str] = {}  # the rules that convert claims, by the name of the claims' CRD
        self._wiring = WiringGate(cluster, at, may_be_stored, obstacle)
        self._steps = tuple(steps)
        self._used: dict[str, tuple[str, frozenset[str]]] = {}  # by rules: a revision, and the steps that it uses

    async def run(self) -> None:
        """Reconcile until cancelled.

        Raises:
            KubeError: the objects cannot be watched: their CRD is not installed (404), RBAC (403), credentials (401).
        """
        await self._learn_targets()
        records = Selection(CONFIG_MAPS, self._namespace, f"{LABEL}=rules")
        controller = Controller(
            self._cluster,
            CONVERSION_RULES,
            self.reconcile,
            name="conversionrules",
            sources=(
                Source(Selection(CRDS, metadata_only=True), self._of_crd),
                Source(records, _of_record),
            ),
            workers=self._workers,
            hook=self._hook,
            clock=self._clock,
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._declarations.collect_forever())
                await controller.run()
        except BaseExceptionGroup as group:
            error = first_error(group)
            if isinstance(error, Forbidden):
                await self._deny_all(error)
            raise error from None
        finally:
            await self._rehearsals.leave()

    async def _deny_all(self, error: Forbidden) -> None:
        """Write into each object that nothing is reconciled, because a watch needs a right that the operator lacks."""
        async for page in list_pages(self._cluster, CONVERSION_RULES, limit=100):
            for item in page:
                passed = _all_passed_but_wired() if item["metadata"].get("deletionTimestamp") else ()
                try:
                    await self._status.write(item, denied(error, passed))
                except (Conflict, NotFound):
                    continue  # a client changed it: the next attempt to watch is seconds away

    def _of_crd(self, item: Item) -> list[Key]:
        """Return the rules for the kind of a CRD; the kind is known only after the CRD was found for some rules."""
        name = item.metadata.name
        target = self._crds.changed(name)
        if name in self._claims:
            return [Key(None, self._claims[name])]
        names = self._rules.waiting_for(name) if target is None else self._rules.of(target)
        return [Key(None, each) for each in names]

    async def _learn_targets(self) -> None:
        async for page in list_pages(self._cluster, CONVERSION_RULES, limit=100):
            for item in page:
                self._note(item)

    def _note(self, document: Mapping[str, Any]) -> None:
        metadata, target = document["metadata"], target_of(document)
        if target is not None:
            deleting = "deletionTimestamp" in metadata
            self._rules.add(metadata["name"], target, metadata["creationTimestamp"], deleting=deleting)

    async def reconcile(self, key: Key) -> ReconcileResult:
        """Take one object through as many gates as possible now."""
        try:
            document = (await self._cluster.get(CONVERSION_RULES, key.name)).json()
        except NotFound:
            self._forget(key.name)
            self._status.gone(key.name)
            return ReconcileResult()
        self._note(document)
        metadata, finalizers = document["metadata"], document["metadata"].get("finalizers") or ()
        passed: list[Gate] = []
        look: Assessment | None
        try:
            if metadata.get("deletionTimestamp"):
                passed += _all_passed_but_wired()
                look = await self._release(document) if FINALIZER in finalizers else None
            else:
                if FINALIZER not in finalizers:
                    document = await self._set_finalizers(document, [*finalizers, FINALIZER])
                look = await self._pass(document, passed)
        except Forbidden as error:
            look = denied(error, passed)
        if look is None:
            return ReconcileResult()
        await self._status.write(document, look)
        return ReconcileResult(look.after)

    def _forget(self, name: str) -> None:
        self._rules.remove(name)
        self._claims = {crd: rules for crd, rules in self._claims.items() if rules != name}
        self._analyses.pop(name, None)
        self._rehearsals.forget(name)
        self._used.pop(name, None)

    # The gates

    async def _pass(self, document: Mapping[str, Any], passed: list[Gate]) -> Assessment:
        """Take the object through the gates; add each one that it passes to ``passed``."""
        name, target = document["metadata"]["name"], target_of(document)
        if target is None:
            found = await self._mistakes(document)
            return Assessment((Gate(gates.ANALYZED, False, "Invalid", listed(found, "mistake")),))
        self._rules.wait(name)  # before the search, because the CRD may be created meanwhile
        try:
            crd = await self._crds.find(*target)
            if crd is not None:
                self._rules.wait_no_more(name)
        except CrdError as error:
            return Assessment((Gate(gates.ANALYZED, False, "BadCRD", str(error)),), after=_LATER)
        except Forbidden as error:
            said = f"{error}. {gates.NOT_OPEN}"
            return Assessment((Gate(gates.ANALYZED, False, gates.FORBIDDEN, said),), after=_LATER, keeps=True)
        record = None if crd is None else await self._records.read(crd.name)
        crd_name = "" if crd is None else crd.name
        lacks = await self._declarations.lacks(document, crd_name)
        self._rules.set_aside(name, aside=bool(lacks))
        if lacks:
            return Assessment((Gate(gates.ANALYZED, False, gates.FORBIDDEN, lacks),), crd_name, record)
        found = await self._mistakes(document)
        if (older := self._rules.older(name)) is not None:
            said = f"{older} is older and counts for {target[1]}.{target[0]}; delete one of both"
            conflict = Gate(gates.CONFLICT, True, "OlderRules", said)
            return Assessment((Gate(gates.ANALYZED, False, "Conflict", said), conflict), crd_name, None, _NEXT)
        if found:
            return Assessment((Gate(gates.ANALYZED, False, "Invalid", listed(found, "mistake")),), crd_name, record)
        if crd is None or record is None:
            said = f"there is no CustomResourceDefinition of {target[1]}.{target[0]}: install it"
            before = (document.get("status") or {}).get("crd") or ""  # its record is needed for the deletion
            return Assessment((Gate(gates.ANALYZED, False, "NoCRD", said),), before, after=_LATER)
        claim = await self._wiring.claim_of(crd)
        if isinstance(claim, str):
            return Assessment((Gate(gates.ANALYZED, False, "Claims", claim),), crd_name, record, _LATER)
        if claim is not None:
            self._claims[claim.name] = name
        revision = await asyncio.to_thread(Revision.of, document, crd, claim)
        found = await self._mistakes(document, crd, claim, revision.name)
        if found:
            said = f"against the CustomResourceDefinition, {listed(found, 'finding')}"
            return Assessment((Gate(gates.ANALYZED, False, "Unaccounted", said),), crd_name, record)
        crds = (crd,) if claim is None else (crd, claim)
        versions = ", ".join(crd.served)
        passed.append(Gate(gates.ANALYZED, True, "Accounted", f"every field of {versions} is accounted for"))
        return await self._pass_live(document, crds, record, revision, passed)

    async def _mistakes(
        self, document: Mapping[str, Any], crd: Crd | None = None, claim: Crd | None = None, revision: str = ""
    ) -> list[str]:
        """Return the mistakes of a document, checked against its CRD if given; checked once per generation."""
        metadata = document["metadata"]
        of = (metadata["uid"], metadata.get("generation") or 0)
        known = self._analyses.setdefault(metadata["name"], _Analysis(of))
        if known.of != of:
            known = self._analyses[metadata["name"]] = _Analysis(of)
        if revision not in known.found:
            alone = {"": known.found[""]} if "" in known.found else {}
            known.found = alone | {revision: await asyncio.to_thread(mistakes, document, crd, claim)}
        return known.found[revision]

    async def _pass_live(
        self,
        document: Mapping[str, Any],
        crds: Sequence[Crd],
        record: RevisionRecord,
        revision: Revision,
        passed: list[Gate],
    ) -> Assessment:
        """Take an analyzed object through the gates that need the cluster."""
        crd, name = crds[0], document["metadata"]["name"]
        generation = document["metadata"].get("generation") or 0
        recovers = not record.active and self._wiring.is_ours(crd)
        if record.rehearsed != revision.name and not recovers:
            gate, after, record = await self._rehearsals.pass_(name, revision, crds, record)
            if gate.state is not True:
                # A revision that is already served continues to be served.
                return Assessment((*passed, gate), crd.name, record, after)
            record = await self._records.write(record, rehearsed=revision.name, rules=name)
        if recovers:
            said = "the CustomResourceDefinition calls this webhook already, so objects are rehearsed once it serves"
            passed.append(Gate(gates.REHEARSED, True, "Recovering", said))
        else:
            passed.append(Gate(gates.REHEARSED, True, "Converted", self._rehearsals.said_of(name, revision.name)))
        gate, record = await self._roll_out(record, revision, generation, name)
        if gate.state is not True:
            return Assessment((*passed, gate), crd.name, record, _SOON)
        passed.append(gate)
        former, closed = await self._wiring.taking_over(crd, record, document["spec"].get("takeOver") or "")
        if closed is not None:
            record = await self._records.write(record, former=former) if former != record.former else record
            return Assessment((*passed, closed), crd.name, record, _LATER)
        composite, steps = composite_of(crd.document), await self._states(name, record, revision)
        if (record.wired, record.composite, record.former, record.steps) != (True, composite, former, steps):
            record = await self._records.write(record, wired=True, composite=composite, former=former, steps=steps)
        record = await self._end_steps(record, crds, revision.hub)
        gate = await self._wiring.pass_(crds, record, revision.hub)
        waits = None if gate.state and StepState.ENDING not in record.steps.values() else _SOON
        return Assessment((*passed, gate), crd.name, record, 0.0 if recovers else waits)

    async def _states(self, name: str, record: RevisionRecord, revision: Revision) -> dict[str, StepState]:
        """Return the wanted state of each step; a step that is no longer called has to be removed."""
        known = self._used.get(name)
        if known is None or known[0] != revision.name:
            used = {step.name for step in self._steps}
            if REFUSING in self._steps:
                graph, crds = await asyncio.to_thread(revision.checked), revision.targets()
                used = {step.name for step in self._steps if step.is_for(graph, crds)}
            known = self._used[name] = (revision.name, frozenset(used))
        return dict.fromkeys(record.steps, StepState.ENDING) | dict.fromkeys(sorted(known[1]), StepState.WANTED)

    async def _end_steps(self, record: RevisionRecord, crds: Sequence[Crd], hub: str) -> RevisionRecord:
        """Remove the webhook configurations of ending steps that no replica keeps any more."""
        for step in STEPS:
            if record.steps.get(step.name) is not StepState.ENDING:
                continue
            reports = await self._live_reports(record)
            if not any(step.name in report.steps for report in reports):
                await self._wiring.end_step(step, crds, hub)
                left = {name: state for name, state in record.steps.items() if name != step.name}
                record = await self._records.write(record, steps=left)
        return record

    async def _live_reports(self, record: RevisionRecord) -> list[Report]:
        live = await self._leases.live()
        return [report for name, report in record.reports.items() if name in live]

    async def _roll_out(
        self, record: RevisionRecord, revision: Revision, generation: int, name: str
    ) -> tuple[Gate, RevisionRecord]:
        """Make every live replica compile the revision, then serve it."""
        live = await self._leases.live()
        due = revision.name != record.candidate or revision.name not in record.revisions
        if due or any(report.problem for report in record.reports.values()):
            body = await asyncio.to_thread(lambda: revision.body)
            if due or record.revisions[revision.name] != body:
                record = await self._records.write(
                    record,
                    live=live,
                    rules=name,
                    candidate=revision.name,
                    candidate_generation=generation,
                    revisions={revision.name: body},
                )
        reports = {each: record.reports.get(each) for each in live}
        problems = [
            f"{each}: {report.problem}"
            for each, report in reports.items()
            if report and report.problem and revision.name not in report.compiled
        ]
        if problems:
            return Gate(gates.SERVING, False, "CannotCompile", "; ".join(sorted(problems))), record
        if record.active != revision.name:
            waits = [each for each, report in reports.items() if not report or revision.name not in report.compiled]
            if waits or not live:
                said = f"revision {revision.name} is compiled by {_share(live, waits)}"
                return Gate(gates.SERVING, False, "Compiling", said), record
            record = await self._records.write(record, live=live, active=revision.name, active_generation=generation)
        elif record.active_generation != generation:
            record = await self._records.write(record, live=live, active_generation=generation)
        waits = [each for each, report in reports.items() if not report or report.serves != revision.name]
        if waits or not live:
            said = f"revision {revision.name} is served by {_share(live, waits)}"
            return Gate(gates.SERVING, False, "RollingOut", said), record
        said = f"revision {revision.name} is served by {gates.counted(len(live), 'replica')}"
        return Gate(gates.SERVING, True, "Served", said), record

    # Deletion

    async def _release(self, document: Mapping[str, Any]) -> Assessment | None:
        """Release a deleted object's CRD; return the obstacle, or None once the object is gone."""
        name, target = document["metadata"]["name"], target_of(document)
        crd = None if target is None else await self._crds.find(*target)
        known = (document.get("status") or {}).get("crd") if crd is None else crd.name
        record = await self._records.read(known) if known else None
        if record is not None and record.rules == name:
            if (obstacle := await self._undo(document, crd, record)) is not None:
                return Assessment((*_all_passed_but_wired(), obstacle[0]), record.crd, record, obstacle[1])
            await self._records.drop(record.crd)
        await self._declarations.drop(name)
        self._forget(name)
        finalizers = [each for each in document["metadata"]["finalizers"] if each != FINALIZER]
        await self._set_finalizers(document, finalizers)
        _log.info("%s: released", name)
        return None

    async def _undo(
        self, document: Mapping[str, Any], crd: Crd | None, record: RevisionRecord
    ) -> tuple[Gate, float] | None:
        """Undo the wiring of a CRD that may be gone; return the obstacle, and when to try again."""
        ours = crd is not None and await self._wiring.is_named(crd, record)
        crds = record.targets() if crd is None else (crd,)
        if crd is not None and isinstance(claim := await self._wiring.claim_of(crd), Crd):
            crds = (crd, claim)
        needed = await self._wiring.needed(crds, record, document["spec"].get("takeOver") or "") if ours else ""
        returns = ours and Former.read(record.former) is not None
        waits = (needed or returns) and BREAK_GLASS not in (document["metadata"].get("annotations") or {})
        if waits and (following := self._rules.hand_over(document["metadata"]["name"])):
            said = f"{needed}. " if needed else ""
            said = f"{said}{following} takes over once it has passed {gates.REHEARSED}"
            return Gate(gates.WIRED, False, "HandingOver", said), _SOON
        if waits and needed:
            said = f"{needed}. To delete the rules nevertheless, add the annotation {BREAK_GLASS}"
            return Gate(gates.WIRED, False, "DeletionBlocked", said), _LATER
        if record.wired:
            record = await self._records.write(record, wired=False)
        if any(report.wires or report.steps for report in await self._live_reports(record)):
            said = "replicas stop writing the CustomResourceDefinition"
            return Gate(gates.WIRED, False, "Releasing", said), _SOON
        for step in STEPS:
            if step.name in record.steps and crds:
                await self._wiring.end_step(step, crds, str(document["spec"]["hub"]))
        if crd is not None and ours and (returns or not needed):
            try:
                await self._wiring.undo(crd, record)
            except WiringRefused as error:
                return Gate(gates.WIRED, False, "DeletionBlocked", str(error)), _LATER
        return None

    # Writes

    async def _set_finalizers(self, document: Mapping[str, Any], finalizers: list[str]) -> Mapping[str, Any]:
        metadata = document["metadata"]
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
        reply = await self._cluster.patch(
            CONVERSION_RULES, metadata["name"], msgspec.json.encode(body), patch_type=PatchType.MERGE
        )
        found: Mapping[str, Any] = reply.json()
        return found


def _of_record(item: Item) -> list[Key]:
    record = RevisionRecord.read(item.json())
    return [Key(None, record.rules)] if record.rules else []


def _share(live: frozenset[str], waits: Sequence[str]) -> str:
    return f"{len(live) - len(waits)} of {gates.counted(len(live), 'replica')}"


def _all_passed_but_wired() -> tuple[Gate, ...]:
    """Return the gates before Wired for an object that is being deleted."""
    said = "the rules are being deleted"
    return tuple(Gate(name, True, "Deleting", said) for name in gates.GATES[:-1])

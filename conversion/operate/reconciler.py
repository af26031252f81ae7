"""The leader's part: takes every ``ConversionRules`` object through its gates, and keeps the ConfigMap of its CRD.

A revision becomes the candidate once it is analyzed and rehearsed; it becomes active once every live replica has
compiled it; and the CRD is wired once every live replica serves it. So the API server never asks for conversions that
some replica lacks, and rules that fail at any gate leave the last good ones in their place.

There is one exception to the order. Where the CRD already calls this webhook and no revision is active, objects can
be neither read nor listed: a lost ConfigMap, for instance. There the revision is served first, and rehearsed then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from restow.conversion.certificates import Address, WiringRefused, address_of, unwire
from restow.conversion.certificates.wiring.clientconfig import is_same_server
from restow.conversion.certificates.wiring.crd import why_not_none
from restow.conversion.operate import gates
from restow.conversion.operate.analysis import listed, mistakes, target_of
from restow.conversion.operate.gates import Gate
from restow.conversion.operate.members import LeasesOfReplicas
from restow.conversion.operate.rehearsal import Rehearsal
from restow.conversion.operate.revisions import (
    BREAK_GLASS,
    CONVERSION_RULES,
    FINALIZER,
    LABEL,
    Revision,
    RevisionRecord,
    record_name,
)
from restow.conversion.operate.targets import CrdFinder
from restow.crds import Crd, CrdError
from restow.kube import Cluster, Controller, ControllerEvent, Key, PatchType, ReconcileResult, Selection, Source
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.errors import ApiError, Forbidden, NotFound, ServerError
from restow.kube.events import event_body, write_event
from restow.kube.resources import CONFIG_MAPS, CRDS
from restow.kube.watchevents import Item

__all__ = ["RulesReconciler"]

_log = logging.getLogger(__name__)

_CONTROLLER: Final = "restow.dev/conversions"
_SOON: Final = 1.0  # seconds: replicas report by the ConfigMap, whose events come by themselves
_LATER: Final = 30.0
_REHEARSE_AGAIN: Final = (30.0, 900.0)  # seconds after a failed rehearsal: the first time, and at most

Told = Callable[[str, Mapping[str, str]], None]
"""Is called with the name of an object and the status of each condition; with none once the object is gone."""

At = Callable[[str], Address]
"""Gives where API servers find a path of the webhook."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look at an object found; ``after`` are the seconds until the next one without an event."""

    gates: tuple[Gate, ...]
    crd: str = ""
    record: RevisionRecord | None = None
    after: float | None = None


@dataclass(slots=True)
class _Rehearsed:
    """A rehearsal in this process: of which revision, and when a failed one may be tried again."""

    revision: str
    rehearsal: Rehearsal
    failures: int = 0
    again: float = 0.0


class RulesReconciler:
    """Reconciles ``ConversionRules`` while this process leads.

    Args:
        cluster: the API server.
        namespace: of the ConfigMaps and Leases.
        at: where the webhook is.
        instance: this process, for Events.
        hook: called for the watches and the reconciles.
        told: called after each look at an object; must not block.
        clock: of all that waits.
        workers: objects that are reconciled concurrently.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        at: At,
        *,
        instance: str,
        hook: Callable[[ControllerEvent], None],
        told: Told,
        clock: Clock = SYSTEM_CLOCK,
        workers: int = 4,
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._at = at
        self._instance = instance
        self._hook = hook
        self._told = told
        self._clock = clock
        self._workers = workers
        self._crds = CrdFinder(cluster, clock)
        self._leases = LeasesOfReplicas(cluster, namespace, clock)
        self._targets: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {}
        self._rehearsals: dict[str, _Rehearsed] = {}
        self._probed: dict[str, tuple[str, int]] = {}

    async def run(self) -> None:
        """Reconcile until cancelled.

        Raises:
            KubeError: the objects cannot be watched: their CRD is not installed (404), RBAC (403), credentials (401).
        """
        await self._learn_targets()
        records = Selection(CONFIG_MAPS, self._namespace, f"{LABEL}=rules")
        await Controller(
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
        ).run()

    def _of_crd(self, item: Item) -> list[Key]:
        group = item.metadata.name.partition(".")[2]
        return [Key(None, name) for name, (target, _) in self._targets.items() if target[0] == group]

    async def _learn_targets(self) -> None:
        following = ""
        while True:
            params = {"limit": "100"} | ({"continue": following} if following else {})
            page = (await self._cluster.list_page(CONVERSION_RULES, params=params)).json()
            for item in page["items"]:
                self._note(item)
            following = page["metadata"].get("continue") or ""
            if not following:
                return

    def _note(self, document: Mapping[str, Any]) -> None:
        metadata, target = document["metadata"], target_of(document)
        if target is not None:
            self._targets[metadata["name"]] = (target, (metadata["creationTimestamp"], metadata["name"]))

    async def reconcile(self, key: Key) -> ReconcileResult:
        """Take one object as far as it comes now."""
        try:
            document = (await self._cluster.get(CONVERSION_RULES, key.name)).json()
        except NotFound:
            self._targets.pop(key.name, None)
            self._rehearsals.pop(key.name, None)
            self._told(key.name, {})
            return ReconcileResult()
        self._note(document)
        metadata = document["metadata"]
        if metadata.get("deletionTimestamp"):
            if FINALIZER not in (metadata.get("finalizers") or ()):
                return ReconcileResult()
            look = await self._release(document)
            if look is None:
                return ReconcileResult()
        else:
            if FINALIZER not in (metadata.get("finalizers") or ()):
                document = await self._set_finalizers(document, [*(metadata.get("finalizers") or ()), FINALIZER])
            look = await self._pass(document)
        await self._tell(document, look)
        return ReconcileResult(look.after)

    # The gates

    async def _pass(self, document: Mapping[str, Any]) -> _Look:
        """Take the object through the gates."""
        name, target = document["metadata"]["name"], target_of(document)
        found = mistakes(document)
        if target is None:
            return _Look((Gate(gates.ANALYZED, False, "Invalid", listed(found, "mistake")),))
        try:
            crd = await self._crds.find(*target)
        except CrdError as error:
            return _Look((Gate(gates.ANALYZED, False, "BadCRD", str(error)),), after=_LATER)
        record = None if crd is None else await self._record(crd.name)
        crd_name = "" if crd is None else crd.name
        if (older := self._older(name, target)) is not None:
            said = f"{older} is older and counts for {target[1]}.{target[0]}; delete one of both"
            conflict = Gate(gates.CONFLICT, True, "OlderRules", said)
            return _Look((Gate(gates.ANALYZED, False, "Conflict", said), conflict), crd_name, None, _LATER)
        if found:
            return _Look((Gate(gates.ANALYZED, False, "Invalid", listed(found, "mistake")),), crd_name, record)
        if crd is None or record is None:
            said = f"there is no CustomResourceDefinition of {target[1]}.{target[0]}: install it"
            return _Look((Gate(gates.ANALYZED, False, "NoCRD", said),), after=_LATER)
        found = await asyncio.to_thread(mistakes, document, crd)
        if found:
            said = f"against the CustomResourceDefinition, {listed(found, 'finding')}"
            return _Look((Gate(gates.ANALYZED, False, "Unaccounted", said),), crd_name, record)
        return await self._pass_live(document, crd, record)

    async def _pass_live(self, document: Mapping[str, Any], crd: Crd, record: RevisionRecord) -> _Look:
        """Take an analyzed object through the gates that need the cluster."""
        name = document["metadata"]["name"]
        versions = ", ".join(crd.served)
        passed = [Gate(gates.ANALYZED, True, "Accounted", f"every field of {versions} is accounted for")]
        revision = await asyncio.to_thread(Revision.of, document, crd)
        generation = document["metadata"].get("generation") or 0
        recovers = not record.active and self._is_ours(crd)
        if record.rehearsed != revision.name and not recovers:
            gate, after = await self._rehearse(name, revision, crd)
            if gate.state is not True:
                # A revision that is served already stays, as the others would.
                return _Look((*passed, gate), crd.name, record, after)
            record = await self._write(record, rehearsed=revision.name, rules=name)
        if recovers:
            said = "the CustomResourceDefinition calls this webhook already, so objects are rehearsed once it serves"
            passed.append(Gate(gates.REHEARSED, True, "Recovering", said))
        else:
            passed.append(Gate(gates.REHEARSED, True, "Converted", self._rehearsed(name, revision.name)))
        gate, record = await self._roll_out(record, revision, generation, name)
        passed.append(gate)
        if gate.state is not True:
            return _Look(tuple(passed), crd.name, record, _SOON)
        if not record.wired:
            record = await self._write(record, wired=True)
        gate = await self._wired(crd, record)
        waits = None if gate.state else _SOON
        return _Look((*passed, gate), crd.name, record, 0.0 if recovers else waits)

    def _older(self, name: str, target: tuple[str, str]) -> str | None:
        """Return the name of older rules for the same kind."""
        mine = self._targets[name][1]
        rivals = [age for other, (of, age) in self._targets.items() if other != name and of == target and age < mine]
        return min(rivals)[1] if rivals else None

    async def _rehearse(self, name: str, revision: Revision, crd: Crd) -> tuple[Gate, float]:
        """Carry the rehearsal of a revision on by one step; return its state and when to look again."""
        known = self._rehearsals.get(name)
        now = self._clock.monotonic()
        if known is None or known.revision != revision.name:
            known = _Rehearsed(revision.name, Rehearsal(await asyncio.to_thread(revision.graph), crd))
            self._rehearsals[name] = known
        elif known.rehearsal.done and known.rehearsal.failed:
            if now < known.again:
                gate = Gate(gates.REHEARSED, False, "ObjectsFail", known.rehearsal.message)
                return gate, known.again - now
            known.rehearsal = Rehearsal(known.rehearsal.graph, crd)
        try:
            await known.rehearsal.step(self._cluster)
        except (Forbidden, NotFound, ServerError) as error:
            said = f"the objects of {crd.name} cannot be listed: {error}"
            return Gate(gates.REHEARSED, None, "CannotList", said), _LATER
        if not known.rehearsal.done:
            return Gate(gates.REHEARSED, None, "InProgress", known.rehearsal.message), 0.0
        if known.rehearsal.failed:
            first, most = _REHEARSE_AGAIN
            delay = min(first * 2**known.failures, most)
            known.failures += 1
            known.again = self._clock.monotonic() + delay
            return Gate(gates.REHEARSED, False, "ObjectsFail", known.rehearsal.message), delay
        return Gate(gates.REHEARSED, True, "Converted", known.rehearsal.message), 0.0

    def _rehearsed(self, name: str, revision: str) -> str:
        known = self._rehearsals.get(name)
        if known is not None and known.revision == revision and known.rehearsal.done:
            return known.rehearsal.message
        return "every object converted to every version and back"

    async def _roll_out(
        self, record: RevisionRecord, revision: Revision, generation: int, name: str
    ) -> tuple[Gate, RevisionRecord]:
        """Have every live replica compile the revision, then serve it."""
        live = await self._leases.live()
        if revision.name not in (record.active, record.candidate):
            record = await self._write(
                record,
                live=live,
                rules=name,
                candidate=revision.name,
                candidate_generation=generation,
                revisions={revision.name: revision.body},
            )
        reports = {each: record.reports.get(each) for each in live}
        problems = [f"{each}: {report.problem}" for each, report in reports.items() if report and report.problem]
        if problems:
            return Gate(gates.SERVING, False, "CannotCompile", "; ".join(sorted(problems))), record
        if record.active != revision.name:
            waits = [each for each, report in reports.items() if not report or revision.name not in report.compiled]
            if waits or not live:
                said = f"revision {revision.name} is compiled by {_share(live, waits)}"
                return Gate(gates.SERVING, False, "Compiling", said), record
            record = await self._write(record, live=live, active=revision.name, active_generation=generation)
        elif record.active_generation != generation:
            record = await self._write(record, live=live, active_generation=generation)
        waits = [each for each, report in reports.items() if not report or report.serves != revision.name]
        if waits or not live:
            said = f"revision {revision.name} is served by {_share(live, waits)}"
            return Gate(gates.SERVING, False, "RollingOut", said), record
        said = f"revision {revision.name} is served by {gates.counted(len(live), 'replica')}"
        return Gate(gates.SERVING, True, "Served", said), record

    async def _wired(self, crd: Crd, record: RevisionRecord) -> Gate:
        """Look whether the CRD calls this webhook, and whether objects read at every version; replicas write that."""
        config = (crd.webhook or {}).get("clientConfig") or {}
        try:
            names_us = address_of(config) == self._at(f"/convert/{crd.name}")
        except ValueError:
            names_us = False
        if not names_us or not config.get("caBundle"):
            self._probed.pop(crd.name, None)
            said = "spec.conversion of the CustomResourceDefinition is not written yet; the log of a replica says why"
            return Gate(gates.WIRED, False, "Wiring", said)
        if self._probed.get(crd.name) != (record.active, crd.generation):
            for version in crd.served:
                try:
                    await self._cluster.list_page(crd.resource_at(version), params={"limit": "1"})
                except ApiError as error:
                    return Gate(gates.WIRED, False, "NotAnswering", f"objects do not read at {version}: {error}")
            self._probed[crd.name] = (record.active, crd.generation)
        said = f"the API server converts {crd.kind} at {', '.join(crd.served)} by this webhook"
        return Gate(gates.WIRED, True, "Wired", said)

    # Deletion

    async def _release(self, document: Mapping[str, Any]) -> _Look | None:
        """Let go of a deleted object's CRD; return what stands in the way, None once it is gone."""
        name, target = document["metadata"]["name"], target_of(document)
        crd = None if target is None else await self._crds.find(*target)
        record = None if crd is None else await self._record(crd.name)
        breaks = BREAK_GLASS in (document["metadata"].get("annotations") or {})
        if crd is not None and record is not None and record.rules == name:
            needed = why_not_none(crd) if self._is_ours(crd) else ""
            if needed and not breaks:
                said = f"{needed}. To delete the rules nevertheless, add the annotation {BREAK_GLASS}"
                gate = Gate(gates.WIRED, False, "DeletionBlocked", said)
                return _Look((*_all_passed_but_wired(), gate), crd.name, record, _LATER)
            if record.wired:
                record = await self._write(record, wired=False)
            live = await self._leases.live()
            if any(each in live and report.wires for each, report in record.reports.items()):
                gate = Gate(gates.WIRED, False, "Releasing", "replicas stop writing the CustomResourceDefinition")
                return _Look((*_all_passed_but_wired(), gate), crd.name, record, _SOON)
            if self._is_ours(crd) and not needed:
                try:
                    await unwire(self._cluster, crd.name)
                except WiringRefused as error:
                    gate = Gate(gates.WIRED, False, "DeletionBlocked", str(error))
                    return _Look((*_all_passed_but_wired(), gate), crd.name, record, _LATER)
            await self._drop_record(crd.name)
        elif crd is None and document.get("status", {}).get("crd"):
            await self._drop_record(document["status"]["crd"])
        self._targets.pop(name, None)
        self._rehearsals.pop(name, None)
        finalizers = [each for each in document["metadata"]["finalizers"] if each != FINALIZER]
        await self._set_finalizers(document, finalizers)
        _log.info("%s: released", name)
        return None

    def _is_ours(self, crd: Crd) -> bool:
        """Say whether the CRD calls this webhook."""
        try:
            address = address_of((crd.webhook or {}).get("clientConfig") or {})
        except ValueError:
            return False
        return crd.strategy == "Webhook" and is_same_server(address, self._at(f"/convert/{crd.name}"))

    # Writes

    async def _record(self, crd: str) -> RevisionRecord:
        try:
            return RevisionRecord.read((await self._cluster.get(CONFIG_MAPS, record_name(crd), self._namespace)).json())
        except NotFound:
            return RevisionRecord(crd)

    async def _write(
        self, record: RevisionRecord, *, live: frozenset[str] | None = None, **changes: Any
    ) -> RevisionRecord:
        """Write the leader's entries; return the record as the API server answers."""
        body = record.patch(live=live, **changes)
        encoded, name = msgspec.json.encode(body), record_name(record.crd)
        try:
            reply = await self._cluster.patch(CONFIG_MAPS, name, encoded, self._namespace, patch_type=PatchType.MERGE)
        except NotFound:
            whole = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "labels": {LABEL: "rules"}},
                **{
                    part: {key: text for key, text in found.items() if text is not None} for part, found in body.items()
                },
            }
            reply = await self._cluster.create(CONFIG_MAPS, msgspec.json.encode(whole), self._namespace)
        return RevisionRecord.read(reply.json())

    async def _drop_record(self, crd: str) -> None:
        try:
            await self._cluster.delete(CONFIG_MAPS, record_name(crd), self._namespace)
        except NotFound:
            return

    async def _set_finalizers(self, document: Mapping[str, Any], finalizers: list[str]) -> Mapping[str, Any]:
        metadata = document["metadata"]
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
        reply = await self._cluster.patch(
            CONVERSION_RULES, metadata["name"], msgspec.json.encode(body), patch_type=PatchType.MERGE
        )
        found: Mapping[str, Any] = reply.json()
        return found

    async def _tell(self, document: Mapping[str, Any], look: _Look) -> None:
        """Write the status if it changed, and Events of what is news."""
        served = None
        if look.record is not None and look.record.active:
            served = {"revision": look.record.active, "generation": look.record.active_generation}
        now = self._clock.now()
        before = document.get("status") or {}
        after = gates.status(document, look.gates, crd=look.crd, served=served, now=now)
        self._told(document["metadata"]["name"], {each["type"]: each["status"] for each in after["conditions"]})
        if after == before:
            return
        metadata = document["metadata"]
        body = {
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "status": after | {name: None for name in before if name not in after},
        }
        await self._cluster.patch(
            CONVERSION_RULES,
            metadata["name"],
            msgspec.json.encode(body),
            patch_type=PatchType.MERGE,
            subresource="status",
            metadata_only=True,
        )
        for condition in gates.news(before.get("conditions") or (), after["conditions"]):
            _log.info("%s: %s %s", metadata["name"], condition["type"], condition["reason"])
            await write_event(self._cluster, self._event(metadata, condition))

    def _event(self, metadata: Mapping[str, Any], condition: Mapping[str, Any]) -> dict[str, Any]:
        bad = condition["status"] == "False" or condition["type"] == gates.CONFLICT
        return event_body(
            regarding={
                "apiVersion": CONVERSION_RULES.api_version,
                "kind": "ConversionRules",
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            type="Warning" if bad else "Normal",
            reason=condition["reason"],
            action=condition["type"],
            note=condition["message"],
            at=self._clock.now(),
            controller=_CONTROLLER,
            instance=self._instance,
        )


def _of_record(item: Item) -> list[Key]:
    record = RevisionRecord.read(item.json())
    return [Key(None, record.rules)] if record.rules else []


def _share(live: frozenset[str], waits: Sequence[str]) -> str:
    return f"{len(live) - len(waits)} of {gates.counted(len(live), 'replica')}"


def _all_passed_but_wired() -> tuple[Gate, ...]:
    """Return the gates before Wired for an object that is being deleted."""
    said = "the rules are being deleted"
    return tuple(Gate(name, True, "Deleting", said) for name in gates.GATES[:-1])

"""Write one object as decided, check the answer, and restore owners that the write lost.

The writer compares the managedFields of every answer with those that it meant to write. A write that loses an owner is
a failure that no other tool notices; the writer repairs it at once from the list that it sent, counts it, and reports
it if it cannot be repaired.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from restow.crds import fieldpath
from restow.kube.cluster import PatchType
from restow.kube.errors import (
    BadRequest,
    ConfigError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from restow.kube.pager import ObjectList
from restow.kube.retry import without_retries
from restow.migrator.decide.decision import ObjectDecision, WriteStep, decide
from restow.migrator.decide.errortable import (
    ATTEMPTS,
    Attempts,
    ErrorAction,
    ErrorOutcome,
    cannot_convert,
    concerns_all_objects,
    of_write_error,
)
from restow.migrator.model.converter import ConverterDown
from restow.migrator.model.options import Options
from restow.migrator.model.report import OWNERS_LOST, CrdReport, ObjectFailure, again
from restow.migrator.model.watermark import is_newer, last_spec_change
from restow.migrator.ownership.entries import (
    FIELD_MANAGER,
    LARGE,
    ManagedFieldsEntry,
    corrupt,
    merge,
    readable,
    same_ownership,
    size_of,
    without_times,
)
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.ownership.reconcile import reconcile_with_schema
from restow.migrator.ownership.translation import Translation
from restow.migrator.requests.environment import Environment
from restow.migrator.requests.lostowners import OwnershipBrake
from restow.migrator.requests.pace import Limiter
from restow.migrator.requests.premisecheck import PremiseCheck, Unconfirmed
from restow.migrator.requests.translator import Translator
from restow.migrator.requests.wire import (
    Meta,
    combined_patch,
    empty_patch,
    identity_apply,
    object_decoder,
    whole_object_decoder,
)

__all__ = ["FIELD_MANAGER", "ObjectWriter"]


_BEFORE_FIRST_APPLY = "before-first-apply"
_SILENCE = 15.0  # seconds without any answer, at least, after which an outage is not one object's trouble


async def _never() -> bool:
    return False


class _NotDone(Exception):
    """The object cannot be finished; the report gets a row for it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class ObjectWriter:
    """Finishes objects of one CRD, one call per object; calls can run concurrently.

    Args:
        environment: the API server, the clock and the end of the run: once its stop is set, no further attempt begins.
        rules: the policies by which each object is decided.
        options: concurrency, rate, patience, and whether every write is sent with ``dryRun=All``.
        report: where everything is counted.
        translator: converts the entries of an object that is decided a second time.
        check: the premise of the pass; objects are written at the storage version of its CRD.
        crd_deleted: called after a 404 that does not name the object; if the CRD is gone, so is the object.
    """

    def __init__(
        self,
        environment: Environment,
        rules: EntryPolicies,
        options: Options,
        report: CrdReport,
        *,
        translator: Translator,
        check: PremiseCheck,
        crd_deleted: Callable[[], Awaitable[bool]] = _never,
    ) -> None:
        crd = check.premise.crd
        self._cluster = without_retries(environment.cluster)  # each error is an object's, and has a row in a table
        self._resource = crd.resource_at(crd.storage.name)
        self._kind = crd.kind
        self._crd_changed, self._crd_version = last_spec_change(crd), check.premise.seen_at
        self._generation = crd.generation
        self._rules = rules
        self._report = report
        self._translator = translator
        self._check = check
        self._limiter = Limiter(concurrency=options.concurrency, rate=options.rate, clock=environment.clock)
        self._stop = environment.stop
        self._clock = environment.clock
        self._jitter = environment.jitter
        self._dry_run = options.dry_run
        self._crd_deleted = crd_deleted
        self._brake = OwnershipBrake(self._cluster, crd, environment.stop)
        self._params = {"fieldManager": FIELD_MANAGER} | ({"dryRun": "All"} if options.dry_run else {})
        self._patience_s = options.patience_s
        self._last_answer = self._last_write = environment.clock()

    async def finish(
        self, meta: Meta, live: dict[str, Any] | None = None, translation: Translation | None = None
    ) -> None:
        """Rewrite one object at the storage version, and count the outcome in the report.

        Args:
            meta: its metadata as listed.
            live: the whole object at the storage version, if whole objects were listed.
            translation: its converted entries, if they had to be converted and already were.
        """
        whole, read_again = live is not None, False
        attempts = Attempts(self._patience_s)
        doubtful: ObjectDecision | None = None  # sent; it is unknown whether the server carried it out
        while True:
            decision: ObjectDecision | None = None
            try:
                if read_again:
                    meta, live = await self._read(meta, whole=whole)
                    if doubtful is not None and _lost_owners(doubtful.entries, meta.managed_fields):
                        meta = await self._repair(meta, doubtful.entries, before=())
                    translation = None
                decision = self._decide(meta, live, translation)
                if decision.needs_object:
                    if live is None:
                        whole = True
                        meta, live = await self._read(meta, whole=True)
                    [translation] = await self._translator.translate([(meta, live or {})])
                    decision = self._decide(meta, live, translation)
                async with self._brake.turn(decision):
                    if self._brake.on:
                        return
                    changed = await self._carry_out(meta, decision)
            except _Gone:
                self._report.objects.gone += 1
                return
            except _NotDone as failure:
                self._fail(meta, failure.reason, failure.message)
                return
            except ConverterDown as down:
                self._stop.because(str(down), unreachable=down.unreachable)
                self._fail(meta, "Interrupted", "it was not translated")
                return
            except RecursionError:
                self._fail(meta, "TooDeep", _TOO_DEEP)
                return
            except KubeError as error:
                attempt = self._count_attempt(attempts, error)
                outcome = of_write_error(error, plural=self._resource.plural, name=meta.name, attempt=attempt)
                if not await self._again(meta, error, outcome, attempt):
                    return
                read_again = read_again or not isinstance(error, TooManyRequests)
                if not isinstance(error, (TooManyRequests, Conflict)):
                    doubtful = decision or doubtful
            else:
                self._count(decision, changed=changed)
                self._report.unchanged += bool(decision.steps) and not changed and self._is_old(meta)
                return

    def _as_meant(self, meant: Sequence[ManagedFieldsEntry], found: Sequence[ManagedFieldsEntry]) -> bool:
        """Return whether an object has the intended owners.

        Where a map or list has turned atomic in the storage version itself, the server replaces what its entries own
        below that field by the field.
        """
        if same_ownership(meant, found):
            return True
        schema = self._rules.schemas[self._rules.storage]
        atomic = [
            msgspec.structs.replace(
                entry,
                fields=fieldpath.encode(reconcile_with_schema(fieldpath.decode(entry.fields), schema, schema, None)),
            )
            if entry.api_version == self._rules.storage
            else entry
            for entry in readable(meant)
        ]
        return same_ownership(atomic, found)

    def _shows(self, shown: Meta, meant: Sequence[ManagedFieldsEntry]) -> bool:
        """Return whether a dry run gave an object its intended owners.

        restow's own entry does no harm: after a real write it is removed at once.
        """
        return self._as_meant(meant, [entry for entry in shown.managed_fields if entry.manager != FIELD_MANAGER])

    def _is_old(self, meta: Meta) -> bool:
        """Return whether nothing shows a write after the last change of the CRD.

        A delete under a finalizer, and the removal of a field that another manager owns, change no time of an entry.
        """
        if self._crd_changed is None or not self._rules.reencode or not meta.managed_fields:
            return False
        if is_newer(meta.resource_version, self._crd_version):
            return False
        times = [entry.time for entry in meta.managed_fields] + [meta.deletion_time] * bool(meta.deletion_time)
        return all(time and datetime.fromisoformat(time) < self._crd_changed for time in times)

    def _decide(self, meta: Meta, live: dict[str, Any] | None, translation: Translation | None) -> ObjectDecision:
        return decide(meta.managed_fields, self._rules.for_object(meta.resource_version), live, translation)

    async def _again(self, meta: Meta, error: KubeError, outcome: ErrorOutcome, attempt: int) -> bool:
        """Act on an outcome; return whether to try the object again."""
        if outcome.action is ErrorAction.GONE:
            self._report.objects.gone += 1
            return False
        failed, host = outcome.action is ErrorAction.FAIL, self._cluster.host
        if failed and isinstance(error, (Unauthorized, ConfigError)):
            self._stop.because(outcome.message, unreachable=host)
        elif failed and error.may_pass and self._silent():
            self._stop.because(f"{host} cannot be reached any more: {error}", unreachable=host)
        elif failed and isinstance(error, Forbidden) and error.by_authorizer:
            self._stop.because(f"the permission was withdrawn: {outcome.message}")
        elif isinstance(error, NotFound) and await self._crd_deleted():
            self._report.objects.gone += 1
            return False
        elif failed:
            self._fail(meta, outcome.reason, outcome.message)
            return False
        if outcome.slow_down:
            self._limiter.slow_down()
        what = again(f"write {meta.key}", attempt, outcome.attempts, error.said)
        await self._stop.sleep(self._jitter(outcome.wait), what)
        if self._stop.final:
            self._report.objects.gone += 1
            return False
        if self._stop:
            self._fail(meta, "Interrupted", f"its last try ended with: {error}")
            return False
        self._report.requests.retried += 1
        return True

    def _count_attempt(self, attempts: Attempts, error: KubeError) -> int:
        answered = self._last_write if concerns_all_objects(error) else self._last_answer
        return attempts.failed(error, self._clock(), answered)

    def _silent(self) -> bool:
        """Return whether the server answered nothing for ``patience_s``: an outage, and no failure of one object."""
        return self._clock() - self._last_answer >= max(self._patience_s, _SILENCE)

    def _fail(self, meta: Meta, reason: str, message: str) -> None:
        self._report.fail(ObjectFailure(meta.namespace, meta.name, reason, message))

    def _count(self, decision: ObjectDecision, *, changed: bool) -> None:
        counts = self._report.objects
        counts.rewritten += changed
        counts.current += not changed
        counts.translated += decision.translated > 0
        counts.stripped += bool(decision.stripped)
        counts.remaining += decision.remaining > 0
        for owner in decision.stripped:
            self._report.stripped_owners[owner] = self._report.stripped_owners.get(owner, 0) + 1
        for entry in decision.entries:
            if entry.api_version in self._rules.hazards:
                hazard = entry.manager, entry.api_version
                self._report.hazards[hazard] = self._report.hazards.get(hazard, 0) + 1
        for owner in decision.not_carried:
            self._report.kept_owners[owner] = self._report.kept_owners.get(owner, 0) + 1

    async def _read(self, meta: Meta, *, whole: bool) -> tuple[Meta, dict[str, Any] | None]:
        self._report.requests.read += 1
        reply = await self._cluster.get(self._resource, meta.name, meta.namespace or None, metadata_only=not whole)
        self._last_answer = self._clock()
        found = reply.decode(object_decoder).metadata
        if found.uid != meta.uid:
            raise _Gone
        return found, reply.decode(whole_object_decoder) if whole else None

    async def _carry_out(self, meta: Meta, decision: ObjectDecision) -> bool:
        """Send a decision's requests; return whether they changed what is stored, or may have in a dry run."""
        if decision.refusal:
            raise _NotDone(decision.reason, decision.refusal)
        if not decision.steps:
            return False
        if self._brake.rehearses and not (self._dry_run or await self._keeps_owners(meta, decision)):
            raise _NotDone("OwnershipWouldBeLost", await self._brake.would_be_lost(counted=True))
        if not self._dry_run:
            await self._check.before_write()
        now = await self._write(meta, decision)
        if self._dry_run:
            # A server that cannot even parse the stored list empties it on every write, and accepts the next write as
            # sent. That second write is the repair, which a dry run cannot show.
            if not corrupt(meta.managed_fields) and not self._shows(now, decision.entries):
                raise _NotDone("OwnershipWouldBeLost", await self._brake.would_be_lost())
            return True
        kept = self._as_meant(decision.entries, now.managed_fields)
        if not kept or tuple(decision.entries) != tuple(meta.managed_fields):
            self._check.wrote(meta, decision.entries, now)
        if not kept and await self._check.confirm():
            now = await self._repair(now, decision.entries, before=meta.managed_fields)
        if decision.entries:
            self._brake.kept()
        return now.resource_version != meta.resource_version

    async def _keeps_owners(self, meta: Meta, decision: ObjectDecision) -> bool:
        """Return whether a dry run leaves an object its owners; true where it cannot be tried."""
        try:
            shown = await self._send(meta, decision.steps[-1], decision.entries, rehearsal=True)
        except KubeError:
            return True
        return bool(corrupt(meta.managed_fields)) or self._shows(shown, decision.entries)

    async def _write(self, meta: Meta, decision: ObjectDecision) -> Meta:
        """Send a decision's requests; return what the last one left.

        The server validates an identity apply before it sets defaults, and every other write afterwards. So a rule that
        reads a new default refuses the apply of each object that lacks it (422). A patch passes, and owns the default;
        the check of its answer removes that ownership.
        """
        now, entries, refused, unstored = meta, decision.entries, False, False
        for step in decision.steps[:-1]:
            try:
                now = await self._send(now, step, entries)
                unstored = self._dry_run
            except Invalid:
                refused = True
            except ServerError as error:
                # The default is stored already (another writer, or a run that was killed between the two), and the
                # entries' old version does not declare it: nothing is left to persist, the patch alone will do.
                if not cannot_convert(error):
                    raise
        last, rehearse = decision.steps[-1], decision.rehearse
        if last is WriteStep.IDENTITY_APPLY:
            try:
                return await self._send(now, last, entries)
            except Invalid:
                last, rehearse = (
                    WriteStep.COMBINED_PATCH,
                    any(each.api_version != self._rules.storage for each in entries),
                )
        elif refused and not entries:
            last = WriteStep.EMPTY_PATCH  # the apply would have begun to track the object, and has not
        try:
            # The server would empty managedFields if it cannot convert one of the other entries in this request.
            if rehearse and not self._shows(await self._send(now, last, entries, rehearsal=True), entries):
                raise _NotDone("OwnershipWouldBeLost", _RIDES_ALONG)
            return await self._send(now, last, entries)
        except (BadRequest, Forbidden, Invalid) as error:
            if not unstored or (isinstance(error, Forbidden) and error.by_authorizer):
                raise
            # The write that counts meets the default in the stored object, and changes nothing of it.
            self._report.note_untried(meta.key, error.findings if isinstance(error, Invalid) else error.said)
            return msgspec.structs.replace(now, managed_fields=entries)

    async def _send(
        self, meta: Meta, step: WriteStep, entries: Sequence[ManagedFieldsEntry], *, rehearsal: bool = False
    ) -> Meta:
        patch_type = PatchType.MERGE
        if step is WriteStep.COMBINED_PATCH:
            body = combined_patch(meta.resource_version, entries)
        elif step is WriteStep.EMPTY_PATCH:
            body = empty_patch(meta.resource_version)
        else:
            patch_type = PatchType.APPLY
            body = identity_apply(self._rules.storage, self._kind, meta)
        async with self._limiter:
            self._report.requests.write += 1
            newest = self._check.sent()
            reply = await self._cluster.patch(
                self._resource,
                meta.name,
                body,
                meta.namespace or None,
                patch_type=patch_type,
                params=self._params | {"dryRun": "All"} if rehearsal else self._params,
                metadata_only=True,
            )
        self._last_answer = self._last_write = self._clock()
        self._limiter.succeeded()
        found = reply.decode(object_decoder).metadata
        if not (rehearsal or self._dry_run) and found.resource_version != meta.resource_version:
            self._check.answered(newest, found)
        return found

    async def _repair(
        self, after: Meta, meant: Sequence[ManagedFieldsEntry], *, before: Sequence[ManagedFieldsEntry]
    ) -> Meta:
        """Restore the intended owners of an object after a write gave it others.

        A server that cannot convert an entry empties the list up to Kubernetes 1.36; from 1.37 on it keeps the list
        from ``before`` the write.
        """
        if any(entry.manager == FIELD_MANAGER for entry in after.managed_fields):
            # A default that the CRD alone did not show: from now on apply first.
            self._rules = replace(self._rules, new_defaults=self._rules.new_defaults or (".",))
        return await self._restore(after, meant, before)

    async def _restore(
        self, after: Meta, meant: Sequence[ManagedFieldsEntry], before: Sequence[ManagedFieldsEntry]
    ) -> Meta:
        """Send the intended list until the server returns it.

        It handles every error itself: a new decision must not start from a list that already lost its owners.
        """
        now, entries = after, _restored(meant, after.managed_fields)
        attempts, attempt, first = Attempts(self._patience_s), 1, True
        while attempt <= ATTEMPTS:
            try:
                if not first or any(entry.api_version != self._rules.storage for entry in entries):
                    now, live = await self._read(now, whole=True)
                    # Later writes of others are remembered over all attempts: the next write may lose them again.
                    entries = _restored(entries, now.managed_fields)
                    entries = await self._moved(now, live or {}, entries)
                    if not now.managed_fields and (attempt > ATTEMPTS // 2 or size_of(live or {}) >= LARGE):
                        entries = without_times(entries)  # emptied again: perhaps etcd finds the object too large
                first = False
                now = await self._send(now, WriteStep.COMBINED_PATCH, entries)
            except KubeError as error:
                first, attempt = False, attempt + bool(self._stop)  # then it is not waited any more
                number = self._count_attempt(attempts, error)
                outcome = of_write_error(error, plural=self._resource.plural, name=now.name, attempt=number)
                if outcome.action is ErrorAction.GONE:
                    raise _Gone from error
                if outcome.action is ErrorAction.FAIL:
                    raise await self._not_restored(before, now, f" ({outcome.message})") from error
                what = again(f"restore the owners of {now.key}", number, outcome.attempts, error.said)
                await self._stop.sleep(self._jitter(outcome.wait), what)
                continue
            attempt += 1
            if self._as_meant(entries, now.managed_fields):
                self._report.objects.repaired += 1
                return now
        raise await self._not_restored(before, now)

    async def _not_restored(self, before: Sequence[ManagedFieldsEntry], now: Meta, said: str = "") -> _NotDone:
        """Return the failure for an object whose intended owners could not be restored."""
        if before and same_ownership(readable(before), readable(now.managed_fields)):
            why = _UNREADABLE if corrupt(now.managed_fields) else _LEFT
            return _NotDone("OwnershipNotTranslated", f"{why}{said}")
        return _NotDone(OWNERS_LOST, await self._brake.lost(said))

    async def _moved(
        self, meta: Meta, live: dict[str, Any], entries: tuple[ManagedFieldsEntry, ...]
    ) -> tuple[ManagedFieldsEntry, ...]:
        """Decide a list that must be restored as any other list.

        A client of an older version may have written since. If its entry were sent as it is, the server would empty the
        list again wherever the object now has a field (a default, say) that the older version lacks.
        """
        meant = msgspec.structs.replace(meta, managed_fields=entries)
        try:
            [translation] = await self._translator.translate([(meant, live)])
        except ConverterDown:
            return entries
        decision = self._decide(meant, live, translation)
        return entries if decision.refusal else decision.entries

    async def check_again(self, written: Unconfirmed) -> None:
        """Check an object that was written while the CRD changed, and give it the owners of the present CRD if it must.

        The API server carried the write out by the CRD from before the change or by the present one. What it stored
        tells: it is what the present CRD makes of the object from before the write, or it is something else.
        """
        attempts = Attempts(self._patience_s)
        while not self._stop:
            try:
                await self._set_right(written)
            except _Gone:
                return
            except _NotDone as failure:
                self._fail(written.before, failure.reason, failure.message)
                return
            except (Gone, ConverterDown, RecursionError) as error:
                self._fail(written.before, "OwnershipUnconfirmed", _UNCONFIRMED.format(error=error))
                return
            except KubeError as error:
                attempt, plural = self._count_attempt(attempts, error), self._resource.plural
                outcome = of_write_error(error, plural=plural, name=written.before.name, attempt=attempt)
                if not await self._again(written.before, error, outcome, attempt):
                    return
            else:
                return
        self._fail(written.before, "OwnershipUnconfirmed", _UNCONFIRMED.format(error=self._stop.why))

    async def _set_right(self, written: Unconfirmed) -> None:
        """Compare what a write stored with what the present CRD makes of the object before it, and act on it."""
        before = await self._read_at(written.before, written.before.resource_version)
        stored = await self._read_at(written.before, written.after)
        if before is None or stored is None:
            return  # it is gone, or the write is undone
        if _content(before[1]) != _content(stored[1]):
            if self._generation - written.generation == 1:
                return  # the server stored it by the CRD by which it was decided: there was no other one
            raise _NotDone("OwnershipUnconfirmed", _UNCONFIRMED.format(error="the CRD changed more than once"))
        meta, live = before
        decision = self._decide(meta, live, None)
        if decision.needs_object:
            [translation] = await self._translator.translate([before])
            decision = self._decide(meta, live, translation)
        if decision.refusal:
            raise _NotDone(decision.reason, decision.refusal)
        wrong = stored[0].managed_fields
        if self._as_meant(decision.entries, wrong):
            return
        now, _live = await self._read(stored[0], whole=False)
        later = [each for each in now.managed_fields if not any(same_ownership([each], [old]) for old in wrong)]
        wanted = merge((*decision.entries, *later))
        now = await self._send(now, WriteStep.COMBINED_PATCH, wanted)
        if not self._as_meant(wanted, now.managed_fields):
            await self._restore(now, wanted, ())
        self._report.objects.repaired += 1

    async def _read_at(self, meta: Meta, resource_version: str) -> tuple[Meta, dict[str, Any]] | None:
        """Read an object as a write left it, converted by the present CRD; None if etcd knows no such write.

        After a restore of etcd it does not, and the resourceVersion may be another write's, or be newer than all.
        """
        self._report.requests.read += 1
        params = {
            "fieldSelector": f"metadata.name={meta.name}",
            "resourceVersion": resource_version,
            "resourceVersionMatch": "Exact",
        }
        try:
            reply = await self._cluster.list_page(self._resource, meta.namespace or None, params=params)
        except ServerError as error:
            if _NOT_YET in error.message:
                return None
            raise
        [found] = reply.decode(_whole_list).items or (None,)
        if found is None:
            return None
        text = bytes(found)
        stored = object_decoder.decode(text).metadata
        return (stored, whole_object_decoder.decode(text)) if stored.resource_version == resource_version else None


_whole_list = msgspec.json.Decoder(ObjectList[msgspec.Raw])
_NOT_YET = "Too large resource version"
"""Source: ``NewTooLargeResourceVersionError`` of apiserver's ``pkg/storage/errors.go``."""


def _content(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what a write of managedFields changes."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _WRITTEN}
    return obj | {"metadata": metadata}


_WRITTEN = frozenset({"managedFields", "resourceVersion", "generation"})


def _lost_owners(meant: Sequence[ManagedFieldsEntry], found: Sequence[ManagedFieldsEntry]) -> bool:
    """Return whether an object shows that a write without a readable answer lost owners.

    Such an object has no owner at all, or restow's own entry, or, after an apply by another client, the entry
    ``before-first-apply`` that the server makes for all fields without an owner.
    """
    managers = {entry.manager for entry in found}
    begun = _BEFORE_FIRST_APPLY in managers and all(entry.manager != _BEFORE_FIRST_APPLY for entry in meant)
    return bool(meant and (not found or begun)) or FIELD_MANAGER in managers


class _Gone(Exception):
    """The object was deleted and created again under its name."""


def _restored(
    meant: Sequence[ManagedFieldsEntry], found: Sequence[ManagedFieldsEntry]
) -> tuple[ManagedFieldsEntry, ...]:
    """Return the intended owners, and those of later writes."""
    since = (entry for entry in readable(found) if entry.manager not in (FIELD_MANAGER, _BEFORE_FIRST_APPLY))
    return merge((*meant, *since))


_TOO_DEEP = (
    "its managedFields are nested too deeply to be read here; nothing was written. Make the object flatter, or delete "
    "it, then run again"
)
_UNCONFIRMED = (
    "it was written while the CRD changed, and whether its owners fit could not be seen ({error}). Look at its "
    "managedFields (kubectl get --show-managed-fields -o yaml); each owner's next apply sets its own entry right"
)
_RIDES_ALONG = (
    "it has managedFields entries of another version that are to be kept, and the API server cannot convert one of "
    "them: any write would lose its field owners, so nothing was written. With a conversion webhook, see that it is "
    "healthy and run again; without one, run with --managed-fields translate and --scope not-storage"
)

_LEFT = (
    "the API server stored it, but left its managedFields as they were, as it does from Kubernetes 1.37 on where it "
    "cannot convert one of them: no owner is lost. With a conversion webhook, see that it is healthy, then run again"
)

_UNREADABLE = (
    "the API server stored it, but left its managedFields as they were, as it does from Kubernetes 1.37 on where it "
    "cannot read one of them: no owner is lost, but each apply fails and no write repairs it. Delete the object and "
    "create it again"
)

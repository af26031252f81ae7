"""Hooks of a reconciler: one frozen value, ``MigrationDetails``, for the log, Events, metrics and an embedder.

The value contains names, versions, counts and sentences, never a value of an object. ``Hooks`` calls the hooks for
each event, and repeatedly during a run.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from restow.crds import Crd
from restow.kube.clock import Clock
from restow.kube.errors import describe_failure, one_line
from restow.migrator.model.callbacks import Moment
from restow.migrator.model.options import Phase
from restow.migrator.model.report import CrdReport, ObjectCounts, ObjectFailure, Requests
from restow.migrator.references.reference import FoundReferences


class MigrationEvent(StrEnum):
    """The event of a CRD.

    - ``idle``: nothing is due. ``settling``: work is due, but the CRD changed only a moment ago.
    - ``started``, ``progress`` (every few seconds): a run is in progress.
    - ``finished``: nothing is left to do. ``failed``: work is left and will be retried. ``stopped``: a shutdown or the
      loss of leadership ended the run early.
    - ``refused``: the CRD cannot be migrated in its present state; the reconciler will check it again.
    - ``references``: a search for references to its versions has ended.
    - ``forgotten``: the CRD was deleted, or is no longer a target.
    """

    IDLE = "idle"
    SETTLING = "settling"
    STARTED = "started"
    PROGRESS = "progress"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    REFUSED = "refused"
    REFERENCES = "references"
    FORGOTTEN = "forgotten"


_NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationDetails:
    """One event of a CRD with its details.

    Attributes:
        event: the event.
        at: the time, by the wall clock.
        crd, uid: the CRD; the uid is empty if it could not be read.
        due: the phases that are due; for a run, those that were due at its start.
        storage_version, stored_versions: the last known values.
        objects, requests: the counts of this run so far, by the names of ``ObjectCounts`` and ``Requests``.
        expected, remaining: the number of objects as far as the lists show it, and of those not finished yet.
        pruned: whether this run trimmed ``status.storedVersions``.
        duration_s: seconds since the start of the run.
        message: one sentence for people.
        failed: the first objects (by name) that failed in this run, with the API server's message, cut if it is long.
        failures: the number of failures or refusals in a row.
        requeue_after: seconds until the next reconcile without an event; None for never.
        references: for the event ``references``, the references to each version that can be removed.
    """

    event: MigrationEvent
    at: datetime
    crd: str
    uid: str = ""
    due: tuple[Phase, ...] = ()
    storage_version: str = ""
    stored_versions: tuple[str, ...] = ()
    objects: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    requests: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    expected: int = 0
    remaining: int = 0
    pruned: bool = False
    duration_s: float = 0.0
    message: str = ""
    failed: tuple[ObjectFailure, ...] = ()
    failures: int = 0
    requeue_after: float | None = None
    references: tuple[FoundReferences, ...] = ()


def facts(crd: Crd, report: CrdReport | None = None) -> dict[str, Any]:
    """Return the fields of details from a CRD and a report, copied, because the run continues to count."""
    known: dict[str, Any] = {
        "crd": crd.name,
        "uid": crd.uid,
        "storage_version": crd.storage.name,
        "stored_versions": crd.stored_versions,
    }
    if report is None:
        return known
    return known | {
        "storage_version": report.storage_version or crd.storage.name,
        "stored_versions": report.stored_after or crd.stored_versions,
        "objects": _counted(report.objects),
        "requests": _counted(report.requests),
        "expected": report.expected,
        "remaining": max(0, report.expected - report.done) + report.objects.failed,
        "pruned": report.pruned,
        "failed": first_failures(report),
        "duration_s": report.duration_s,
    }


def _counted(counts: ObjectCounts | Requests) -> Mapping[str, int]:
    return MappingProxyType(asdict(counts))


def finding(report: CrdReport) -> str:
    """Return a sentence about the work of a finished run."""
    objects = report.objects
    parts = [f"{objects.listed} objects: {objects.rewritten} rewritten, {objects.translated} translated"]
    parts += [
        f"{count} {word}"
        for word, count in (("stripped", objects.stripped), ("gone", objects.gone), ("repaired", objects.repaired))
        if count
    ]
    if objects.remaining:
        parts.append(f"{objects.remaining} keep entries of other served versions")
    stored = ", ".join(report.stored_after)
    parts.append(f"status.storedVersions {'was pruned to' if report.pruned else 'is'} {stored}")
    return "; ".join(filter(None, (", ".join(parts), report.unmarked)))


def progress(report: CrdReport) -> str:
    """Return a sentence about the progress of a run, and what it waits for."""
    done = f"{report.done} of {report.expected} objects are done"
    return "; ".join(filter(None, (done, failures(report), report.waits.sentence())))


def outcome(report: CrdReport) -> str:
    """Return a sentence about why a run did not finish, with the API server's message about the first failed object."""
    return failures(report) or report.unfinished or report.pruned_reason


def failures(report: CrdReport) -> str:
    """Return a sentence about the failed objects, empty if none failed."""
    objects = report.objects
    if not objects.failed:
        return ""
    first = first_failures(report)
    said = f"{objects.failed} of {objects.listed} objects failed"
    told = "; ".join(f"{each.where} ({each.reason}){': ' if each.message else ''}{each.message}" for each in first)
    return f"{said}, the first: {told}" if told else said


def first_failures(report: CrdReport) -> tuple[ObjectFailure, ...]:
    """Return a few of the failures, always the same ones, with long messages cut and each message on one line.

    The messages contain no values of objects: ``restow.migrator.decide.errortable`` removes the API server's quotes.
    """
    first = heapq.nsmallest(_FIRST, report.failures, key=lambda each: (each.namespace, each.name))
    return tuple(replace(each, message=one_line(each.message, _LONGEST)) for each in first)


_FIRST = 3
_LONGEST = 300  # characters; three messages fit into an Event


_log = logging.getLogger(__name__)

Hook: TypeAlias = Callable[[MigrationDetails], Awaitable[None] | None]
"""Receives all events, in the migrator's event loop; a plain function must not block."""

_FIRST_PROGRESS_S = 1.0
_HOOK_S = 10.0  # seconds for an asynchronous hook; a migration does not wait longer for its observers


class RunHooks:
    """Observes a run: keeps its growing report, and records when it starts on objects and when it ends."""

    def __init__(self, crd: Crd, due: tuple[Phase, ...]) -> None:
        self.crd = crd
        self.due = due
        self.report = CrdReport(name=crd.name)
        self.began = False
        self._looks = asyncio.Event()
        self._ended = asyncio.Event()

    def at(self, moment: Moment, report: CrdReport) -> None:
        """Record a moment of the migration."""
        self.report = report
        if moment in (Moment.NATIVE, Moment.WRITING):
            self.began = True
            self._looks.set()

    def end(self) -> None:
        """Record the end of the run."""
        self._ended.set()
        self._looks.set()

    async def looks_or_ends(self) -> None:
        """Wait until the run starts on objects, or ends."""
        await self._looks.wait()

    async def ends_within(self, seconds: float) -> bool:
        """Wait for the end of the run, at most for some seconds; return whether it ended."""
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True


class Hooks:
    """Calls the hooks, one after the other; one that fails or hangs is logged and does not disturb the others.

    Args:
        hooks: the hooks to call.
        clock: gives ``now`` and ``monotonic``.
        progress_s: seconds between two ``progress`` events of a run; the first ones come sooner.
    """

    def __init__(self, hooks: Sequence[Hook], clock: Clock, progress_s: float) -> None:
        self._hooks = tuple(hooks)
        self._clock = clock
        self._progress_s = progress_s

    async def call(self, event: MigrationEvent, crd: Crd | str, report: CrdReport | None = None, **more: Any) -> None:
        """Call the hooks for an event of a CRD, by name if it could not be read; ``more`` are fields of the details."""
        known = {"crd": crd} if isinstance(crd, str) else facts(crd, report)
        details = MigrationDetails(event=event, at=self._clock.now(), **(known | more))
        for hook in self._hooks:
            try:
                async with asyncio.timeout(_HOOK_S):
                    answer = hook(details)
                    if inspect.isawaitable(answer):
                        await answer
            except Exception as broken:  # noqa: BLE001 - foreign code
                _log.error("%s: a hook failed: %s", details.crd, describe_failure(broken))

    async def follow(self, run: RunHooks, failures: int) -> None:
        """Report a run from its first request for objects to its end; ``failures`` counts the failed runs before it."""
        await run.looks_or_ends()
        if not run.began:
            return
        begun = self._clock.monotonic()
        more: dict[str, Any] = {"due": run.due, "failures": failures}
        # The run read the CRD once more, and the CRD may have changed since ``due`` was computed.
        stored = ", ".join(run.report.stored_before or run.crd.stored_versions)
        storage = run.report.storage_version or run.crd.storage.name
        message = f"due: {', '.join(run.due)}; stored at {stored}, to be at {storage}"
        await self.call(MigrationEvent.STARTED, run.crd, message=message, **more)
        pause = min(_FIRST_PROGRESS_S, self._progress_s)
        while not await run.ends_within(pause):
            pause = min(2 * pause, self._progress_s)
            message, seconds = progress(run.report), self._clock.monotonic() - begun
            await self.call(MigrationEvent.PROGRESS, run.crd, run.report, message=message, duration_s=seconds, **more)

"""Hooks of a reconciler: one frozen value, ``MigrationDetails``, for the log, Events, metrics and an embedder.

It holds names, versions, counts and sentences, never a value of an object. ``Hooks`` calls them for what happens, and
for a run while it is under way.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from restow.crds import Crd
from restow.kube.clock import Clock
from restow.kube.errors import describe_failure
from restow.migrator.model.callbacks import Moment
from restow.migrator.model.options import Phase
from restow.migrator.model.report import CrdReport, ObjectCounts, ObjectFailure, Requests
from restow.migrator.references.model import FoundReferences

__all__ = [
    "Hook",
    "Hooks",
    "MigrationDetails",
    "MigrationEvent",
    "RunHooks",
    "facts",
    "finding",
    "first_failures",
    "outcome",
    "progress",
]


class MigrationEvent(StrEnum):
    """What happened to a CRD.

    - ``idle``: nothing is due. ``settling``: something is, but the CRD changed only a moment ago.
    - ``started``, ``progress`` (every some seconds): a run is under way.
    - ``finished``: nothing is left to do. ``failed``: something is, and is tried again. ``stopped``: the run was ended
      before its end, by a shutdown or the loss of leadership.
    - ``refused``: the CRD cannot be migrated as it is; it is looked at again.
    - ``references``: what else in the cluster names its versions was looked for.
    - ``forgotten``: the CRD is gone, or no target any more.
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
    """One thing that happened to a CRD.

    Attributes:
        event: what it was.
        at: when, by the wall clock.
        crd, uid: which CRD; the uid is empty where it could not be read.
        due: the phases that are due; of a run, those that were when it began.
        storage_version, stored_versions: as last known.
        objects, requests: of this run so far, by the names of ``ObjectCounts`` and ``Requests``.
        expected, remaining: objects that there are as far as the lists show, and those of them not finished yet.
        pruned: whether this run trimmed ``status.storedVersions``.
        duration_s: seconds since the run began.
        message: one sentence for a person.
        failed: the first objects (by name) that failed in this run, with what the API server said, cut if it is long.
        failures: how many times in a row it failed or was refused.
        requeue_after: seconds until it is looked at again without an event; None for never.
        references: of the event ``references``, what was found of each version that may go.
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
    """Return the fields of details that a CRD and a report have, copied, since the run goes on counting."""
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
    return MappingProxyType({name: getattr(counts, name) for name in counts.__slots__})


def finding(report: CrdReport) -> str:
    """Return a sentence on what a finished run did."""
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
    return ", ".join(parts)


def progress(report: CrdReport) -> str:
    """Return a sentence on how far a run is, and what it waits for."""
    done = f"{report.done} of {report.expected} objects are done"
    return "; ".join(filter(None, (done, failures(report), report.waits.sentence())))


def outcome(report: CrdReport) -> str:
    """Return a sentence on why a run did not finish, with what the API server said about the first that failed."""
    return failures(report) or report.unfinished or report.pruned_reason


def failures(report: CrdReport) -> str:
    """Return a sentence on the objects that failed, empty where none did."""
    objects = report.objects
    if not objects.failed:
        return ""
    first = first_failures(report)
    said = f"{objects.failed} of {objects.listed} objects failed"
    told = "; ".join(f"{each.where} ({each.reason}){': ' if each.message else ''}{each.message}" for each in first)
    return f"{said}, the first: {told}" if told else said


def first_failures(report: CrdReport) -> tuple[ObjectFailure, ...]:
    """Return a few of the failures, the same ones each time, their messages on one line and cut where they are long.

    The messages hold no values of objects: ``restow.migrator.decide.errortable`` takes out what the API server quotes.
    """
    first = heapq.nsmallest(_FIRST, report.failures, key=lambda each: (each.namespace, each.name))
    return tuple(replace(each, message=_cut(each.message)) for each in first)


def _cut(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


_FIRST = 3
_LONGEST = 300  # characters; three of them fit an Event


_log = logging.getLogger(__name__)

Hook: TypeAlias = Callable[[MigrationDetails], Awaitable[None] | None]
"""Receives everything that happens, in the migrator's event loop; a plain function must not block."""

_FIRST_PROGRESS_S = 1.0
_HOOK_S = 10.0  # that an asynchronous hook gets; a migration does not wait for those who watch it


class RunHooks:
    """Observes a run: keeps its report, which grows, and knows whether it looks at objects yet, and has ended."""

    def __init__(self, crd: Crd, due: tuple[Phase, ...]) -> None:
        self.crd = crd
        self.due = due
        self.report = CrdReport(name=crd.name)
        self.began = False
        self._looks = asyncio.Event()
        self._ended = asyncio.Event()

    def at(self, moment: Moment, report: CrdReport) -> None:
        """Take note of a moment of the migration."""
        self.report = report
        if moment in (Moment.NATIVE, Moment.WRITING):
            self.began = True
            self._looks.set()

    def end(self) -> None:
        """Take note of its end."""
        self._ended.set()
        self._looks.set()

    async def looks_or_ends(self) -> None:
        """Wait until it looks at objects, or ends without."""
        await self._looks.wait()

    async def ends_within(self, seconds: float) -> bool:
        """Wait for its end, but not longer than that."""
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True


class Hooks:
    """Calls the hooks, one after the other; one that fails or hangs is logged and does not disturb the others.

    Args:
        hooks: what to call.
        clock: its ``now`` and ``monotonic``.
        progress_s: seconds between two ``progress`` of a run; the first ones come sooner.
    """

    def __init__(self, hooks: Sequence[Hook], clock: Clock, progress_s: float) -> None:
        self._hooks = tuple(hooks)
        self._clock = clock
        self._progress_s = progress_s

    async def call(self, event: MigrationEvent, crd: Crd | str, report: CrdReport | None = None, **more: Any) -> None:
        """Pass on what happened to a CRD, or to one that could not be read; ``more`` are fields of the details."""
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
        """Report a run from its first look at objects to its end; ``failures`` counts the failed runs before it."""
        await run.looks_or_ends()
        if not run.began:
            return
        begun = self._clock.monotonic()
        more: dict[str, Any] = {"due": run.due, "failures": failures}
        # The run read the CRD once more: it may have changed since ``due`` was found.
        stored = ", ".join(run.report.stored_before or run.crd.stored_versions)
        storage = run.report.storage_version or run.crd.storage.name
        message = f"due: {', '.join(run.due)}; stored at {stored}, to be at {storage}"
        await self.call(MigrationEvent.STARTED, run.crd, message=message, **more)
        pause = min(_FIRST_PROGRESS_S, self._progress_s)
        while not await run.ends_within(pause):
            pause = min(2 * pause, self._progress_s)
            message, seconds = progress(run.report), self._clock.monotonic() - begun
            await self.call(MigrationEvent.PROGRESS, run.crd, run.report, message=message, duration_s=seconds, **more)

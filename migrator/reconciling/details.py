"""What a reconciler tells: one frozen value for everybody who wants to know (logs, Events, metrics, an embedder).

It holds names, versions, counts and sentences, never a value of an object. Pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from restow.crds import Crd
from restow.migrator.model import Phase
from restow.migrator.report import Counts, CrdReport, Failure, Requests

__all__ = ["Happening", "MigrationDetails", "facts", "finding", "first_failures", "outcome", "progress"]


class Happening(StrEnum):
    """What a ``MigrationDetails`` tells.

    - ``idle``: nothing is due. ``settling``: something is, but the CRD changed only a moment ago.
    - ``started``, ``progress`` (every some seconds): a run is under way.
    - ``finished``: nothing is left to do. ``failed``: something is, and is tried again. ``stopped``: the run was ended
      before its end, by a shutdown or the loss of leadership.
    - ``refused``: the CRD cannot be migrated as it is; it is looked at again.
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
    FORGOTTEN = "forgotten"


_NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationDetails:
    """One thing that happened to a CRD.

    Attributes:
        happening: what it was.
        at: when, by the wall clock.
        crd, uid: which CRD; the uid is empty where it could not be read.
        due: the phases that are due; of a run, those that were when it began.
        storage_version, stored_versions: as last known.
        objects, requests: of this run so far, by the names of ``Counts`` and ``Requests``.
        expected, remaining: objects that there are as far as the lists told, and those of them not finished yet.
        pruned: whether this run trimmed ``status.storedVersions``.
        duration_s: seconds since the run began.
        message: one sentence for a person.
        failed: the first objects (by name) that failed in this run, with what the API server said, cut if it is long.
        failures: how many times in a row it failed or was refused.
        requeue_after: seconds until it is looked at again without an event; None for never.
    """

    happening: Happening
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
    failed: tuple[Failure, ...] = ()
    failures: int = 0
    requeue_after: float | None = None


def facts(crd: Crd, report: CrdReport | None = None) -> dict[str, Any]:
    """Return the fields of details that a CRD and the report of a run, which goes on counting, tell."""
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


def _counted(counts: Counts | Requests) -> Mapping[str, int]:
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


def first_failures(report: CrdReport) -> tuple[Failure, ...]:
    """Return a few of the failures, the same ones each time, their messages on one line and cut where they are long.

    The messages hold no values of objects: ``restow.migrator.outcome`` takes out what the API server quotes.
    """
    first = heapq.nsmallest(_FIRST, report.failures, key=lambda each: (each.namespace, each.name))
    return tuple(replace(each, message=_cut(each.message)) for each in first)


def _cut(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


_FIRST = 3
_LONGEST = 300  # characters; three of them fit an Event

"""Reports of what a run did, as values and as the JSON of ``restow migrate -o json``, and of what it waits for now.

They hold names and counts, never a value of an object. Failures are listed up to a bound and only counted beyond it, so
that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from restow.kube.resources import qualified_name

__all__ = [
    "OWNERS_LOST",
    "CrdReport",
    "MigrationReport",
    "MigrationResult",
    "ObjectCounts",
    "ObjectFailure",
    "Requests",
    "Wait",
    "Waits",
    "again",
]


_SHORTEST = 2.0
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait.

    Attributes:
        what: the end of a sentence that begins with "waiting 8 s".
        seconds: how long it is, or how long at most.
        until: when it ends, by the monotonic clock of the run.
    """

    what: str
    seconds: float
    until: float


class Waits:
    """The waits of one run, whose tasks wait side by side.

    Args:
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self._clock = clock
        self._now: dict[int, Wait] = {}

    @contextmanager
    def on(self, what: str, seconds: float) -> Iterator[None]:
        """Take note of a wait within the block."""
        wait = Wait(what, seconds, self._clock() + seconds)
        self._now[id(wait)] = wait
        try:
            yield
        finally:
            del self._now[id(wait)]

    def sentence(self) -> str:
        """Return a part of a sentence on the wait that ends last; empty where no wait is worth a word."""
        long = [each for each in self._now.values() if each.seconds >= _SHORTEST]
        if not long:
            return ""
        last = max(long, key=lambda each: each.until)
        return f"waiting {max(last.until - self._clock(), 0.0):.0f} s {last.what}"


def again(what: str, attempt: int, attempts: int, why: str) -> str:
    """Return what a wait between two attempts is for.

    Args:
        what: ``list the objects``, say.
        attempt: the try that failed, from 1.
        attempts: how many there are.
        why: what the API server said; cut where it is long.
    """
    line = " ".join(why.split())
    line = line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}…"
    return f"to {what} again (try {attempt + 1} of {attempts}): {line}"


OWNERS_LOST = "OwnershipLost"
"""The reason of the one failure that a later run cannot see: the object is stored, and has no owner to translate."""

MOST_FAILURES = 10_000
"""Failures listed one by one; beyond that only counted, so that memory stays bounded."""


class MigrationResult(StrEnum):
    """How a run ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    REFUSED = "Refused"
    UNREACHABLE = "Unreachable"
    DRY_RUN = "DryRun"


@dataclass(frozen=True, slots=True)
class ObjectFailure:
    """One object that could not be finished; ``namespace`` is empty for cluster-scoped objects."""

    namespace: str
    name: str
    reason: str
    message: str

    @property
    def where(self) -> str:
        """``namespace/name``, or the name alone."""
        return qualified_name(self.namespace, self.name)


@dataclass(slots=True)
class ObjectCounts:
    """Objects, by what became of them.

    - ``listed``: seen in the lists (of the last pass, where the CRD changed and it took several).
    - ``rewritten``: a write changed what is stored; ``current``: nothing was due, or the write found it current. A dry
      run cannot see what a write would find, so it counts every object that it would write as rewritten.
    - ``translated``, ``stripped``: objects with entries moved to the storage version, or dropped.
    - ``gone``: deleted meanwhile. ``failed``: see the failures.
    - ``remaining``: objects that keep entries of other versions (of clients of versions that are still served).
    - ``repaired``: objects whose answer showed other owners than meant and were put right at once.

    Those that were done (rewritten, translated, stripped, repaired) add up over passes, the others are the last one's.
    """

    listed: int = 0
    rewritten: int = 0
    current: int = 0
    translated: int = 0
    stripped: int = 0
    gone: int = 0
    failed: int = 0
    remaining: int = 0
    repaired: int = 0


@dataclass(slots=True)
class Requests:
    """Requests about objects: to the API server, and ConversionReviews to the conversion webhook (``review``).

    ``retried`` are those of them that had to be sent again.
    """

    list: int = 0
    read: int = 0
    write: int = 0
    retried: int = 0
    review: int = 0

    @property
    def total(self) -> int:
        """All requests about objects to the API server."""
        return self.list + self.read + self.write


@dataclass(slots=True, kw_only=True)
class ShardReport:
    """Which part a run did, and the parts that were done when it ended.

    ``done_before``: an earlier process had done it, so no object was asked for. ``complete``, ``outdated`` and
    ``missing`` are the indices of shards whose record counts, does not count any more (the CRD changed since), and
    is not there.
    """

    index: int
    count: int
    done_before: bool = False
    complete: tuple[int, ...] = ()
    outdated: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return ``shard`` of the JSON report."""
        return {
            "index": self.index,
            "count": self.count,
            "doneBefore": self.done_before,
            "complete": list(self.complete),
            "outdated": list(self.outdated),
            "missing": list(self.missing),
        }


@dataclass(slots=True, kw_only=True)
class CrdReport:
    """What a run did with one CRD.

    Attributes:
        refused: the sentence why nothing was begun, or empty.
        unfinished: the sentence why the run ended before every object was looked at, or empty.
        unreachable: the API server or the converter that stayed out of reach for too long, where that ended the run;
            or empty.
        pruned_reason: why storedVersions was or was not pruned.
        stripped_owners: entries that were stripped, counted by (manager, apiVersion).
        kept_owners: entries that stay, since the storage version has no field for all that they own; counted in the
            same way.
        hazards: entries that stay and may cost their objects all owners (``restow.migrator.decide.policies``); counted
            in the same way.
        conversions: objects, and parts of objects, that were sent through the converter.
        warnings: sentences for the user.
        owners_lost: objects, as ``namespace/name``, that were left without owners in any pass.
        passes: how often the objects were listed.
        rewritten_before: objects that earlier passes rewrote.
        expected: how many objects there are, as far as the lists show yet.
        settle_s: seconds that were waited for the CRD to settle.
        lagging: the sentence about an API server that was waited for, or empty.
        put_back: versions that were put back into storedVersions before the first write.
        unchanged: objects last written before the last change of the CRD that a write found current.
        not_seen: sentences about API servers that could not be looked at.
        proof: the proof that the run left, or would have left with the right to; empty where it proved nothing.
        engine: who stored objects again, ``direct`` or ``native``.
        resumed_from: the watermark after which objects were left out, or empty.
        shard: which part this was; the others are known once it was done.
        waits: what the run waits for, while it is under way.
    """

    name: str
    storage_version: str = ""
    stored_before: tuple[str, ...] = ()
    stored_after: tuple[str, ...] = ()
    pruned: bool = False
    pruned_reason: str = ""
    objects: ObjectCounts = field(default_factory=ObjectCounts)
    requests: Requests = field(default_factory=Requests)
    failures: list[ObjectFailure] = field(default_factory=list)
    stripped_owners: dict[tuple[str, str], int] = field(default_factory=dict)
    kept_owners: dict[tuple[str, str], int] = field(default_factory=dict)
    hazards: dict[tuple[str, str], int] = field(default_factory=dict)
    conversions: int = 0
    warnings: list[str] = field(default_factory=list)
    owners_lost: list[str] = field(default_factory=list)
    refused: str = ""
    unfinished: str = ""
    unreachable: str = ""
    passes: int = 0
    rewritten_before: int = 0
    expected: int = 0
    settle_s: float = 0.0
    lagging: str = ""
    put_back: tuple[str, ...] = ()
    unchanged: int = 0
    not_seen: list[str] = field(default_factory=list)
    proof: str = ""
    duration_s: float = 0.0
    engine: str = "direct"
    resumed_from: str = ""
    shard: ShardReport | None = None
    waits: Waits = field(default_factory=Waits, compare=False, repr=False)

    @property
    def complete(self) -> bool:
        """Whether every object was looked at and none failed."""
        return not self.refused and not self.unfinished and not self.objects.failed

    @property
    def done(self) -> int:
        """Objects of this pass that are done with, one way or another."""
        counts = self.objects
        return counts.rewritten - self.rewritten_before + counts.current + counts.gone + counts.failed

    def begin_pass(self) -> None:
        """Begin to count objects again; what earlier passes did stays counted."""
        done = self.objects
        self.objects = ObjectCounts(
            rewritten=done.rewritten, translated=done.translated, stripped=done.stripped, repaired=done.repaired
        )
        self.rewritten_before = done.rewritten
        self.failures.clear()
        self.hazards.clear()
        self.unfinished = self.unreachable = ""
        self.passes += 1

    def fail(self, failure: ObjectFailure) -> None:
        """Count a failed object, and list it while there is room."""
        self.objects.failed += 1
        if len(self.failures) < MOST_FAILURES:
            self.failures.append(failure)
        if failure.reason == OWNERS_LOST and len(self.owners_lost) < MOST_FAILURES:
            self.owners_lost.append(failure.where)

    def warn(self, sentences: Iterable[str]) -> None:
        """Add warnings, each once and none that is empty: a pass that is made again finds most of them again."""
        self.warnings.extend(each for each in sentences if each and each not in self.warnings)

    def to_json(self) -> dict[str, Any]:
        """Return the element of ``crds`` in the JSON report."""
        counts, requests = self.objects, self.requests
        return {
            "name": self.name,
            "storageVersion": self.storage_version,
            "storedVersionsBefore": list(self.stored_before),
            "storedVersionsAfter": list(self.stored_after),
            "storedVersionsPutBack": list(self.put_back),
            "pruned": self.pruned,
            "prunedReason": self.pruned_reason,
            "objects": {name: getattr(counts, name) for name in ObjectCounts.__slots__},
            "requests": {name: getattr(requests, name) for name in Requests.__slots__},
            "failures": [
                {"namespace": each.namespace, "name": each.name, "reason": each.reason, "message": each.message}
                for each in self.failures
            ],
            "strippedOwners": _told(self.stripped_owners),
            "keptOwners": _told(self.kept_owners),
            "conversions": self.conversions,
            "refused": self.refused,
            "unfinished": self.unfinished,
            "unreachable": self.unreachable,
            "warnings": list(self.warnings),
            "notSeen": list(self.not_seen),
            "unchanged": self.unchanged,
            "passes": self.passes,
            "engine": self.engine,
            "resumedFrom": self.resumed_from,
            "shard": self.shard.to_json() if self.shard is not None else None,
            "durationSeconds": round(self.duration_s, 3),
        }


def _told(owners: dict[tuple[str, str], int]) -> list[dict[str, Any]]:
    return [
        {"manager": manager, "apiVersion": version, "entries": count}
        for (manager, version), count in sorted(owners.items())
    ]


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What a run did with all its CRDs."""

    crds: tuple[CrdReport, ...]
    dry_run: bool = False

    @property
    def result(self) -> MigrationResult:
        """Failed if any object or pass failed; else Unreachable if it is for that alone; else Refused if a CRD was."""
        incomplete = [crd for crd in self.crds if not crd.complete and not crd.refused]
        if incomplete:
            return MigrationResult.UNREACHABLE if all(crd.unreachable for crd in incomplete) else MigrationResult.FAILED
        if any(crd.refused for crd in self.crds):
            return MigrationResult.REFUSED
        return MigrationResult.DRY_RUN if self.dry_run else MigrationResult.SUCCEEDED

    def to_json(self) -> dict[str, Any]:
        """Return the JSON report; ``docs/migrating.md``, *Exit codes and report*, describes its fields."""
        return {"result": self.result.value, "crds": [crd.to_json() for crd in self.crds]}

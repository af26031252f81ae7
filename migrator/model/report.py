"""The reports of a run and the findings of a plan, as values and as JSON, and the run's current waits.

They contain names, counts and reasons, never a value of an object. Failures and findings beyond a limit are only
counted, so that memory stays bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from restow.kube.errors import one_line
from restow.kube.resources import qualified_name

_SHORTEST = 2.0
_LONGEST_REASON = 300
_LONGEST_MESSAGE = 2000  # characters; an admission webhook may say a megabyte about each object


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait.

    Attributes:
        what: the end of a sentence that begins with "waiting 8 s".
        seconds: the duration, or its upper limit.
        until: the end of the wait, by the monotonic clock of the run.
    """

    what: str
    seconds: float
    until: float


class Waits:
    """The waits of one run, whose tasks wait concurrently.

    Args:
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self._clock = clock
        self._now: dict[int, Wait] = {}

    @contextmanager
    def on(self, what: str, seconds: float) -> Iterator[None]:
        """Record a wait for the duration of the block."""
        wait = Wait(what, seconds, self._clock() + seconds)
        self._now[id(wait)] = wait
        try:
            yield
        finally:
            del self._now[id(wait)]

    def sentence(self) -> str:
        """Return a part of a sentence about the wait that ends last; empty if no wait is long enough to report."""
        long = [each for each in self._now.values() if each.seconds >= _SHORTEST]
        if not long:
            return ""
        last = max(long, key=lambda each: each.until)
        return f"waiting {max(last.until - self._clock(), 0.0):.0f} s {last.what}"


def rows(counts: Mapping[tuple[str, str], int], *fields: str) -> list[dict[str, Any]]:
    """Return counts as JSON, sorted: an object each, of the parts of its key and the number."""
    return [dict(zip(fields, (*key, count), strict=True)) for key, count in sorted(counts.items())]


def again(what: str, attempt: int, attempts: int, why: str) -> str:
    """Return the text of a wait between two attempts.

    Args:
        what: the action, such as ``list the objects``.
        attempt: the number of the failed attempt, from 1.
        attempts: the number of all attempts.
        why: the API server's message; the function cuts a long one.
    """
    return f"to {what} again (try {attempt + 1} of {attempts}): {one_line(why, _LONGEST_REASON)}"


OWNERS_LOST = "OwnershipLost"
"""The reason of the only failure that a later run cannot see: the object is stored without owners to translate."""

MOST_FAILURES = 10_000
"""The most listed failures; further ones are only counted, so that memory stays bounded."""


class MigrationResult(StrEnum):
    """The result of a run."""

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
        """``namespace/name``, or only the name."""
        return qualified_name(self.namespace, self.name)


@dataclass(slots=True)
class ObjectCounts:
    """The numbers of objects, by result.

    - ``listed``: objects in the lists (of the last pass, if a change of the CRD caused several).
    - ``rewritten``: a write changed the stored object. ``current``: nothing was due, or the write changed nothing. A
      dry run cannot see the effect of a write, so it counts every object that it would write as rewritten.
    - ``translated``, ``stripped``: objects with entries moved to the storage version, or dropped.
    - ``gone``: deleted meanwhile. ``failed``: see the failures.
    - ``remaining``: objects that keep entries of other versions (of clients of versions that are still served).
    - ``repaired``: objects whose write returned other owners than intended, which the run corrected immediately.

    Counts of work (rewritten, translated, stripped, repaired) add up over passes; the others are those of the last one.
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

    ``retried`` is the number of repeated requests.
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
    """The shard of a run, and the shards that were done at its end.

    ``done_before``: an earlier process finished this shard, so the run requested no objects. ``complete``, ``outdated``
    and ``missing`` are the indices of shards with a valid record, with an outdated one (the CRD changed since), and
    without a record.
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
    """The report of a run about one CRD.

    Attributes:
        refused: a sentence why the migration was not started, or empty.
        unfinished: a sentence why the run ended before it had seen every object, or empty.
        unreachable: the API server or converter whose unavailability ended the run, or empty.
        pruned_reason: why storedVersions was or was not pruned.
        stripped_owners: the number of stripped entries by (manager, apiVersion).
        kept_owners: the number of entries, in the same form, that stay because the storage version lacks some of their
            fields.
        hazards: the number of entries, in the same form, that stay and may cost their objects all owners
            (``restow.migrator.decide.policies``).
        conversions: the number of objects, and parts of objects, sent to the converter.
        warnings: sentences for the user.
        owners_lost: objects, as ``namespace/name``, that were left without owners in any pass.
        passes: the number of times that the objects were listed.
        rewritten_before: the number of objects that earlier passes rewrote.
        expected: the number of objects, as far as the lists show it yet.
        settle_s: the seconds that the run waited for the CRD to settle.
        lagging: a sentence about an API server that the run waited for, or empty.
        put_back: versions that the run put back into storedVersions before the first write.
        untried: the number of objects of a dry run whose second write could not be tried.
        unchanged: objects last written before the last change of the CRD for which a write changed nothing.
        not_seen: sentences about API servers that could not be checked.
        unmarked: why the run, which was to prune, could not leave its mark, and what to do; or empty.
        proof: the proof that the run wrote, or would have written with the right; empty if it proved nothing.
        engine: the engine that rewrote objects, ``direct`` or ``native``.
        resumed_from: the watermark after which objects were not re-encoded, or empty.
        shard: the shard of this run; the state of the others is known once it is done.
        waits: what the run currently waits for.
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
    untried: int = 0
    unchanged: int = 0
    not_seen: list[str] = field(default_factory=list)
    unmarked: str = ""
    proof: str = ""
    duration_s: float = 0.0
    engine: str = "direct"
    resumed_from: str = ""
    shard: ShardReport | None = None
    waits: Waits = field(default_factory=Waits, compare=False, repr=False)

    @property
    def complete(self) -> bool:
        """Whether the run saw every object and none failed."""
        return not self.refused and not self.unfinished and not self.objects.failed

    @property
    def succeeded(self) -> bool:
        """Whether the run did everything, its mark included, without which ``restow ready`` goes on saying no."""
        return self.complete and not self.unmarked

    @property
    def done(self) -> int:
        """The number of objects of this pass with a result."""
        counts = self.objects
        return counts.rewritten - self.rewritten_before + counts.current + counts.gone + counts.failed

    def begin_pass(self) -> None:
        """Reset the counts for a new pass, except those of the work of earlier passes."""
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
        """Count a failed object, and list it up to ``MOST_FAILURES``, with as much of a long message as a row has."""
        self.objects.failed += 1
        if len(self.failures) < MOST_FAILURES:
            self.failures.append(replace(failure, message=one_line(failure.message, _LONGEST_MESSAGE)))
        if failure.reason == OWNERS_LOST and len(self.owners_lost) < MOST_FAILURES:
            self.owners_lost.append(failure.where)

    def warn(self, sentences: Iterable[str]) -> None:
        """Add the non-empty warnings, each once, because a repeated pass finds most of them again."""
        self.warnings.extend(each for each in sentences if each and each not in self.warnings)

    def note_untried(self, where: str, said: str) -> None:
        """Count an object whose second write a dry run cannot show; the first one becomes a warning.

        Args:
            where: the object, as ``namespace/name``.
            said: why the API server refused the write in a dry run.
        """
        self.untried += 1
        if self.untried == 1:
            self.warnings.append(_UNTRIED.format(where=where, said=one_line(said, _LONGEST_REASON).rstrip(".")))

    def to_json(self) -> dict[str, Any]:
        """Return the element of ``crds`` in the JSON report."""
        return {
            "name": self.name,
            "storageVersion": self.storage_version,
            "storedVersionsBefore": list(self.stored_before),
            "storedVersionsAfter": list(self.stored_after),
            "storedVersionsPutBack": list(self.put_back),
            "pruned": self.pruned,
            "prunedReason": self.pruned_reason,
            "objects": asdict(self.objects),
            "requests": asdict(self.requests),
            "failures": [asdict(each) for each in self.failures],
            "strippedOwners": rows(self.stripped_owners, "manager", "apiVersion", "entries"),
            "keptOwners": rows(self.kept_owners, "manager", "apiVersion", "entries"),
            "conversions": self.conversions,
            "refused": self.refused,
            "unfinished": self.unfinished,
            "unmarked": self.unmarked,
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


_UNTRIED = (
    "the second write of {where}, and of objects like it, cannot be tried: a dry run does not store the new default of "
    "the first write, so the API server compares the object with one that lacks it ({said}). In a migration both have "
    "it. Only a policy or webhook that refuses the default itself then refuses the write"
)


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """The report of a run about all its CRDs."""

    crds: tuple[CrdReport, ...]
    dry_run: bool = False

    @property
    def result(self) -> MigrationResult:
        """Failed, or Unreachable if that is the only cause; else Refused if a CRD was; else DryRun or Succeeded."""
        incomplete = [crd for crd in self.crds if not crd.succeeded and not crd.refused]
        if incomplete:
            return MigrationResult.UNREACHABLE if all(crd.unreachable for crd in incomplete) else MigrationResult.FAILED
        if any(crd.refused for crd in self.crds):
            return MigrationResult.REFUSED
        return MigrationResult.DRY_RUN if self.dry_run else MigrationResult.SUCCEEDED

    def to_json(self) -> dict[str, Any]:
        """Return the JSON report; ``docs/migrating.md``, *Report*, describes its fields."""
        return {"result": self.result.value, "crds": [crd.to_json() for crd in self.crds]}


MOST_EACH = 100
"""The largest number of listed findings of one check; further ones are only counted, so that memory stays bounded."""


class PlanCheck(StrEnum):
    """The subject of a finding.

    - ``permissions``: the rights of this user.
    - ``objects``: objects that a migration could not finish.
    - ``owners``: managers with fields that cannot be carried over.
    - ``fields``: fields that a rewrite would prune.
    - ``webhook``: whether the conversion webhook answers, and its answers.
    - ``crd``: the migration's own writes of the CRD.
    - ``rehearsal``: writes that could not be tried.
    - ``native``: the cluster's own migration.
    """

    PERMISSIONS = "permissions"
    OBJECTS = "objects"
    OWNERS = "owners"
    FIELDS = "fields"
    WEBHOOK = "webhook"
    CRD = "crd"
    REHEARSAL = "rehearsal"
    NATIVE = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFinding:
    """One finding.

    Attributes:
        check: the subject of the finding.
        message: the sentence.
        fails: whether the migration would fail because of it; otherwise it is a warning.
        namespace, name: the object, if the finding is about one.
        reason: the reason as in a migration's report.
    """

    check: PlanCheck
    message: str
    fails: bool = False
    namespace: str = ""
    name: str = ""
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return one element of ``findings`` in ``restow plan -o json``."""
        return {
            "check": self.check.value,
            "severity": "error" if self.fails else "warning",
            "namespace": self.namespace,
            "name": self.name,
            "reason": self.reason,
            "message": self.message,
        }


@dataclass(slots=True)
class PlanFindings:
    """Findings in the order in which they were added, and the number of unlisted ones of each check."""

    listed: list[PlanFinding] = field(default_factory=list)
    counts: Counter[tuple[PlanCheck, bool]] = field(default_factory=Counter)

    def add(self, finding: PlanFinding) -> None:
        """Count a finding, and keep it until its check has ``MOST_EACH`` of them."""
        like = finding.check, finding.fails
        self.counts[like] += 1
        if self.counts[like] <= MOST_EACH:
            self.listed.append(finding)

    @property
    def fail(self) -> bool:
        """Whether the migration would fail because of a finding."""
        return any(fails for _check, fails in self.counts)

    def more(self) -> dict[PlanCheck, int]:
        """Return the number of unlisted findings of each check."""
        found: Counter[PlanCheck] = Counter()
        for (check, _fails), count in self.counts.items():
            found[check] += max(0, count - MOST_EACH)
        return {check: count for check, count in found.items() if count}


def of_failure(failure: ObjectFailure) -> PlanFinding:
    """Return the finding for a dry-run write that failed."""
    where, said = failure.where, failure.message.rstrip(".")
    check = PlanCheck.REHEARSAL
    if cannot_be_tried(said):
        message = (
            f"the write of {where} cannot be tried: {said}, so whether it would be admitted is not known. Set that "
            "webhook's sideEffects to None or NoneOnDryRun if that is so, or expect it to be asked by the migration"
        )
    elif failure.reason in _PASSING:
        message = f"the write of {where} could not be tried ({failure.reason}): {said}. Plan again"
    else:
        check = PlanCheck.OBJECTS
        message = f"{where} would fail ({failure.reason}): {said}{_advice(failure)}"
    return PlanFinding(
        check=check,
        message=message,
        fails=check is PlanCheck.OBJECTS,
        namespace=failure.namespace,
        name=failure.name,
        reason=failure.reason,
    )


def _advice(failure: ObjectFailure) -> str:
    """Return what to do about a failure; empty if its message says it already."""
    said = failure.message
    if failure.reason in _ADVISED:
        return ""
    if any(text in said for text in _BROKEN_WEBHOOK):
        return ". See that this webhook runs and that its certificate fits its caBundle, then plan again"
    if is_denial(said):
        return (
            ". Have that policy or webhook admit updates that change nothing (and the user of the migration), or fix "
            "the object, then plan again"
        )
    if failure.reason == "Invalid":
        return ". The API server refuses every write of it as it is: fix the object, or the schema, then plan again"
    if failure.reason == "CannotConvert":
        return ". Fix the object, or its conversion, then plan again"
    if failure.reason in ("RequestEntityTooLarge", "413"):
        return ". It is larger than the API server accepts: make it smaller, then plan again"
    return ". Fix what the message names, then plan again"


def is_denial(said: str) -> bool:
    """Return whether an admission policy or webhook refused a write, by the API server's message."""
    return any(text in said for text in _POLICIES)


def cannot_be_tried(said: str) -> bool:
    """Return whether a write cannot be tried as a dry run, by the API server's message."""
    return "does not support dry run" in said


_BROKEN_WEBHOOK = ("failed calling webhook", "failed to call webhook")
_POLICIES = (
    "ValidatingAdmissionPolicy",
    "MutatingAdmissionPolicy",
    "admission webhook",
    "denied the request",
    "denied request",
)
_ADVISED = ("OwnershipWouldBeLost", "OwnershipLost", "OwnershipNotTranslated", "TooLarge", "NotFound")
_PASSING = (
    "Conflict",
    "Interrupted",
    "TooManyRequests",
    "StorageInitializing",
    "ServiceUnavailable",
    "Timeout",
    "Unreachable",
    "TimedOut",
    "BadReply",
)

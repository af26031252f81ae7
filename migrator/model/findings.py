"""Findings of a plan: one sentence each, with the object or CRD, what would happen, and what to do.

A finding contains names and reasons, never a value of an object.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from restow.migrator.model.report import ObjectFailure

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

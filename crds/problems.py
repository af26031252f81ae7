"""The problems of a CRD that ``restow doctor`` reports, each with its effect and the command that fixes it.

Two rooms find them: ``restow.conversion.diagnosis`` those of reads, webhooks and namespaces, and
``restow.migrator.planning.diagnosis`` those of stored versions and owners.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ProblemKind(StrEnum):
    """The kind of a problem, for programs."""

    NOT_SERVED = "NotServed"
    DELETION_STUCK = "DeletionStuck"
    STORED_VERSION_UNKNOWN = "StoredVersionUnknown"
    MIGRATION_DUE = "MigrationDue"
    NOT_PROVED = "NotProved"
    NOT_MARKABLE = "NotMarkable"
    APPLY_FAILS = "ApplyFails"
    FIELDS_LOST = "FieldsLost"
    OBJECT_OF_LEFT_VERSION = "ObjectOfLeftVersion"
    WEBHOOK_UNREACHABLE = "WebhookUnreachable"
    CERTIFICATE_NOT_TRUSTED = "CertificateNotTrusted"
    OBJECT_NOT_CONVERTIBLE = "ObjectNotConvertible"
    NOT_READABLE = "NotReadable"
    NAMESPACE_STUCK = "NamespaceStuck"


@dataclass(frozen=True, slots=True)
class CrdProblem:
    """One problem.

    Attributes:
        kind: the kind of problem, for programs.
        what: the problem, a sentence.
        effect: the affected clients and the effect on them, a sentence.
        command: the command that fixes the problem, or that shows the cause; empty if there is none.
        remedy: the effect of the command, or the alternative, a sentence.
        instead: the commands of the alternative, if it has some.
    """

    kind: ProblemKind
    what: str
    effect: str
    command: str
    remedy: str
    instead: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the problem as data."""
        return {
            "kind": self.kind.value,
            "what": self.what,
            "effect": self.effect,
            "command": self.command,
            "remedy": self.remedy,
            "instead": list(self.instead),
        }


@dataclass(frozen=True, slots=True)
class CrdDiagnosis:
    """The diagnosis of a CRD.

    Attributes:
        crd: its name.
        problems: the problems; the first one should be solved first.
        looked_at: the checks that found no problem, each a sentence.
        not_seen: the checks that were not possible, each a sentence.
    """

    crd: str
    problems: tuple[CrdProblem, ...]
    looked_at: tuple[str, ...] = ()
    not_seen: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the diagnosis as data."""
        return {
            "crd": self.crd,
            "problems": [each.to_json() for each in self.problems],
            "lookedAt": list(self.looked_at),
            "notSeen": list(self.not_seen),
        }

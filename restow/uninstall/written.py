"""The table of everything that restow writes to a cluster for itself, and what becomes of it at an uninstall. Pure.

A test compares the table with the code: each name and each place from which something is written has its row here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from restow.conversion.certificates.wiring.crd import UNWIRED
from restow.conversion.certificates.wiring.fieldmanagers import MANAGED_BY
from restow.conversion.operate.revisions import LABEL
from restow.crds.conversionrules import NAME as RULES_CRD
from restow.migrator.decide.proof import ANNOTATION as MARK
from restow.migrator.model.watermark import ANNOTATION as WATERMARK
from restow.migrator.model.watermark import RUNS
from restow.migrator.operate.conditions import MIGRATED
from restow.migrator.operate.policy import LABEL as MIGRATE
from restow.migrator.operate.policy import RATE, SCOPE, WINDOW
from restow.migrator.operate.references import NO_REFERENCES
from restow.migrator.references.move import BACKUP_LABEL
from restow.migrator.requests.lostowners import ANNOTATION as LOST_OWNERS


class LeftoverKind(StrEnum):
    """What something is written as: the word in the table of ``restow uninstall``."""

    ANNOTATION = "annotation"
    LABEL = "label"
    CONDITION = "condition"
    WEBHOOK = "conversion webhook"
    CONFIGURATION = "webhook configuration"
    CRD = "CRD"
    RULES = "ConversionRules"
    CONFIG_MAP = "ConfigMap"
    SECRET = "Secret"  # noqa: S105 - a kind
    LEASE = "Lease"
    NATIVE = "StorageVersionMigration"
    STASH = "stash"


@dataclass(frozen=True, slots=True)
class OwnWrite:
    """One kind of thing that restow writes.

    Attributes:
        kind: what it is.
        names: its names, each whole or up to where it differs, or the labels by which it is found.
        writers: the modules that write it; empty if people do, for restow to read.
        stays: when it is not removed, the end of a sentence that begins with "It stays"; empty for never.
    """

    kind: LeftoverKind
    names: tuple[str, ...]
    writers: tuple[str, ...]
    stays: str = ""


LEASES: Final = "restow-"
CONVERSIONS: Final = "restow-conversions."
DECLARED: Final = "restow-declared."
SHARDS: Final = "restow-shards."
BACKUPS: Final = "restow-backup."
STASH: Final = "/conversion-stash"
ON_CRDS: Final = (MARK, WATERMARK, RUNS, LOST_OWNERS, UNWIRED)
BY_PEOPLE: Final = (SCOPE, RATE, WINDOW)
CONDITIONS: Final = {MIGRATED: "restow-migrated", NO_REFERENCES: "restow-references"}
"""The types of conditions, with the field manager that applies each."""

_APPLY: Final = "conversion/certificates/apply.py"

WRITTEN: Final = (
    OwnWrite(
        LeftoverKind.ANNOTATION, (MARK, WATERMARK, RUNS), ("migrator/requests/crdaccess.py",), "while it is needed"
    ),
    OwnWrite(LeftoverKind.ANNOTATION, (LOST_OWNERS,), ("migrator/requests/crdaccess.py",), "while it names an object"),
    OwnWrite(LeftoverKind.ANNOTATION, (UNWIRED,), ("conversion/certificates/unwire.py", _APPLY)),
    OwnWrite(LeftoverKind.ANNOTATION, BY_PEOPLE, (), "because people write it"),
    OwnWrite(LeftoverKind.LABEL, (MIGRATE,), (), "because people write it"),
    OwnWrite(LeftoverKind.CONDITION, tuple(CONDITIONS), ("migrator/operate/conditions.py",)),
    OwnWrite(LeftoverKind.WEBHOOK, (), (_APPLY, "conversion/certificates/unwire.py"), "until restow unwire removes it"),
    OwnWrite(LeftoverKind.CONFIGURATION, (), (_APPLY,), "while a CRD calls its server"),
    OwnWrite(LeftoverKind.CRD, (RULES_CRD,), ("restow/operator/process.py",), "while there are ConversionRules"),
    OwnWrite(
        LeftoverKind.RULES,
        (LABEL,),
        ("conversion/operate/reconciler.py", "conversion/operate/replica.py", "conversion/operate/statuses.py"),
        "until it is deleted, with the operator that runs",
    ),
    OwnWrite(
        LeftoverKind.CONFIG_MAP, (CONVERSIONS,), ("conversion/operate/records.py",), "while a CRD is converted by it"
    ),
    OwnWrite(LeftoverKind.CONFIG_MAP, (DECLARED,), ("conversion/operate/declarations.py",), "while its rules exist"),
    OwnWrite(LeftoverKind.CONFIG_MAP, (SHARDS,), ("migrator/run/shards.py",)),
    OwnWrite(
        LeftoverKind.SECRET, (MANAGED_BY[0],), ("conversion/certificates/ca/store.py",), "while a webhook trusts its CA"
    ),
    OwnWrite(
        LeftoverKind.SECRET,
        (BACKUPS, *BACKUP_LABEL),
        ("migrator/references/move.py",),
        "while its CRD has the version that restow references --undo takes back",
    ),
    OwnWrite(
        LeftoverKind.LEASE, (LEASES,), ("kube/leaderelection.py", "conversion/operate/members.py"), "while it is held"
    ),
    OwnWrite(LeftoverKind.NATIVE, ("restow-",), ("migrator/requests/native.py",), "while it is running"),
    OwnWrite(LeftoverKind.STASH, (STASH,), (), "while a version that it is for is in the CRD"),
)
"""Everything but Events, which the API server removes after an hour."""

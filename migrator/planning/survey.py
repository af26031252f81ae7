"""What was found of one CRD: what a migration would do, would cost and would fail at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from restow.crds import Crd
from restow.migrator.decide import Step
from restow.migrator.model import Phase
from restow.migrator.planning.cost import Cost, Measured, server_conversions
from restow.migrator.planning.findings import Findings
from restow.migrator.planning.foretold import Foretold
from restow.migrator.planning.pruned import LostFields
from restow.migrator.report import Requests

__all__ = ["Survey"]


@dataclass(slots=True, kw_only=True)
class Survey:
    """What was found of one CRD.

    Attributes:
        refused: why it cannot be migrated as it is, or empty.
        unfinished: why not all objects could be looked at, or empty.
        unreachable: what was out of reach for too long, where that is why; or empty.
        objects: how many objects there are (in the asked-for part).
        steps: objects by the requests that each needs, e.g. ``{("combined-patch",): 12, (): 3}``.
        entries: managedFields entries of other versions, by (apiVersion, treatment).
        owners: objects by (manager, apiVersion) of such entries.
        stripped: entries that would be stripped, by (manager, apiVersion), as far as the objects were tried.
        remaining: objects that would keep entries of other versions.
        blocked: objects that cannot be written without losing an owner.
        reads: objects that have to be read whole.
        translations: entries that would be sent through the converter.
        conversions: how many conversions that takes at most.
        in_process: they take place in this process, and not in the CRD's webhook.
        riding_along: conversions that entries of other versions cost which stay on objects to be written.
        rehearsals: objects whose write is tried as a dry run first, since such entries ride along.
        new_defaults: paths of defaults that a write would persist: two writes an object.
        hazards: entries that would stay and may cost their objects all owners, by (manager, apiVersion).
        lost: fields that would be pruned for good (strategy None).
        findings: what stands in the way, and what else should be known.
        foretold: what could not be carried over of the entries that were converted.
        tried: objects whose writes were tried as dry runs.
        measured: how long that took, and the lists.
        reencode: whether every object is to be written, since storedVersions names another version.
        prune: whether storedVersions would be pruned, provided that every object gets through.
    """

    crd: Crd
    refused: str = ""
    unfinished: str = ""
    unreachable: str = ""
    completed: bool = False
    objects: int = 0
    steps: Counter[tuple[str, ...]] = field(default_factory=Counter)
    entries: Counter[tuple[str, str]] = field(default_factory=Counter)
    owners: Counter[tuple[str, str]] = field(default_factory=Counter)
    stripped: Counter[tuple[str, str]] = field(default_factory=Counter)
    remaining: int = 0
    blocked: int = 0
    reads: int = 0
    translations: int = 0
    conversions: int = 0
    in_process: bool = False
    riding_along: int = 0
    rehearsals: int = 0
    new_defaults: tuple[str, ...] = ()
    hazards: Counter[tuple[str, str]] = field(default_factory=Counter)
    lost: LostFields = field(default_factory=LostFields)
    findings: Findings = field(default_factory=Findings)
    foretold: Foretold = field(default_factory=Foretold)
    tried: int = 0
    measured: Measured = field(default_factory=Measured)
    reencode: bool = False
    prune: bool = False
    requests: Requests = field(default_factory=Requests)

    @property
    def lost_fields(self) -> Counter[str]:
        """Objects by field that would be pruned for good."""
        return self.lost.objects

    @property
    def warnings(self) -> list[str]:
        """What should be known, though no object would fail for it."""
        return [finding.message for finding in self.findings.listed if not finding.fails]

    @property
    def cost(self) -> Cost:
        """What the migration would cost."""
        written = sum(count for steps, count in self.steps.items() if steps)
        writes = self.writes
        return Cost(
            objects=written,
            lists=self.requests.list,
            reads=self.reads,
            writes=writes,
            rehearsals=self.rehearsals,
            conversions=self.conversions,
            server_conversions=server_conversions(
                self.crd,
                listed=self.objects,
                writes=writes,
                applies=sum(count for steps, count in self.steps.items() if Step.IDENTITY_APPLY in steps),
                rehearsals=self.rehearsals,
                riding_along=self.riding_along,
            ),
            measured=self.measured,
        )

    @property
    def writes(self) -> int:
        """Write requests that a migration would send, retries and dry-run rehearsals not counted."""
        return sum(len(steps) * count for steps, count in self.steps.items())

    @property
    def due(self) -> tuple[Phase, ...]:
        """The phases with work to do."""
        due = []
        if self.reencode and self.objects:
            due.append(Phase.STORAGE)
        if self.entries and any("combined-patch" in steps for steps in self.steps):
            due.append(Phase.MANAGED_FIELDS)
        if self.prune:
            due.append(Phase.PRUNE)
        return tuple(due)

    def to_json(self) -> dict[str, Any]:
        """Return one element of ``crds`` in ``restow plan -o json``."""
        crd = self.crd
        return {
            "name": crd.name,
            "storageVersion": crd.storage.name,
            "servedVersions": list(crd.served),
            "storedVersions": list(crd.stored_versions),
            "strategy": crd.strategy,
            "refused": self.refused,
            "unfinished": self.unfinished,
            "unreachable": self.unreachable,
            "due": [phase.value for phase in self.due],
            "objects": self.objects,
            "requests": {"list": self.requests.list, "read": self.reads, "write": self.writes},
            "steps": [{"requests": list(steps), "objects": count} for steps, count in sorted(self.steps.items())],
            "entries": [
                {"apiVersion": version, "treatment": treatment, "entries": count}
                for (version, treatment), count in sorted(self.entries.items())
            ],
            "owners": [
                {"manager": manager, "apiVersion": version, "objects": count}
                for (manager, version), count in sorted(self.owners.items())
            ],
            "stripped": [
                {"manager": manager, "apiVersion": version, "entries": count}
                for (manager, version), count in sorted(self.stripped.items())
            ],
            "remaining": self.remaining,
            "blocked": self.blocked,
            "conversions": {"entries": self.translations, "atMost": self.conversions},
            "newDefaults": list(self.new_defaults),
            "lostFields": [{"path": path, "objects": count} for path, count in sorted(self.lost_fields.items())],
            "findings": [finding.to_json() for finding in self.findings.listed],
            "moreFindings": {check.value: count for check, count in sorted(self.findings.more().items())},
            "rehearsed": self.tried,
            "cost": self.cost.to_json(),
        }

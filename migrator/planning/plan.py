"""The plan of one CRD's migration: its work, its cost and its failures, as values and as JSON.

The cost (requests, conversions, and a time) is estimated from dry-run writes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from restow.crds import Crd
from restow.migrator.decide.decision import WriteStep
from restow.migrator.model.findings import PlanFindings
from restow.migrator.model.options import Phase
from restow.migrator.model.report import Requests
from restow.migrator.planning.strippreview import StripPrediction
from restow.migrator.references.model import FoundReferences
from restow.migrator.requests.lostfields import LostFields


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measurements of a plan; durations in seconds.

    Attributes:
        writes, write_s: the number of dry-run writes, and their total duration at ``concurrency``.
        conversions, conversion_s: the conversions through the converter, in batches as in a migration.
        list_s: the total duration of all LISTs, which are sequential.
        concurrency: the most writes in flight.
    """

    writes: int = 0
    write_s: float = 0.0
    conversions: int = 0
    conversion_s: float = 0.0
    list_s: float = 0.0
    concurrency: int = 0

    @property
    def writes_per_s(self) -> float | None:
        """The measured rate; None without a measurement."""
        return self.writes / self.write_s if self.writes and self.write_s > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a migration.

    Attributes:
        objects: the number of objects to write.
        lists, reads, writes: the numbers of requests; ``writes`` includes second writes of an object.
        rehearsals: the number of dry-run writes before writes of objects that keep entries of other versions.
        conversions: the most conversions through the converter, for translation.
        server_conversions: the most conversions by the API server through the CRD's webhook.
        measured: the measurements from which the time is estimated.
    """

    objects: int = 0
    lists: int = 0
    reads: int = 0
    writes: int = 0
    rehearsals: int = 0
    conversions: int = 0
    server_conversions: int = 0
    measured: Measured = Measured()

    @property
    def seconds(self) -> float | None:
        """The estimated time, or None without measurements.

        Writes run while the lists are read and pages are converted, so the slower of the two counts. The time for
        settling and pruning is not included.
        """
        rate = self.measured.writes_per_s
        if rate is None or (self.conversions and not self.measured.conversions):
            return None
        converting = 0.0
        if self.conversions:
            converting = self.conversions * self.measured.conversion_s / self.measured.conversions
        return max(self.measured.list_s + converting, (self.writes + self.rehearsals) / rate)

    def to_json(self) -> dict[str, Any]:
        """Return ``cost`` of ``restow plan -o json``; measured numbers are in ``estimate``."""
        rate, seconds = self.measured.writes_per_s, self.seconds
        estimate = None
        if rate is not None and seconds is not None:
            estimate = {
                "seconds": round(seconds, 1),
                "writesPerSecond": round(rate, 1),
                "measuredWrites": self.measured.writes,
                "concurrency": self.measured.concurrency,
            }
        return {
            "objects": self.objects,
            "lists": self.lists,
            "reads": self.reads,
            "writes": self.writes,
            "rehearsals": self.rehearsals,
            "conversions": {"translation": self.conversions, "apiServer": self.server_conversions},
            "estimate": estimate,
        }


def server_conversions(crd: Crd, *, listed: int, writes: int, applies: int, rehearsals: int, riding_along: int) -> int:
    """Return the most conversions by a CRD's webhook for the API server in a migration without other writers.

    Each listed object is converted (one ConversionReview each). A write converts the stored object, an apply converts
    it once more, and the result is converted for the watch cache of every other served version. All of this was
    counted on a kube-apiserver 1.36.3.

    Args:
        crd: the CRD.
        listed: the number of objects in the lists.
        writes: the number of writes without rehearsals.
        applies: the number of server-side applies among them.
        rehearsals: the number of dry runs of writes.
        riding_along: the conversions of entries that stay, see ``ride_along``.
    """
    if crd.strategy == "None":
        return 0
    others = len(crd.served) - 1
    return listed + writes * (1 + others) + applies + rehearsals + riding_along


def ride_along(versions: int, entries: int) -> int:
    """Return the conversions that entries of other versions cost each write of their object.

    Args:
        versions: the number of their versions.
        entries: the number of entries.
    """
    return 4 * versions + 2 * entries


@dataclass(slots=True, kw_only=True)
class MigrationPlan:
    """The plan of one CRD's migration.

    Attributes:
        refused: why the CRD cannot be migrated in its present state, or empty.
        unfinished: why the plan does not cover all objects, or empty.
        unreachable: what was unreachable for too long, if that is the reason; or empty.
        objects: the number of objects (in the selected part).
        steps: the numbers of objects by the requests that each needs, e.g. ``{("combined-patch",): 12, (): 3}``.
        entries: the numbers of managedFields entries of other versions, by (apiVersion, policy).
        owners: the numbers of objects by (manager, apiVersion) of such entries.
        stripped: the numbers of entries that would be stripped, by (manager, apiVersion), among the tried objects.
        remaining: the number of objects that would keep entries of other versions.
        blocked: the number of objects that cannot be written without losing an owner.
        reads: the number of objects that have to be read whole.
        translations: the number of entries that would be converted.
        conversions: the most conversions for them.
        in_process: whether they run in this process, and not in the CRD's webhook.
        riding_along: the conversions for entries of other versions that stay on objects to write.
        rehearsals: the number of objects with such entries, whose write is tried as a dry run first.
        new_defaults: paths of defaults that a write would persist, which costs two writes per object.
        hazards: the numbers of entries that would stay and may cost their objects all owners, by (manager,
            apiVersion).
        lost: fields that would be pruned permanently (strategy None).
        findings: the obstacles, and further warnings.
        predicted: the results of the converted entries that cannot be carried over.
        tried: the number of objects whose writes were tried as dry runs.
        measured: the durations of these writes and of the lists.
        reencode: whether every object has to be written, because storedVersions names another version.
        prune: whether storedVersions would be pruned if no object fails.
        references: references in the cluster to a version that can be removed, a result for each version; None without
            a search.
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
    findings: PlanFindings = field(default_factory=PlanFindings)
    predicted: StripPrediction = field(default_factory=StripPrediction)
    tried: int = 0
    measured: Measured = field(default_factory=Measured)
    reencode: bool = False
    prune: bool = False
    references: tuple[FoundReferences, ...] | None = None
    requests: Requests = field(default_factory=Requests)

    @property
    def lost_fields(self) -> Counter[str]:
        """The numbers of objects by field that would be pruned permanently."""
        return self.lost.objects

    @property
    def warnings(self) -> list[str]:
        """The warnings about problems for which no object would fail."""
        return [finding.message for finding in self.findings.listed if not finding.fails]

    @property
    def cost(self) -> Cost:
        """The cost of the migration."""
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
                applies=sum(count for steps, count in self.steps.items() if WriteStep.IDENTITY_APPLY in steps),
                rehearsals=self.rehearsals,
                riding_along=self.riding_along,
            ),
            measured=self.measured,
        )

    @property
    def writes(self) -> int:
        """The write requests of a migration, without retries and dry-run rehearsals."""
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
                {"apiVersion": version, "treatment": policy, "entries": count}
                for (version, policy), count in sorted(self.entries.items())
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
            "references": None if self.references is None else [each.to_json() for each in self.references],
            "rehearsed": self.tried,
            "cost": self.cost.to_json(),
        }

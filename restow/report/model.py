"""What a page shows, as frozen values: counts, names and finished sentences; no object, no value of one. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from restow.cloudprofile.versions.chart import ChartRow, ChartWindow
from restow.conversion.operate.overview import RulesOverview
from restow.migrator.timeline import TimelineFinding, VersionSchedule
from restow.report.run import RunReport

__all__ = ["CrdView", "OwnerRow", "PolicyPlan", "ProfileView", "ReferenceRow", "ReportDocument", "State", "VersionRow"]


class State(StrEnum):
    """What a row asks of its reader; rows can be filtered by it.

    ``failed``: something went wrong, or could not be seen. ``due``: work is to be done before the next step.
    ``ready``: a version may go. ``done``: nothing to do.
    """

    FAILED = "failed"
    DUE = "due"
    READY = "ready"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """One version of a CRD.

    Attributes:
        declared: it is in the CRD's spec.
        stored: whether status.storedVersions names it.
        at_most, at_least: how many objects may be stored at it, as far as the API can tell; None where none could be
            listed.
        owned: objects with managedFields entries at it.
        verdict: what may be done with it, in a few words.
        reasons: sentences, why it may not go.
        notes: sentences about what cannot be seen from here.
    """

    crd: str
    name: str
    served: bool
    storage: bool
    declared: bool
    deprecated: bool
    stored: bool
    at_least: int | None
    at_most: int | None
    owned: int
    objects: int
    state: State
    verdict: str
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRow:
    """Who owns fields at a version that is not the storage version.

    Attributes:
        manager: the field manager; ``owners`` is set instead for all those that were not counted one by one.
        owners: how many entries' managers are gathered in this row; 0 in an ordinary one.
        standing: ``served``, ``unserved`` or ``removed``, of the version.
        objects: objects with such an entry.
        of: objects of the CRD.
        newest: when such an entry was last written, RFC 3339, as the API server wrote it; empty if unknown.
    """

    crd: str
    manager: str
    owners: int = 0
    api_version: str
    standing: str
    objects: int
    of: int
    newest: str
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRow:
    """References of one kind and resource to a version, with the same effect when it goes.

    Attributes:
        kind: as ``restow references`` calls it.
        count: how many.
        examples: names of a few objects that have them.
        unserving, removal: whether they stand against the step.
        happens: a sentence, what happens once the version is removed.
        advice: what to do about it, a clause.
    """

    crd: str
    version: str
    kind: str
    resource: str
    count: int
    examples: tuple[str, ...]
    unserving: bool
    removal: bool
    happens: str
    advice: str
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class CrdView:
    """One CRD of the cluster.

    Attributes:
        unseen: why its objects could not be counted, or empty.
        references: what else in the cluster names a version that may go; None if it was not looked for.
    """

    name: str
    kind: str
    namespaced: bool
    strategy: str
    storage: str
    stored: tuple[str, ...]
    word: str
    state: State
    objects: int | None
    old: int
    versions: tuple[VersionRow, ...]
    owners: tuple[OwnerRow, ...]
    references: tuple[ReferenceRow, ...] | None = None
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class PolicyPlan:
    """The schedule of a policy, what is wrong with it, and the release that the cluster runs, if that is known."""

    schedule: VersionSchedule
    findings: tuple[TimelineFinding, ...]
    at: int | None = None


@dataclass(frozen=True, slots=True)
class ProfileView:
    """The lifecycles of one CloudProfile; ``problem`` says why they cannot be drawn, or is empty."""

    kind: str
    name: str
    rows: tuple[ChartRow, ...]
    window: ChartWindow
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument:
    """All that one page shows.

    Attributes:
        made: when, in UTC.
        cluster: which API server was asked; empty where none was.
        crds: what was found there.
        run: what a run of ``restow migrate`` reported, or None.
        plan: the policy's schedule, or None.
        rules: ConversionRules of the cluster, and how far they are.
        profiles: CloudProfiles; ``more_profiles`` says how many beyond them there are.
        release: restow's own version.
    """

    made: datetime
    release: str
    cluster: str = ""
    crds: tuple[CrdView, ...] = ()
    run: RunReport | None = None
    plan: PolicyPlan | None = None
    rules: tuple[RulesOverview, ...] = ()
    profiles: tuple[ProfileView, ...] = ()
    more_profiles: int = 0

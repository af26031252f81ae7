"""The content of a page as frozen values: counts, names and finished sentences, never values of objects. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from restow.cloudprofile.versions.chart import ChartRow, ChartWindow
from restow.conversion.operate.overview import RulesOverview
from restow.migrator.timeline import TimelineFinding, VersionSchedule
from restow.report.run import RunReport


class State(StrEnum):
    """The state of a row, by which readers can filter.

    ``failed``: something failed, or could not be read. ``due``: the next step needs work first. ``ready``: a version
    can be removed. ``done``: there is nothing to do.
    """

    FAILED = "failed"
    DUE = "due"
    READY = "ready"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """One version of a CRD.

    Attributes:
        declared: whether the CRD's spec has the version.
        stored: whether objects may be stored at the version.
        at_most, at_least: bounds of the number of objects stored at the version, as far as the API shows it; None if
            objects could not be listed.
        owned: the number of objects with managedFields entries at the version.
        verdict: what can be done with the version, in a few words.
        reasons: sentences about why the version cannot be removed.
        notes: sentences about what restow cannot see.
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
    """An owner of fields at a version that is not the storage version.

    Attributes:
        manager: the field manager; a row about the managers that were not counted separately sets ``owners`` instead.
        owners: the number of entries in a row about several managers; 0 in other rows.
        standing: the state of the version: ``served``, ``unserved`` or ``removed``.
        objects: the number of objects with such an entry.
        of: the number of objects of the CRD.
        newest: the time of the newest such entry, RFC 3339, as the API server wrote it; empty if unknown.
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
    """References of one kind and resource to a version, with the same effect of its removal.

    Attributes:
        kind: the kind as in the output of ``restow references``.
        count: the number of references.
        examples: names of a few objects that have such references.
        unserving, removal: whether the references block the step.
        happens: a sentence about what happens once the version is removed.
        advice: a clause about what to do.
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
        references: references to a version that can be removed; None without a search.
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
    """The schedule of a policy, its findings, and the release that the cluster runs, if it is known."""

    schedule: VersionSchedule
    findings: tuple[TimelineFinding, ...]
    at: int | None = None


@dataclass(frozen=True, slots=True)
class ProfileView:
    """The lifecycles of one CloudProfile; ``problem`` says why they cannot be drawn, else it is empty."""

    kind: str
    name: str
    rows: tuple[ChartRow, ...]
    window: ChartWindow
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument:
    """The content of one page.

    Attributes:
        made: the time of the page, in UTC.
        cluster: the address of the API server; empty without one.
        crds: the CRDs of the cluster.
        run: the report of a run of ``restow migrate``, or None.
        plan: the policy's schedule, or None.
        rules: the ConversionRules of the cluster, and their state.
        profiles: CloudProfiles; ``more_profiles`` is the number of further ones.
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

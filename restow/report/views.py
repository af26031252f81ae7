"""Build a page's rows and sentences about a CRD from its document and the counts of its objects, and about a profile.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from restow.cloudprofile.versions.chart import rows_of, window_of
from restow.crds import Crd, sort_versions
from restow.kube.resources import qualified_name
from restow.migrator.decide.proof import may_be_stored, what_is_proved
from restow.migrator.ownership.entries import ManagedFieldsEntry
from restow.migrator.planning.ready import Readiness, judge
from restow.migrator.references.reference import MOST_EXAMPLES, FoundReferences
from restow.report.model import CrdView, OwnerRow, ProfileView, ReferenceRow, ReportDocument, State, VersionRow
from restow.report.run import RunCrd

_ASK_READY = (
    "this page looks at the objects of the CRD alone: restow ready {crd} --drop {version} asks the API servers as well"
)

_ASK_READY_TOO = (
    "this page does not ask the API servers whether they lag behind: restow ready {crd} --drop {version} does"
)

_MOST_NAMED = 8
"""The largest number of managers named in a sentence; the table has all."""


MOST_OWNERS = 500
"""The largest number of pairs of manager and version that are counted separately for each CRD."""

_MOST_VERSIONS = 100


@dataclass(slots=True)
class EntryOwner:
    """The number of objects with an entry of one manager at one version, and the time of the newest entry."""

    objects: int = 0
    newest: str = ""

    def add(self, time: str) -> None:
        """Count an object. Times are RFC 3339 in UTC, which can be compared as text."""
        self.objects += 1
        self.newest = max(self.newest, time)


@dataclass(slots=True)
class OwnerCounts:
    """The counts of one CRD.

    Attributes:
        storage: the apiVersion of the storage version.
        objects: the number of all objects.
        old: the number of objects with an entry at another version.
        by_version: the numbers of objects with an entry, by apiVersion.
        owners: the owners by (manager, apiVersion), without the storage version.
        others: the entries of all managers beyond the limit together, by apiVersion.
    """

    storage: str
    objects: int = 0
    old: int = 0
    by_version: Counter[str] = field(default_factory=Counter)
    owners: dict[tuple[str, str], EntryOwner] = field(default_factory=dict)
    others: dict[str, EntryOwner] = field(default_factory=dict)

    def add(self, entries: Iterable[ManagedFieldsEntry]) -> None:
        """Count an object by its managedFields."""
        newest: dict[tuple[str, str], str] = {}
        for entry in entries:
            key = (entry.manager, entry.api_version)
            newest[key] = max(newest.get(key, ""), entry.time)
        self.objects += 1
        for version in {version for _, version in newest}:
            if version in self.by_version or len(self.by_version) < _MOST_VERSIONS:
                self.by_version[version] += 1
        old = {key: time for key, time in newest.items() if key[1] != self.storage}
        self.old += bool(old)
        for key, time in old.items():
            self._owner(key).add(time)

    def _owner(self, key: tuple[str, str]) -> EntryOwner:
        if key in self.owners or len(self.owners) < MOST_OWNERS:
            return self.owners.setdefault(key, EntryOwner())
        version = key[1] if key[1] in self.others or len(self.others) < _MOST_VERSIONS else ""
        return self.others.setdefault(version, EntryOwner())


def view(
    crd: Crd,
    word: str,
    tally: OwnerCounts | None,
    unseen: str = "",
    references: Collection[FoundReferences] | None = None,
) -> CrdView:
    """Return a page's view of a CRD.

    Args:
        crd: the CRD as read from the cluster.
        word: the state of the CRD in a word or two, as in ``restow status``.
        tally: the counts; None if its objects could not be listed.
        unseen: a sentence about why they could not be listed.
        references: references to its versions from elsewhere in the cluster; None without a search.
    """
    named_by = {each.of.version: each for each in references or ()}
    counted = OwnerCounts(crd.storage.api_version) if tally is None else tally
    versions = tuple(
        _version(crd, name, counted, named_by.get(name), seen=tally is not None) for name in _versions(crd, counted)
    )
    return CrdView(
        name=crd.name,
        kind=crd.kind,
        namespaced=crd.namespaced,
        strategy=crd.strategy,
        storage=crd.storage.name,
        stored=crd.stored_versions,
        word=word,
        state=_state(crd, counted, unseen),
        objects=None if tally is None else tally.objects,
        old=counted.old,
        versions=versions,
        owners=tuple(_owners(crd, counted)),
        references=None if references is None else tuple(row for each in references for row in _references(each)),
        unseen=unseen,
    )


def _state(crd: Crd, tally: OwnerCounts, unseen: str) -> State:
    if unseen:
        return State.FAILED
    blocking = any(_standing(crd, version) != "served" for version in tally.by_version)
    return State.DONE if not blocking and _migrated(crd) else State.DUE


def _migrated(crd: Crd) -> bool:
    """Return whether all objects are proved to be at the storage version, and storedVersions names only it."""
    return crd.stored_versions == (crd.storage.name,) and not what_is_proved(crd).doubt


def _versions(crd: Crd, tally: OwnerCounts) -> tuple[str, ...]:
    """Return all versions that the CRD or an entry names, the highest first."""
    prefix = f"{crd.group}/"
    entries = [each.removeprefix(prefix) for each in tally.by_version if each.startswith(prefix)]
    return sort_versions({*(each.name for each in crd.versions), *crd.stored_versions, *entries})


def _version(crd: Crd, name: str, tally: OwnerCounts, references: FoundReferences | None, *, seen: bool) -> VersionRow:
    declared, may_be = crd.version(name), may_be_stored(crd)
    stored = name in may_be
    owned = tally.by_version[f"{crd.group}/{name}"]
    answer = judge(crd, name, objects=tally.objects, owners=_named(crd, name, tally), references=references)
    state, verdict = _verdict(crd, answer, seen=seen)
    is_storage = name == crd.storage.name
    ask = _ASK_READY if references is None else _ASK_READY_TOO
    return VersionRow(
        crd=crd.name,
        name=name,
        served=declared is not None and declared.served,
        storage=is_storage,
        declared=declared is not None,
        deprecated=declared is not None and declared.deprecated,
        stored=stored,
        at_least=(tally.objects if may_be == (name,) else 0) if seen else None,
        at_most=(tally.objects if stored else 0) if seen else None,
        owned=owned,
        objects=tally.objects,
        state=state,
        verdict=verdict,
        reasons=() if is_storage else tuple(dict.fromkeys((*answer.against_unserving, *answer.against_removal))),
        notes=()
        if is_storage
        else (*answer.notes, *((ask.format(crd=crd.name, version=name),) if answer.ready else ())),
    )


def _references(found: FoundReferences) -> Iterator[ReferenceRow]:
    for (kind, resource, effect), count in found.effects.items():
        kept = (
            each for each in found.references if (each.kind, each.resource, each.effect) == (kind, resource, effect)
        )
        stands = effect.against_unserving or effect.against_removal
        yield ReferenceRow(
            crd=found.of.crd,
            version=found.of.version,
            kind=kind.value,
            resource=resource,
            count=count,
            examples=tuple(dict.fromkeys(each.key for each in kept))[:MOST_EXAMPLES],
            unserving=effect.against_unserving,
            removal=effect.against_removal,
            happens=effect.removed,
            advice=effect.advice,
            state=State.DUE if stands else State.DONE,
        )


def _verdict(crd: Crd, answer: Readiness, *, seen: bool) -> tuple[State, str]:
    found = crd.version(answer.version)
    if answer.version == crd.storage.name:
        return State.DONE, "stays: storage version"
    if not seen:
        return State.FAILED, "unknown"
    if answer.against_unserving:
        return State.DUE, "must stay"
    if answer.against_removal:
        served = found is not None and found.served
        return State.DUE, "may be unserved, not removed" if served else "migrate before it goes"
    if found is None:
        return State.DONE, "is gone"
    return State.READY, "may be unserved, then removed" if found.served else "may be removed"


def _named(crd: Crd, name: str, tally: OwnerCounts) -> dict[str, int]:
    """Return the numbers of objects by manager, for as many managers as a sentence names."""
    version = f"{crd.group}/{name}"
    found = {manager: owner.objects for (manager, at), owner in tally.owners.items() if at == version}
    ranked = sorted(found.items(), key=lambda each: (-each[1], each[0]))
    named = dict(ranked[:_MOST_NAMED])
    rest = sum(count for _, count in ranked[_MOST_NAMED:])
    if version in tally.others:
        rest += tally.others[version].objects
    return named | ({"other managers": rest} if rest else {})


def _owners(crd: Crd, tally: OwnerCounts) -> Iterator[OwnerRow]:
    """Yield the rows of owners, the largest first."""
    for (manager, version), owner in sorted(tally.owners.items(), key=lambda each: (-each[1].objects, each[0])):
        yield _owner(crd, tally, manager, version, owner.objects, owner.newest)
    for version, owner in sorted(tally.others.items()):
        yield _owner(crd, tally, "", version, owner.objects, owner.newest, owners=owner.objects)


def _owner(
    crd: Crd, tally: OwnerCounts, manager: str, version: str, objects: int, newest: str, *, owners: int = 0
) -> OwnerRow:
    standing = _standing(crd, version)
    return OwnerRow(
        crd=crd.name,
        manager=manager,
        owners=owners,
        api_version=version,
        standing=standing,
        objects=objects,
        of=tally.objects,
        newest=newest,
        state=State.DONE if standing == "served" and _migrated(crd) else State.DUE,
    )


def _standing(crd: Crd, api_version: str) -> str:
    group, _, name = api_version.rpartition("/")
    found = crd.version(name) if group == crd.group else None
    return "removed" if found is None else "served" if found.served else "unserved"


def profile_view(kind: str, document: Mapping[str, Any], now: datetime) -> ProfileView:
    """Return the lifecycles of one profile at v1beta2."""
    metadata = document["metadata"]
    name = qualified_name(metadata.get("namespace"), metadata.get("name"))
    spec = document.get("spec") or {}
    if kind == "NamespacedCloudProfile":
        spec = (document.get("status") or {}).get("cloudProfileSpec") or spec
    try:
        window = window_of(spec, now)
        return ProfileView(kind, name, rows_of(spec, window), window)
    except ValueError as error:
        return ProfileView(kind, name, (), window_of({}, now), str(error))


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its label."""

    label: str
    value: str
    state: State = State.DONE


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence with its subject, usually a CRD."""

    state: State
    word: str
    about: str
    sentence: str


def figures(document: ReportDocument) -> tuple[Figure, ...]:
    """Return the figures at the top of the page."""
    found = []
    if document.crds:
        versions = [version for crd in document.crds for version in crd.versions]
        due = sum(crd.state is State.DUE for crd in document.crds)
        old = sum(crd.old for crd in document.crds)
        ready = sum(version.state is State.READY for version in versions)
        found += [
            Figure("CRDs", f"{len(document.crds):,}"),
            Figure("objects", f"{sum(crd.objects or 0 for crd in document.crds):,}"),
            Figure("CRDs with work due", f"{due:,}", State.DUE if due else State.DONE),
            Figure("objects owned at other versions", f"{old:,}", State.DUE if old else State.DONE),
            Figure("versions that may go", f"{ready:,}", State.READY if ready else State.DONE),
        ]
    if document.run is not None:
        counts = [crd.objects for crd in document.run.crds]
        failed = sum(each.failed for each in counts)
        found += [
            Figure("objects rewritten by the run", f"{sum(each.rewritten for each in counts):,}"),
            Figure("failed in the run", f"{failed:,}", State.FAILED if failed else State.DONE),
        ]
    if document.rules:
        failed = sum(bool(each.failure) for each in document.rules)
        found.append(Figure("ConversionRules", f"{len(document.rules):,}"))
        found.append(Figure("of them failed", f"{failed:,}", State.FAILED if failed else State.DONE))
    if document.profiles:
        found.append(Figure("CloudProfiles", f"{len(document.profiles) + document.more_profiles:,}"))
    return tuple(found)


def remarks(document: ReportDocument) -> tuple[Remark, ...]:
    """Return the remarks that need action, failures first."""
    order = [State.FAILED, State.DUE, State.READY, State.DONE]
    return tuple(sorted(_remarks(document), key=lambda remark: order.index(remark.state)))


def _remarks(document: ReportDocument) -> Iterator[Remark]:
    if document.run is not None:
        for ran in document.run.crds:
            yield from _of_run(ran)
    for crd in document.crds:
        if crd.unseen:
            yield Remark(State.FAILED, "not seen", crd.name, crd.unseen)
        elif crd.stored != (crd.storage,):
            others = ", ".join(version.name for version in crd.versions if version.stored and not version.storage)
            why = f"objects may be stored at {others}" if others else "status.storedVersions is to be pruned"
            yield Remark(State.DUE, "migration due", crd.name, f"{why}: run restow migrate {crd.name}")
        elif crd.state is State.DUE:
            if any(owner.standing != "served" for owner in crd.owners):
                word, why = "migration due", "entries of versions that are no longer served remain"
            else:
                word, why = crd.word, f"no run has proved that every object is stored at {crd.storage}"
            yield Remark(State.DUE, word, crd.name, f"{why}: run restow migrate {crd.name}")
        for version in crd.versions:
            if version.state is State.READY:
                yield Remark(
                    State.READY, version.verdict, crd.name, _may_go(version, looked=crd.references is not None)
                )
    for rules in document.rules:
        if rules.failure:
            yield Remark(State.FAILED, "conversions", rules.name, rules.failure)
    for finding in document.plan.findings if document.plan else ():
        state = State.FAILED if finding.level == "unsafe" else State.DUE
        about = " ".join(part for part in (finding.crd, finding.release) if part)
        yield Remark(state, finding.level, about, f"{finding.problem}. {finding.fix}.")
    for profile in document.profiles:
        if profile.problem:
            yield Remark(State.FAILED, "not drawn", f"{profile.kind} {profile.name}", profile.problem)


def _may_go(version: VersionRow, *, looked: bool) -> str:
    """Return a sentence that the version can be removed, with what the page did not check."""
    ready = f"restow ready {version.crd} --drop {version.name}"
    if looked:
        return f"{version.name} {version.verdict}, as far as this page has looked; {ready} also asks the API servers"
    return f"{version.name} {version.verdict}, as far as its own objects show; {ready} also looks for references to it"


def _of_run(ran: RunCrd) -> Iterator[Remark]:
    if ran.refused:
        yield Remark(State.FAILED, "refused", ran.name, ran.refused)
    if ran.unfinished:
        yield Remark(State.FAILED, "unfinished", ran.name, ran.unfinished)
    if ran.objects.failed:
        yield Remark(State.FAILED, "failed", ran.name, f"{ran.objects.failed:,} objects could not be finished")
    for owner in ran.stripped_owners:
        sentence = f"{owner.entries:,} managedFields entries of {owner.manager} at {owner.api_version} were stripped"
        yield Remark(State.DUE, "stripped", ran.name, sentence)
    for owner in ran.kept_owners:
        sentence = f"{owner.entries:,} managedFields entries of {owner.manager} at {owner.api_version} were kept"
        yield Remark(State.DONE, "kept", ran.name, sentence)
    for warning in ran.warnings:
        yield Remark(State.DUE, "warning", ran.name, warning)

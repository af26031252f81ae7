"""What a page says first: a few figures, and everything that somebody should act on, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from restow.report.model import Document, State, VersionRow
from restow.report.run import RunCrd

__all__ = ["Figure", "Remark", "figures", "remarks"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, and what it counts."""

    label: str
    value: str
    state: State = State.SETTLED


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence about something, usually a CRD."""

    state: State
    word: str
    about: str
    sentence: str


def figures(document: Document) -> tuple[Figure, ...]:
    """Return the figures that head the page."""
    found = []
    if document.crds:
        versions = [version for crd in document.crds for version in crd.versions]
        due = sum(crd.state is State.DUE for crd in document.crds)
        old = sum(crd.old for crd in document.crds)
        ready = sum(version.state is State.READY for version in versions)
        found += [
            Figure("CRDs", f"{len(document.crds):,}"),
            Figure("objects", f"{sum(crd.objects or 0 for crd in document.crds):,}"),
            Figure("CRDs with work due", f"{due:,}", State.DUE if due else State.SETTLED),
            Figure("objects owned at other versions", f"{old:,}", State.DUE if old else State.SETTLED),
            Figure("versions that may go", f"{ready:,}", State.READY if ready else State.SETTLED),
        ]
    if document.run is not None:
        counts = [crd.objects for crd in document.run.crds]
        failed = sum(each.failed for each in counts)
        found += [
            Figure("objects rewritten by the run", f"{sum(each.rewritten for each in counts):,}"),
            Figure("failed in the run", f"{failed:,}", State.FAILED if failed else State.SETTLED),
        ]
    if document.profiles:
        found.append(Figure("CloudProfiles", f"{len(document.profiles) + document.more_profiles:,}"))
    return tuple(found)


def remarks(document: Document) -> tuple[Remark, ...]:
    """Return what to act on, failures first."""
    order = [State.FAILED, State.DUE, State.READY, State.SETTLED]
    return tuple(sorted(_remarks(document), key=lambda remark: order.index(remark.state)))


def _remarks(document: Document) -> Iterator[Remark]:
    if document.run is not None:
        for ran in document.run.crds:
            yield from _of_run(ran)
    for crd in document.crds:
        if crd.unseen:
            yield Remark(State.FAILED, "not seen", crd.name, crd.unseen)
        elif crd.stored != (crd.storage,):
            others = ", ".join(name for name in crd.stored if name != crd.storage)
            sentence = f"objects may be stored at {others}: run restow migrate {crd.name}"
            yield Remark(State.DUE, "migration due", crd.name, sentence)
        elif crd.state is State.DUE:
            sentence = f"entries of versions that are no longer served remain: run restow migrate {crd.name}"
            yield Remark(State.DUE, "migration due", crd.name, sentence)
        for version in crd.versions:
            if version.state is State.READY:
                yield Remark(State.READY, version.verdict, crd.name, _may_go(version))
    for finding in document.plan.findings if document.plan else ():
        state = State.FAILED if finding.level == "unsafe" else State.DUE
        about = " ".join(part for part in (finding.crd, finding.release) if part)
        yield Remark(state, finding.level, about, f"{finding.problem}. {finding.fix}.")
    for profile in document.profiles:
        if profile.problem:
            yield Remark(State.FAILED, "not drawn", f"{profile.kind} {profile.name}", profile.problem)


def _may_go(version: VersionRow) -> str:
    """Say so, and what a page has not looked at."""
    checked = f"restow ready {version.crd} --drop {version.name} also looks for ownerReferences at it"
    return f"{version.name} {version.verdict}, as far as its own objects show; {checked}"


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
        yield Remark(State.SETTLED, "kept", ran.name, sentence)
    for warning in ran.warnings:
        yield Remark(State.DUE, "warning", ran.name, warning)

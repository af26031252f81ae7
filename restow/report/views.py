"""What is to be said of a CRD, from its document and what was counted on its objects. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from restow.crds import Crd, sort_versions
from restow.migrator.proof import may_be_stored, what_is_proved
from restow.migrator.readiness import Readiness, judge
from restow.report.model import CrdView, OwnerRow, State, VersionRow
from restow.report.tally import Tally

__all__ = ["view"]

_ASK_READY = (
    "this page looks at the objects of the CRD alone: restow ready {crd} --drop {version} asks the API servers as well"
)

_MOST_NAMED = 8
"""Managers named in a sentence; the table has all."""


def view(crd: Crd, word: str, tally: Tally | None, unseen: str = "") -> CrdView:
    """Return what is to be said of a CRD.

    Args:
        crd: as read.
        word: its state in a word or two, as ``restow status`` says it.
        tally: what was counted; None where its objects could not be listed.
        unseen: the sentence why not.
    """
    counted = Tally(crd.storage.api_version) if tally is None else tally
    versions = tuple(_version(crd, name, counted, seen=tally is not None) for name in _versions(crd, counted))
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
        unseen=unseen,
    )


def _state(crd: Crd, tally: Tally, unseen: str) -> State:
    if unseen:
        return State.FAILED
    blocking = any(_standing(crd, version) != "served" for version in tally.by_version)
    return State.SETTLED if not blocking and _migrated(crd) else State.DUE


def _migrated(crd: Crd) -> bool:
    """Whether every object is proved to be stored at the storage version, and storedVersions says no more."""
    return crd.stored_versions == (crd.storage.name,) and not what_is_proved(crd).doubt


def _versions(crd: Crd, tally: Tally) -> tuple[str, ...]:
    """All versions that anything still speaks of, the highest first."""
    prefix = f"{crd.group}/"
    entries = [each.removeprefix(prefix) for each in tally.by_version if each.startswith(prefix)]
    return sort_versions({*(each.name for each in crd.versions), *crd.stored_versions, *entries})


def _version(crd: Crd, name: str, tally: Tally, *, seen: bool) -> VersionRow:
    declared, may_be = crd.version(name), may_be_stored(crd)
    stored = name in may_be
    owned = tally.by_version[f"{crd.group}/{name}"]
    answer = judge(crd, name, objects=tally.objects, owners=_named(crd, name, tally), dependents=None)
    state, verdict = _verdict(crd, answer, seen=seen)
    is_storage = name == crd.storage.name
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
        else (*answer.notes, *((_ASK_READY.format(crd=crd.name, version=name),) if answer.ready else ())),
    )


def _verdict(crd: Crd, answer: Readiness, *, seen: bool) -> tuple[State, str]:
    found = crd.version(answer.version)
    if answer.version == crd.storage.name:
        return State.SETTLED, "stays: storage version"
    if not seen:
        return State.FAILED, "unknown"
    if answer.against_unserving:
        return State.DUE, "must stay"
    if answer.against_removal:
        served = found is not None and found.served
        return State.DUE, "may be unserved, not removed" if served else "migrate before it goes"
    if found is None:
        return State.SETTLED, "is gone"
    return State.READY, "may be unserved, then removed" if found.served else "may be removed"


def _named(crd: Crd, name: str, tally: Tally) -> dict[str, int]:
    """Objects by manager, as many as a sentence can hold."""
    version = f"{crd.group}/{name}"
    found = {manager: owner.objects for (manager, at), owner in tally.owners.items() if at == version}
    ranked = sorted(found.items(), key=lambda each: (-each[1], each[0]))
    named = dict(ranked[:_MOST_NAMED])
    rest = sum(count for _, count in ranked[_MOST_NAMED:])
    if version in tally.others:
        rest += tally.others[version].objects
    return named | ({"other managers": rest} if rest else {})


def _owners(crd: Crd, tally: Tally) -> Iterator[OwnerRow]:
    """The largest first."""
    for (manager, version), owner in sorted(tally.owners.items(), key=lambda each: (-each[1].objects, each[0])):
        yield _owner(crd, tally, manager, version, owner.objects, owner.newest)
    for version, owner in sorted(tally.others.items()):
        yield _owner(crd, tally, "", version, owner.objects, owner.newest, owners=owner.objects)


def _owner(
    crd: Crd, tally: Tally, manager: str, version: str, objects: int, newest: str, *, owners: int = 0
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
        state=State.SETTLED if standing == "served" and _migrated(crd) else State.DUE,
    )


def _standing(crd: Crd, api_version: str) -> str:
    group, _, name = api_version.rpartition("/")
    found = crd.version(name) if group == crd.group else None
    return "removed" if found is None else "served" if found.served else "unserved"

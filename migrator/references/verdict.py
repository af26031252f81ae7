"""Sentences about references that block unserving or removing a version. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from restow.crds import Crd
from restow.migrator.references.model import FoundReferences, Reference, ReferenceKind

MOST_EXAMPLES = 3
"""The most objects of each resource that a sentence names."""

_MOST_NAMED = 8
"""The most resources that a sentence names; the JSON has all."""

_NOUNS = {
    ReferenceKind.TYPED: "typed references",
    ReferenceKind.HELM: "objects in Helm releases",
    ReferenceKind.FLUX: "entries of Flux inventories",
    ReferenceKind.ARGO_CD: "resources of Argo CD Applications",
    ReferenceKind.OLM: "CRDs of ClusterServiceVersions",
    ReferenceKind.CROSSPLANE: "versions of Crossplane's definitions",
    ReferenceKind.ADMISSION: "admission rules",
    ReferenceKind.API_SERVICES: "APIServices",
    ReferenceKind.LAST_APPLIED: "last-applied annotations",
    ReferenceKind.MANAGED_FIELDS: "managedFields entries",
    ReferenceKind.CLIENTS: "requests",
    ReferenceKind.AUDIT_LOG: "requests of an audit log",
    ReferenceKind.FILES: "places in files",
}


def against_unserving(crd: Crd, version: str, found: FoundReferences) -> list[str]:
    """Return a sentence for each sort of references that needs the version served."""
    return [*_owners(crd, version, found), *_others(found, unserve=True)]


def against_removal(crd: Crd, version: str, found: FoundReferences) -> list[str]:
    """Return a sentence for each sort of references that needs the version in the CRD."""
    return [*_owners(crd, version, found), *_others(found, unserve=False)]


def _owners(crd: Crd, version: str, found: FoundReferences) -> Iterable[str]:
    groups = list(found.of_kind(ReferenceKind.OWNER_REFERENCES))
    if not groups:
        return
    count = sum(objects for _, objects, _ in groups)
    have = f"{count} objects have" if count > 1 else "1 object has"
    where = [f"{resource}: {objects}, {_examples(kept)}" for resource, objects, kept in groups]
    head = f"{have} ownerReferences at {crd.group}/{version} ({_listed(where, '; ')})"
    to = next(iter(found.of.others), "")
    write = f"Write these references at {to}, with the same uid" if to else "Serve another version to write them at"
    does = f". {found.of.moving(to)} does it" if to else ""
    if version in crd.served:
        yield (
            f"{head}: the garbage collector looks for an owner at the version that the reference names. Once {version} "
            "is not served, it no longer deletes these objects with their owner, and for about half a minute it "
            f"deletes objects that are created with such a reference although their owner exists. {write}, before "
            f"{version} is unserved{does}"
        )
    else:
        yield (
            f"{head}: {version} is not served, so the garbage collector does not find the owner, and does not delete "
            f"these objects with it. {write}{does}"
        )


def _others(found: FoundReferences, *, unserve: bool) -> Iterable[str]:
    sorts: dict[tuple[ReferenceKind, str, str], list[str]] = {}
    for (kind, resource, effect), count in found.effects.items():
        stands = effect.against_unserving if unserve else effect.against_removal
        if kind is not ReferenceKind.OWNER_REFERENCES and stands:
            what = effect.unserved if unserve else effect.removed
            kept = [
                each for each in found.references if (each.kind, each.resource, each.effect) == (kind, resource, effect)
            ]
            place = f"{resource}: {count}, {_examples(kept)}"
            sorts.setdefault((kind, what.rstrip("."), effect.advice), []).append(place)
    for (kind, what, advice), where in sorts.items():
        yield (
            f"{_NOUNS[kind]} are at {found.of.api_version} ({_listed(where, '; ')}). "
            f"{'Once it is not served' if unserve else 'Once it is removed'}: {what[0].lower()}{what[1:]}. "
            f"What to do: {advice}"
        )


def _examples(references: list[Reference]) -> str:
    names = list(dict.fromkeys(each.key for each in references))[:MOST_EXAMPLES]
    return f"for example {', '.join(names)}"


def standing(found: FoundReferences) -> str:
    """Return a sentence with the numbers of references that block the two steps, and how to see and move them."""
    of = found.of
    unserving, removal = found.against_unserving, found.against_removal
    if not removal and not unserving:
        return f"nothing that was looked at names {of.version} and fails without it"
    show = f"restow references {of.crd} --version {of.version}"
    said = (
        f"against unserving {of.version} stand {_counted(unserving)}, against removing it {_counted(removal)}: "
        f"{show} shows them"
    )
    movable = sum(count for (_kind, _resource, effect), count in found.effects.items() if effect.movable)
    if movable and of.others:
        said += f", and with --move {of.others[0]} writes those that it can at {of.others[0]}"
    return said


def _counted(counts: Counter[ReferenceKind]) -> str:
    if not counts:
        return "no references"
    total = sum(counts.values())
    listed = ", ".join(f"{kind.value} {count}" for kind, count in counts.items())
    return f"{total} reference{'' if total == 1 else 's'} ({listed})"


def not_looked_at(crd: Crd, version: str, found: FoundReferences) -> str:
    """Return a sentence with the resources that may have more references; empty if all were searched."""
    if not found.not_looked_at:
        return ""
    by_reason: dict[str, list[str]] = {}
    for each in found.not_looked_at:
        by_reason.setdefault(each.reason, []).append(each.resource)
    parts = [f"{_listed(names, ', ')} ({reason})" for reason, names in by_reason.items()]
    return (
        f"restow has not looked for references to {crd.group}/{version} everywhere, so there may be more of them. "
        f"Not looked at: {_listed(parts, '; ')}"
    )


def _listed(parts: Iterable[str], between: str) -> str:
    every = list(parts)
    more = len(every) - _MOST_NAMED
    return between.join(every[:_MOST_NAMED]) + (f"{between}and {more} more" if more > 0 else "")

"""References to a version, the effect of the version's removal on them, their counts, and sentences about them.

A scan can find any number of references. ``ReferenceTally`` counts all of them and keeps the first few of each
resource and effect, so that memory is bounded. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

from restow.crds import Crd
from restow.kube.resources import qualified_name

MOST_KEPT: Final = 100
"""The most references of each kind, resource and effect that are kept with their names; all are counted."""


class ReferenceKind(StrEnum):
    """The sort of place that names a version."""

    OWNER_REFERENCES = "owner-references"
    TYPED = "typed"
    HELM = "helm"
    FLUX = "flux"
    ARGO_CD = "argo-cd"
    OLM = "olm"
    CROSSPLANE = "crossplane"
    ADMISSION = "admission"
    API_SERVICES = "api-services"
    LAST_APPLIED = "last-applied"
    MANAGED_FIELDS = "managed-fields"
    CLIENTS = "clients"
    AUDIT_LOG = "audit-log"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class SoughtVersion:
    """A version of a CRD to search for, with all that a reader needs.

    Attributes:
        group, version, kind, plural: as in the CRD.
        others: the other served versions, the storage version first.
        list_kind: the kind of lists; by default ``<kind>List``.
    """

    group: str
    version: str
    kind: str
    plural: str
    others: tuple[str, ...] = ()
    list_kind: str = ""

    @property
    def types(self) -> tuple[str, str, str]:
        """The names of the type: kind, kind of lists, plural."""
        return self.kind, self.list_kind or f"{self.kind}List", self.plural

    @property
    def api_version(self) -> str:
        """``group/version``."""
        return f"{self.group}/{self.version}"

    @property
    def crd(self) -> str:
        """The name of the CRD."""
        return f"{self.plural}.{self.group}"

    def moving(self, to: str) -> str:
        """Return the command that writes references to this version at another one."""
        return f"restow references {self.crd} --version {self.version} --move {to}"

    def __str__(self) -> str:
        return f"{self.kind} at {self.api_version}"


def sought(crd: Crd, version: str) -> SoughtVersion:
    """Return the version to search for, which the CRD may no longer have."""
    others = sorted((name for name in crd.served if name != version), key=lambda name: name != crd.storage.name)
    return SoughtVersion(crd.group, version, crd.kind, crd.plural, tuple(others), crd.list_kind)


def old_versions(crd: Crd) -> tuple[SoughtVersion, ...]:
    """Return the versions of a CRD that may be removed: all that it has or may store, except the storage version."""
    known = {*(each.name for each in crd.versions), *crd.stored_versions}
    return tuple(sought(crd, version) for version in sorted(known - {crd.storage.name}))


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of unserving or removing a version on references of one sort.

    Attributes:
        unserved, removed: a sentence for each step, without "when the version is unserved".
        against_unserving, against_removal: whether the step should wait until the reference is changed.
        advice: a clause about what to do.
        movable: whether ``restow references --move`` can write the reference at another version.
        same_fields: whether it does so only if both versions have the same fields, since those who follow the reference
            read objects with the fields of the version.
    """

    unserved: str
    removed: str
    advice: str
    against_unserving: bool = True
    against_removal: bool = True
    movable: bool = False
    same_fields: bool = False


def same_effect(what: str, advice: str, *, stands: bool = True, movable: bool = False, **more: bool) -> Effect:
    """Return an effect that is the same for an unserved and a removed version, and stands against both or neither."""
    return Effect(what, what, advice, stands, stands, movable, **more)


@dataclass(frozen=True, slots=True)
class Reference:
    """One place that names a version.

    Attributes:
        kind: the sort of place.
        of: the version that it names.
        resource: ``deployments.apps``, or the name of a file or log.
        namespace, name: the object.
        where: a JSON pointer, or a line.
        detail: further information, such as the revision of a release.
        effect: the effect of unserving or removing the version.
        count: the number of references that this one represents.
        guess: whether the place may only look like a reference.
        field, template: the JSON pointer of the text that names the version, and this text with ``{}`` for it.
    """

    kind: ReferenceKind
    of: SoughtVersion
    resource: str
    namespace: str
    name: str
    where: str
    detail: str
    effect: Effect
    count: int = 1
    guess: bool = False
    field: str = ""
    template: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return qualified_name(self.namespace, self.name)

    def to_json(self) -> dict[str, Any]:
        """Return an item of ``references`` in the JSON of ``restow references``."""
        return {
            "kind": self.kind.value,
            "resource": self.resource,
            "namespace": self.namespace,
            "name": self.name,
            "where": self.where,
            "detail": self.detail,
            "count": self.count,
            "guess": self.guess,
            "whenUnserved": self.effect.unserved,
            "whenRemoved": self.effect.removed,
            "againstUnserving": self.effect.against_unserving,
            "againstRemoval": self.effect.against_removal,
            "movable": self.effect.movable,
            "advice": self.effect.advice,
        }


@dataclass(frozen=True, slots=True, order=True)
class NotLookedAt:
    """A place that could not be searched.

    Attributes:
        resource: ``deployments.apps``, ``/apis/metrics.k8s.io/v1beta1``, or an object or file that cannot be read.
        reason: the reason, as text.
    """

    resource: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return an item of ``notLookedAt`` in the JSON of ``restow references`` and ``restow ready``."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Looked:
    """The extent of a search: the numbers of resources, of their objects, and of requests."""

    resources: int = 0
    objects: int = 0
    requests: int = 0

    def to_json(self) -> dict[str, int]:
        """Return ``looked`` in the JSON of ``restow references``."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class FoundReferences:
    """The references to one version.

    Attributes:
        of: the version.
        references: the first of each kind, resource and effect, at most ``MOST_KEPT``.
        effects: the numbers of references by kind, resource and effect, including those that were not kept.
        objects: the numbers of objects with references, by kind and resource.
        not_looked_at: the places that could not be searched and may have more.
        notes: sentences about what no search can show.
        looked: the extent of the search.
    """

    of: SoughtVersion
    references: tuple[Reference, ...] = ()
    effects: dict[tuple[ReferenceKind, str, Effect], int] = field(default_factory=dict)
    objects: dict[tuple[ReferenceKind, str], int] = field(default_factory=dict)
    not_looked_at: tuple[NotLookedAt, ...] = ()
    notes: tuple[str, ...] = ()
    looked: Looked = Looked()

    @property
    def count(self) -> int:
        """The number of references."""
        return sum(self.effects.values())

    @property
    def against_unserving(self) -> Counter[ReferenceKind]:
        """The numbers of references that need the version served, by kind."""
        return self._by_kind(lambda effect: effect.against_unserving)

    @property
    def against_removal(self) -> Counter[ReferenceKind]:
        """The numbers of references that need the version in the CRD, by kind."""
        return self._by_kind(lambda effect: effect.against_removal)

    def _by_kind(self, chosen: Callable[[Effect], bool]) -> Counter[ReferenceKind]:
        found: Counter[ReferenceKind] = Counter()
        for (kind, _resource, effect), count in self.effects.items():
            if chosen(effect):
                found[kind] += count
        return found

    def of_kind(self, kind: ReferenceKind) -> Iterator[tuple[str, int, list[Reference]]]:
        """Yield (resource, number of objects, kept references) of one kind, by resource."""
        for (each, resource), objects in self.objects.items():
            if each is kind:
                yield (
                    resource,
                    objects,
                    [one for one in self.references if (one.kind, one.resource) == (kind, resource)],
                )

    def to_json(self) -> dict[str, Any]:
        """Return an item of ``versions`` in the JSON of ``restow references``."""
        return {
            "name": self.of.crd,
            "version": self.of.version,
            "kind": self.of.kind,
            "count": self.count,
            "counts": _named(self._by_kind(lambda _effect: True)),
            "againstUnserving": _named(self.against_unserving),
            "againstRemoval": _named(self.against_removal),
            "references": [each.to_json() for each in self.references],
            "notLookedAt": [each.to_json() for each in self.not_looked_at],
            "notes": list(self.notes),
            "looked": self.looked.to_json(),
        }


def _named(counts: Counter[ReferenceKind]) -> dict[str, int]:
    return {kind.value: count for kind, count in counts.items()}


@dataclass(slots=True)
class _Group:
    objects: int = 0
    last: tuple[str, str] | None = None
    counts: Counter[Effect] = field(default_factory=Counter)
    kept: dict[Effect, list[Reference]] = field(default_factory=dict)


class ReferenceTally:
    """Counts references over any number of objects in bounded memory.

    The caller adds all references of one object in succession, because the tally counts objects in this way. There are
    few effects, because each reader has its own ones. The tally keeps some references of each, so that a hundred
    harmless ones do not hide one that fails.
    """

    def __init__(self, versions: Iterable[SoughtVersion]) -> None:
        self._groups: dict[SoughtVersion, dict[tuple[ReferenceKind, str], _Group]] = {each: {} for each in versions}

    def add(self, reference: Reference) -> None:
        """Count a reference; keep it if it is among the first."""
        group = self._groups[reference.of].setdefault((reference.kind, reference.resource), _Group())
        group.counts[reference.effect] += reference.count
        if group.last != (place := (reference.namespace, reference.name)):
            group.last = place
            group.objects += 1
        if len(kept := group.kept.setdefault(reference.effect, [])) < MOST_KEPT:
            kept.append(reference)

    def found(self, unseen: Iterable[NotLookedAt], notes: Iterable[str] = ()) -> dict[SoughtVersion, FoundReferences]:
        """Return the references to each version; kinds are in the order of the enum, resources sorted by name."""
        missed, said = tuple(sorted(set(unseen))), tuple(notes)
        order = list(ReferenceKind)
        made = {}
        for version, groups in self._groups.items():
            listed = sorted(groups.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
            made[version] = FoundReferences(
                of=version,
                references=tuple(each for _, group in listed for kept in group.kept.values() for each in kept),
                effects={(*key, effect): count for key, group in listed for effect, count in group.counts.items()},
                objects={key: group.objects for key, group in listed},
                not_looked_at=missed,
                notes=said,
            )
        return made


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

"""What a reference to a version is, what happens to it when the version goes, and how references are counted.

A scan meets any number of references. ``ReferenceTally`` counts all of them and keeps the first few of each resource
and effect, so that memory is bounded. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from restow.crds import Crd
from restow.kube.resources import qualified_name

__all__ = [
    "MOST_KEPT",
    "Effect",
    "FoundReferences",
    "Looked",
    "NotLookedAt",
    "Reference",
    "ReferenceKind",
    "ReferenceTally",
    "SoughtVersion",
    "old_versions",
    "sought",
]

MOST_KEPT: Final = 100
"""References of each kind, resource and effect that are kept, with their names; all are counted."""


class ReferenceKind(StrEnum):
    """Where a version is named."""

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
    """A version of a CRD that is to go, and all that a reader needs to know of it.

    Attributes:
        group, version, kind, plural: as the CRD has them.
        others: the other served versions, that of storage first.
    """

    group: str
    version: str
    kind: str
    plural: str
    others: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """``group/version``."""
        return f"{self.group}/{self.version}"

    @property
    def crd(self) -> str:
        """Name of the CRD."""
        return f"{self.plural}.{self.group}"

    def __str__(self) -> str:
        return f"{self.kind} at {self.api_version}"


def sought(crd: Crd, version: str) -> SoughtVersion:
    """Return what to look for; the CRD need not have the version any more."""
    others = sorted((name for name in crd.served if name != version), key=lambda name: name != crd.storage.name)
    return SoughtVersion(crd.group, version, crd.kind, crd.name.partition(".")[0], tuple(others))


def old_versions(crd: Crd) -> tuple[SoughtVersion, ...]:
    """Return what to look for of a CRD whose versions may go: all that it has, or may store, but that of storage."""
    known = {*(each.name for each in crd.versions), *crd.stored_versions}
    return tuple(sought(crd, version) for version in sorted(known - {crd.storage.name}))


@dataclass(frozen=True, slots=True)
class Effect:
    """What happens to references of one sort when the version goes.

    Attributes:
        unserved, removed: a sentence each; without "when the version is unserved".
        against_unserving, against_removal: whether the step should wait for the reference.
        advice: what to do about it, a clause.
        movable: whether ``restow references --move`` can write it at another version.
    """

    unserved: str
    removed: str
    advice: str
    against_unserving: bool = True
    against_removal: bool = True
    movable: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """One place that names a version.

    Attributes:
        kind: the sort of place.
        of: the version that it names.
        resource: ``deployments.apps``; of a file or a log its name.
        namespace, name: of the object.
        where: a JSON pointer, or a line.
        detail: what else there is to say, such as the revision of a release.
        effect: what happens when the version goes.
        count: how many such references this one stands for.
        guess: whether the place may only look like a reference.
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
    """What could not be looked at.

    Attributes:
        resource: ``deployments.apps``, ``/apis/metrics.k8s.io/v1beta1``, or an object or file that cannot be read.
        reason: why, in words.
    """

    resource: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return an item of ``notLookedAt`` in the JSON of ``restow references`` and ``restow ready``."""
        return {"resource": self.resource, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Looked:
    """How much was looked at: resources, objects of them, and the requests that it took."""

    resources: int = 0
    objects: int = 0
    requests: int = 0

    def to_json(self) -> dict[str, int]:
        """Return ``looked`` in the JSON of ``restow references``."""
        return {"resources": self.resources, "objects": self.objects, "requests": self.requests}


@dataclass(frozen=True, slots=True)
class FoundReferences:
    """The references to one version.

    Attributes:
        of: the version.
        references: the first of each kind, resource and effect, at most ``MOST_KEPT``.
        effects: how many references there are, by kind, resource and effect; those that were not kept included.
        objects: how many objects have them, by kind and resource.
        not_looked_at: where there may be more.
        notes: sentences about what no look can show.
        looked: how much was looked at.
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
        """How many references."""
        return sum(self.effects.values())

    @property
    def against_unserving(self) -> Counter[ReferenceKind]:
        """How many references need the version served, by kind."""
        return self._by_kind(lambda effect: effect.against_unserving)

    @property
    def against_removal(self) -> Counter[ReferenceKind]:
        """How many references need the version in the CRD, by kind."""
        return self._by_kind(lambda effect: effect.against_removal)

    def _by_kind(self, chosen: Callable[[Effect], bool]) -> Counter[ReferenceKind]:
        found: Counter[ReferenceKind] = Counter()
        for (kind, _resource, effect), count in self.effects.items():
            if chosen(effect):
                found[kind] += count
        return found

    def of_kind(self, kind: ReferenceKind) -> Iterator[tuple[str, int, list[Reference]]]:
        """Yield (resource, objects, the references kept) of one kind, by resource."""
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
    """Counts references, over any number of objects in a bounded space.

    The references of one object are added in a row: objects are counted by that. Effects are few: each reader has its
    own. Some references of each are kept, so that a hundred harmless ones do not hide one that fails.
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
        """Return what was counted, of each version; kinds in their order, resources in that of their names."""
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

"""Which objects name which owner, and what could not be looked at: counts, a few names, and sentences. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from restow.crds import Crd
from restow.kube.resources import qualified_name
from restow.migrator.wire import Meta

__all__ = ["MOST_EXAMPLES", "Dependents", "NotLookedAt", "Owner", "Referring", "Tally", "against", "not_looked_at"]

MOST_EXAMPLES = 3
"""Objects of each resource that are named; all are counted."""

_MOST_NAMED = 8
"""Resources that a sentence names; the JSON has all."""


@dataclass(frozen=True, slots=True)
class Owner:
    """What an ownerReference says of its owner but the name: ``Owner("example.com/v1", "Widget")``."""

    api_version: str
    kind: str


@dataclass(frozen=True, slots=True)
class Referring:
    """The objects of one resource that name an owner.

    Attributes:
        resource: ``deployments.apps``.
        count: how many objects.
        examples: some of them, ``namespace/name``.
    """

    resource: str
    count: int
    examples: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return an item of ``dependents`` in the JSON of ``restow ready``."""
        return {"resource": self.resource, "count": self.count, "examples": list(self.examples)}

    def __str__(self) -> str:
        return f"{self.resource}: {self.count}, for example {', '.join(self.examples)}"


@dataclass(frozen=True, slots=True, order=True)
class NotLookedAt:
    """A resource whose objects could not be listed, or a path of discovery that could not be read.

    Attributes:
        resource: ``deployments.apps``, or ``/apis/metrics.k8s.io/v1beta1``.
        reason: why, in words.
    """

    resource: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return an item of ``notLookedAt`` in the JSON of ``restow ready``."""
        return {"resource": self.resource, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Dependents:
    """The objects that name one owner, by resource; and where objects may name it that were not looked at."""

    found: tuple[Referring, ...] = ()
    not_looked_at: tuple[NotLookedAt, ...] = ()

    @property
    def count(self) -> int:
        """How many objects."""
        return sum(each.count for each in self.found)


@dataclass(slots=True)
class _Counted:
    count: int = 0
    examples: list[str] = field(default_factory=list)


class Tally:
    """Counts the objects that name any of some owners, over any number of objects in a bounded space."""

    def __init__(self, owners: Collection[Owner]) -> None:
        self._counted: dict[Owner, dict[str, _Counted]] = {owner: {} for owner in owners}

    def add(self, resource: str, meta: Meta) -> None:
        """Count one object; one that names an owner twice counts once."""
        for owner in {Owner(each.api_version, each.kind) for each in meta.owner_references}:
            if (by_resource := self._counted.get(owner)) is None:
                continue
            counted = by_resource.setdefault(resource, _Counted())
            counted.count += 1
            if len(counted.examples) < MOST_EXAMPLES:
                counted.examples.append(qualified_name(meta.namespace, meta.name))

    def dependents(self, unseen: Iterable[NotLookedAt]) -> dict[Owner, Dependents]:
        """Return what was counted, of each owner; resources in the order of their names."""
        missed = tuple(sorted(set(unseen)))
        return {
            owner: Dependents(
                tuple(
                    Referring(resource, counted.count, tuple(counted.examples))
                    for resource, counted in sorted(by_resource.items())
                ),
                missed,
            )
            for owner, by_resource in self._counted.items()
        }


def against(crd: Crd, version: str, dependents: Dependents) -> str:
    """Say why a version must stay served while objects name their owner by it; an empty string where none does."""
    if not dependents.found:
        return ""
    count = dependents.count
    have = f"{count} objects have" if count > 1 else "1 object has"
    head = f"{have} ownerReferences at {crd.group}/{version} ({_listed(map(str, dependents.found), '; ')})"
    to = _other(crd, version)
    write = f"Write these references at {to}, with the same uid" if to else "Serve another version to write them at"
    if version in crd.served:
        return (
            f"{head}: the garbage collector looks for an owner at the version that the reference names. Once {version} "
            "is not served, it no longer deletes these objects with their owner, and for about half a minute it "
            f"deletes objects that are created with such a reference although their owner exists. {write}, before "
            f"{version} is unserved"
        )
    return (
        f"{head}: {version} is not served, so the garbage collector does not find the owner, and does not delete "
        f"these objects with it. {write}"
    )


def not_looked_at(crd: Crd, version: str, dependents: Dependents) -> str:
    """Say which resources may hold more such objects; an empty string where all were looked at."""
    if not dependents.not_looked_at:
        return ""
    by_reason: dict[str, list[str]] = {}
    for each in dependents.not_looked_at:
        by_reason.setdefault(each.reason, []).append(each.resource)
    parts = [f"{_listed(names, ', ')} ({reason})" for reason, names in by_reason.items()]
    return (
        f"restow has not looked for ownerReferences at {crd.group}/{version} everywhere, so there may be more of them. "
        f"Not looked at: {_listed(parts, '; ')}"
    )


def _other(crd: Crd, version: str) -> str:
    """The version to write references at: that of storage if it is served and stays, else another served one."""
    others = [name for name in crd.served if name != version]
    return crd.storage.name if crd.storage.name in others else next(iter(others), "")


def _listed(parts: Iterable[str], between: str) -> str:
    every = list(parts)
    more = len(every) - _MOST_NAMED
    return between.join(every[:_MOST_NAMED]) + (f"{between}and {more} more" if more > 0 else "")

"""Decide whether ``status.storedVersions`` may be pruned (``may_prune``).

The API server does not check a prune: it accepts a wrong one, and silently loses the objects that are stored at a
dropped version.

A prune is safe only if the pass that just ended wrote every object at the storage version, and if that version was the
storage version *all the time in between*. After v2→v1→v2 the uid, the storage version and storedVersions are the same
as before; only ``metadata.generation`` differs, and the rotation of a certificate changes it too. ``Generations``
collects the generations that a watch saw.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from restow.crds import Crd

Fingerprint = tuple[tuple[str, bool, bool], ...]


@dataclass(frozen=True, slots=True)
class PruneVerdict:
    """Whether to prune; if not, ``reason`` is a sentence, and ``again`` says that another pass may succeed."""

    prune: bool
    reason: str = ""
    again: bool = False


@dataclass(slots=True)
class Generations:
    """The versions and storage flags of a CRD by generation, as a watch showed them."""

    seen: dict[int, Fingerprint] = field(default_factory=dict)

    def add(self, crd: Crd) -> None:
        """Record a state of the CRD."""
        self.seen[crd.generation] = crd.fingerprint

    def unbroken(self, first: int, last: int, storage: str) -> bool:
        """Return whether the watch saw every generation from first to last, each with this storage version.

        The result is False if the generation decreased, as after a restore of etcd from a backup.
        """
        return first <= last and all(
            (versions := self.seen.get(generation)) is not None and _storage_of(versions) == storage
            for generation in range(first, last + 1)
        )

    def storages(self) -> tuple[str, ...]:
        """Return the storage versions in the order of their generations, without consecutive repetitions."""
        order: list[str] = []
        for generation in sorted(self.seen):
            storage = _storage_of(self.seen[generation])
            if not order or order[-1] != storage:
                order.append(storage)
        return tuple(order)


def may_prune(start: Crd, now: Crd, generations: Generations) -> PruneVerdict:
    """Decide, after a pass that finished every object, whether storedVersions may be set to the storage version.

    Args:
        start: the CRD as read before the objects were listed.
        now: the CRD as just read, whose resourceVersion is the precondition of the prune.
        generations: the generations that a watch of the CRD saw since ``start``; empty without one.
    """
    name, storage = start.name, start.storage.name
    if now.uid != start.uid:
        return PruneVerdict(prune=False, reason=f"{name} was deleted and created again during the run", again=True)
    if now.terminating:
        return PruneVerdict(prune=False, reason=f"{name} is being deleted")
    if now.storage.name != storage:
        reason = f"the storage version of {name} changed from {storage} to {now.storage.name} during the run"
        return PruneVerdict(prune=False, reason=reason, again=True)
    unknown = set(now.stored_versions) - set(start.stored_versions) - {storage}
    if unknown:
        reason = f"{', '.join(sorted(unknown))} joined status.storedVersions of {name} during the run"
        return PruneVerdict(prune=False, reason=reason, again=True)
    if now.generation == start.generation:
        return PruneVerdict(prune=True)
    if now.generation == start.generation + 1 and now.fingerprint == start.fingerprint:
        return PruneVerdict(prune=True)  # one edit that kept versions and storage, such as a CA bundle, a schema
    if generations.unbroken(start.generation, now.generation, storage):
        return PruneVerdict(prune=True)
    return PruneVerdict(prune=False, reason=_unproven(start, now, generations), again=True)


def _unproven(start: Crd, now: Crd, generations: Generations) -> str:
    flips = generations.storages()
    if len(flips) > 1:
        return f"the storage version of {start.name} went {' → '.join(flips)} during the run"
    return (
        f"{start.name} went from generation {start.generation} to {now.generation} during the run, and what changed in "
        "between was not seen: the storage version may have been another one for a while"
    )


def _storage_of(versions: Fingerprint) -> str:
    return next(name for name, _served, storage in versions if storage)

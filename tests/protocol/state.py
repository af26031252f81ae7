"""The states of the protocol's model, and the two judgements of restow that it is about.

Versions are 0 and 1 (v1 and v2), generations count from 0 (shown from 1), sets of versions are bit masks.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.protocol.rules import Rules

__all__ = [
    "BOTH",
    "IDLE",
    "NOT_ASKED",
    "UNFINISHED",
    "Asked",
    "Backup",
    "Mark",
    "Run",
    "State",
    "bit",
    "fit",
    "proven",
    "unbroken",
]

BOTH = 0b11


class Mark(NamedTuple):
    """What a run proved: the generation (and by it the storage version) and the native failure that it knew."""

    generation: int
    failure: int


UNFINISHED = Mark(-1, -1)


class Run(NamedTuple):
    """A migrator. ``step`` names its next request.

    Attributes:
        generation: of the CRD that it goes by: as read at its start, from ``prune`` on as read at its end.
        storage: the storage version then.
        at: the server or object that is next; in ``settle`` whether a request has to end first; from ``prune`` on the
            native failure that it read.
        stale: whether the CRD was written since it was read.
        failed: whether an object's write failed.
        knew: whether its start saw an "unfinished"; from ``prune`` on, whether it may leave a mark.
        late: whether another run left an "unfinished" since its start (for the third invariant only).
        epoch: whether it takes etcd for the one of its start.
        backed_up: whether the backup has its token.
    """

    step: str
    generation: int = 0
    storage: int = 0
    at: int = 0
    stale: bool = False
    failed: bool = False
    knew: bool = False
    late: bool = False
    epoch: bool = True
    backed_up: bool = False


class Asked(NamedTuple):
    """A ``ready --drop version`` under way, ``answer`` is its end."""

    step: str
    version: int = 0
    generation: int = 0
    at: int = 0
    changed: bool = False


class Backup(NamedTuple):
    """What etcd held; see ``State``."""

    history: tuple[int, ...]
    stored: int
    mark: Mark | None
    failures: int
    objects: tuple[int, ...]
    guarded: bool


class State(NamedTuple):
    """Everything there is.

    Attributes:
        history: the storage version of each generation; the last one is now.
        stored: status.storedVersions.
        failures: how often a native migration failed.
        servers: the generations that each one's watch cache and its handlers have reached.
        lingering: the version of a request that has begun and is not stored yet, or -1.
        begun: the generation of the CRD when it began.
        guarded: whether restow has written since others trimmed storedVersions (for the second invariant only).
        overwritten: whether a mark took the place of a later "unfinished" (for the third invariant only).
        wired: whether the strategy is Webhook, where that matters.
        unwire: what ``unwire`` knows: nothing, a CRD that it has judged, or one that was written since.
    """

    history: tuple[int, ...]
    stored: int
    mark: Mark | None
    failures: int
    objects: tuple[int, ...]
    servers: tuple[tuple[int, int], ...]
    runs: tuple[Run, ...]
    asked: Asked
    lingering: int = -1
    begun: int = 0
    guarded: bool = True
    overwritten: bool = False
    backup: Backup | None = None
    wired: bool = True
    unwire: str = ""

    @property
    def held(self) -> Backup:
        """What etcd holds."""
        return Backup(self.history, self.stored, self.mark, self.failures, self.objects, self.guarded)


IDLE = Run("read")
NOT_ASKED = Asked("ask")


def bit(version: int) -> int:
    """Return the set of this version alone."""
    return 1 << version


def proven(state: State, rules: Rules, *, evidence: bool, forged: bool = False) -> bool:
    """Whether a mark proves that every object is stored at the storage version.

    Args:
        state: of the CRD.
        rules: the switches.
        evidence: whether managedFields show which changes left the storage version alone, or say nothing.
        forged: whether they may show that wrongly.
    """
    mark, now = state.mark, len(state.history) - 1
    exact = state.stored == bit(state.history[now])
    if not rules.proof_is_a_mark:
        return exact
    if mark is None or mark is UNFINISHED or mark == UNFINISHED:
        return False
    if rules.mark_has_storage and state.history[mark.generation] != state.history[now]:
        return False
    if (rules.mark_has_failure and mark.failure != state.failures) or (rules.mark_needs_exact and not exact):
        return False
    jump = now - mark.generation
    if not rules.mark_has_generation or jump <= (1 if rules.one_change_unseen else 2):
        return True
    return evidence and (forged or len(set(state.history[mark.generation :])) == 1)


def fit(reached: int, generation: int, stores: bool, rules: Rules) -> bool:
    """Whether an API server that restow looks at may be relied on.

    Args:
        reached: the generation that its watch cache shows.
        generation: the one that restow read; a server may be ahead of it.
        stores: whether discovery shows that it stores at the storage version.
        rules: the switches.
    """
    if not rules.looks_at_generation:
        return stores
    return reached >= generation and (stores or not rules.looks_at_hash)


def unbroken(history: tuple[int, ...], start: int, storage: int, *, seen: bool) -> bool:
    """Whether a run may conclude from its first generation to the last.

    Args:
        history: the storage version of each generation.
        start, storage: the generation at its start, and the storage version then.
        seen: whether a watch saw every generation since.
    """
    jump = len(history) - 1 - start
    if jump < 0 or (jump > 1 and not seen):
        return False
    return set(history[start + 1 :] or history[-1:]) == {storage}

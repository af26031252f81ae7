"""The rules of the protocol and the assumptions that it rests on, each a switch, and the bounds of a search."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Assumptions", "Bounds", "Rules", "StrategyBounds"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What restow does; all on is the protocol, one off shows what that one is for."""

    proof_is_a_mark: bool = True
    """Only a mark of restow's own proves anything; off: an exact storedVersions does."""
    mark_has_generation: bool = True
    """A mark holds for its generation and the next; off: for every generation with the same storage version."""
    mark_has_storage: bool = True
    """A mark holds for its storage version only."""
    one_change_unseen: bool = True
    """A mark holds over one change that no one saw; off: over two."""
    mark_has_failure: bool = True
    """A mark holds until the cluster's own migration fails once more."""
    mark_needs_exact: bool = True
    """A mark holds only while storedVersions names the storage version alone; off: what is left then is to prune."""
    writes_every_object: bool = True
    """A run without a proof writes every object; off: none, where storedVersions names the storage version alone."""
    failures_block: bool = True
    """A run in which an object failed neither prunes nor leaves a mark."""
    puts_back: bool = True
    """A run without a proof first puts the other versions back into storedVersions."""
    looks: bool = True
    """A run looks at every API server before it lists."""
    looks_at_generation: bool = True
    """That look asks for the generation of the CRD that the server has reached."""
    looks_at_hash: bool = True
    """That look asks for the version at which a server stores that has reached just this generation."""
    looks_again: bool = True
    """A run looks at every API server after its writes, too."""
    generations_unbroken: bool = True
    """A run concludes only over generations known to have its storage version; off: if it is the same at the end."""
    prune_compares: bool = True
    """The prune is written only if the CRD is as it was judged."""
    mark_compares: bool = True
    """The mark is written only if the CRD is as it was judged."""
    minds_unfinished: bool = True
    """A run leaves no mark over an "unfinished" that appeared since its start."""
    ready_looks: bool = True
    """``ready`` looks at every API server."""
    ready_reads_twice: bool = True
    """``ready`` reads the CRD again at the end, and says no if it changed."""
    epoch_is_compared: bool = True
    """A run proves nothing if its token, or the order of resourceVersions, is gone: etcd was restored."""
    token_before_the_look: bool = True
    """The token is on the CRD before the look; off: before the first write."""
    settles_after_the_look: bool = True
    """A run waits until every request has ended that began before its look; off: before the CRD's last change."""
    strategy_is_compared: bool = True
    """A run asks whether the CRD has what its decisions used, and judges again what it wrote since it last asked."""
    strategies_unbroken: bool = True
    """It asks for every generation since; off: for the last one."""
    what_is_unclear_fails: bool = True
    """An object fails that is stored neither as it was decided nor as the present CRD has it."""
    unwire_asks_for_the_proof: bool = True
    """``unwire`` needs a valid mark; off: an exact storedVersions."""
    unwire_compares: bool = True
    """``unwire`` sets strategy None only on the CRD that it has judged."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What restow takes for granted about a cluster; one off shows what comes of it."""

    all_servers_seen: bool = True
    """restow can look at every API server; off: not at the last one."""
    serves_what_it_shows: bool = True
    """A server stores by the CRD that its watch cache shows; off: its handlers follow later."""
    requests_end_in_time: bool = True
    """A request, which stores at the version that its server had when it began, lasts at most the settle time."""
    evidence_is_true: bool = True
    """What shows that changes left the storage version alone is right; off: it may be forged."""
    unfinished_is_distinct: bool = True
    """An "unfinished" differs from the one before it; off: both are the same word."""
    revisions_go_back: bool = True
    """A backup that was made during a run shows, once it is restored, by resourceVersions that go back."""
    lives_to_confirm: bool = True
    """A run that wrote after a change of the strategy lives until it next asks for it; off: it may be killed."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of the world a search covers. What is not bounded here happens any number of times.

    Attributes:
        flips, edits: changes of the CRD's spec that do and that do not change the storage version.
        trims: whether others trim storedVersions.
        migrations: whether the cluster's own migration, or another tool, writes all objects and trims.
        natives: failed native migrations.
        failures: whether an object's write may fail in a run of restow.
        runs: migrators at the same time, each of which can be killed and started again at any step.
        servers, objects: how many there are.
        flipped: whether the world begins just after the first flip.
        ready_in_steps: whether ``ready`` is asked request by request; else in one moment, in every state.
        restores: whether etcd is restored, any number of times, from a backup that is made once at any moment.
        lingering: whether a write of a client may take its time.
        unwires: whether the CRD begins with a webhook, which ``unwire`` may take away.
    """

    flips: int = 3
    edits: int = 1
    trims: bool = True
    migrations: bool = True
    natives: int = 1
    failures: bool = False
    runs: int = 1
    servers: int = 2
    objects: int = 2
    flipped: bool = False
    ready_in_steps: bool = False
    restores: bool = False
    lingering: bool = False
    unwires: bool = False


@dataclass(frozen=True, slots=True)
class StrategyBounds:
    """How much of the world a search of ``StrategyModel`` covers.

    Attributes:
        changes, edits: changes of the CRD's spec that do and that do not change the strategy.
        servers, objects: how many there are.
    """

    changes: int = 3
    edits: int = 1
    servers: int = 2
    objects: int = 2

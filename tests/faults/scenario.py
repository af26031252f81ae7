"""What one seed means: the objects, their owners, the options of the run, and everything that goes wrong in it.

``draw`` is a function of the seed alone. Pure.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from restow.migrator import ManagedFields

KILL_EVERY = 16
"""Of so many seeds one runs the migrator as a process, which SIGKILL ends."""

LAG_EVERY = 12
"""Of so many seeds one has a second API server that hears of changes of the CRD late."""

RESTART_EVERY = 24
"""Of so many seeds one has its API server killed and started again, in each phase in turn."""

ELECTED_EVERY = 24
"""Of so many seeds one runs two embedded migrators, of which a Lease elects one."""

_RESTARTED, _ELECTED = 20, 15  # the first such seeds: none of them is one with a process, or a server that lags


class Step(StrEnum):
    """A write by which an object of a shape gets its owners, before the migration."""

    SIZE = "an applier owns the size"
    FULL = "an applier owns size, color and host"
    PARTS = "a second applier owns items of a keyed list"
    EDIT = "a client updates color and labels"
    EDIT_NEW = "the same client updates a part of it at the new version"
    REMOVED = "an applier at a version that leaves the CRD"
    STATUS = "a controller applies the status"
    PHASE = "a controller updates the status"
    FORGET = "nobody is tracked any more"


class FaultKind(StrEnum):
    """What happens to one request."""

    CONFLICT = "409"
    EXPIRED = "410"
    BUSY = "429"
    BUSY_LATER = "429+Retry-After"
    BROKEN = "500"
    UNAVAILABLE = "503"
    TIMEOUT = "504"
    MISSING = "404 of nothing"
    RESET_BEFORE = "reset before"
    RESET_AFTER = "reset after"
    TRUNCATED = "truncated"
    SLOW = "slow"
    WIPE = "owners wiped"
    WIPE_LOST = "owners wiped, answer lost"


class Trouble(StrEnum):
    """What every request meets for some seconds."""

    DOWN = "API server down"
    UNAUTHORIZED = "credentials refused"


class Phase(StrEnum):
    """The part of a run whose first request begins a spell of trouble."""

    READ = "reading the CRD"
    PREFLIGHT = "asking for rights"
    SERVERS = "looking at the API servers"
    WATERMARK = "leaving the watermark"
    LIST = "listing"
    WRITE = "writing"
    PRUNE = "pruning"
    PROOF = "leaving the proof"
    LEASE = "renewing the Lease"


class EventKind(StrEnum):
    """What others do in mid-run."""

    APPLY_OLD = "apply at the old version"
    APPLY_NEW = "apply at the new version"
    UPDATE = "update"
    STATUS = "status update"
    DELETE = "delete"
    RECREATE = "re-create"
    CREATE = "create"
    FLIP = "flip"
    FLIP_BACK = "flip and back"
    CA = "caBundle"
    WEBHOOK_DOWN = "webhook down"


class Ending(StrEnum):
    """How the first run ends."""

    BY_ITSELF = "by itself"
    CANCELLED = "cancelled"
    KILLED = "SIGKILL"
    TWO_LEADERS = "a second leader"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that others do just before a write reaches the API server.

    Attributes:
        kind: what they do.
        write: before the n-th write of the run, from 1; 0 where ``name`` or ``prune`` tells the moment.
        name, nth: before the n-th write of this object, which is also the object concerned.
        prune: before status.storedVersions is pruned.
        amount: how many objects, or ConversionReviews that fail.
    """

    kind: EventKind
    write: int = 0
    name: str = ""
    nth: int = 0
    prune: bool = False
    amount: int = 1


@dataclass(frozen=True, slots=True)
class Spell:
    """Trouble of some seconds, from the first request of a phase on."""

    trouble: Trouble
    phase: Phase
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One seed.

    Attributes:
        objects: how many there are, named w00, w01, …; ``shapes`` are dealt out to them in turn.
        webhook: strategy Webhook instead of None; ``in_process``: restow converts by itself.
        default: the new schema has a default; ``keyed``: conditions are a keyed list there.
        early: the new version is served before it becomes the storage version.
        removed: some owners are of a version that is not in the CRD any more.
        resume: both runs go on from the watermark of an earlier one.
        rates: faults by their probability per request.
        stubborn: an object of which every write gets this fault, or "".
        rewritten: objects that were written at the new storage version before the run.
        ends_at: the number of the request at which ``ending`` happens.
        lag: seconds by which the second API server is late, or 0.
        spells: trouble that passes by itself.
        shards: processes that share the migration, each after the other; 0 for one that does everything.
        restart: the phase whose first request finds the API server killed; it is started again at once.
        elected: whether two embedded migrators run instead of one migration.
    """

    seed: int
    objects: int
    webhook: bool
    in_process: bool
    default: bool
    keyed: bool
    early: bool
    removed: bool
    shapes: tuple[tuple[Step, ...], ...]
    mode: ManagedFields
    resume: bool
    concurrency: int
    page_size: int
    rates: dict[FaultKind, float] = field(default_factory=dict)
    stubborn: str = ""
    stubborn_fault: FaultKind = FaultKind.BROKEN
    rewritten: int = 0
    events: tuple[Event, ...] = ()
    ending: Ending = Ending.BY_ITSELF
    ends_at: int = 0
    lag: float = 0.0
    spells: tuple[Spell, ...] = ()
    shards: int = 0
    restart: Phase | None = None
    elected: bool = False

    @property
    def finishes(self) -> bool:
        """Whether the first run can end well: nothing lasts, nobody ends it, and the storage version stays."""
        lasts = self.stubborn or any(event.kind in _LASTING for event in self.events)
        return self.ending in (Ending.BY_ITSELF, Ending.TWO_LEADERS) and not lasts

    @property
    def names(self) -> tuple[str, ...]:
        """The objects' names."""
        return tuple(f"w{number:02}" for number in range(self.objects))


_TRANSIENT = tuple(FaultKind)
_HARMLESS_TO_A_PROCESS = (FaultKind.CONFLICT, FaultKind.RESET_AFTER, FaultKind.TRUNCATED, FaultKind.SLOW)
_WIPES = {FaultKind.WIPE, FaultKind.WIPE_LOST}
_FLIPS = (EventKind.FLIP, EventKind.FLIP_BACK, EventKind.FLIP_BACK)
_LASTING = {EventKind.FLIP, EventKind.FLIP_BACK, EventKind.WEBHOOK_DOWN}
"""What a run may well be unable to finish by waiting: a version that changes, and a converter that says no."""
_PHASES = [phase for phase in Phase if phase is not Phase.LEASE]
_STUBBORN = (FaultKind.MISSING, FaultKind.BROKEN, FaultKind.CONFLICT)


def draw(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    chance = random.Random(f"restow faults {seed}")
    webhook = chance.random() < 0.4
    removed = chance.random() < 0.3
    default = chance.random() < 0.4
    mode = chance.choices(list(ManagedFields), (8, 1, 1))[0]
    if mode is ManagedFields.KEEP:  # what cannot be kept is refused, for good: nothing that a rerun could finish
        removed = default = False
    early = chance.random() < 0.5
    scenario = Scenario(
        seed=seed,
        objects=chance.randint(12, 32),
        webhook=webhook,
        in_process=webhook and chance.random() < 0.5,
        default=default,
        keyed=chance.random() < 0.5,
        early=early,
        removed=removed,
        shapes=tuple(_shape(chance, early=early and not default, removed=removed) for _ in range(chance.randint(1, 3))),
        mode=mode,
        resume=chance.random() < 0.5,
        concurrency=chance.choice((1, 2, 4, 8, 16)),
        page_size=chance.choice((5, 7, 10, 20, 50)),
        rewritten=chance.choice((0, 0, 1, 3)),
    )
    scenario = _with_faults(scenario, chance)
    scenario = _with_events(scenario, chance)
    scenario = _with_ending(scenario, chance)
    # Drawn by themselves, so that what was drawn before them is the same as without them.
    return _with_processes(_with_spells(scenario, random.Random(f"restow spells {seed}")))


def _shape(chance: random.Random, *, early: bool, removed: bool) -> tuple[Step, ...]:
    steps = [chance.choice((Step.SIZE, Step.FULL))]
    optional = [Step.PARTS, Step.EDIT, Step.STATUS, Step.PHASE]
    steps += [step for step in optional if chance.random() < 0.5]
    if early and Step.EDIT in steps and chance.random() < 0.6:
        steps.append(Step.EDIT_NEW)
    if removed and chance.random() < 0.7:
        steps.insert(0, Step.REMOVED)
    if chance.random() < 0.1:
        steps.append(Step.FORGET)
    return tuple(steps)


def _with_faults(scenario: Scenario, chance: random.Random) -> Scenario:
    kinds = chance.sample(_TRANSIENT, k=chance.randint(1, 5))
    rates = {kind: chance.choice((0.03, 0.08, 0.2)) for kind in kinds}
    if chance.random() < 0.2:
        rates[FaultKind.EXPIRED] = 0.4
    stubborn = chance.choice(scenario.names) if chance.random() < 0.15 else ""
    return replace(scenario, rates=rates, stubborn=stubborn, stubborn_fault=chance.choice(_STUBBORN))


def _with_events(scenario: Scenario, chance: random.Random) -> Scenario:
    kinds = [
        EventKind.APPLY_OLD,
        EventKind.APPLY_NEW,
        EventKind.UPDATE,
        EventKind.STATUS,
        EventKind.DELETE,
        EventKind.RECREATE,
        EventKind.CREATE,
        EventKind.CA,
        *([EventKind.WEBHOOK_DOWN] * 3 if scenario.webhook else []),
    ]

    def moment() -> int:
        return chance.randint(1, scenario.objects)

    chosen = chance.choices(kinds, k=chance.randint(0, 4))
    events = [Event(kind, moment(), amount=chance.randint(1, 6)) for kind in chosen]
    if chance.random() < 0.3:
        events.append(Event(chance.choice(_FLIPS), moment(), amount=4))
    elif chance.random() < 0.15:
        events.append(Event(EventKind.FLIP, prune=True))
    elif chance.random() < 0.15:
        # Created again while its owners are being restored: another object must not get them.
        events.append(Event(EventKind.RECREATE, name=chance.choice(scenario.names), nth=2))
    scenario = replace(scenario, events=tuple(events))
    flips = any(event.kind in _FLIPS for event in events)
    # While the storage version does not keep the default, each write comes back with it, and so each try to put an
    # object's owners right fails: a wipe at the last one is final.
    # A 404 of nothing is final for an object, and would end a repair as well.
    final = FaultKind.MISSING in scenario.rates
    return _unwiped(scenario) if final or (flips and scenario.default) else scenario


def _with_ending(scenario: Scenario, chance: random.Random) -> Scenario:
    ends_at = chance.randint(1, scenario.objects + 16)
    if scenario.seed % LAG_EVERY == 0:
        return replace(_late(scenario), lag=chance.choice((2.0, 3.0)))
    if scenario.seed % KILL_EVERY == 1:
        rates = {kind: rate for kind, rate in scenario.rates.items() if kind in _HARMLESS_TO_A_PROCESS}
        plain = replace(scenario, rates=rates, stubborn="", in_process=False, ending=Ending.KILLED, ends_at=ends_at)
        return replace(plain, events=_without(plain.events, EventKind.WEBHOOK_DOWN))
    ending = chance.choices((Ending.BY_ITSELF, Ending.CANCELLED, Ending.TWO_LEADERS), (6, 3, 1))[0]
    if ending is Ending.BY_ITSELF:
        return scenario
    # A process whose write lost the owners must not be killed: only that process can restore them.
    scenario = _unwiped(scenario)
    events = tuple(event for event in scenario.events if not event.name)
    if ending is Ending.TWO_LEADERS:
        events = _without(events, EventKind.FLIP, EventKind.FLIP_BACK)
    return replace(scenario, events=events, ending=ending, ends_at=ends_at)


def _with_spells(scenario: Scenario, chance: random.Random) -> Scenario:
    spells = []
    for phase in chance.sample(_PHASES, k=chance.choice((0, 0, 1, 1, 2))):
        trouble = chance.choice(list(Trouble))
        if phase is Phase.READ:
            trouble = Trouble.DOWN  # who refuses the very first request takes the credentials for wrong ones
        spells.append(Spell(trouble, phase, chance.choice((0.5, 1.0, 2.5))))
    shards = 2 if scenario.ending is Ending.BY_ITSELF and not scenario.lag and chance.random() < 0.15 else 0
    return replace(scenario, spells=tuple(spells), shards=shards)


def _with_processes(scenario: Scenario) -> Scenario:
    """Restart the API server, or have a Lease elect who migrates; what would end the run goes."""
    restart = _PHASES[scenario.seed // RESTART_EVERY % len(_PHASES)]
    if scenario.seed % RESTART_EVERY == _RESTARTED:
        return replace(_lasting(scenario), restart=restart, spells=())
    if scenario.seed % ELECTED_EVERY == _ELECTED:
        # Whoever leads no more leaves an object between two writes, as whoever is cancelled: see _with_ending.
        spells = (
            Spell(Trouble.DOWN, Phase.LEASE, 2.5),
            *(each for each in scenario.spells if each.trouble is Trouble.DOWN),
        )
        scenario = _unwiped(_lasting(scenario))
        events = tuple(event for event in scenario.events if not event.name)
        return replace(scenario, events=events, elected=True, spells=spells)
    return scenario


def _lasting(scenario: Scenario) -> Scenario:
    """A scenario whose run finishes by itself, however long that takes."""
    events = tuple(event for event in scenario.events if event.kind not in _LASTING)
    return replace(scenario, events=events, stubborn="", ending=Ending.BY_ITSELF, ends_at=0, shards=0)


def _late(scenario: Scenario) -> Scenario:
    """A scenario with a second API server, and little else: what it does is not to be hidden by a rerun."""
    calm = {kind: rate for kind, rate in scenario.rates.items() if kind in _HARMLESS_TO_A_PROCESS}
    shapes = tuple(tuple(step for step in shape if step is not Step.REMOVED) for shape in scenario.shapes)
    return replace(scenario, early=True, removed=False, shapes=shapes, rates=calm, stubborn="", events=())


def _unwiped(scenario: Scenario) -> Scenario:
    return replace(scenario, rates={kind: rate for kind, rate in scenario.rates.items() if kind not in _WIPES})


def _without(events: Sequence[Event], *kinds: EventKind) -> tuple[Event, ...]:
    return tuple(event for event in events if event.kind not in kinds)

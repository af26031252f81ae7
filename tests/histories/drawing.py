"""What one seed means: the life of one CRD, step by step. ``draw`` is a function of the seed alone. Pure.

What is drawn is always possible: the draft knows which version is stored and which are served after each step. Only how
far a run gets before it is killed, and so what it leaves, depends on the code under test.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

LAG_EVERY = 6
"""Of so many seeds one has times in which the second API server does not hear of changes of the CRD."""

VERSIONS = ("v1", "v2", "v3")


class Act(StrEnum):
    """What happens in a step, and who does it."""

    WRITE = "a client writes an object"
    DELETE = "a client deletes an object"
    FLIP = "another version becomes the storage version"
    THERE_AND_BACK = "another version becomes the storage version, objects are written, and it is the old one again"
    DESCRIBE = "the schema gets another description"
    ATOMIC = "a map of a version turns atomic"
    DEFAULT = "a field of a version gets a default"
    WIRE = "the CRD gets a conversion webhook"
    NO_WEBHOOK = "the CRD's conversion strategy becomes None"
    SHORTEN = "the CRD gets another short name"
    ANNOTATE = "the CRD gets an annotation"
    UNSERVE = "a version is no longer served"
    SERVE = "a version is served again"
    TRIM = "another tool trims status.storedVersions"
    FILL = "another tool puts every version into status.storedVersions"
    NATIVE_BEGINS = "a StorageVersionMigration of the cluster is at work"
    NATIVE_SUCCEEDED = "a StorageVersionMigration of the cluster succeeds"
    NATIVE_FAILED = "a StorageVersionMigration of the cluster fails"
    NATIVE_LEFT = "a StorageVersionMigration of the cluster is deleted while it runs"
    LOSE_MARK = "the CRD loses restow's annotations"
    STALE_MARK = "restow's annotations of an earlier day come back"
    ROLL_BACK = "the CRD of an earlier day is applied again, annotations and all"
    RESTORE = "etcd is restored from a backup"
    RECREATE = "CRD and objects are deleted, and created again from a copy"
    HOLD = "the second API server begins to lag"
    RELEASE = "the second API server catches up"
    HELD = "a create begins on the second API server, which then catches up"
    MIGRATE = "restow migrate"
    PRUNE = "restow prune"
    RECONCILE = "an operator that embeds restow reconciles"
    UNWIRE = "restow unwire"


class Way(StrEnum):
    """How a client writes."""

    APPLY = "apply"
    UPDATE = "update"
    UNTRACKED = "without managedFields"


class Route(StrEnum):
    """Which API server restow reaches."""

    BALANCED = "balanced"
    FIRST = "first"
    SECOND = "second"


RUNS = (Act.MIGRATE, Act.PRUNE, Act.RECONCILE)
WITHIN = (
    *(Act.TRIM, Act.TRIM, Act.FLIP, Act.THERE_AND_BACK, Act.DESCRIBE, Act.NATIVE_FAILED, Act.WRITE, Act.UNSERVE),
    *(Act.STALE_MARK, Act.MIGRATE, Act.RESTORE, Act.RESTORE, Act.ATOMIC, Act.DEFAULT),
    *(Act.WIRE, Act.NO_WEBHOOK) * 3,
)
"""What can happen between two requests of a run; ``MIGRATE`` is another process."""

FLAGS = ("--ignore-mark", "--dry-run", "--namespace elsewhere", "--managed-fields keep")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step.

    Attributes:
        act: what happens.
        version: the version concerned, or at which a client writes.
        names: the objects concerned.
        way, second: how a client writes, and whether through the second API server.
        back: for what comes back, after which step it was so, counted from 0.
        route: which API server the run reaches.
        skip: phases that are switched off.
        resume: ``--resume``.
        flag: one of ``FLAGS``, or "".
        shards: the shards that run, one after the other, of how many; none for a run over everything.
        killed: before which of its requests the run is killed; 0 where it is not.
        within: what happens just before request ``at``, or write ``at_write``, or after the run if it has fewer.
        patient: a run that waits for a server that lags is waited for until the server catches up, not stopped.
        fresh: the operator's process is a new one.
        settles: the run has a settle time; else requests do not last.
        asked: ``ready`` is asked afterwards.
        remove: if it says yes then, the version is removed.
    """

    act: Act
    version: str = ""
    names: tuple[str, ...] = ()
    way: Way = Way.APPLY
    second: bool = False
    back: int = 0
    route: Route = Route.BALANCED
    skip: tuple[str, ...] = ()
    resume: bool = False
    flag: str = ""
    shards: tuple[int, ...] = ()
    count: int = 0
    killed: int = 0
    within: Step | None = None
    at: int = 0
    at_write: int = 0
    patient: bool = True
    fresh: bool = False
    settles: bool = False
    asked: bool = True
    remove: bool = False

    def __str__(self) -> str:
        if self.act in RUNS:
            return self._run()
        parts = [self.act.value, self.version, ", ".join(self.names)]
        if self.act is Act.WRITE:
            parts += [self.way.value]
        if self.act in (Act.STALE_MARK, Act.ROLL_BACK, Act.RESTORE):
            parts += [f"(of step {self.back + 1})"]
        return " ".join(part for part in (*parts, "through the second server" if self.second else "") if part)

    def _run(self) -> str:
        parts = [self.act.value, *(f"--skip-phase {phase}" for phase in self.skip)]
        parts += ["--resume"] if self.resume else []
        parts += [self.flag] if self.flag else []
        parts += ["--settle 2"] if self.settles else []
        parts += [f"--shard {index}/{self.count}" for index in self.shards]
        parts += [f"({self.route})"] + (["a new process"] if self.fresh else [])
        parts += [f"killed at request {self.killed}"] if self.killed else []
        moment = f"write {self.at_write}" if self.at_write else f"request {self.at}"
        parts += [f"and at {moment}: {self.within}"] if self.within else []
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Story:
    """One seed: the versions that the CRD begins with (the first one stored), and what happens."""

    seed: int
    versions: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def lags(self) -> bool:
        """Whether it needs the second API server for itself."""
        return any(step.act is Act.HOLD for step in self.steps)


_LIKELY = {
    Act.WRITE: 18,
    Act.DELETE: 1,
    Act.FLIP: 14,
    Act.THERE_AND_BACK: 5,
    Act.DESCRIBE: 3,
    Act.ATOMIC: 2,
    Act.DEFAULT: 2,
    Act.WIRE: 4,
    Act.NO_WEBHOOK: 2,
    Act.SHORTEN: 5,
    Act.ANNOTATE: 2,
    Act.UNSERVE: 5,
    Act.SERVE: 2,
    Act.TRIM: 9,
    Act.FILL: 1,
    Act.NATIVE_BEGINS: 2,
    Act.NATIVE_SUCCEEDED: 5,
    Act.NATIVE_FAILED: 5,
    Act.NATIVE_LEFT: 2,
    Act.LOSE_MARK: 2,
    Act.STALE_MARK: 3,
    Act.ROLL_BACK: 2,
    Act.RESTORE: 2,
    Act.RECREATE: 1,
    Act.MIGRATE: 22,
    Act.PRUNE: 5,
    Act.RECONCILE: 9,
    Act.UNWIRE: 6,
}
_SHORTEST, _LONGEST = 5, 11
_REMOVE = 0.2
_TEMPTING = (Act.FLIP, Act.THERE_AND_BACK, Act.RESTORE, Act.ROLL_BACK, Act.RECREATE, Act.MIGRATE)
_TRIMMED = 0.35
"""How often storedVersions, which these acts add to, is trimmed right after them: nothing else would warn then."""
_ALONE = 0.6
"""How often all other versions are unserved, and storedVersions trimmed, before the webhook is taken away."""
_FLIPPED_SOON, _MIGRATED_SOON, _WIRED_SOON, _HELD_TO_THE_END = 0.8, 0.5, 0.4, 0.5
_KILLED, _MEDDLED_WITH, _WRITING = 0.2, 0.4, 0.6
"""How often a run is killed, something happens within one that is not, and that is while it writes objects."""


@dataclass(frozen=True, slots=True)
class _State:
    """What a step can depend on."""

    storage: str
    served: frozenset[str]
    names: tuple[str, ...] = ()
    wired: bool = False


@dataclass(slots=True)
class _Draft:
    """The life as drawn so far."""

    chance: random.Random
    versions: tuple[str, ...]
    lag: bool
    now: _State
    steps: list[Step] = field(default_factory=list)
    past: list[_State] = field(default_factory=list)
    seen_by_second: _State | None = None
    _made: int = 0

    def add(self, step: Step) -> None:
        """Let a step happen."""
        self._happens(step)
        if step.within is not None:
            self._happens(step.within)
        remove = step.act is not Act.HOLD and self.chance.random() < _REMOVE
        self.steps.append(replace(step, remove=remove))
        self.past.append(self.now)

    def _happens(self, step: Step) -> None:
        now = self.now
        if step.act is Act.FLIP:
            self.now = replace(now, storage=step.version)
        elif step.act is Act.UNSERVE:
            self.now = replace(now, served=now.served - {step.version})
        elif step.act is Act.SERVE:
            self.now = replace(now, served=now.served | {step.version})
        elif step.act is Act.ROLL_BACK:
            self.now = replace(self.past[step.back], names=now.names)
        elif step.act is Act.RESTORE:
            self.now = self.past[step.back]
        elif step.act in (Act.WIRE, Act.NO_WEBHOOK):
            self.now = replace(now, wired=step.act is Act.WIRE)
        elif step.act is Act.HOLD:
            self.seen_by_second = now
        elif step.act in (Act.RELEASE, Act.HELD):
            self.now, self.seen_by_second = replace(now, names=(*now.names, *step.names)), None
        elif step.act is Act.DELETE:
            self.now = replace(now, names=tuple(name for name in now.names if name not in step.names))
        elif step.act is Act.WRITE:
            self.now = replace(now, names=tuple(dict.fromkeys((*now.names, *step.names))))

    def step(self, act: Act) -> Step | None:
        """Draw the particulars of an act; None where it is impossible now."""
        if act in RUNS:
            return self._run(act)
        if act is Act.WRITE:
            return self._write()
        chance, now = self.chance, self.now
        others = sorted(now.served - {now.storage})
        if act in (Act.FLIP, Act.THERE_AND_BACK):
            if not others or (act is Act.THERE_AND_BACK and not now.names):
                return None
            names = tuple(chance.sample(now.names, min(2, len(now.names)))) if act is Act.THERE_AND_BACK else ()
            return Step(act=act, version=chance.choice(others), names=names, second=self._second())
        if act is Act.UNSERVE:
            return Step(act=act, version=chance.choice(others)) if others else None
        if act is Act.SERVE:
            gone = sorted(set(self.versions) - now.served)
            return Step(act=act, version=chance.choice(gone)) if gone else None
        if act in (Act.ATOMIC, Act.DEFAULT):
            return Step(act=act, version=chance.choice(self.versions))
        if act in (Act.WIRE, Act.NO_WEBHOOK, Act.UNWIRE):
            return Step(act=act) if now.wired is not (act is Act.WIRE) else None
        if act is Act.DELETE:
            return Step(act=act, names=(chance.choice(now.names),)) if len(now.names) > 1 else None
        if act in (Act.RECREATE, Act.RESTORE) and self.seen_by_second is not None:
            return None
        if act in (Act.STALE_MARK, Act.ROLL_BACK, Act.RESTORE):
            recent = max(chance.randrange(len(self.past)) for _ in range(2))
            return Step(act=act, back=recent)
        failing = tuple(chance.sample(now.names, 1)) if act is Act.NATIVE_FAILED and now.names else ()
        return Step(act=act, names=failing, second=self._second())

    def held(self) -> tuple[Step, ...]:
        """The lag ends: at once, or while a create is under way that began before; then a run comes right after."""
        seen, chance = self.seen_by_second, self.chance
        if seen is None or seen.storage == self.now.storage or chance.random() >= _HELD_TO_THE_END:
            return (Step(act=Act.RELEASE),)
        self._made += 1
        names = (f"w{self._made:02}",)
        held = Step(act=Act.HELD, version=chance.choice(sorted(seen.served)), names=names, asked=False)
        return held, Step(act=Act.MIGRATE, settles=True)

    def _second(self) -> bool:
        return self.chance.random() < (0.5 if self.lag else 0.3)

    def _write(self, *, new: bool = False) -> Step:
        chance, second = self.chance, self._second()
        served = self.seen_by_second.served if second and self.seen_by_second else self.now.served
        # Most clients have moved to the newest version before it is stored: their objects have no old entries.
        version = max(served) if chance.random() < 0.7 else chance.choice(sorted(served))
        if new or not self.now.names or chance.random() < 0.3:
            self._made += 1
            name = f"w{self._made:02}"
        else:
            name = chance.choice(self.now.names)
        way = chance.choices(list(Way), (6, 2, 2))[0]
        return Step(act=Act.WRITE, version=version, names=(name,), way=way, second=second)

    def _run(self, act: Act) -> Step:
        chance = self.chance
        route = chance.choices(list(Route), (6, 2, 2) if self.lag else (6, 1, 1))[0]
        step = Step(act=act, route=route, fresh=chance.random() < 0.5, patient=not self.lag or chance.random() < 0.3)
        if act is Act.MIGRATE:
            if chance.random() < 0.3:
                step = replace(step, skip=(chance.choice(("prune", "prune", "storage", "managed-fields")),))
            elif chance.random() < 0.15:
                shards = chance.choice(((0, 1), (1, 0), (0,), (1,)))
                step = replace(step, shards=shards, count=2)
            elif chance.random() < 0.2:
                step = replace(step, flag=chance.choice(FLAGS))
            step = replace(step, resume=chance.random() < 0.3)
        elif act is Act.RECONCILE and chance.random() < 0.3:
            step = replace(step, skip=("prune",))
        if chance.random() < _KILLED:
            step = replace(step, killed=chance.randrange(2, 30))
        elif chance.random() < _MEDDLED_WITH:
            within = self._within()
            if within is not None:
                written = chance.randrange(1, 4) if chance.random() < _WRITING else 0
                step = replace(step, within=within, at=0 if written else chance.randrange(1, 30), at_write=written)
        return step

    def _within(self) -> Step | None:
        if self.lag and self.chance.random() < 0.3:
            return Step(act=Act.RELEASE if self.seen_by_second is not None else Act.HOLD)
        act = self.chance.choice(WITHIN)
        return Step(act=act) if act is Act.MIGRATE else self.step(act)


def draw(seed: int) -> Story:
    """Draw the life that a seed means."""
    chance = random.Random(f"history {seed}")
    versions = VERSIONS if chance.random() < 0.25 else VERSIONS[:2]
    lag = seed % LAG_EVERY == 0
    draft = _Draft(chance, versions, lag, _State(versions[0], frozenset(versions)))
    for _ in range(chance.randrange(2, 5)):
        draft.add(replace(draft._write(new=True), asked=False))
    if chance.random() < _FLIPPED_SOON:
        draft.add(_possible(draft, (Act.FLIP, Act.SERVE)))
    if chance.random() < _WIRED_SOON:
        draft.add(Step(act=Act.WIRE))
    length = chance.randrange(_SHORTEST, _LONGEST + 1)
    begins = chance.randrange(0, 2) if lag else -1
    ends = begins + chance.randrange(3, length + 2) if lag else -1
    for number in range(length):
        if number == begins:
            draft.add(Step(act=Act.HOLD))
            draft.add(_possible(draft, (Act.FLIP, Act.SERVE)))
            if chance.random() < _MIGRATED_SOON:
                draft.add(draft._run(Act.MIGRATE))
        if number == ends:
            for each in draft.held():
                draft.add(each)
        step = _possible(draft, tuple(_LIKELY))
        if step.act is Act.UNWIRE and chance.random() < _ALONE:
            for version in sorted(draft.now.served - {draft.now.storage}):
                draft.add(Step(act=Act.UNSERVE, version=version))
            draft.add(Step(act=Act.TRIM))
        draft.add(step)
        if step.act in _TEMPTING and chance.random() < _TRIMMED:
            draft.add(Step(act=Act.TRIM, second=False))
    if lag and draft.seen_by_second is not None:
        for each in draft.held():
            draft.add(each)
    return Story(seed, versions, tuple(draft.steps))


def _possible(draft: _Draft, acts: Sequence[Act]) -> Step:
    while True:
        step = draft.step(draft.chance.choices(acts, [_LIKELY[act] for act in acts])[0])
        if step is not None:
            return step

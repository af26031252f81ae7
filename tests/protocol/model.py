"""The protocol as a transition system: a CRD, its objects, API servers that lag, migrators, and everyone else.

``successors`` yields every step that anyone can take from a state, each one atomic request or one event in a server;
``violation`` says which invariant a state breaks. There is no clock.

What needs no step of its own, because others together do it: a rewrite of some objects by a native migration or another
tool (writes of clients), another pass of a run (the run is killed and starts again), a prune or mark that is refused
and judged again (the judgement happens later).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeVar

from tests.protocol.rules import Assumptions, Bounds, Rules
from tests.protocol.search import Label
from tests.protocol.state import BOTH, IDLE, NOT_ASKED, UNFINISHED, Asked, Mark, Run, State, bit, fit, proven, unbroken

__all__ = ["EVERY_ASSUMPTION", "EVERY_RULE", "Model"]

EVERY_RULE = Rules()
EVERY_ASSUMPTION = Assumptions()
Steps = Iterator[tuple[Label, State]]
_T = TypeVar("_T")


class Model:
    """The transition system of a set of rules, assumptions and bounds."""

    def __init__(self, bounds: Bounds, rules: Rules = EVERY_RULE, assumptions: Assumptions = EVERY_ASSUMPTION) -> None:
        self.bounds, self.rules, self.assumptions = bounds, rules, assumptions

    def initial(self) -> State:
        """A CRD that stores at v1 and always has, or one that just left v1."""
        bounds = self.bounds
        return State(
            history=(0, 1) if bounds.flipped else (0,),
            stored=BOTH if bounds.flipped else bit(0),
            mark=None,
            failures=0,
            objects=(0,) * bounds.objects,
            servers=((0, 0),) * bounds.servers,
            runs=(IDLE,) * bounds.runs,
            asked=NOT_ASKED,
        )

    def reachable(self) -> set[State]:
        """Every state that can be reached."""
        found = [self.initial()]
        seen = set(found)
        while found:
            new = {after for _label, after in self.successors(found.pop())} - seen
            seen |= new
            found += new
        return seen

    def successors(self, state: State) -> Steps:
        """Yield every step from a state, with what it is and what comes of it."""
        if state.asked.step == "answer":
            return
        if self.bounds.restores:
            yield from self._restores(state)
        for index, run in enumerate(state.runs):
            if run.step != "read":
                yield ("run", index, "killed"), _with_run(state, index, IDLE)
            for label, after in self._step(state, index, run):
                yield ("run", index, *label), after
        if self.bounds.ready_in_steps:
            yield from self._ready(state)
        yield from self._servers_and_clients(state)
        if self.bounds.lingering:
            yield from self._lingers(state)
        yield from self._others_write_the_crd(state)
        if self.bounds.unwires:
            yield from self._unwires(state)

    def alike(self, state: State) -> tuple[State, bool]:
        """Return the state with its migrators, which are alike, in their order, and whether that swapped them."""
        if len(state.runs) > 1 and state.runs[0] > state.runs[1]:
            return state._replace(runs=state.runs[::-1]), True
        return state, False

    def violation(self, state: State) -> str:
        """Return what is wrong with a state, or an empty string."""
        reached = self._reachable_versions(state)
        if self.bounds.ready_in_steps:
            if state.asked.step == "answer" and reached & bit(state.asked.version):
                return f"ready {state.asked.version}"
        else:
            dropped = 1 - state.history[-1]
            if reached & bit(dropped) and self.says_ready(state):
                return f"ready {dropped}"
        if not state.wired and reached & ~bit(state.history[-1]):
            return "unwire"
        if state.guarded and self.hidden(state):
            return "guard"
        return "overwritten" if state.overwritten else ""

    def hidden(self, state: State) -> int:
        """The versions at which something is stored, or could be, and that storedVersions does not name."""
        return self._reachable_versions(state) & ~state.stored

    def says_ready(self, state: State) -> bool:
        """Whether ``ready`` for the version that is not stored at says yes, if all that it asks is asked now."""
        if not self._proven(state, evidence=True) or state.stored != bit(state.history[-1]):
            return False
        now = len(state.history) - 1
        return not self.rules.ready_looks or all(
            self._fit(state, now, state.history[now], server) for server in range(len(state.servers))
        )

    def _proven(self, state: State, *, evidence: bool) -> bool:
        return proven(state, self.rules, evidence=evidence, forged=not self.assumptions.evidence_is_true)

    def _reachable_versions(self, state: State) -> int:
        """The versions at which an object is stored, or an API server could store one."""
        found = 0
        for version in state.objects:
            found |= bit(version)
        for _cache, handlers in state.servers:
            for version in state.history[handlers:]:
                found |= bit(version)
        return found | (bit(state.lingering) if state.lingering >= 0 else 0)

    def _others_write_the_crd(self, state: State) -> Steps:
        bounds, history = self.bounds, state.history
        now = history[-1]
        flips = sum(before != after for before, after in pairwise(history))
        if flips < bounds.flips and state.wired:  # without a webhook, that is the author's own loss
            flipped = (*history, 1 - now)
            yield ("flip",), self._crd_written(state, history=flipped, stored=state.stored | bit(1 - now))
        if len(history) - 1 - flips < bounds.edits:
            yield ("edit",), self._crd_written(state, history=(*history, now), stored=state.stored | bit(now))
        if bounds.trims and state.stored != bit(now):
            yield ("trim",), self._crd_written(state, stored=bit(now))
        if bounds.migrations and state.stored != bit(now):
            for index, (_cache, handlers) in enumerate(state.servers):
                objects = (history[handlers],) * bounds.objects
                yield ("native", index, history[handlers]), self._crd_written(state, stored=bit(now), objects=objects)
        if state.failures < bounds.natives:
            yield ("native failed",), self._crd_written(state, stored=bit(now), failures=state.failures + 1)

    def _crd_written(self, state: State, **changes: object) -> State:
        """Return the state after someone wrote the CRD: what others read of it is stale."""
        stored = changes.get("stored", state.stored)
        guarded = changes.pop("guarded", state.guarded if stored & state.stored == state.stored else False)  # type: ignore[operator]
        after = state._replace(guarded=guarded or stored == BOTH, **changes)  # type: ignore[arg-type]
        runs = tuple(run._replace(stale=True) if self._compares(run) else run for run in after.runs)
        asked = after.asked if after.asked.step == "ask" else after.asked._replace(changed=True)
        return after._replace(runs=runs, asked=asked, unwire=after.unwire and "written since")

    def _compares(self, run: Run) -> bool:
        """Whether it matters to a run's next steps that the CRD was written."""
        if run.step in {"put back", "prune", "mark", "renew"}:
            return True
        before_first_write = run.step == "look" or (run.step == "write" and run.at == 0)
        return before_first_write and not self.rules.puts_back

    def _servers_and_clients(self, state: State) -> Steps:
        newest, together = len(state.history) - 1, self.assumptions.serves_what_it_shows
        for index, (cache, handlers) in enumerate(state.servers):
            if cache < newest:
                reached = (cache + 1, cache + 1 if together else handlers)
                yield ("server", index, cache + 1), state._replace(servers=_put(state.servers, index, reached))
            if handlers < cache:
                reached = (cache, handlers + 1)
                yield ("handlers", index, handlers + 1), state._replace(servers=_put(state.servers, index, reached))
            version = state.history[handlers]
            for number, stored_at in enumerate(state.objects):
                if stored_at != version:
                    objects = _put(state.objects, number, version)
                    yield ("client", index, number, version), state._replace(objects=objects)

    def _lingers(self, state: State) -> Steps:
        """A write of a client that takes its time: a request keeps the version with which it began."""
        if state.lingering < 0:
            for index, (_cache, handlers) in enumerate(state.servers):
                version, now = state.history[handlers], len(state.history) - 1
                yield ("begin", index, version), state._replace(lingering=version, begun=now)
            return
        waited = tuple(run._replace(at=0) if run.step == "settle" else run for run in state.runs)
        ended = state._replace(lingering=-1, begun=0, runs=waited)
        for number in range(len(state.objects)):
            objects = _put(state.objects, number, state.lingering)
            yield ("end", number, state.lingering), ended._replace(objects=objects)

    def _restores(self, state: State) -> Steps:
        """A backup of etcd, and its restore, with which all API servers start again; then another backup."""
        if state.backup is None:
            runs = tuple(run._replace(backed_up=self._has_token(run)) for run in state.runs)
            yield ("backup",), state._replace(backup=state.held, runs=runs)
            return
        back, now = state.backup, len(state.backup.history) - 1
        as_it_was = state.held[:4] == back[:4] and all(run.epoch and run.backed_up for run in state.runs)
        unseen = not self.assumptions.revisions_go_back
        runs = tuple(
            run._replace(
                epoch=not self._has_token(run) or (run.backed_up and unseen),
                backed_up=False,
                stale=self._compares(run) and (run.stale or not as_it_was),
            )
            for run in state.runs
        )
        servers = ((now, now),) * len(state.servers)
        yield ("restore", now), state._replace(**back._asdict(), servers=servers, runs=runs, lingering=-1, backup=None)

    def _has_token(self, run: Run) -> bool:
        """Whether a run has left its token."""
        without = {"read", "put back", "token"} | (set() if self.rules.token_before_the_look else {"look", "settle"})
        return run.step not in without

    def _unwires(self, state: State) -> Steps:
        """``unwire``: it judges the CRD that it reads, and then takes the webhook away."""
        now = state.history[-1]
        if not state.unwire:
            proved = not self.rules.unwire_asks_for_the_proof or self._proven(state, evidence=False)
            if state.wired and state.stored == bit(now) and proved:
                yield ("unwire judges",), state._replace(unwire="judged")
            return
        if state.unwire == "judged" or not self.rules.unwire_compares:
            after = self._crd_written(state, history=(*state.history, now), wired=False)
            yield ("unwire writes",), after._replace(unwire="")
        yield ("unwire refused",), state._replace(unwire="")

    def _step(self, state: State, index: int, run: Run) -> Steps:
        """The next request of a migrator; the label is without its number."""
        if run.step == "read":
            yield from self._read(state, index)
        elif run.step == "put back":
            if not run.stale:
                after = self._crd_written(state, stored=BOTH, guarded=True)
                yield ("put back",), _with_run(after, index, IDLE)
        elif run.step == "token":
            then = "look" if self.rules.looks and self.rules.token_before_the_look else "write"
            yield ("token",), _with_run(self._crd_written(state), index, run._replace(step=then))
        elif run.step in {"look", "look again"}:
            yield from self._look(state, index, run)
        elif run.step == "settle":
            if not (run.at and self.assumptions.requests_end_in_time):
                yield ("settle",), _with_run(state, index, run._replace(step=self._looked, at=0))
        elif run.step == "write":
            yield from self._write(state, index, run)
        elif run.step == "conclude":
            yield from self._conclude(state, index, run)
        elif run.step == "prune":
            yield from self._prune(state, index, run)
        elif run.step in {"mark", "renew"}:
            if not (run.stale and self.rules.mark_compares) and self._same_epoch(run):
                after = self._crd_written(state, mark=Mark(run.generation, run.at))
                after = after._replace(overwritten=run.late and state.mark == UNFINISHED)
                yield (run.step, run.generation), _with_run(after, index, IDLE)
        elif run.step == "void":
            after = self._crd_written(state, mark=UNFINISHED)
            runs = tuple(each if each.step == "read" else self._missed(each) for each in after.runs)
            yield ("void",), _with_run(after._replace(runs=runs), index, IDLE)

    def _same_epoch(self, run: Run) -> bool:
        """Whether a run takes etcd for the one of its start; if not, it starts again as if it were killed."""
        return run.epoch or not self.rules.epoch_is_compared

    def _missed(self, run: Run) -> Run:
        """Return a run during which another one left an "unfinished"."""
        concluded = run.step in {"prune", "mark", "renew"}
        return run._replace(late=True, knew=run.knew and (concluded or not self.assumptions.unfinished_is_distinct))

    def _read(self, state: State, index: int) -> Steps:
        """The start: a valid mark leaves the prune and a new generation of the mark to do, unless it is ignored."""
        now, rules, mark = len(state.history) - 1, self.rules, state.mark
        verdicts = {self._proven(state, evidence=evidence) for evidence in (True, False)}
        knew = self.bounds.failures and mark == UNFINISHED
        storage = state.history[now]
        exact = state.stored == bit(storage)
        begins = Run(self._first, now, storage, knew=knew)
        if True in verdicts:
            if not exact:
                yield ("read proven", now), _with_run(state, index, begins._replace(step="conclude"))
            elif mark is not None and mark.generation not in {now, UNFINISHED.generation}:
                renews = Run("renew", now, at=mark.failure, knew=True)
                yield ("read proven", now), _with_run(state, index, renews)
            yield ("read ignoring", now), _with_run(state, index, begins)
        if False in verdicts:
            run = begins
            if exact and not rules.writes_every_object:
                run = Run("mark", now, at=state.failures, knew=True)
            elif exact and rules.puts_back:
                run = Run("put back", now)
            yield ("read unproven", now), _with_run(state, index, run)

    @property
    def _first(self) -> str:
        """The step that follows the read. Without restores a token is of no use."""
        if self.bounds.restores and self.rules.token_before_the_look:
            return "token"
        return "look" if self.rules.looks else "write"

    @property
    def _looked(self) -> str:
        """The step that follows the look."""
        return "token" if self.bounds.restores and not self.rules.token_before_the_look else "write"

    def _look(self, state: State, index: int, run: Run) -> Steps:
        """One server: before the writes it is waited for, after them another pass follows."""
        hidden = not self.assumptions.all_servers_seen and run.at == len(state.servers) - 1
        if hidden or self._fit(state, run.generation, run.storage, run.at):
            last = run.at + 1 == len(state.servers)
            after = run._replace(at=run.at + 1)
            if last and run.step == "look" and self.bounds.lingering:
                after = run._replace(step="settle", at=int(self._waits(state)))
            elif last and run.step == "look":
                after = run._replace(step=self._looked, at=0)
            elif last:
                after = run._replace(step="conclude", at=0)
            yield (run.step, run.at), _with_run(state, index, after)

    def _waits(self, state: State) -> bool:
        """Whether a run that just looked at the last server has to wait for a request."""
        before_the_change = state.begun < len(state.history) - 1
        return state.lingering >= 0 and (self.rules.settles_after_the_look or before_the_change)

    def _fit(self, state: State, generation: int, storage: int, server: int) -> bool:
        cache, handlers = state.servers[server]
        return fit(cache, generation, state.history[handlers] == storage, self.rules)

    def _write(self, state: State, index: int, run: Run) -> Steps:
        last = run.at + 1 == len(state.objects)
        then = ("look again" if self.rules.looks_again else "conclude") if last else "write"
        after = run._replace(step=then, at=0 if last else run.at + 1, stale=False)
        guarded = state.guarded or (run.at == 0 and not run.stale and not self.rules.puts_back)
        versions = {state.history[handlers]: number for number, (_cache, handlers) in enumerate(state.servers)}
        for version, server in versions.items():
            written = state._replace(objects=_put(state.objects, run.at, version), guarded=guarded)
            ends = after._replace(step="void") if last and run.failed and self.rules.failures_block else after
            yield ("write", run.at, server, version), _with_run(written, index, ends)
        if self.bounds.failures:
            failed = after._replace(failed=self.rules.failures_block)
            ends = failed._replace(step="void") if last and failed.failed else failed
            yield ("fails", run.at), _with_run(state, index, ends)

    def _conclude(self, state: State, index: int, run: Run) -> Steps:
        now, storage = len(state.history) - 1, run.storage
        if not self._same_epoch(run):
            return
        # A watch may have missed a generation; then another pass follows, as after a run that is killed.
        if unbroken(state.history, run.generation, storage, seen=True) or (
            not self.rules.generations_unbroken and state.history[now] == storage
        ):
            marks = not (self.rules.minds_unfinished and state.mark == UNFINISHED and not run.knew)
            epoch = {"epoch": run.epoch, "backed_up": run.backed_up}
            ends = Run("prune", now, storage, state.failures, knew=marks, late=run.late, **epoch)
            pruned = state.stored == bit(storage)
            if pruned:
                ends = ends._replace(step="mark") if marks else IDLE
            yield ("conclude", now), _with_run(state._replace(guarded=state.guarded or pruned), index, ends)

    def _prune(self, state: State, index: int, run: Run) -> Steps:
        if not (run.stale and self.rules.prune_compares) and self._same_epoch(run):
            exact = bit(run.storage)
            after = self._crd_written(state, stored=exact, guarded=True)
            yield (
                ("prune", exact),
                _with_run(after, index, run._replace(step="mark", stale=False) if run.knew else IDLE),
            )

    def _ready(self, state: State) -> Steps:
        asked, now = state.asked, len(state.history) - 1
        if asked.step == "ask":
            if self._proven(state, evidence=True) and state.stored == bit(state.history[-1]):
                then = "look" if self.rules.ready_looks else "again"
                yield ("ready asked", now), state._replace(asked=Asked(then, 1 - state.history[-1], now))
        elif asked.step == "look":
            if self._fit(state, asked.generation, state.history[asked.generation], asked.at):
                last = asked.at + 1 == len(state.servers)
                after = asked._replace(step="again" if last else "look", at=0 if last else asked.at + 1)
                yield ("ready looks", asked.at), state._replace(asked=after)
        elif asked.step == "again" and not (asked.changed and self.rules.ready_reads_twice):
            yield ("ready answers", asked.version), state._replace(asked=asked._replace(step="answer"))


def _put(values: tuple[_T, ...], index: int, value: _T) -> tuple[_T, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _with_run(state: State, index: int, run: Run) -> State:
    return state._replace(runs=_put(state.runs, index, run))

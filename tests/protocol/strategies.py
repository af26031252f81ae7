"""The part of the protocol that keeps owners: the strategy of conversion changes while a run translates.

A write of a run translates an object's owners by the strategy that the run has read, and its API server converts the
object by the strategy that the server has reached. The owners are right if both are the same. Strategies are 0 (None)
and 1 (Webhook). The rest is as in ``Model``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from tests.protocol.rules import Assumptions, Rules, StrategyBounds
from tests.protocol.search import Label

__all__ = ["OwnersState", "StrategyModel", "Translating"]

_OLD, _RIGHT, _FAILED = -1, 2, 3
"""An object that no run has translated, one whose owners are right, one that a run reports as failed.

Any other object has wrong owners, and is the number of the strategy by which it is stored.
"""

Steps = Iterator[tuple[Label, "OwnersState"]]


class Translating(NamedTuple):
    """A run. ``at`` is the object that is next, ``unconfirmed`` the ones written since it last asked for the CRD."""

    step: str = "read"
    generation: int = 0
    at: int = 0
    unconfirmed: int = 0


class OwnersState(NamedTuple):
    """The strategy of each generation, the generation that each API server has reached, the objects, the run."""

    strategies: tuple[int, ...]
    servers: tuple[int, ...]
    objects: tuple[int, ...]
    run: Translating

    @property
    def wrong(self) -> int:
        """The objects whose owners are wrong, and that the run would judge again."""
        return self.run.unconfirmed & sum(1 << number for number, owners in enumerate(self.objects) if owners in {0, 1})


class StrategyModel:
    """The transition system of a set of rules, assumptions and bounds."""

    def __init__(self, bounds: StrategyBounds, rules: Rules, assumptions: Assumptions) -> None:
        self.bounds, self.rules, self.assumptions = bounds, rules, assumptions

    def initial(self) -> OwnersState:
        """A CRD without a webhook."""
        return OwnersState((0,), (0,) * self.bounds.servers, (_OLD,) * self.bounds.objects, Translating())

    def alike(self, state: OwnersState) -> tuple[OwnersState, bool]:
        """There is one run."""
        return state, False

    def violation(self, state: OwnersState) -> str:
        """Return "owner" if owners are wrong that no run would judge again."""
        lost = any(owners in {0, 1} and not state.run.unconfirmed >> n & 1 for n, owners in enumerate(state.objects))
        return "owner" if lost else ""

    def successors(self, state: OwnersState) -> Steps:
        """Yield every step from a state, with what it is and what comes of it."""
        run, newest = state.run, len(state.strategies) - 1
        changes = sum(before != after for before, after in pairwise(state.strategies))
        if changes < self.bounds.changes:
            changed = 1 - state.strategies[-1]
            yield ("strategy", changed), state._replace(strategies=(*state.strategies, changed))
        if newest - changes < self.bounds.edits:
            yield ("edit",), state._replace(strategies=(*state.strategies, state.strategies[-1]))
        for index, reached in enumerate(state.servers):
            if reached < newest:
                servers = (*state.servers[:index], reached + 1, *state.servers[index + 1 :])
                yield ("server", index, reached + 1), state._replace(servers=servers)
        if run.step != "read" and not (state.wrong and self.assumptions.lives_to_confirm):
            yield ("run", 0, "killed"), state._replace(run=Translating())
        yield from self._step(state, run)

    def _step(self, state: OwnersState, run: Translating) -> Steps:
        newest = len(state.strategies) - 1
        if run.step == "read":
            begins = run._replace(step="look", generation=newest, at=0)
            yield ("run", 0, "read", newest), state._replace(run=begins)
        elif run.step == "look":
            if min(state.servers) >= run.generation:
                yield ("run", 0, "look"), self._judged(state, run)
            return
        if run.step == "write":
            last = run.at + 1 == len(state.objects)
            after = run._replace(step="end" if last else "write", at=run.at + 1)
            for index, reached in enumerate(state.servers):
                yield self._written(state, after, run.at, index, state.strategies[reached])
        if run.unconfirmed or run.step == "end":
            yield self._confirmed(state, run, newest)

    def _written(
        self, state: OwnersState, after: Translating, number: int, server: int, converts: int
    ) -> tuple[Label, OwnersState]:
        objects, decided = list(state.objects), state.strategies[after.generation]
        if objects[number] == _OLD:
            objects[number] = _RIGHT if converts == decided else converts
            after = after._replace(unconfirmed=after.unconfirmed | 1 << number)
        return ("run", 0, "write", number, server, converts), state._replace(objects=tuple(objects), run=after)

    def _confirmed(self, state: OwnersState, run: Translating, newest: int) -> tuple[Label, OwnersState]:
        """The run reads the CRD: it goes on, or it begins again and keeps in mind what it has to judge again."""
        since = state.strategies[run.generation :]
        same = len(set(since)) == 1 if self.rules.strategies_unbroken else since[0] == since[-1]
        if same or not self.rules.strategy_is_compared:
            after = Translating() if run.step == "end" else run._replace(unconfirmed=0)
            return ("run", 0, "end" if run.step == "end" else "confirm"), state._replace(run=after)
        return ("run", 0, "changed"), state._replace(run=Translating(unconfirmed=run.unconfirmed))

    def _judged(self, state: OwnersState, run: Translating) -> OwnersState:
        """The run judges again what it wrote before the change.

        If the present strategy makes of an object from before the write what is stored now, it is the one that counts.
        If not, the object is stored as it was decided, unless it was decided by the present strategy.
        """
        present = state.strategies[run.generation]
        unclear = _FAILED if self.rules.what_is_unclear_fails else 1 - present
        judged = {present: _RIGHT, 1 - present: unclear}
        objects = tuple(judged.get(owners, owners) for owners in state.objects)
        return state._replace(objects=objects, run=run._replace(step="write", unconfirmed=0))

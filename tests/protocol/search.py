"""Breadth-first search over every reachable state of a model; what it finds first is a shortest counterexample."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from tests.protocol.model import Label, Model
from tests.protocol.state import State

__all__ = ["Found", "search"]

_Step = tuple[State, Label, bool]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Attributes:
        states: how many it visited: all that can be reached, unless one breaks an invariant.
        violation: what is wrong with the state that breaks one; see ``Model.violation``.
        trace: the steps that lead there, each with what comes of it.
    """

    states: int
    violation: str = ""
    trace: tuple[tuple[Label, State], ...] = ()


def search(model: Model, *, only: str = "") -> Found:
    """Visit every reachable state until one breaks an invariant.

    Args:
        model: the transition system.
        only: the beginning of the violation that is looked for; every one if empty.
    """
    first = model.initial()
    came: dict[State, _Step | None] = {first: None}
    queue = deque([first])
    while queue:
        state = queue.popleft()
        for label, after in model.successors(state):
            swapped = len(after.runs) > 1 and after.runs[0] > after.runs[1]
            if swapped:  # migrators are alike
                after = after._replace(runs=after.runs[::-1])  # noqa: PLW2901
            if after in came:
                continue
            came[after] = (state, label, swapped)
            broken = model.violation(after)
            if broken and broken.startswith(only):
                return Found(len(came), broken, _trace(came, after))
            queue.append(after)
    return Found(len(came))


def _trace(came: dict[State, _Step | None], state: State) -> tuple[tuple[Label, State], ...]:
    """The steps that lead to a state, each migrator under the number that it had at the start."""
    steps: list[tuple[Label, bool, State]] = []
    while (step := came[state]) is not None:
        before, label, swapped = step
        steps.append((label, swapped, state))
        state = before
    numbers, trace = [0, 1], list[tuple[Label, State]]()
    for label, swapped, after in reversed(steps):
        told = ("run", numbers[int(label[1])], *label[2:]) if label[0] == "run" else label
        trace.append((told, after))
        if swapped:
            numbers.reverse()
    return tuple(trace)

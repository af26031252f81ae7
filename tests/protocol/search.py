"""Breadth-first search over every reachable state of a model; what it finds first is a shortest counterexample."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

__all__ = ["Found", "Label", "Searched", "search"]

Label = tuple[str | int, ...]
_S = TypeVar("_S")


class Searched(Protocol[_S]):
    """A transition system; see ``Model``."""

    def initial(self) -> _S: ...

    def successors(self, state: _S) -> Iterator[tuple[Label, _S]]: ...

    def alike(self, state: _S) -> tuple[_S, bool]: ...

    def violation(self, state: _S) -> str: ...


@dataclass(frozen=True, slots=True)
class Found(Generic[_S]):
    """What a search found.

    Attributes:
        states: how many it visited: all that can be reached, unless one breaks an invariant.
        violation: what is wrong with the state that breaks one; see ``Model.violation``.
        trace: the steps that lead there, each with what comes of it.
    """

    states: int
    violation: str = ""
    trace: tuple[tuple[Label, _S], ...] = ()


def search(model: Searched[_S], *, only: str = "") -> Found[_S]:
    """Visit every reachable state until one breaks an invariant.

    Args:
        model: the transition system.
        only: the beginning of the violation that is looked for; every one if empty.
    """
    first = model.initial()
    came: dict[_S, tuple[_S, Label, bool] | None] = {first: None}
    queue = deque([first])
    while queue:
        state = queue.popleft()
        for label, found in model.successors(state):
            after, swapped = model.alike(found)
            if after in came:
                continue
            came[after] = (state, label, swapped)
            broken = model.violation(after)
            if broken and broken.startswith(only):
                return Found(len(came), broken, _trace(came, after))
            queue.append(after)
    return Found(len(came))


def _trace(came: dict[_S, tuple[_S, Label, bool] | None], state: _S) -> tuple[tuple[Label, _S], ...]:
    """The steps that lead to a state, each migrator under the number that it had at the start."""
    steps: list[tuple[Label, bool, _S]] = []
    while (step := came[state]) is not None:
        before, label, swapped = step
        steps.append((label, swapped, state))
        state = before
    numbers, trace = [0, 1], list[tuple[Label, _S]]()
    for label, swapped, after in reversed(steps):
        told = ("run", numbers[int(label[1])], *label[2:]) if label[0] == "run" else label
        trace.append((told, after))
        if swapped:
            numbers.reverse()
    return tuple(trace)

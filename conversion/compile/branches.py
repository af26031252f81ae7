"""Generates the code of unions: it selects an object's branch, and runs the steps of its scope in order.

Each step converts the result of the previous step. The losses of a union's step have a section of their own in the
stash, with the name of the branch (``stash.entries.branch_entry``). So a value that one branch lost never returns in
another branch.

Pure: writes text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from restow.conversion.compile.codegen import NOTHING_KEPT, LegBuilder, SourceWriter
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.unions import Branched, Union, ordered

#: Writes the code of rules for the object in a variable, with the variable of its stash; see ``route.write_scope``.
Inner = Callable[[Sequence[Rule], str, str], tuple[str, str]]


@dataclass(slots=True)
class _Chosen:
    """The variables of one union: the branch in the source, its part of the stash, and the losses of its rules."""

    union: Union
    branch: str
    kept: str
    lost: str = "None"


@dataclass(slots=True)
class BranchBuilder:
    """Writes one scope with unions. ``old`` is the variable of its object, ``kept`` that of its stash.

    ``plain`` writes the rules that always hold, ``scope`` those of a branch, which may contain unions again.
    """

    stage: LegBuilder
    rules: Branched
    old: str
    kept: str
    plain: Inner
    scope: Inner
    _chosen: list[_Chosen] = field(default_factory=list)

    def write(self) -> tuple[str, str]:
        """Write the scope; return the variables of the result and of the loss."""
        self._chosen = [self._choose(union) for union in self.rules.unions]
        now, lost = self.old, "None"
        steps = ordered(self.rules) or []
        for step in steps if self.stage.direction == "up" else reversed(steps):
            if isinstance(step, Union):
                now = self._write_union(next(each for each in self._chosen if each.union is step), now)
            else:
                now, lost = self.plain(step, now, self.kept)
        return now, self._write_losses(now, lost)

    @property
    def _writer(self) -> SourceWriter:
        return self.stage.writer

    def _choose(self, union: Union) -> _Chosen:
        w, branch, kept = self._writer, self._writer.fresh("branch"), NOTHING_KEPT
        w(f"{branch} = {w.constant('decide', union.decider(self.stage.source_side))}({self.old})")
        if self.kept != NOTHING_KEPT:
            kept = w.fresh("kept")
            address, names = union.address(self.stage.target_side), w.constant("names", union.names)
            w(f"{kept} = None")
            with w.block(f"if {self.kept}:"):
                w(f"{branch}, {kept} = KEPT_BRANCH({self.kept}, {address!r}, {branch}, {names})")
        return _Chosen(union, branch, kept)

    def _write_union(self, chosen: _Chosen, now: str) -> str:
        w, result, head = self._writer, self._writer.fresh("now"), "if"
        chosen.lost = w.fresh("lost")
        w(f"{result}, {chosen.lost} = {now}, None")
        for branch in chosen.union.branches:
            with w.block(f"{head} {chosen.branch} == {branch.branch!r}:"):
                self._write_step(branch.rules, now, chosen, result)
            head = "elif"
        if chosen.union.rest:
            with w.block("else:"):
                self._write_step(chosen.union.rest, now, chosen, result)
        return result

    def _write_step(self, rules: Sequence[Rule], now: str, chosen: _Chosen, result: str) -> None:
        new, lost = self.scope(rules, now, chosen.kept)
        self._writer(f"{result}, {chosen.lost} = {new}, {lost}")

    def _write_losses(self, new: str, lost: str) -> str:
        """Write the unions' part of the loss: a branch's losses, and a branch that the result does not show."""
        w = self._writer
        for chosen in self._chosen:
            shown = w.fresh("shown")
            w(f"{shown} = {w.constant('decide', chosen.union.decider(self.stage.target_side))}({new})")
            with w.block(f"if {chosen.lost} or {shown} != {chosen.branch}:"):
                with w.block(f"if {lost} is None:"):
                    w(f"{lost} = {{}}")
                address = chosen.union.address(self.stage.source_side)
                w(f"{lost}[{address!r}] = BRANCH_ENTRY({chosen.branch}, {shown}, {chosen.lost})")
        return lost

"""The course of the contenders: the amount of measurements, the objects, and one run at a time on them.

A ``Section`` is one part of the benchmark.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.migration.admin import until
from benchmarks.migration.contenders import Contender, Stage, measure, rewrite
from benchmarks.migration.meters import quiet
from benchmarks.migration.results import Run
from benchmarks.migration.subject import Entries, Herd, Subject
from benchmarks.tables import Result

__all__ = ["Course", "Herd", "Plan", "Section", "say"]

_DISTURBED = 0.25  # cores


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The amount of measurements.

    Attributes:
        runs: the rounds of each comparison.
        objects: the objects of the main comparison.
        kind_objects: the objects of the comparison of each kind of write.
        concurrencies: those of the bare loop, whose best rate is the saturation rate.
        small, large: the objects of the memory comparison; the large number is migrated only once.
        repeats: the most repetitions of a run that other processes disturbed.
        patience: seconds to wait for a quiet machine before each run.
        scale: numbers of objects, and rounds with each; the objects' memory is compared too.
        watched: whether every run, not only one that needs it, waits until the garbage collector watches the objects
            (up to half a minute after their creation), so that it does not start in the middle of a run.
    """

    runs: int
    objects: int
    kind_objects: int
    concurrencies: tuple[int, ...]
    small: int
    large: int
    repeats: int
    patience: float
    watched: bool
    scale: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]


@dataclass(slots=True)
class Course:
    """Runs contenders on herds and records every run.

    The first run that needs a herd creates its objects. An API server reads all objects of every resource again every
    five minutes, to check its watch cache against etcd. A hundred thousand waiting objects would cost a minute of its
    CPU during an arbitrary run.
    """

    stage: Stage
    plan: Plan
    subjects: Mapping[str, Subject]
    runs: list[Run] = field(default_factory=list)
    _order: random.Random = field(default_factory=lambda: random.Random(20))

    async def run(
        self,
        plural: str,
        contender: Contender,
        entries: Entries = Entries.OLD,
        begins: Callable[[], None] = _nothing,
    ) -> Run:
        """Make the herd due, let the contender migrate it, and return the run; call ``begins`` at the start.

        A run that other processes disturbed does not count and is repeated, as often as the plan allows. Only the CPU
        time of these processes decides this, not the result of the run.
        """
        subject = await self._stocked(plural)
        for repeats in range(self.plan.repeats, -1, -1):
            await subject.make_due(entries, self._rewrite)
            if self.plan.watched or contender.in_control_plane:
                await until(subject.watched)
            await quiet(self.stage.plane, self.plan.patience)
            begins()
            run = await measure(self.stage, subject, contender)
            again = run.foreign_cores > _DISTURBED and repeats > 0
            told = ", once more" if again else ""
            say(f"  {plural}: {contender.name}: {run.rate:.0f}/s, {run.foreign_cores:.2f} cores busy elsewhere{told}")
            if not again:
                break
        self.runs.append(run)
        return run

    async def warm_up(self, plural: str, contender: Contender) -> None:
        """Let a contender migrate a herd once without a result, because a newly started API server is slower."""
        if self.plan.runs > 1:
            subject = await self._stocked(plural)
            await subject.make_due(Entries.OLD, self._rewrite)
            await measure(self.stage, subject, contender)

    def turns(self, contenders: Sequence[Contender]) -> list[Contender]:
        """Return the contenders in a random order, so that none always follows the same other one."""
        return self._order.sample(contenders, len(contenders))

    async def _stocked(self, plural: str) -> Subject:
        subject = self.subjects[plural]
        if not subject.made:
            say(f"  making {subject.count} {plural}")
            await subject.create()
        return subject

    async def _rewrite(self, subject: Subject, version: str) -> None:
        await rewrite(self.stage, subject, version)


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the benchmark: the objects that it needs, and the measurement on them."""

    herds: Callable[[Plan], Sequence[Herd]]
    measure: Callable[[Course], Awaitable[Result]]


def say(text: str) -> None:
    """Report the progress of the benchmark."""
    print(text, file=sys.stderr, flush=True)

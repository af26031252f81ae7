"""Seeds of the fault suite that every run of the tests repeats, and the proof that the suite sees what it looks for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import pytest

from tests.faults.__main__ import COMMAND, run_on
from tests.faults.guards import GUARDS
from tests.faults.run import Outcome, run_seed
from tests.faults.scenario import (
    ELECTED_EVERY,
    KILL_EVERY,
    LAG_EVERY,
    RESTART_EVERY,
    Ending,
    EventKind,
    FaultKind,
    Phase,
    Trouble,
    draw,
)
from tests.faults.world import World
from tests.seeds import elsewhere, exit_code

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEEDS = range(1, 33)
_SIDE_BY_SIDE = 4

CATCHING: dict[str, Sequence[int]] = {
    "any-404-is-gone": (22, 104, 105),
    "believe-any-watermark": (18, 141),
    "believe-every-answer": (2, 25),
    "create-what-is-gone": (26, 94),
    "end-at-an-expired-list": (4, 8, 35),
    "forget-what-was-sent": (10, 29, 64),
    "ignore-generation": (10, 29),
    "ignore-uid": (74,),
    "leave-entries-behind": (18,),
    "list-before-settling": (12, 24),
    "one-write-for-defaults": (3, 4),
    "overwrite-owners": (23,),
    "prune-despite-failures": (2, 19),
    "prune-unconditionally": (13, 41),
    "send-entries-twice": (14, 27),
}
"""Seeds known to catch each broken guard; ``python -m tests.faults 1..60 --broken GUARD`` finds others."""

FURTHER = range(1, 121)
"""Seeds for a guard that the known ones let pass: which write a fault meets depends on the machine's pace as well."""


async def run(
    world: World, seeds: Iterable[int], *, until_wrong: bool = False, side_by_side: int = _SIDE_BY_SIDE
) -> list[Outcome]:
    """Run seeds, some side by side, all or until one finds something wrong, and show their lines."""
    waiting = iter(seeds)
    outcomes: list[Outcome] = []

    async def work() -> None:
        for seed in waiting:
            if until_wrong and any(outcome.wrong for outcome in outcomes):
                return
            outcome = await run_seed(world, seed)
            print(outcome, *outcome.wrong, sep="\n    ")
            outcomes.append(outcome)

    async with asyncio.TaskGroup() as group:
        for _ in range(side_by_side):
            group.create_task(work())
    return outcomes


@pytest.mark.apiserver
@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, 8))
async def test_no_fault_loses_anything(shared: World, first: int) -> None:
    """An unsafe prune, a changed spec or a lost owner is what restow promises never happens."""
    outcomes = await run(shared, range(first, first + 8))
    assert not {outcome.seed: outcome.wrong for outcome in outcomes if outcome.wrong}
    assert all(outcome.runs <= 2 and outcome.prunes for outcome in outcomes)


@pytest.mark.apiserver
@pytest.mark.timeout(900)
@pytest.mark.parametrize("guard", sorted(GUARDS))
async def test_a_broken_guard_is_seen(shared: World, guard: str) -> None:
    """A suite that passes with one of the migrator's guards broken proves nothing about the others either."""
    with GUARDS[guard]():
        outcomes = await run(shared, CATCHING[guard], until_wrong=True, side_by_side=1)
        if not any(outcome.wrong for outcome in outcomes):
            outcomes = await run(shared, FURTHER, until_wrong=True)
    assert any(outcome.wrong for outcome in outcomes)


@pytest.mark.apiserver
async def test_the_command_replays_a_seed_and_breaks_a_guard(shared: World, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/faults.md sends whoever sees a bad verdict to -v, and whoever doubts the suite to --broken."""
    command = replace(COMMAND, run=partial(run_on, shared))
    assert await exit_code(command, "11", "-v") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("seed    11 ") and any(line.startswith("    request ") for line in shown)
    assert "1 seeds: 1 ok, 0 failed" in shown

    assert await exit_code(command, "22", "--broken", "any-404-is-gone") == 1
    shown = capsys.readouterr().out.splitlines()
    assert any(line.startswith("    WRONG: ") for line in shown) and "failed: 22" in shown


async def test_a_seed_says_always_the_same() -> None:
    """A failure that another process cannot replay is of no use."""
    here = repr([draw(seed) for seed in SEEDS])
    assert elsewhere(f"[draw(seed) for seed in {SEEDS!r}]", "tests.faults.scenario") == here


async def test_a_hundred_seeds_draw_everything() -> None:
    """A fault that is never drawn is not tested, whatever the documentation says."""
    scenarios = [draw(seed) for seed in range(1, 101)]
    assert {kind for scenario in scenarios for kind in scenario.rates} == set(FaultKind)
    assert {event.kind for scenario in scenarios for event in scenario.events} == set(EventKind)
    assert {scenario.ending for scenario in scenarios} == set(Ending)
    assert sum(scenario.lag > 0 for scenario in scenarios) == 100 // LAG_EVERY
    assert sum(scenario.ending is Ending.KILLED for scenario in scenarios) >= 100 // KILL_EVERY - 2
    assert sum(scenario.elected for scenario in scenarios) == 100 // ELECTED_EVERY
    restarts = {draw(seed).restart for seed in range(1, 1 + RESTART_EVERY * len(Phase))}
    assert restarts == {None, *Phase} - {Phase.LEASE}
    spells = [spell for scenario in scenarios for spell in scenario.spells]
    assert {spell.phase for spell in spells} == set(Phase)
    assert {spell.trouble for spell in spells} == set(Trouble)
    assert {scenario.finishes for scenario in scenarios} == {bool(each.shards) for each in scenarios} == {True, False}
    for true_of in ("webhook", "in_process", "default", "keyed", "early", "removed", "resume", "stubborn", "rewritten"):
        assert {bool(getattr(scenario, true_of)) for scenario in scenarios} == {True, False}, true_of

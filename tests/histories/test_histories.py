"""Histories that every run of the tests repeats, and the proof that their judge sees a false yes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from functools import partial

import pytest
import pytest_asyncio

from restow.migrator import Options
from tests.histories.__main__ import COMMAND
from tests.histories.asking import Answer, ask, false_yes, wrong_no
from tests.histories.drawing import FLAGS, LAG_EVERY, RUNS, WITHIN, Act, Route, Step, Story, Way, draw
from tests.histories.edits import Document
from tests.histories.guards import GUARDS
from tests.histories.life import Life
from tests.histories.owners import lost, shown_wrongly
from tests.histories.reasons import ABOUT_ENTRIES, Facts
from tests.histories.run import Outcome, run_seeds, run_story
from tests.histories.running import migrate
from tests.histories.world import World, world
from tests.seeds import elsewhere, exit_code

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEEDS = range(1, 25)
_SIDE_BY_SIDE = 4

CATCHING: dict[str, Sequence[int]] = {
    "believe-stored-versions": (1, 2),
    "ignore-generation": (243, 587),
    "ignore-lag": (24, 30),
    "ignore-restores": (172, 180),
    "ignore-changes": (85, 94),
    "ignore-requests": (66, 84),
    "prove-by-a-part": (24,),
    "unwire-by-stored-versions": (89, 118),
}
"""Seeds known to catch each broken guard; ``python -m tests.histories 1..200 --broken GUARD`` finds others."""

FURTHER = range(1, 600)
"""Seeds for a guard that the known ones let pass."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """The control plane of this file, with two API servers."""
    async with world(tmp_path_factory.mktemp("histories")) as opened:
        yield opened


async def run(
    world: World, seeds: Iterable[int], *, until_wrong: bool = False, side_by_side: int = _SIDE_BY_SIDE
) -> list[Outcome]:
    """Run seeds, all or until one finds something wrong, and print the histories of those that do."""
    outcomes: list[Outcome] = []

    def show(outcome: Outcome) -> None:
        outcomes.append(outcome)
        print(outcome, *(outcome.log if outcome.wrong else ()), *outcome.wrong, sep="\n    ")

    def more() -> bool:
        return not (until_wrong and any(outcome.wrong for outcome in outcomes))

    await run_seeds(world, seeds, side_by_side, show, more)
    return outcomes


@pytest.mark.apiserver
@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, 12))
async def test_every_yes_is_true_and_every_no_has_a_reason(shared: World, first: int) -> None:
    """A version that is removed on a false yes takes the kind with it: no LIST works any more."""
    outcomes = await run(shared, range(first, first + 12))
    assert not {outcome.seed: outcome.wrong for outcome in outcomes if outcome.wrong}
    assert all(outcome.removed for outcome in outcomes), "each history ends with a removal"


@pytest.mark.apiserver
async def test_the_command_replays_a_seed_and_breaks_a_guard(shared: World, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/histories.md sends whoever sees a wrong answer to -v, and whoever doubts the judge to --broken."""
    command = replace(COMMAND, run=partial(run_seeds, shared))
    assert await exit_code(command, "1", "-v") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("seed ") and any(line.startswith("    ") for line in shown)
    assert "1 seeds: 1 ok, 0 failed" in shown

    assert await exit_code(command, "1", "--broken", "believe-stored-versions") == 1
    shown = capsys.readouterr().out.splitlines()
    assert any(line.startswith("    WRONG: ") for line in shown) and "failed: 1" in shown


@pytest.mark.apiserver
@pytest.mark.timeout(900)
@pytest.mark.parametrize("guard", sorted(GUARDS))
async def test_a_broken_guard_is_seen(shared: World, guard: str) -> None:
    """Histories that pass with a guard broken prove nothing about a yes."""
    with GUARDS[guard]():
        outcomes = await run(shared, CATCHING[guard], until_wrong=True, side_by_side=1)
        if not any(outcome.wrong for outcome in outcomes):
            outcomes = await run(shared, FURTHER, until_wrong=True)
    found = [finding for outcome in outcomes for finding in outcome.wrong]
    signs = ("a false yes", " instead of ", "no longer owns", "is shown wrongly")
    assert any(sign in finding for sign in signs for finding in found), found


_BEGIN = (
    Step(act=Act.WRITE, version="v2", names=("w01",)),
    Step(act=Act.FLIP, version="v2"),
    Step(act=Act.MIGRATE),
)
_BACK_AND_TRIM = (Step(act=Act.THERE_AND_BACK, version="v1", names=("w01",)), Step(act=Act.TRIM))
KNOWN: dict[str, tuple[Step, ...]] = {
    # kubectl replace of a dump brings managedFields of the CRD back too, and with them the owners that the proof names.
    "a dump that hides who wrote the CRD": (*_BEGIN, *_BACK_AND_TRIM, Step(act=Act.ROLL_BACK, back=2)),
    # The generation counts the same numbers again after a restore.
    "a proof that comes back after a restore": (
        *(*_BEGIN, Step(act=Act.RESTORE, back=0), Step(act=Act.FLIP, version="v2")),
        *(Step(act=Act.SHORTEN), Step(act=Act.TRIM), Step(act=Act.STALE_MARK, back=2)),
    ),
    # The process remembers what it finished before the restore.
    "an operator that lives through a restore": (
        *(*_BEGIN[:2], Step(act=Act.RECONCILE), Step(act=Act.RESTORE, back=0)),
        *(Step(act=Act.FLIP, version="v2"), Step(act=Act.TRIM), Step(act=Act.RECONCILE)),
    ),
}
"""Histories that no seed draws, and that restow once got wrong."""


@pytest.mark.apiserver
@pytest.mark.parametrize("name", KNOWN)
async def test_a_history_that_once_went_wrong(shared: World, name: str) -> None:
    """What comes back from an earlier day, with everything that names the proof, must not be taken for it."""
    outcome = await run_story(shared, Story(0, ("v1", "v2"), KNOWN[name]))
    print(*outcome.log, *outcome.wrong, sep="\n")
    assert not outcome.wrong


@pytest.mark.apiserver
async def test_a_migration_that_was_deleted_is_no_reason_for_ever(shared: World) -> None:
    """restow migrate disregards what a deleted StorageVersionMigration left; ready would say no for ever."""
    life = Life(shared, next(shared.numbers), ("v1", "v2"))
    await life.begin()
    try:
        await life.happens(Step(act=Act.WRITE, version="v2", names=("w01",), way=Way.APPLY))
        await life.happens(Step(act=Act.FLIP, version="v2"))
        await life.happens(Step(act=Act.NATIVE_LEFT))
        assert (await migrate(shared.first, life.name, Options(settle_s=0.0))).startswith("Succeeded")
        assert (await ask(shared.first, life.name, "v1")).yes
    finally:
        await life.leave()


async def test_what_a_yes_and_a_no_are_judged_by() -> None:
    """A judge that lets a false yes or an untrue reason pass makes every seed pass."""
    versions = [{"name": "v1", "served": True, "storage": False}, {"name": "v2", "served": True, "storage": True}]
    metadata = {"uid": "u", "generation": 3, "annotations": {}}
    crd = {"metadata": metadata, "spec": {"versions": versions}, "status": {"storedVersions": ["v2"]}}
    entry = {"apiVersion": "g/v1", "manager": "alice"}
    stored = {"w": {"apiVersion": "g/v1", "metadata": {}}}
    owned = {"w": {"apiVersion": "g/v2", "metadata": {"managedFields": [entry]}}}
    done = {"w": {"apiVersion": "g/v2", "metadata": {}}}
    assert false_yes(Facts(crd, done, "v1", lagging=False)) == ""
    assert "stored at v1" in false_yes(Facts(crd, stored, "v1", lagging=False))
    assert "entries at v1" in false_yes(Facts(crd, owned, "v1", lagging=False))
    for reason, facts, wrong in (
        ("no run of restow has proved it", Facts(crd, done, "v1", lagging=False), False),
        ("status.storedVersions names v1", Facts(crd, done, "v1", lagging=False), True),
        ("1 managedFields entry is at v1, of a (1): " + ABOUT_ENTRIES, Facts(crd, owned, "v1", lagging=False), False),
        ("1 managedFields entry is at v1, of a (1): " + ABOUT_ENTRIES, Facts(crd, stored, "v1", lagging=False), True),
        ("the API server at a has not seen the last change", Facts(crd, done, "v1", lagging=False), True),
        ("for reasons of state", Facts(crd, done, "v1", lagging=False), True),
    ):
        assert bool(wrong_no(Answer(yes=False, reasons=(reason,)), facts)) is wrong, reason


async def test_what_a_lost_owner_is_judged_by() -> None:
    """A judge that takes a rename for a loss, or a loss for a rename, says nothing about owners."""

    def stored(version: str, spec: dict[str, str], owned: dict[str, str]) -> Document:
        entries = [
            {"manager": who, "operation": "Apply", "apiVersion": f"g/{at}", "fieldsV1": {"f:spec": {f"f:{name}": {}}}}
            for who, (at, name) in ((who, where.split(":")) for who, where in owned.items())
        ]
        return {"apiVersion": f"g/{version}", "spec": spec, "metadata": {"managedFields": entries}}

    before = stored("v1", {"p1": "x", "color": "red"}, {"alice": "v1:p1", "bob": "v2:color"})
    renamed, kept = {"p2": "x", "color": "red"}, {"p1": "x", "color": "red"}
    for spec, owned, wired, who in (
        (renamed, {"alice": "v2:p2", "bob": "v2:color"}, {True}, ""),
        (renamed, {"alice": "v1:p1", "bob": "v2:color"}, {True}, ""),
        (kept, {"alice": "v2:p1", "bob": "v2:color"}, {False}, ""),
        (renamed, {"alice": "v2:p1", "bob": "v2:color"}, {True}, "alice"),
        (renamed, {"alice": "v2:p2"}, {True}, "bob"),
        (renamed, {"alice": "v2:p2"}, {True, False}, ""),
        (renamed, {"alice": "v2:p1"}, {True, False}, "alice"),
        (renamed, {"alice": "v1:p1", "bob": "v2:color"}, {True, False}, ""),
    ):
        assert lost(before, stored("v2", spec, owned), wired).partition(" ")[0] == who, (spec, owned, wired)
    assert shown_wrongly(before, ["v1"]) == [] and shown_wrongly(before, ["v1", "v2"]) == ["v2"]


async def test_a_seed_says_always_the_same() -> None:
    """A failure that another process cannot replay is of no use."""
    here = repr([draw(seed) for seed in SEEDS])
    assert elsewhere(f"[draw(seed) for seed in {SEEDS!r}]", "tests.histories.drawing") == here


async def test_some_hundred_seeds_draw_everything() -> None:
    """What is never drawn is not tested, whatever the documentation says."""
    stories = [draw(seed) for seed in range(1, 401)]
    steps = [step for story in stories for step in story.steps]
    runs = [step for step in steps if step.act in RUNS]
    assert {step.act for step in steps} == set(Act)
    assert {step.way for step in steps if step.act is Act.WRITE} == set(Way)
    assert {step.route for step in runs} == set(Route)
    assert {step.flag for step in runs} == {"", *FLAGS}
    assert {phase for step in runs for phase in step.skip} == {"prune", "storage", "managed-fields"}
    assert any(step.killed for step in runs) and any(step.shards for step in runs) and any(step.resume for step in runs)
    assert {step.within.act for step in runs if step.within} == {*WITHIN, Act.RELEASE, Act.HOLD}
    assert any(step.settles for step in runs) and any(step.at_write for step in runs)
    assert sum(story.lags for story in stories) >= len(stories) // LAG_EVERY

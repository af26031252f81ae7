"""One history: let it happen, ask ``ready`` after every step, and judge each answer."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from restow.kube.errors import first_error
from restow.migrator.model.report import MigrationResult
from tests.histories.asking import Answer, ask, false_yes, wrong_no
from tests.histories.drawing import RUNS, Act, Route, Step, Story, draw
from tests.histories.edits import is_wired, storage_of
from tests.histories.life import Life
from tests.histories.owners import lost, shown_wrongly
from tests.histories.reasons import Facts
from tests.histories.removal import remove
from tests.histories.running import UNWIRED, Runner, runner
from tests.histories.world import World

_LIMIT = 180.0
_LAST = Step(act=Act.MIGRATE)


@dataclass(slots=True)
class Outcome:
    """What came of one history.

    Attributes:
        log: what happened, and the answers.
        wrong: false yeses, untrue noes, and whatever did not end well.
        asked: answers, by kind.
        removed: after how many yeses a version was removed.
    """

    story: Story
    log: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    removed: int = 0
    seconds: float = 0.0

    @property
    def seed(self) -> int:
        """Of the story."""
        return self.story.seed

    def __str__(self) -> str:
        verdict = "FAILED" if self.wrong else "ok"
        lag = "  lag" if self.story.lags else ""
        return (
            f"seed {self.seed:5}  {len(self.story.steps)} steps  {self.asked['yes']} yes  {self.asked['no']} no"
            f"{lag}  {verdict}  {self.seconds:.2f} s"
        )


async def run_story(world: World, story: Story) -> Outcome:
    """Let one history happen, to its verdict."""
    begun = time.monotonic()
    outcome = Outcome(story)
    history = _History(world, outcome)
    try:
        async with asyncio.timeout(_LIMIT):
            await history.happen()
    except TimeoutError:
        outcome.wrong.append(f"it took more than {_LIMIT:.0f} s")
    except Exception as error:  # noqa: BLE001 - one seed that cannot be judged must not end the others
        outcome.wrong.append(f"it could not be judged: {first_error(error)!r}")
    outcome.seconds = time.monotonic() - begun
    return outcome


async def run_seeds(
    world: World,
    seeds: Iterable[int],
    jobs: int,
    show: Callable[[Outcome], None],
    more: Callable[[], bool] = lambda: True,
) -> None:
    """Run seeds side by side, and after them, one by one, those in which the second API server lags.

    Args:
        world: what they share.
        seeds: in their order.
        jobs: how many side by side.
        show: gets each outcome.
        more: whether to go on with another seed.
    """
    drawn = list(seeds)
    waiting = iter([seed for seed in drawn if not draw(seed).lags])

    async def work(some: Iterable[int]) -> None:
        for seed in some:
            if not more():
                return
            show(await run_story(world, draw(seed)))

    async with asyncio.TaskGroup() as group:
        for _ in range(jobs):
            group.create_task(work(waiting))
    await work([seed for seed in drawn if draw(seed).lags])


class _History:
    def __init__(self, world: World, outcome: Outcome) -> None:
        self._world = world
        self._outcome = outcome
        self._story = outcome.story
        self._life = Life(world, next(world.numbers), outcome.story.versions)
        self._number = 0

    async def happen(self) -> None:
        """Let everything happen, and leave nothing."""
        life = self._life
        try:
            await life.begin()
            async with runner(self._world, life.name) as restow:
                for step in self._story.steps:
                    if await self._step(restow, step):
                        return
                await self._end(restow)
        finally:
            self._world.release()
            await self._life.leave()

    async def _step(self, restow: Runner, step: Step) -> bool:
        """Let one step happen and ask; return whether the history is over."""
        self._number += 1
        ended = ""
        if step.act in RUNS:
            ended = await self._run(restow, step)
        elif step.act is Act.UNWIRE:
            ended = await self._unwire(restow)
        else:
            await self._life.happens(step)
        await self._life.remember()
        if _claims_all(step, ended) and (left := await self._left()):
            self._outcome.wrong.append(f"step {self._number}, {step}: {ended}, but {left}")
        self._note(f"{step}{f': {ended}' if ended else ''}")
        self._outcome.asked[step.act.name.lower()] += 1
        yes = await self._ask(restow) if step.asked else []
        if self._outcome.wrong:
            return True
        once = {storage_of(crd) for crd in self._life.past}
        if step.remove and once & set(yes) and not self._world.holding:
            return await self._remove(sorted(once & set(yes)))
        return False

    async def _run(self, restow: Runner, step: Step) -> str:
        """Let restow run, and look whether it takes a value from its owner."""
        within = step.within
        crd, before = await self._life.crd(), await self._life.stored()
        ended = await restow.run(step, self._life.happens)
        await self._life.ended()
        after, crds = await self._life.stored(), [crd, await self._life.crd()]
        written = set(within.names) if within is not None else set[str]()
        if within is not None and within.act is Act.RESTORE:
            crds.append(self._life.past[within.back])
            before = self._life.objects[within.back]
        for name in sorted((before.keys() & after.keys()) - written - restow.failed):
            if said := lost(before[name], after[name], {is_wired(each) for each in crds}):
                self._outcome.wrong.append(f"step {self._number}, {step}: {name}: {said}")
        return ended

    async def _unwire(self, restow: Runner) -> str:
        """Take the webhook away, and look whether an object needs it."""
        ended = await restow.unwire()
        crd = await self._life.crd()
        served = [each["name"] for each in crd["spec"]["versions"] if each["served"]]
        for name, found in (await self._life.stored()).items():
            if ended == UNWIRED and (wrong := shown_wrongly(found, served)):
                said = f"{name}, stored at {found['apiVersion']}, is shown wrongly at {', '.join(wrong)}"
                self._outcome.wrong.append(f"step {self._number}, {Act.UNWIRE}: {said}")
        return ended

    async def _left(self) -> str:
        """Say which objects are stored at another version than the storage version."""
        storage = storage_of(await self._life.crd())
        stored = {name: found["apiVersion"].split("/")[1] for name, found in (await self._life.stored()).items()}
        left = [f"{name} at {version}" for name, version in stored.items() if version != storage]
        return f"{', '.join(left)} instead of {storage}" if left else ""

    async def _ask(self, restow: Runner, *, last: bool = False) -> list[str]:
        """Ask for each version that is not stored, through each route; return those with a yes only."""
        yes = []
        crd = await self._life.crd()
        for version in [each["name"] for each in crd["spec"]["versions"] if not each["storage"]]:
            answers = {}
            for route in self._routes():
                restow.route = route
                answers[route] = answer = await ask(
                    restow.cluster, self._life.name, version, restow.api_servers, searches=last
                )
                await self._judge(version, route, answer)
            said = {f"{version}: {answer}" for answer in answers.values()}
            for each in sorted(said):
                routes = (
                    [] if len(said) == 1 else [route for route in answers if f"{version}: {answers[route]}" == each]
                )
                self._note(f"    ready --drop {each} {', '.join(routes)}")
            if all(answer.yes for answer in answers.values()):
                yes.append(version)
        return yes

    def _routes(self) -> tuple[Route, ...]:
        """Through which API servers to ask: as most do, and in turns as somebody may."""
        other = (Route.FIRST, Route.SECOND)[self._number % 2]
        return (
            (Route.BALANCED, other)
            if self._story.lags
            else ((Route.BALANCED, Route.BALANCED, other)[self._number % 3],)
        )

    async def _judge(self, version: str, route: Route, answer: Answer) -> None:
        lagging = await self._life.second_lags()
        facts = Facts(await self._life.crd(), await self._life.stored(), version, lagging, self._life.native_at_work)
        self._outcome.asked["yes" if answer.yes else "no"] += 1
        where = f"step {self._number}, ready --drop {version} ({route})"
        if not answer.yes:
            self._outcome.wrong += [f"{where}: {said}" for said in wrong_no(answer, facts)]
        elif said := false_yes(facts):
            self._outcome.wrong.append(f"{where}: a false yes: {said}")

    async def _end(self, restow: Runner) -> None:
        """Whatever happened: one complete migration, and every other version may go."""
        if self._world.holding:
            await self._life.happens(Step(act=Act.RELEASE))
        await self._life.end_native()
        await self._life.unserve_all_but_storage()
        self._number += 1
        ended = await self._run(restow, _LAST)
        self._note(f"every other version is unserved, and {_LAST}: {ended}")
        if not ended.startswith(MigrationResult.SUCCEEDED.value):
            self._outcome.wrong.append(f"the last migration ended as {ended}")
        if is_wired(await self._life.crd()) and (refused := await self._unwire(restow)) != UNWIRED:
            self._outcome.wrong.append(f"after a complete migration restow unwire still says: {refused}")
        yes = await self._ask(restow, last=True)
        others = [each["name"] for each in (await self._life.crd())["spec"]["versions"] if not each["storage"]]
        for version in others:
            if version not in yes:
                self._outcome.wrong.append(f"after a complete migration ready --drop {version} still says no")
        if not self._outcome.wrong:
            await self._remove(others)

    async def _remove(self, versions: list[str]) -> bool:
        self._note(f"{', '.join(versions)} removed")
        self._outcome.removed += 1
        self._outcome.wrong += await remove(self._life, versions, (self._world.first, self._world.second))
        return True

    def _note(self, line: str) -> None:
        self._outcome.log.append(line if line.startswith(" ") else f"{self._number:3} {line}")


def _claims_all(step: Step, ended: str) -> bool:
    """Whether a run says that every object is stored at the storage version, and nothing happened since."""
    if step.within is not None or "storage" in step.skip or step.flag.startswith("--namespace"):
        return False
    if step.act is Act.RECONCILE:
        return ended.rpartition("; ")[2].startswith(("idle", "finished"))
    return (
        step.act in RUNS and ended.startswith(MigrationResult.SUCCEEDED.value) and len(step.shards) in (0, step.count)
    )

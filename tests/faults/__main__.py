"""Run migrations under seeded faults, and judge them by what etcd holds."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from restow.controlplane.plane import ControlPlane
from tests.faults.guards import GUARDS
from tests.faults.run import Outcome, run_seed
from tests.faults.world import World, world
from tests.seeds import Command


async def _run(seeds: Sequence[int], jobs: int, show: Callable[[Outcome], None]) -> None:
    logging.getLogger("restow").setLevel(logging.CRITICAL)  # that requests fail is no news here
    with tempfile.TemporaryDirectory(prefix="restow-faults-") as folder:
        async with ControlPlane() as plane, world(plane, Path(folder)) as shared:
            await run_on(shared, seeds, jobs, show)


async def run_on(shared: World, seeds: Sequence[int], jobs: int, show: Callable[[Outcome], None]) -> None:
    """Run seeds, so many side by side, on the API server of a world."""
    waiting = iter(seeds)

    async def work() -> None:
        for seed in waiting:
            show(await run_seed(shared, seed))

    async with asyncio.TaskGroup() as group:
        for _ in range(jobs):
            group.create_task(work())


def _details(outcome: Outcome) -> Iterator[str]:
    yield str(outcome.scenario)
    yield f"the first run ended as: {outcome.first}"


def _totals(outcomes: list[Outcome]) -> dict[str, int]:
    reruns, prunes = sum(outcome.runs > 1 for outcome in outcomes), sum(outcome.prunes for outcome in outcomes)
    return {"faults and events": _kinds(outcomes).total(), "prunes": prunes, "reruns": reruns}


def _kinds(outcomes: list[Outcome]) -> Counter[str]:
    return sum((outcome.injected for outcome in outcomes), Counter())


COMMAND = Command("tests.faults", 1, GUARDS, _run, _details, _totals, _kinds)

if __name__ == "__main__":
    COMMAND.main()

"""Run histories by their seeds, on two API servers, and judge every answer of ``restow ready``."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.histories.guards import GUARDS
from tests.histories.run import Outcome, run_seeds
from tests.histories.world import world
from tests.seeds import Command


async def _run(seeds: Sequence[int], jobs: int, show: Callable[[Outcome], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="restow-histories-") as folder:
        async with world(Path(folder)) as shared:
            await run_seeds(shared, seeds, jobs, show)


def _totals(outcomes: list[Outcome]) -> Iterator[str]:
    asked: Counter[str] = sum((outcome.asked for outcome in outcomes), Counter())
    yes, no = asked.pop("yes", 0), asked.pop("no", 0)
    yield f"{asked.total()} steps, {yes} yes, {no} no, {sum(each.removed for each in outcomes)} removals"
    yield ", ".join(f"{kind} {count}" for kind, count in asked.most_common())


if __name__ == "__main__":
    Command("tests.histories", 4, GUARDS, _run, lambda _outcome: (), _totals).main()

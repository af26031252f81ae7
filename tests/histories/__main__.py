"""Run histories by their seeds, on two API servers, and judge every answer of ``restow ready``."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.histories.guards import GUARDS
from tests.histories.run import Outcome, run_seeds
from tests.histories.world import world
from tests.seeds import Command


async def _run(seeds: Sequence[int], jobs: int, show: Callable[[Outcome], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="restow-histories-") as folder:
        async with world(Path(folder)) as shared:
            await run_seeds(shared, seeds, jobs, show)


_ANSWERS = ("yes", "no")


def _asked(outcomes: list[Outcome]) -> Counter[str]:
    return sum((outcome.asked for outcome in outcomes), Counter())


def _totals(outcomes: list[Outcome]) -> dict[str, int]:
    answers = {answer: _asked(outcomes)[answer] for answer in _ANSWERS}
    removals = sum(each.removed for each in outcomes)
    return {"steps": _kinds(outcomes).total(), **answers, "removals": removals}


def _kinds(outcomes: list[Outcome]) -> Counter[str]:
    return Counter({kind: count for kind, count in _asked(outcomes).items() if kind not in _ANSWERS})


COMMAND = Command("tests.histories", 4, GUARDS, _run, lambda _outcome: (), _totals, _kinds)

if __name__ == "__main__":
    COMMAND.main()

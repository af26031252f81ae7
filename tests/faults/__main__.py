"""``python -m tests.faults 1..100 [--broken GUARD] [-v]``: run seeds, print one line for each, and a summary."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from restow.controlplane.plane import ControlPlane
from tests.faults.guards import GUARDS
from tests.faults.run import Outcome, run_seed
from tests.faults.world import world


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("seeds", metavar="SEEDS", help="one seed, or the first and the last: 1..100")
    parser.add_argument("--broken", choices=sorted(GUARDS), help="run with this guard of the migrator broken")
    parser.add_argument("--jobs", type=int, default=1, help="seeds side by side (default: 1)")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell of each fault and of the scenario")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    with ExitStack() as stack:
        if arguments.broken:
            stack.enter_context(GUARDS[arguments.broken]())
        outcomes = asyncio.run(_run(seeds, arguments.jobs, verbose=arguments.verbose))
    return _summary(outcomes)


async def _run(seeds: range, jobs: int, *, verbose: bool) -> list[Outcome]:
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="restow-faults-") as folder:
        async with ControlPlane() as plane, world(plane, Path(folder)) as shared:
            waiting = iter(seeds)

            async def work() -> None:
                for seed in waiting:
                    outcome = await run_seed(shared, seed)
                    outcomes.append(outcome)
                    _tell(outcome, verbose=verbose)

            async with asyncio.TaskGroup() as group:
                for _ in range(jobs):
                    group.create_task(work())
    return outcomes


def _tell(outcome: Outcome, *, verbose: bool) -> None:
    print(outcome, flush=True)
    if verbose:
        print(f"    {outcome.scenario}")
        print(f"    the first run ended as: {outcome.first}")
    for line in outcome.log if verbose or outcome.wrong else ():
        print(f"    {line}")
    for finding in outcome.wrong:
        print(f"    WRONG: {finding}", flush=True)


def _summary(outcomes: list[Outcome]) -> int:
    injected: Counter[str] = sum((outcome.injected for outcome in outcomes), Counter())
    failed = [outcome for outcome in outcomes if outcome.wrong]
    reruns = sum(outcome.runs > 1 for outcome in outcomes)
    prunes = sum(outcome.prunes for outcome in outcomes)
    print(f"\n{len(outcomes)} seeds: {len(outcomes) - len(failed)} ok ({reruns} after a rerun), {len(failed)} failed;")
    print(f"{sum(injected.values())} faults and events, {prunes} prunes")
    print(", ".join(f"{kind} {count}" for kind, count in injected.most_common()))
    if failed:
        print(f"failed: {' '.join(str(outcome.seed) for outcome in sorted(failed, key=lambda each: each.seed))}")
    return 1 if failed else 0


if __name__ == "__main__":
    begun = time.monotonic()
    code = main()
    print(f"{time.monotonic() - begun:.0f} s")
    sys.exit(code)

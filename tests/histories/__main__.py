"""``python -m tests.histories 1..100 [--broken GUARD] [-v]``: run seeds, print one line for each, and a summary."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.histories.guards import GUARDS
from tests.histories.run import Outcome, run_seeds
from tests.histories.world import world


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("seeds", metavar="SEEDS", help="one seed, or the first and the last: 1..100")
    parser.add_argument("--jobs", type=int, default=4, help="seeds side by side (default: 4)")
    parser.add_argument("--broken", choices=sorted(GUARDS), help="run with this guard of the migrator broken")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each history")
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
    with tempfile.TemporaryDirectory(prefix="restow-histories-") as folder:
        async with world(Path(folder)) as shared:

            def show(outcome: Outcome) -> None:
                outcomes.append(outcome)
                _show(outcome, verbose=verbose)

            await run_seeds(shared, seeds, jobs, show)
    return outcomes


def _show(outcome: Outcome, *, verbose: bool) -> None:
    print(outcome, flush=True)
    for line in outcome.log if verbose or outcome.wrong else ():
        print(f"    {line}")
    for finding in outcome.wrong:
        print(f"    WRONG: {finding}", flush=True)


def _summary(outcomes: list[Outcome]) -> int:
    asked: Counter[str] = sum((outcome.asked for outcome in outcomes), Counter())
    failed = [outcome for outcome in outcomes if outcome.wrong]
    steps = sum(count for kind, count in asked.items() if kind not in ("yes", "no"))
    print(f"\n{len(outcomes)} seeds: {len(outcomes) - len(failed)} ok, {len(failed)} failed; {steps} steps")
    print(f"{asked.pop('yes', 0)} yes, {asked.pop('no', 0)} no, {sum(each.removed for each in outcomes)} removals")
    print(", ".join(f"{kind} {count}" for kind, count in asked.most_common()))
    if failed:
        print(f"failed: {' '.join(str(outcome.seed) for outcome in sorted(failed, key=lambda each: each.seed))}")
    return 1 if failed else 0


if __name__ == "__main__":
    begun = time.monotonic()
    code = main()
    print(f"{time.monotonic() - begun:.0f} s")
    sys.exit(code)

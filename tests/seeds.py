"""The command line of what runs by seeds: the fault suite and the histories."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from benchmarks.records import Recorder, add_flag
from benchmarks.tables import Result, Table
from restow.controlplane.binaries import BinarySearch

__all__ = ["Command", "Outcome", "elsewhere", "exit_code"]


class Outcome(Protocol):
    """What came of one seed; its text is one line."""

    @property
    def seed(self) -> int:
        """Which one it was."""

    log: list[str]
    """What happened."""

    wrong: list[str]
    """What was found wrong; empty if all is well."""


_T = TypeVar("_T", bound=Outcome)


@dataclass(frozen=True)
class Command(Generic[_T]):
    """``python -m MODULE 1..100 [--broken GUARD] [--jobs N] [-v]``: one line for each seed, and a summary.

    Attributes:
        module: its name.
        jobs: seeds side by side, unless the command line says otherwise.
        guards: what ``--broken`` may name.
        run: runs some seeds, so many side by side, and hands over each outcome.
        details: what ``-v`` shows of an outcome before its log.
        totals: numbers of the summary, on all outcomes.
        kinds: how often each kind of what is counted happened, on all outcomes.
    """

    module: str
    jobs: int
    guards: Mapping[str, Callable[[], AbstractContextManager[object]]]
    run: Callable[[Sequence[int], int, Callable[[_T], None]], Coroutine[None, None, None]]
    details: Callable[[_T], Iterable[str]]
    totals: Callable[[list[_T]], Mapping[str, int]]
    kinds: Callable[[list[_T]], Counter[str]]

    def main(
        self,
        words: Sequence[str] | None = None,
        execute: Callable[[Coroutine[None, None, None]], None] = asyncio.run,
    ) -> None:
        """Run from the command line, or by other words; the exit code is 1 if anything was wrong."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}", description=sys.modules["__main__"].__doc__)
        parser.add_argument("seeds", metavar="SEEDS", help="one seed, or the first and the last: 1..100")
        parser.add_argument("--jobs", type=int, default=self.jobs, help=f"seeds side by side (default: {self.jobs})")
        parser.add_argument("--broken", choices=sorted(self.guards), help="run with this guard of restow broken")
        parser.add_argument("-v", "--verbose", action="store_true", help="print what happened, of each seed")
        add_flag(parser)
        arguments = parser.parse_args(words)
        if arguments.record is not None and arguments.broken:
            parser.error("what a broken guard leads to is not recorded")
        recorder = Recorder.begin(arguments.record)
        first, _, last = arguments.seeds.partition("..")
        seeds = range(int(first), int(last or first) + 1)
        begun = time.monotonic()
        outcomes: list[_T] = []

        def show(outcome: _T) -> None:
            outcomes.append(outcome)
            self._show(outcome, verbose=arguments.verbose)

        with ExitStack() as stack:
            if arguments.broken:
                stack.enter_context(self.guards[arguments.broken]())
            execute(self.run(seeds, arguments.jobs, show))
        failed = sorted(outcome.seed for outcome in outcomes if outcome.wrong)
        print(f"\n{len(outcomes)} seeds: {len(outcomes) - len(failed)} ok, {len(failed)} failed")
        print(", ".join(f"{number} {what}" for what, number in self.totals(outcomes).items()))
        print(", ".join(f"{kind} {number}" for kind, number in self.kinds(outcomes).most_common()))
        if failed:
            print(f"failed: {' '.join(map(str, failed))}")
        print(f"{time.monotonic() - begun:.0f} s")
        if recorder is not None:
            command = f"python -m {self.module} {arguments.seeds} --jobs {arguments.jobs}"
            kubernetes = BinarySearch.from_environment().version
            recorder.write(
                self.module.rpartition(".")[2], command, self._result(outcomes, arguments.seeds), kubernetes=kubernetes
            )
        sys.exit(bool(failed))

    def _result(self, outcomes: list[_T], seeds: str) -> Result:
        failed = sum(bool(outcome.wrong) for outcome in outcomes)
        totals = {"ok": len(outcomes) - failed, "failed": failed, **self.totals(outcomes)}
        row = (seeds, *(f"{number:,}" for number in totals.values()))
        kinds = tuple((kind, f"{number:,}") for kind, number in self.kinds(outcomes).most_common())
        return Result(self.module, [Table("Seeds", ("seeds", *totals), (row,)), Table("Kinds", ("", "number"), kinds)])

    def _show(self, outcome: _T, *, verbose: bool) -> None:
        print(outcome, flush=True)
        if verbose:
            print(*(f"    {line}" for line in self.details(outcome)), sep="\n")
        for line in outcome.log if verbose or outcome.wrong else ():
            print(f"    {line}")
        for finding in outcome.wrong:
            print(f"    WRONG: {finding}", flush=True)


async def exit_code(command: Command[_T], *words: str) -> int:
    """Run a command line to its end on the loop of the caller, whose API servers it can use; return its exit code."""
    loop = asyncio.get_running_loop()

    def main() -> int:
        try:
            command.main(words, lambda run: asyncio.run_coroutine_threadsafe(run, loop).result())
        except SystemExit as ended:
            return int(ended.code or 0)
        return 0

    return await asyncio.to_thread(main)


def elsewhere(expression: str, module: str) -> str:
    """Return the text of an expression over ``draw`` of a module, as another process with another hash seed has it."""
    program = f"from {module} import draw; print({expression})"
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment)
    return ran.stdout.strip()

"""The command: ``python -m benchmarks.conversion [--quick] [--sections sparse,peers,…] [--record] …``."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import tempfile
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.conversion.peers import measure_peers
from benchmarks.conversion.sections import SECTIONS as OTHERS
from benchmarks.conversion.sections import Plan
from benchmarks.conversion.webhooks import certificate
from benchmarks.records import Recorder, add_flag, check_flag
from benchmarks.tables import Result, report

SECTIONS = {**OTHERS, "peers": measure_peers}

FULL = Plan(counts=(1, 10, 100, 500), sizes=(2, 8, 50), rounds=5, requests=400, levels=(1, 1_500, 10_000))
QUICK = Plan(counts=(1, 100), sizes=(8,), rounds=1, requests=4, levels=(1, 1_500), large=5_000_000)


async def measure(plan: Plan, names: list[str]) -> tuple[dict[str, Any], dict[str, Result]]:
    """Measure these sections; return all results for JSON, and the result of each section."""
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="restow-bench-") as folder:
        made = certificate(Path(folder))
        results: dict[str, Result] = {}
        for name in names:
            results[name] = await SECTIONS[name](made, plan)
    head = (
        f"{datetime.now(UTC).date().isoformat()}: {len(os.sched_getaffinity(0))} cores, Python "
        f"{platform.python_version()}; load average {before:.1f} at the start."
    )
    found = {
        "plan": asdict(plan),
        "sections": {name: asdict(result) for name, result in results.items()},
        "text": report(head, list(results.values())),
    }
    return found, results


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conversion", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run: everything once, few requests")
    parser.add_argument("--rounds", type=int, help="rounds of each comparison")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="some of: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results here too")
    add_flag(parser)
    flags = parser.parse_args()
    check_flag(parser, flags)
    names = flags.sections.split(",")
    if unknown := set(names) - set(SECTIONS):
        parser.error(f"there is no section {', '.join(sorted(unknown))}")
    plan = QUICK if flags.quick else FULL
    if flags.rounds is not None:
        plan = replace(plan, rounds=flags.rounds)
    recorder = Recorder.begin(flags.record)
    found, results = asyncio.run(measure(plan, [name for name in SECTIONS if name in names]))
    print(found["text"])
    if flags.quick:
        print("\nThis was a smoke run: times of so few requests mean nothing.")
    if recorder is not None:
        words = "" if flags.rounds is None else f" --rounds {flags.rounds}"
        for name, result in results.items():
            command = f"python -m benchmarks.conversion --sections {name}{words}"
            recorder.write(f"conversion.{name}", command, result)
    if flags.json is not None:
        flags.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


if __name__ == "__main__":
    main()
